"""The metric as a function of one weight: the steps of `tune --curve` and of the page's
chart.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import IO

import numpy as np

from rescore.columns import FIRST_PASS, units
from rescore.decision.rules import candidates
from rescore.metrics.base import Metric
from rescore.nbest import NbestList
from rescore.tuning.climb import coordinate
from rescore.tuning.objective import Objective
from rescore.tuning.weights import Weights


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a curve: the metric's value where the weight of `column` lies between
    `low` and `high`.
    """

    column: str
    low: float
    high: float
    value: float


def curves(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    weights: Mapping[str, float],
    excluded: frozenset[str] = frozenset(),
) -> list[Step]:
    """The metric's value against the weight of each column, from 0 to 1, the others
    keeping their proportions; hypotheses of `excluded` origins may not win.
    """
    lists = [candidates(nbest, excluded) for nbest in lists]
    bounded = {FIRST_PASS, *columns}.difference(units())
    free = [name for name in weights if name not in bounded]
    objective = Objective.of(
        metric, lists, [FIRST_PASS, *columns, *free], free, standardise=False
    )
    point = objective.point(weights)
    steps: list[Step] = []
    for rank, column in enumerate(columns, 1):
        corner = np.eye(len(point))
        start, direction = coordinate(point, rank, ~objective.free) or (
            corner[0],
            corner[rank] - corner[0],
        )
        edges, values = objective.line(start, direction, 0.0, 1.0)
        changes = np.flatnonzero(np.diff(values)) + 1
        bounds = [0, *changes.tolist(), len(values)]
        steps += [
            Step(column, float(edges[start]), float(edges[stop]), float(values[start]))
            for start, stop in pairwise(bounds)
        ]
    return steps


def weight_curve(
    metric: Metric, lists: Sequence[NbestList], weights: Weights
) -> list[Step]:
    """The metric's value on lists against the weight of each language model; empty for
    a decision by posteriors, whose texts are not those with the best score.
    """
    if weights.decision.name != "best":
        return []
    bounded = [
        name for name in weights.language_models if 0 <= weights.weights[name] <= 1
    ]
    return curves(metric, lists, bounded, weights.weights, weights.excluded)


def write_curve(steps: Iterable[Step], metric: str, file: IO[str]) -> None:
    """One line a step: the column whose weight changes, from where to where, and the
    metric's value there (percent).
    """
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["column", "low", "high", metric])
    rows.writerows(astuple(step) for step in steps)
