"""The kinds of models of Hugging Face's transformers: masked, causal, of translations,
and of speech.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.large.hub import find, told
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Kind,
    LanguageModel,
    Spec,
    Wrapped,
)

if TYPE_CHECKING:
    from rescore.large.seq2seq import Seq2SeqLM
    from rescore.large.speech import SpeechModel
    from rescore.lms.scorers import NetworkScorer


PLACE = re.compile(r"[./~]|[^@]*/$|[^@/]*/[^@/]*/")
"""Matches paths of folders that cannot be names on the Hugging Face Hub."""


class HubKind(Kind):
    """A kind whose models are folders in Hugging Face's layout, or names on its hub."""

    place = "FOLDER or OWNER/MODEL"

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """Return a model of a local folder or of the hub.

        Args:
            spec: The options, and the folder or name.
            computing: The device and precision.

        Raises:
            UserError: The model is nowhere, or cannot be loaded.
        """
        if spec.path.suffix.lower() == ".gguf" and not spec.path.exists():
            raise UserError(f"{spec.place}: no such file")
        if PLACE.match(spec.place) and not spec.path.exists():
            raise UserError(
                f"{spec.place}: no such folder; models of the Hugging Face Hub are"
                " named OWNER/MODEL"
            )
        folder, revision = find(spec.path)
        with told(folder):
            lm = self.load_folder(replace(spec, path=folder), computing)
        if revision is None:
            return lm
        return Wrapped(lm, model=f"{lm.model}:{revision}")

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """Return the model of a local folder.

        Args:
            spec: The options, and the folder.
            computing: The device and precision.
        """
        raise NotImplementedError


class MaskedKind(HubKind):
    """The pseudo-log-likelihood of a text."""

    capabilities = Capabilities(pseudo=True, vectors=True)
    holds = "ForMaskedLM"
    options = ("intact",)

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> NetworkScorer:
        from rescore.large.network import masked

        return masked(spec, computing)


class CausalKind(HubKind):
    """log p of each token given [BOS] and the tokens before."""

    capabilities = Capabilities(source=True, vectors=True)
    holds = r"ForCausalLM|LMHeadModel|\.gguf$"
    prompted = True

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> NetworkScorer:
        from rescore.large.network import causal

        return causal(spec, computing)


class Seq2SeqKind(HubKind):
    """log p of each token of the target and of its end, given the other side."""

    capabilities = Capabilities(source=True)
    holds = "(T5|Bart|100|Pegasus|Seq2Seq)ForConditionalGeneration|MTModel"
    options = ("channel", "src=", "tgt=")

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> Seq2SeqLM:
        """Return a model of `hf-seq2seq[:channel][:src=CODE][:tgt=CODE]:DIR`.

        Args:
            spec: The options, and the folder; codes are languages of the tokenizer.
            computing: The device and precision.
        """
        from rescore.large.seq2seq import Seq2SeqLM

        codes = _values(spec)
        return Seq2SeqLM(
            spec.name,
            spec.path,
            computing,
            channel="channel" in spec.options,
            source=codes.get("src"),
            target=codes.get("tgt"),
        )


class SpeechKind(HubKind):
    """log p of the hypothesis given its recording, of a sequence-to-sequence model."""

    capabilities = Capabilities(audio=math.inf)
    holds = "Whisper|Speech"
    options = ("language=", "task=")

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> SpeechModel:
        """Return a model of `hf-speech[:language=CODE][:task=TASK]:DIR`.

        Args:
            spec: The options, and the folder; a task is transcribe or translate.
            computing: The device and precision.
        """
        from rescore.large.speech import SpeechModel

        values = _values(spec)
        return SpeechModel(
            spec.name, spec.path, computing, values.get("language"), values.get("task")
        )


def _values(spec: Spec) -> dict[str, str]:
    """Return the options of a model that have a value."""
    return dict(option.split("=", 1) for option in spec.options if "=" in option)
