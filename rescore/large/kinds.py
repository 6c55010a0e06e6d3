"""The kinds of models of Hugging Face's transformers: masked, causal, of translations,
and of speech.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.large.hub import find
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
"""How the path of a folder begins, or goes on, that cannot be a name on the Hugging
Face Hub.
"""


class HubKind(Kind):
    """A kind whose models are folders in Hugging Face's layout, or names on its hub."""

    place = "FOLDER or OWNER/MODEL"

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        if spec.path.suffix.lower() == ".gguf" and not spec.path.exists():
            raise UserError(f"{spec.place}: no such file")
        if PLACE.match(spec.place) and not spec.path.exists():
            raise UserError(
                f"{spec.place}: no such folder; models of the Hugging Face Hub are"
                " named OWNER/MODEL"
            )
        folder, revision = find(spec.path)
        lm = self.load_folder(replace(spec, path=folder), computing)
        return Wrapped(lm, model=f"{lm.model}:{revision}") if revision else lm

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """The model of a local folder."""
        raise NotImplementedError


class MaskedKind(HubKind):
    """The pseudo-log-likelihood."""

    capabilities = Capabilities(pseudo=True, vectors=True)
    holds = "ForMaskedLM"
    options = ("intact",)

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> NetworkScorer:
        from rescore.large.network import masked

        return masked(spec, computing)


class CausalKind(HubKind):
    """log p of each token given [BOS] and those before."""

    capabilities = Capabilities(source=True, vectors=True)
    holds = r"ForCausalLM|LMHeadModel|\.gguf$"
    prompted = True

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> NetworkScorer:
        from rescore.large.network import causal

        return causal(spec, computing)


class Seq2SeqKind(HubKind):
    """log p of each token of the target, its end with them, given the other side."""

    capabilities = Capabilities(source=True)
    holds = "(T5|Bart|100|Pegasus|Seq2Seq)ForConditionalGeneration|MTModel"
    options = ("channel", "src=", "tgt=")

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> Seq2SeqLM:
        """`hf-seq2seq[:channel][:src=CODE][:tgt=CODE]:DIR`; the codes name languages of
        the tokenizer.
        """
        from rescore.large.seq2seq import Seq2SeqLM

        codes, channel = _values(spec), "channel" in spec.options
        return Seq2SeqLM(
            spec.name, spec.path, computing, channel, codes.get("src"), codes.get("tgt")
        )


class SpeechKind(HubKind):
    """log p of the hypothesis given its recording, of a sequence-to-sequence model."""

    capabilities = Capabilities(audio=math.inf)
    holds = "Whisper|Speech"
    options = ("language=", "task=")

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> SpeechModel:
        """`hf-speech[:language=CODE][:task=transcribe|translate]:DIR`."""
        from rescore.large.speech import SpeechModel

        values = _values(spec)
        return SpeechModel(
            spec.name, spec.path, computing, values.get("language"), values.get("task")
        )


def _values(spec: Spec) -> dict[str, str]:
    """The options of a model that have a value."""
    return dict(option.split("=", 1) for option in spec.options if "=" in option)
