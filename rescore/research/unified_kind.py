"""The kind `unified`: its configuration, its readings, its options. It needs no
PyTorch; the network, its objectives and its scores are in `rescore.research.unified`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from rescore.errors import UserError
from rescore.lms.base import Capabilities, ComputeOptions, LanguageModel, Spec
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import NeuralKind
from rescore.lms.training.options import (
    MaskingOptions,
    NeuralPairOptions,
    TrainingData,
)
from rescore.options import option
from rescore.parts import resolve

if TYPE_CHECKING:
    from rescore.lms.training.objectives import Task


class Segment(IntEnum):
    """The segment of a token, which tells the network how to read it. In a batch, a
    token of segment s has the number `id + s * vocab_size`.
    """

    BOTH = 0
    """A sentence that is read from both sides."""
    SECOND = 1
    """A second sentence behind it; each of both sees all of both."""
    FORWARD = 2
    """A sentence that is read from left to right."""
    BACKWARD = 3
    """A sentence in reversed order, which is read in the same way."""
    SOURCE = 4
    """A sentence that sees itself from both sides, and nothing else."""
    TARGET = 5
    """A sentence behind it, which sees the source and its own past."""


READINGS = {
    "bi": "bi",
    "l2r": "l2r",
    "r2l": "r2l",
    "seq2seq": "seq2seq",
    "channel": "seq2seq",
    "bi:source": "bi:source",
    "bi:channel": "bi:source",
}
"""The options of --lm that say how to read, and the reading that training has for
them. With `seq2seq` and `source` the hypothesis is scored given its source, with
`channel` the source given the hypothesis.
"""
MIXTURE = ("bi", "l2r", "seq2seq", "bi:source", "r2l", "seq2seq")
"""The readings of the batches in turn: a third from both sides, a third with a source,
a sixth from left to right, a sixth from right to left (Dong et al. 2019, section 2.3).
In the paper, each input that is read from both sides has two segments; here every
second one has.
"""
PAIRED = ("bi:source", "seq2seq")
"""Readings that are learned from pairs."""


@dataclass(frozen=True, slots=True)
class UnifiedConfig(NetworkConfig):
    """The configuration of a unified network. Its `sentences` are the segments, whose
    number is fixed.
    """

    cloze: bool = False
    """Whether all readings predict a token at its place, where [MASK] stands, as in the
    paper; without it, `l2r`, `r2l` and `seq2seq` predict the next token.
    """
    readings: str = ""
    """The readings that it learned, with blanks between; empty if nobody knows."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentences", len(Segment))
        NetworkConfig.__post_init__(self)


@dataclass(frozen=True, kw_only=True)
class UnifiedOptions(MaskingOptions, NeuralPairOptions):
    """Options of a unified network. Pairs are translations, or without them consecutive
    lines of the text, as in the paper.
    """

    title: ClassVar[str] = "Readings"

    cloze: bool = option(
        False,
        "Predict masked tokens in all readings, as in the UniLM paper, instead of next"
        " tokens.",
    )
    reading: tuple[str, ...] = option(
        (),
        "Train only this reading, for example after --init. May be repeated. seq2seq"
        " and bi:source learn from --pairs, or without --pairs from consecutive lines."
        "  [default: all]",
        choices=tuple(dict.fromkeys(READINGS.values())),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs is not None and not self.uses_pairs:
            raise UserError(
                f"--reading {self.reading[0]} learns from single sentences; leave out"
                " --pairs and give --text"
            )

    @property
    def readings(self) -> tuple[str, ...]:
        """The readings of the batches in turn."""
        if not self.reading:
            return MIXTURE
        return tuple(name for name in MIXTURE if name in self.reading)

    @property
    def uses_pairs(self) -> bool:
        """Whether a reading is trained that learns from pairs."""
        return any(name in PAIRED for name in self.readings)

    def shaped(self, config: NetworkConfig) -> NetworkConfig:
        config = super().shaped(config)
        assert isinstance(config, UnifiedConfig)
        if config.readings and self.cloze and not config.cloze:
            raise UserError(
                f"--cloze: {self.init} was trained without it, and its other readings"
                " would not be trained anew; leave out --cloze"
            )
        learned = dict.fromkeys([*config.readings.split(), *self.readings])
        return replace(
            config, cloze=config.cloze or self.cloze, readings=" ".join(learned)
        )

    def window(self, config: NetworkConfig) -> int:
        consecutive = self.uses_pairs and self.pairs is None
        return 2 if consecutive else super().window(config)


class UnifiedKind(NeuralKind):
    """One network under four attention masks (Dong et al. 2019, UniLM); an option of
    --lm says which.
    """

    Config = UnifiedConfig
    Options = UnifiedOptions
    architecture = "rescore.research.unified:Unified"
    capabilities = Capabilities(source=True, vectors=True)
    options = ("bi", "l2r", "r2l", "seq2seq", "source", "channel", "intact")

    def is_pseudo(self, options: Sequence[str]) -> bool:
        return "bi" in options

    def tasks(self, data: TrainingData) -> list[Task]:
        tasks: list[Task] = resolve("rescore.research.unified:tasks")(data)
        return tasks

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """Return the model of `unified:READING:DIR`.

        Raises:
            UserError: No reading is named, or the network did not learn it; the files
                of the model are missing or damaged.
        """
        lm: LanguageModel = resolve("rescore.research.unified:load")(spec, computing)
        return lm
