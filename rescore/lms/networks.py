"""The kinds of our networks: T-TA, masked, causal and recurrent models, and a network of several readings.

This module needs no PyTorch; the networks and objectives are in the modules beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rescore.errors import UserError, counted
from rescore.lms.base import BEFORE, BOTH_SIDES, Capabilities, ComputeOptions, LanguageModel, Spec
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.neural.kind import NeuralKind
from rescore.lms.training.options import (
    ContextOptions,
    Lesson,
    MaskingOptions,
    NeuralOptions,
    SourceOptions,
    TranslationOptions,
)
from rescore.options import option

if TYPE_CHECKING:
    from rescore.lms.neural.blocks import Encoder
    from rescore.lms.neural.passes import Network, NetworkScorer
    from rescore.lms.neural.tokenizer import Tokenizer
    from rescore.lms.training.objectives import CausalLanguageModelling, MaskedLanguageModelling, Task
    from rescore.lms.tta import TTA, LanguageAutoencoding
    from rescore.mt.unified import Unified
    from rescore.research.lstm import LSTM


class TtaKind(NeuralKind):
    """The Transformer-based Text Autoencoder (Shin et al. 2020): predicts every token from all others, in one pass."""

    scaled_embeddings = False
    capabilities = Capabilities(True, source=True, context=BOTH_SIDES, vectors=True, predicts_tokens=True)
    options = ("context=", "channel")
    shape = ("phrases", "source")

    @dataclass(frozen=True, kw_only=True)
    class Options(SourceOptions, ContextOptions):
        title = "T-TA"

        phrases: int = option(
            0,
            "Keys and values cover three tokens instead of one, through a layer of UNITS hidden units; start "
            "with twice d_model.",
            metavar="UNITS",
            low=0,
            high=1_000_000,
        )

        def shaped(self, config: NetworkConfig) -> NetworkConfig:
            if not self.phrases:
                return super().shaped(config)
            if config.phrases not in (0, self.phrases):
                raise UserError(
                    f"--phrases {self.phrases}: the model has phrase keys of {counted(config.phrases, 'unit')}"
                )
            return super().shaped(replace(config, phrases=self.phrases))

    def network(self, config: NetworkConfig) -> TTA:
        from rescore.lms.tta import TTA

        return TTA(config)

    def objective(self, tokenizer: Tokenizer, options: Any) -> LanguageAutoencoding:
        from rescore.lms.tta import LanguageAutoencoding

        return LanguageAutoencoding()

    def scorer(self, spec: Spec, network: Network) -> NetworkScorer:
        from rescore.lms.neural.passes import NetworkScorer

        return NetworkScorer(spec.name, network)


MASKED = ("intact", "within-word-l2r")
"""How a masked model can score otherwise; see `rescore.lms.neural.passes.masked_scorer`."""


class BilmKind(NeuralKind):
    """The masked bidirectional language model (dissertation, chapters 3 and 4): BERT's encoder at the T-TA's size."""

    capabilities = Capabilities(True, source=True, context=BOTH_SIDES, vectors=True, predicts_tokens=True)
    options = (*MASKED, "context=", "channel")
    shape = ("source",)

    @dataclass(frozen=True, kw_only=True)
    class Options(MaskingOptions, SourceOptions, ContextOptions):
        pass

    def network(self, config: NetworkConfig) -> Encoder:
        from rescore.lms.neural.blocks import Encoder

        return Encoder(config)

    def objective(self, tokenizer: Tokenizer, options: Any) -> MaskedLanguageModelling:
        from rescore.lms.training.objectives import MaskedLanguageModelling

        return MaskedLanguageModelling(tokenizer, options.mask_rate, options.mask_cap)

    def scorer(self, spec: Spec, network: Network) -> NetworkScorer:
        from rescore.lms.neural.passes import masked_scorer

        return masked_scorer(spec, network)


class DirectedKind(NeuralKind):
    """Learns and scores from left to right: the hidden vector at position i predicts token i + 1. A `backwards` kind is
    the same network on reversed sentences."""

    capabilities = Capabilities(vectors=True, predicts_tokens=True)
    Options = NeuralOptions
    backwards: ClassVar[bool] = False

    def objective(self, tokenizer: Tokenizer, options: Any) -> CausalLanguageModelling:
        from rescore.lms.training.objectives import BackwardLanguageModelling, CausalLanguageModelling

        return BackwardLanguageModelling() if self.backwards else CausalLanguageModelling()

    def scorer(self, spec: Spec, network: Network) -> NetworkScorer:
        from rescore.lms.neural.causal import BackwardScorer, CausalScorer

        return (BackwardScorer if self.backwards else CausalScorer)(spec.name, network)


class UnilmKind(DirectedKind):
    capabilities = Capabilities(context=BEFORE, vectors=True, predicts_tokens=True)
    options = ("context=",)
    Options = ContextOptions

    def network(self, config: NetworkConfig) -> Encoder:
        from rescore.lms.neural.blocks import Encoder

        return Encoder(config, causal=True)


class BackwardUnilmKind(DirectedKind):
    """It reads no neighbours."""

    backwards = True
    network = UnilmKind.network


class LstmKind(DirectedKind):
    family = "lstm"

    def network(self, config: NetworkConfig) -> LSTM:
        from rescore.research.lstm import LSTM

        return LSTM(config)


class BackwardLstmKind(LstmKind):
    backwards = True


MIXTURE = ("bi", "l2r", "seq2seq", "bi:source", "r2l", "seq2seq")
"""The readings of the batches in turn: a third from both sides, a third with a source, a sixth in each
direction (Dong et al. 2019, section 2.3). There, every input read from both sides has two sentences; here, every second
input."""
PAIRED = ("bi:source", "seq2seq")
"""Readings that are learned from pairs."""


class UnifiedKind(NeuralKind):
    """One network, four attention masks (Dong et al. 2019, UniLM); an option of --lm chooses the reading."""

    capabilities = Capabilities(source=True, vectors=True, predicts_tokens=True)
    options = ("bi", "l2r", "r2l", "seq2seq", "source", "channel", *MASKED)
    shape = ("cloze", "bi_source")

    @dataclass(frozen=True, kw_only=True)
    class Options(MaskingOptions, TranslationOptions):
        title = "Readings"

        cloze: bool = option(
            False, "Predict masked tokens in all readings, as in the UniLM paper, instead of next tokens."
        )
        reading: tuple[str, ...] = option(
            (),
            "Train only this reading, for example after --init. May be repeated.  [default: all]",
            choices=("bi", "bi:source", "l2r", "r2l", "seq2seq"),
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            paired = any(name in PAIRED for name in self.readings)
            if self.pairs is not None and not paired:
                raise UserError(f"--reading {self.readings[0]}: learns from single sentences; leave out --pairs")
            if self.pairs is None and paired and self.steps != 0:
                raise UserError("a unified network learns from translations, too; give --pairs SOURCE TARGET")

        @property
        def readings(self) -> tuple[str, ...]:
            """The readings that are trained."""
            return self.reading or MIXTURE

        @property
        def apart(self) -> bool:
            return False

        def shaped(self, config: NetworkConfig) -> NetworkConfig:
            second = config.bi_source or "bi:source" in self.readings
            return replace(super().shaped(config), cloze=config.cloze or self.cloze, bi_source=second)

    def is_pseudo(self, options: Sequence[str]) -> bool:
        return "bi" in options

    def network(self, config: NetworkConfig) -> Unified:
        from rescore.mt.unified import Unified

        return Unified(config)

    def tasks(self, lesson: Lesson) -> list[Task]:
        """Without pairs the readings of single sentences are left."""
        from rescore.lms.training.objectives import Task
        from rescore.mt.unified import objectives

        options = lesson.options
        assert isinstance(options, UnifiedKind.Options)
        named_objectives = objectives(lesson.tokenizer, lesson.config.cloze, options.mask_rate, options.mask_cap)
        corpora = {name: lesson.pairs if name in PAIRED else lesson.text for name in MIXTURE}
        tasks = {
            name: Task(name, corpus, named_objectives[name]) for name, corpus in corpora.items() if corpus is not None
        }
        return [tasks[name] for name in MIXTURE if name in tasks and name in options.readings]

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """`unified:READING:DIR`.

        Raises:
            UserError: no reading is named, or two; the model's files are missing or damaged, or it was not trained for
                that reading.
        """
        from rescore.mt.unified import READINGS

        known = {option for name in READINGS for option in name.split(":")}
        named = sorted(option for option in spec.options if option in known)
        make = next((make for name, make in READINGS.items() if sorted(name.split(":")) == named), None)
        if make is None:
            listed = " and ".join(named) or "nothing"
            raise UserError(f"--lm unified: expected one of {', '.join(READINGS)} as in unified:bi:DIR, found {listed}")
        return make(spec, computing)
