"""The options of BERT's masks; `rescore.research.bert_masks` has the objective. This
module needs no PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.lms.base import Kind
from rescore.lms.kinds import BilmKind
from rescore.lms.training.options import Lesson, TrainingData
from rescore.options import Declared, option

if TYPE_CHECKING:
    from rescore.lms.training.objectives import Task


class BertMasksLesson(Lesson):
    """Leaves some of the tokens that a biLM predicts unmasked: BERT's 80/10/10."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        mask_keep: float = option(
            0.0,
            "bilm: share of the chosen tokens that stay as they are, instead of [MASK];"
            " BERT has 0.1.",
            low=0,
            high=1,
        )
        mask_swap: float = option(
            0.0,
            "bilm: share of the chosen tokens that become a random token; BERT has"
            " 0.1.",
            low=0,
            high=1,
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.mask_keep + self.mask_swap > 1:
                raise UserError(
                    f"--mask-keep {self.mask_keep:g} and --mask-swap"
                    f" {self.mask_swap:g} add up to more than 1"
                )

    @classmethod
    def suits(cls, kind: Kind) -> bool:
        return isinstance(kind, BilmKind)

    def tasks(self, tasks: list[Task], data: TrainingData) -> list[Task]:
        from rescore.research.bert_masks import BertMasks

        keep, swap = self.options.mask_keep, self.options.mask_swap
        changed = []
        for task in tasks:
            objective = BertMasks(task.objective, data.tokenizer, keep, swap)
            changed.append(replace(task, objective=objective))
        return changed
