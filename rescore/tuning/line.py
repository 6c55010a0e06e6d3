"""Exact search for the best weight along a line (Och 2003).

Along a line each hypothesis' score is a linear function of the weight, so the best hypothesis of a list changes only at
the breakpoints of the upper envelope of its lines, and the error of a set is constant between the breakpoints of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Counts, Metric

Floats = npt.NDArray[np.float64]


def upper_envelope(intercepts: Floats, slopes: Floats, low: float, high: float) -> tuple[list[float], list[int]]:
    """The maximum of the lines `intercepts + x * slopes` over [low, high].

    Returns:
        breakpoints (m,) ascending within (low, high), and winners (m + 1,): the line that is highest before, between
        and after them. Of lines that are the same, the first. Lines of which a part is not finite never win, unless all
        are such: then the first does.
    """
    usable = np.flatnonzero(np.isfinite(intercepts) & np.isfinite(slopes))
    if not len(usable):
        return [], [0]
    at_low = intercepts[usable] + low * slopes[usable]
    # By slope, steeper lines later; of equal slopes the highest first, and of the same lines the first in the list.
    order = usable[np.lexsort((usable, -at_low, slopes[usable]))]
    hull: list[int] = []
    starts: list[float] = []
    for line in order.tolist():
        if hull and slopes[line] == slopes[hull[-1]]:
            continue
        start = low
        while hull:
            previous = hull[-1]
            start = (intercepts[previous] - intercepts[line]) / (slopes[line] - slopes[previous])
            if start > starts[-1]:
                break
            hull.pop()
            starts.pop()
        if not hull:
            start = low
        if start < high:
            hull.append(line)
            starts.append(float(start))
    return starts[1:], hull


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of weights that all give the same best value."""

    low: float
    high: float
    value: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def sweep(
    metric: Metric,
    statistics: Sequence[Counts],
    intercepts: Sequence[Floats],
    slopes: Sequence[Floats],
    low: float,
    high: float,
) -> tuple[Floats, Floats]:
    """The metric's value as a step function of the weight.

    Args:
        statistics: one (hypotheses, k) array a list. intercepts, slopes: one (hypotheses,) array a list.

    Returns:
        edges (m + 1,), from `low` to `high`, and values (m,) between them.
    """
    total = np.zeros(statistics[0].shape[1], dtype=np.int64)
    points: list[float] = []
    changes: list[Counts] = []
    for rows, intercept, slope in zip(statistics, intercepts, slopes, strict=True):
        breakpoints, winners = upper_envelope(intercept, slope, low, high)
        total += rows[winners[0]]
        points.extend(breakpoints)
        changes.extend(rows[after] - rows[before] for before, after in pairwise(winners))
    if not points:
        return np.array([low, high]), metric.values(total[None])
    order = np.argsort(points, kind="stable")
    sums = total + np.concatenate([np.zeros((1, len(total)), np.int64), np.cumsum(np.array(changes)[order], axis=0)])
    edges = np.concatenate([[low], np.array(points)[order], [high]])
    wide = np.flatnonzero(np.diff(edges) > 0)  # several lists may change at one point
    return np.append(edges[wide], high), metric.values(sums[wide])


def best_interval(edges: Floats, values: Floats, higher_is_better: bool) -> Interval:
    """The widest interval with the best value; neighbours of equal value are one; the first of equally wide ones."""
    best = values.max() if higher_is_better else values.min()
    good = values == best
    starts = np.flatnonzero(good & ~np.concatenate([[False], good[:-1]]))
    stops = np.flatnonzero(good & ~np.concatenate([good[1:], [False]])) + 1
    widest = int(np.argmax(edges[stops] - edges[starts]))
    return Interval(float(edges[starts[widest]]), float(edges[stops[widest]]), float(best))
