"""Weights: found on lists with references, kept in a JSON file with how they came about."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rescore.decision import DECISIONS
from rescore.decision.decide import Decision
from rescore.errors import UserError
from rescore.files import read_json, replacing
from rescore.metrics.base import Counts, Metric, list_statistics
from rescore.metrics.significance import paired_bootstrap
from rescore.nbest import COUNTS, FIRST_PASS, NbestList
from rescore.tuning.line import best_interval, padded
from rescore.tuning.plane import best_in_plane, small_enough
from rescore.tuning.search import Space, coordinate, search


@dataclass(frozen=True, slots=True)
class Weights:
    """One weight a column of scores, where they come from (for signatures), and how they are used to decide."""

    columns: dict[str, float]
    origin: str
    details: dict[str, str | float] = field(default_factory=dict)
    decision: Decision = field(default_factory=Decision)
    condition: str | None = None
    """What decides the condition of a list: a regular expression on ids, or `column:NAME`."""
    conditions: dict[str, dict[str, float]] = field(default_factory=dict)
    """Weights by condition, where there is one; `columns` are those of all together."""

    @property
    def language_models(self) -> list[str]:
        """The columns that language models gave."""
        return [name for name in self.columns if name not in (FIRST_PASS, *COUNTS)]

    def of(self, nbest: NbestList) -> Mapping[str, float]:
        """The weights for a list.

        Raises:
            UserError: its condition was not among those tuned.
        """
        if self.condition is None:
            return self.columns
        name = condition_of(nbest, self.condition)
        if name not in self.conditions:
            known = ", ".join(self.conditions)
            raise UserError(f"utterance {nbest.id}: no weights for condition {name!r}; tuned for {known}")
        return self.conditions[name]

    @classmethod
    def interpolation(
        cls, lm: Mapping[str, float], origin: str, bonuses: Mapping[str, float] | None = None, **details: str | float
    ) -> Weights:
        """(1 - sum of the LM weights) * s2s + LM weights * their columns + bonuses * numbers of words or tokens.

        With one LM that is the combination of the paper (section 5.3).

        Raises:
            UserError: a weight is negative, or the LM weights add up to more than 1.
        """
        total = math.fsum(lm.values())
        for weight in lm.values():
            if not (math.isfinite(weight) and 0 <= weight <= 1):
                raise UserError(f"weight {weight} is not between 0 and 1")
        if total > 1 + 1e-9:
            raise UserError(f"the weights of the language models add up to {total:g}; they may add up to 1 at most")
        for name, bonus in (bonuses or {}).items():
            if not math.isfinite(bonus):
                raise UserError(f"{COUNTS[name]} bonus {bonus} is not a number")
        columns = {FIRST_PASS: max(0.0, 1 - total), **lm}
        return cls(columns | {name: bonus for name, bonus in (bonuses or {}).items() if bonus}, origin, details)

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
        values = read_json(path)
        columns = values.get("columns") if isinstance(values, dict) else None
        if not isinstance(columns, dict) or not columns:
            raise UserError(f'{path}: no "columns"; expected a file that `rescore tune` wrote')
        return cls(
            _numbers(columns, path),
            str(values.get("origin", path)),
            decision=_decision(values.get("decision"), path),
            condition=values.get("condition"),
            conditions={name: _numbers(one, path) for name, one in (values.get("conditions") or {}).items()},
        )


def condition_of(nbest: NbestList, condition: str) -> str:
    """The condition of a list: what a regular expression finds in its id, or the value of `column:NAME`.

    Raises:
        UserError: the expression is none, or does not match; the column is missing.
    """
    kind, _, column = condition.partition(":")
    if kind == "column" and column:
        return f"{nbest.column(column)[0]:g}"
    try:
        found = re.search(condition, nbest.id)
    except re.error as error:
        raise UserError(f"--condition {condition}: not a regular expression ({error})") from None
    if not found:
        raise UserError(f"utterance {nbest.id}: --condition {condition} does not match it")
    return found[1] if found.re.groups else found[0]


def _numbers(columns: Mapping[str, Any], path: Path) -> dict[str, float]:
    for name, weight in columns.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
            raise UserError(f"{path}: weight of {name} is {weight!r}, not a number")
    return {name: float(weight) for name, weight in columns.items()}


def _decision(value: Any, path: Path) -> Decision:
    if value is None:
        return Decision()
    name, scale = (value.get("name"), value.get("scale")) if isinstance(value, dict) else (None, None)
    if name not in DECISIONS or not (scale is None or isinstance(scale, (int, float))):
        raise UserError(f"{path}: decision is {value!r}; expected a name of {', '.join(DECISIONS)} and a scale")
    return Decision(name, scale)


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning found: the LMs' weights and bonuses, the metric's value there, and that of the first pass.

    With one weight, `low` and `high` bound the interval around it that is as good.
    """

    lm: dict[str, float]
    bonuses: dict[str, float]
    value: float
    first_pass: float
    low: float | None = None
    high: float | None = None

    @property
    def helps(self) -> bool:
        return any(self.lm.values()) or any(self.bonuses.values())


def tune(
    metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], bonuses: Sequence[str] = (), flat: bool = False
) -> Tuned:
    """The weights of LM columns, and of count columns as bonuses, that give the best value on lists with references.

    One weight without a bonus is found exactly: the best of all in [0, 1], of ties the middle of the widest interval.
    Several are searched along lines, each exactly, from every single LM's best and from random points; so the value is
    never worse than that of the best single LM. Two on a small set are exact as well. Where nothing is better than the
    first pass, all weights are 0.

    Args:
        flat: of one weight, take the middle of those that the set cannot tell from the best (`indistinguishable`).

    Raises:
        UserError: `flat` is asked for with several weights; a column is missing.
    """
    if flat and (len(columns) > 1 or bonuses):
        raise UserError("--flat is for one language model without a bonus")
    space = _space(metric, lists, columns, bonuses)
    alone = np.zeros(space.columns)
    alone[0] = 1.0
    first_pass = space.value(alone)

    def better(value: float) -> bool:
        return value > first_pass if metric.higher_is_better else value < first_pass

    singles = []
    for rank in range(1, len(columns) + 1):
        direction = -alone
        direction[rank] = 1.0
        best = best_interval(*space.line(alone, direction, 0.0, 1.0), metric.higher_is_better)
        singles.append((best, alone + best.middle * direction))
    if len(columns) == 1 and not bonuses:
        best, _ = singles[0]
        if better(best.value) and flat:
            low, high = indistinguishable(space, best.middle)
            middle = (low + high) / 2
            value = space.value(np.array([1 - middle, middle]))
            if better(value):
                return Tuned({columns[0]: middle}, {}, value, first_pass, low, high)
        if better(best.value):
            return Tuned({columns[0]: best.middle}, {}, best.value, first_pass, best.low, best.high)
        return Tuned({columns[0]: 0.0}, {}, first_pass, first_pass, 0.0, 0.0)
    point, value = search(space, [alone, *(point for _, point in singles)])
    if small_enough(space):
        exact, exact_value = best_in_plane(space)
        if (exact_value > value) if metric.higher_is_better else (exact_value < value):
            point, value = exact, exact_value
    if not better(value):
        point, value = alone, first_pass
    lm = dict(zip(columns, point[1 : len(columns) + 1].tolist(), strict=True))
    found = dict(zip(bonuses, point[len(columns) + 1 :].tolist(), strict=True))
    return Tuned(lm, found, value, first_pass)


def indistinguishable(space: Space, weight: float, level: float = 0.05, points: int = 100) -> tuple[float, float]:
    """How far one weight can move either way before a paired bootstrap tells the result from that of `weight`.

    Looked at in `points` steps over [0, 1]; a region that begins again further off is not counted.
    """
    rows = np.arange(len(space.statistics))

    def chosen(at: float) -> Counts:
        return space.statistics[rows, space.project(np.array([1 - at, at])).argmax(axis=1)]

    best = chosen(weight)
    ends = []
    for end in (0.0, 1.0):
        last = weight
        for at in np.linspace(weight, end, max(2, round(points * abs(end - weight)) + 1))[1:].tolist():
            if paired_bootstrap(space.metric, list(best), list(chosen(at)), trials=300) < level:
                break
            last = at
        ends.append(last)
    return ends[0], ends[1]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a curve: the metric's value where the weight of `column` lies between `low` and `high`."""

    column: str
    low: float
    high: float
    value: float


def curves(
    metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], weights: Mapping[str, float]
) -> list[Step]:
    """The metric's value against the weight of each column, from 0 to 1, the others keeping their proportions."""
    bonuses = [name for name in weights if name in COUNTS]
    space = _space(metric, lists, columns, bonuses)
    point = np.array([weights.get(name, 0.0) for name in [FIRST_PASS, *columns, *bonuses]])
    steps: list[Step] = []
    for rank, column in enumerate(columns, 1):
        corner = np.eye(len(point))
        start, direction = coordinate(point, rank, len(columns) + 1) or (corner[0], corner[rank] - corner[0])
        edges, values = space.line(start, direction, 0.0, 1.0)
        changes = np.flatnonzero(np.diff(values)) + 1
        bounds = [0, *changes.tolist(), len(values)]
        steps += [
            Step(column, float(edges[start]), float(edges[stop]), float(values[start]))
            for start, stop in pairwise(bounds)
        ]
    return steps


def _space(metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], bonuses: Sequence[str]) -> Space:
    names = [FIRST_PASS, *columns, *bonuses]
    return Space(
        metric,
        padded(list_statistics(metric, lists)),
        padded([np.array([nbest.column(name) for name in names]).T for nbest in lists]),
        padded([np.ones(len(nbest.hypotheses), dtype=bool) for nbest in lists]),
        free=len(bonuses),
    )
