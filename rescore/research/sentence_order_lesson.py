"""The option of sentence order; `rescore.research.sentence_order` has the objective.
This module needs no PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.lms.base import Kind
from rescore.lms.config import NetworkConfig
from rescore.lms.training.options import (
    ContextOptions,
    Lesson,
    NeuralOptions,
    TrainingData,
)
from rescore.options import Declared, option

if TYPE_CHECKING:
    from rescore.lms.training.objectives import Task


class SentenceOrderLesson(Lesson):
    """Adds a task to networks that predict a token from both sides: in every second
    batch they learn the order of two consecutive lines.
    """

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        sentence_order: str | None = option(
            None,
            "tta, bilm: also learn whether two consecutive lines are swapped, from the"
            " vector of [BOS] (sop) or the mean vector (srp). An empty line ends a"
            " document.",
            choices=("sop", "srp"),
        )

    @classmethod
    def suits(cls, kind: Kind) -> bool:
        _, after = kind.capabilities.context
        options = kind.training_options()
        reads_windows = getattr(options, "context", 0) > 0
        return kind.capabilities.pseudo and after > 0 and not reads_windows

    def check(self, training: NeuralOptions) -> None:
        reads_neighbours = isinstance(training, ContextOptions) and training.context > 0
        if reads_neighbours or training.translations is not None:
            other = "--context" if reads_neighbours else "--pairs"
            raise UserError(
                f"--sentence-order and {other} exclude each other: two lines are read"
                " as one sequence"
            )

    def window(self, config: NetworkConfig, usual: int) -> int:
        return 2

    def tasks(self, tasks: list[Task], data: TrainingData) -> list[Task]:
        from rescore.research.sentence_order import order_task

        return [*tasks, order_task(self.options.sentence_order, data)]
