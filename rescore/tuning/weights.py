"""Weights: found on lists with references, kept in a JSON file with how they came about."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from rescore import decision
from rescore.errors import UserError
from rescore.files import replacing
from rescore.metrics.base import Metric, list_statistics, total, value
from rescore.nbest import FIRST_PASS, NbestList
from rescore.tuning.line import best_interval, sweep


@dataclass(frozen=True, slots=True)
class Weights:
    """One weight a column of scores, and where they come from (for signatures)."""

    columns: dict[str, float]
    origin: str
    details: dict[str, str | float] = field(default_factory=dict)

    @classmethod
    def interpolation(cls, column: str, weight: float, origin: str, **details: str | float) -> Weights:
        """The combination of the paper (section 5.3): (1 - weight) * s2s + weight * LM."""
        if not (math.isfinite(weight) and 0 <= weight <= 1):
            raise UserError(f"weight {weight} is not between 0 and 1")
        return cls({FIRST_PASS: 1 - weight, column: weight}, origin, details)

    def save(self, path: Path) -> None:
        try:
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None

    @classmethod
    def load(cls, path: Path) -> Weights:
        """Read a weights file.

        Raises:
            UserError: it is absent or no weights file.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
        except ValueError as error:
            raise UserError(f"{path}: not valid JSON ({error})") from None
        columns = values.get("columns") if isinstance(values, dict) else None
        if not isinstance(columns, dict) or not columns:
            raise UserError(f'{path}: no "columns"; expected a file that `rescore tune` wrote')
        for name, weight in columns.items():
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
                raise UserError(f"{path}: weight of {name} is {weight!r}, not a number")
        return cls({name: float(weight) for name, weight in columns.items()}, str(values.get("origin", path)))


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning found: the weight, the interval that is as good, and the metric's value there and at weight 0."""

    weight: float
    low: float
    high: float
    value: float
    first_pass: float

    @property
    def helps(self) -> bool:
        return self.weight > 0


def tune_interpolation(metric: Metric, lists: Sequence[NbestList], column: str) -> Tuned:
    """The weight in [0, 1] of one LM that gives the best value, exactly.

    Ties go to the middle of the widest best interval; where nothing is better than the first pass, the weight is 0.
    """
    statistics = list_statistics(metric, lists)
    first = [np.array(nbest.column(FIRST_PASS)) for nbest in lists]
    lm = [np.array(nbest.column(column)) for nbest in lists]
    alone = value(metric, total(statistics, decision.best(lists, {FIRST_PASS: 1.0})))
    with np.errstate(invalid="ignore"):  # -inf against -inf: such lines never win
        slopes = [ours - theirs for ours, theirs in zip(lm, first, strict=True)]
    edges, values = sweep(metric, statistics, first, slopes, 0.0, 1.0)
    best = best_interval(edges, values, metric.higher_is_better)
    better = best.value > alone if metric.higher_is_better else best.value < alone
    if not better:
        return Tuned(0.0, 0.0, 0.0, alone, alone)
    return Tuned(best.middle, best.low, best.high, best.value, alone)
