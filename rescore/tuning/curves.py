"""The metric as a function of one weight: the steps of `--curve` and of the page's chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rescore.decision.rules import candidates
from rescore.metrics.base import Metric
from rescore.nbest import COUNTS, FIRST_PASS, NbestList, Origin
from rescore.tuning.objective import Objective
from rescore.tuning.search import coordinate


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a curve: the metric's value where the weight of `column` lies between `low` and `high`."""

    column: str
    low: float
    high: float
    value: float


def curves(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    weights: Mapping[str, float],
    excluded: frozenset[Origin] = frozenset(),
) -> list[Step]:
    """The metric's value against the weight of each column, from 0 to 1, the others keeping their proportions.

    Args:
        excluded: hypotheses of these origins may not win.
    """
    lists = [candidates(nbest, excluded) for nbest in lists]
    free = [name for name in weights if name in COUNTS or (name != FIRST_PASS and name not in columns)]
    objective = Objective.of(metric, lists, [FIRST_PASS, *columns, *free], free, standardise=False)
    point = objective.point(weights)
    steps: list[Step] = []
    for rank, column in enumerate(columns, 1):
        corner = np.eye(len(point))
        start, direction = coordinate(point, rank, ~objective.free) or (corner[0], corner[rank] - corner[0])
        edges, values = objective.line(start, direction, 0.0, 1.0)
        changes = np.flatnonzero(np.diff(values)) + 1
        bounds = [0, *changes.tolist(), len(values)]
        steps += [
            Step(column, float(edges[start]), float(edges[stop]), float(values[start]))
            for start, stop in pairwise(bounds)
        ]
    return steps
