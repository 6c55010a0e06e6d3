"""The metric as a function of one weight: its steps for `tune --curve` and for the
chart of the page.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import IO

import numpy as np

from rescore.columns import FIRST_PASS, units
from rescore.dataset import Dataset
from rescore.decision.choice import candidates
from rescore.metrics.base import Metric
from rescore.tuning.climb import coordinate
from rescore.tuning.objective import TuningObjective
from rescore.tuning.weights import Weights


@dataclass(frozen=True, slots=True)
class CurveStep:
    """One step of a curve: the metric while the weight of a column lies between two
    positions.
    """

    column: str
    low: float
    high: float
    value: float
    """The metric, in percent."""


def curves(
    metric: Metric,
    lists: Dataset,
    columns: Sequence[str],
    weights: Mapping[str, float],
    excluded: frozenset[str] = frozenset(),
) -> list[CurveStep]:
    """Return the steps of the metric against the weight of each column, from 0 to 1.

    The other weights keep their proportions.

    Args:
        metric: The metric.
        lists: Lists with references.
        columns: The columns whose weights vary.
        weights: The weight of each column.
        excluded: Hypotheses of these origins may not win.
    """
    possible = [candidates(nbest, excluded) for nbest in lists]
    bounded = {FIRST_PASS, *columns}.difference(units())
    free = [name for name in weights if name not in bounded]
    objective = TuningObjective.of(
        metric, possible, [FIRST_PASS, *columns, *free], free, standardise=False
    )
    point = objective.point(weights)
    steps = []
    for index, column in enumerate(columns, 1):
        line = coordinate(point, index, ~objective.free)
        if line is None:
            corners = np.eye(len(point))
            line = corners[0], corners[index] - corners[0]
        start, direction = line
        edges, values = objective.line(start, direction, 0.0, 1.0)
        changes = np.flatnonzero(np.diff(values)) + 1
        bounds = [0, *changes.tolist(), len(values)]
        for first, end in pairwise(bounds):
            low = float(edges[first])
            high = float(edges[end])
            steps.append(CurveStep(column, low, high, float(values[first])))
    return steps


def weight_curve(metric: Metric, lists: Dataset, weights: Weights) -> list[CurveStep]:
    """Return the steps of the metric against the weight of each language model.

    There are none for a decision by posteriors, which does not choose the texts with
    the best score.

    Args:
        metric: The metric.
        lists: Lists with references.
        weights: The weights.
    """
    if not weights.decision.is_best:
        return []
    bounded = []
    for name in weights.score_columns:
        if 0 <= weights.weights[name] <= 1:
            bounded.append(name)
    return curves(metric, lists, bounded, weights.weights, weights.excluded)


def write_curve(steps: Iterable[CurveStep], metric: str, file: IO[str]) -> None:
    """Write a CSV table with one row for each step: the column whose weight changes,
    both ends of the step, and the metric, in percent.

    Args:
        steps: The steps.
        metric: The name of the metric, for the head of its column.
        file: The file that is written.
    """
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["column", "low", "high", metric])
    rows.writerows(astuple(step) for step in steps)
