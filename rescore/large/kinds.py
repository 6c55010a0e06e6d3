"""Models of Hugging Face's transformers: masked, causal, of translations, and of speech."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescore.lms.base import Capabilities, ComputeOptions, Kind, Spec
from rescore.lms.kinds import MASKED

if TYPE_CHECKING:
    from rescore.large.ctc import CtcModel
    from rescore.large.seq2seq import Seq2SeqLM
    from rescore.large.speech import SpeechModel
    from rescore.lms.scorers import NetworkScorer


class MaskedKind(Kind):
    """The pseudo-log-likelihood."""

    capabilities = Capabilities(pseudo=True, vectors=True, predicts_tokens=True)
    options = MASKED
    on_hub = uses_torch = True

    def load(self, spec: Spec, computing: ComputeOptions) -> NetworkScorer:
        from rescore.large.network import masked

        return masked(spec, computing)


class CausalKind(Kind):
    """log p of each token given [BOS] and those before."""

    capabilities = Capabilities(source=True, vectors=True, predicts_tokens=True)
    on_hub = uses_torch = prompted = True

    def load(self, spec: Spec, computing: ComputeOptions) -> NetworkScorer:
        from rescore.large.network import causal

        return causal(spec, computing)


class Seq2SeqKind(Kind):
    """log p of each token of the target, its end with them, given the other side."""

    capabilities = Capabilities(source=True)
    options = ("channel", "src=", "tgt=")
    on_hub = uses_torch = True

    def load(self, spec: Spec, computing: ComputeOptions) -> Seq2SeqLM:
        """`hf-seq2seq[:channel][:src=CODE][:tgt=CODE]:DIR`; the codes name languages of the tokenizer."""
        from rescore.large.seq2seq import Seq2SeqLM

        codes, channel = _values(spec), "channel" in spec.options
        return Seq2SeqLM(spec.name, spec.path, computing, channel, codes.get("src"), codes.get("tgt"))


class CtcKind(Kind):
    """log p of the hypothesis given its recording, of a CTC model."""

    capabilities = Capabilities(audio=True)
    options = ("language=",)
    on_hub = uses_torch = True

    def load(self, spec: Spec, computing: ComputeOptions) -> CtcModel:
        """`hf-ctc[:language=CODE]:DIR`; the code names an adapter of MMS."""
        from rescore.large.ctc import CtcModel

        return CtcModel(spec.name, spec.path, computing, _values(spec).get("language"))


class SpeechKind(Kind):
    """log p of the hypothesis given its recording, of a sequence-to-sequence model."""

    capabilities = Capabilities(audio=True)
    options = ("language=", "task=")
    on_hub = uses_torch = True

    def load(self, spec: Spec, computing: ComputeOptions) -> SpeechModel:
        """`hf-speech[:language=CODE][:task=transcribe|translate]:DIR`."""
        from rescore.large.speech import SpeechModel

        values = _values(spec)
        return SpeechModel(spec.name, spec.path, computing, values.get("language"), values.get("task"))


def _values(spec: Spec) -> dict[str, str]:
    """The options of a model that have a value."""
    return dict(option.split("=", 1) for option in spec.options if "=" in option)
