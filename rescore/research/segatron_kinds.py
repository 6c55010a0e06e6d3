"""Segatron (Bai's thesis, chapter 2; Bai et al. 2021): kinds whose tokens have the
positions of their paragraph and sentence beside their own.

`rescore.research.segatron` has the networks. This module needs no PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rescore.lms.base import (
    BEFORE,
    BOTH_SIDES,
    Capabilities,
    ComputeOptions,
    LanguageModel,
    Spec,
)
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import BilmKind, NeuralKind, UnilmKind
from rescore.lms.options import NORMALISATIONS
from rescore.lms.training.options import ContextOptions, MaskingOptions, TrainingData
from rescore.options import option
from rescore.research.segatron_config import MARK, POSITIONS, SegatronConfig

if TYPE_CHECKING:
    from rescore.lms.training.objectives import Task


@dataclass(frozen=True, kw_only=True)
class SegatronOptions(ContextOptions):
    """Options of networks that read windows of sentences."""

    usual_normalisation: ClassVar[str] = "folded"

    normalize: str | None = option(
        None,
        "Normalisation of a new tokenizer. folded: fold case; text: keep everything;"
        f" english and speech: remove punctuation, {MARK} with it.  [default: folded]",
        choices=NORMALISATIONS,
    )
    context: int = option(
        4,
        "Read windows with N previous sentences; SegaBERT: with N sentences on each"
        " side. An empty line ends a document.",
        metavar="N",
        low=1,
        high=30,
        common=True,
    )
    positions: str | None = option(
        None,
        "Positions beside the token's: of sentence and paragraph, of one of them, or"
        f" none. A paragraph ends with a line whose last character is {MARK}."
        "  [default: both; with --init of a segatron its own]",
        choices=POSITIONS,
        common=True,
    )

    def shaped(self, config: NetworkConfig) -> NetworkConfig:
        config = super().shaped(config)
        assert isinstance(config, SegatronConfig)
        return replace(config, positions=self.positions or config.positions)


@dataclass(frozen=True, kw_only=True)
class SegaBertOptions(MaskingOptions, SegatronOptions):
    """Options of a masked network that reads windows of sentences."""


class _SegmentKind(NeuralKind):
    """What the two kinds share: windows in training and scoring."""

    Config = SegatronConfig

    def tasks(self, data: TrainingData) -> list[Task]:
        """Return one task, of windows of consecutive sentences.

        Raises:
            UserError: Positions of paragraphs are wanted, and the tokenizer has no
                token for their ends.
        """
        from rescore.lms.training.objectives import Task
        from rescore.research.segatron import SegmentObjective, Segments

        tokenizer = data.tokenizer
        segments = Segments(tokenizer, data.config)
        segments.check_mark()
        windows = data.text.windows([tokenizer.eos, tokenizer.bos])
        sentences = self.objective(tokenizer, data.options)
        objective = SegmentObjective(sentences, tokenizer, segments)
        return [Task(self.name, windows, objective)]

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        from rescore.lms import own
        from rescore.research.segatron import SegmentReader

        make = partial(self.scorer, spec)
        return own.load(spec, computing, make, SegmentReader)


class SegatronKind(_SegmentKind, UnilmKind):
    """A causal network with positions of sentences and paragraphs: Segatron-XL without
    the memory and the relative positions of Transformer-XL.
    """

    architecture = "rescore.research.segatron:Segatron"
    capabilities = Capabilities(context=BEFORE, vectors=True)
    trained_with = "rescore.research.segatron_kinds:SegatronOptions"


class SegaBertKind(_SegmentKind, BilmKind):
    """A masked network with positions of sentences and paragraphs."""

    architecture = "rescore.research.segatron:SegaBert"
    capabilities = Capabilities(pseudo=True, context=BOTH_SIDES, vectors=True)
    options = ("intact", "context=")
    reads_source = False
    trained_with = "rescore.research.segatron_kinds:SegaBertOptions"
