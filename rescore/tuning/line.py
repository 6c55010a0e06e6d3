"""Exact search for the best weights along a line (Och 2003).

Along a line each hypothesis' score is a linear function of the position on it, so the best hypothesis of a list changes
only at the breakpoints of the upper envelope of its lines, and the error of a set is constant between the breakpoints
of all. The envelopes of all lists are walked at once, from breakpoint to breakpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Counts, Metric

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)


class Envelopes(NamedTuple):
    """The upper envelopes of many lists, as what wins at first and what changes where."""

    first: Indices
    """(lists,) the winner at the lower end."""
    lists: Indices
    """(changes,) the list in which a winner changes; likewise for the next three."""
    points: Floats
    before: Indices
    after: Indices


def upper_envelopes(intercepts: Floats, slopes: Floats, low: float, high: float) -> Envelopes:
    """Where the maximum of the lines `intercepts + x * slopes` changes over [low, high], in each row.

    Of lines that are the same, the first wins. Lines of which a part is not finite (padding, a score of -inf) never
    win, unless all of a row are such: then the first does. Changes of any one list come in ascending order.

    Args:
        intercepts, slopes: (lists, hypotheses).
    """
    usable = np.isfinite(intercepts) & np.isfinite(slopes)
    intercepts = np.where(usable, intercepts, -np.inf)
    slopes = np.where(usable, slopes, 0.0)
    at_low = intercepts + low * slopes
    highest = at_low == at_low.max(axis=1, keepdims=True)
    winner = np.where(highest, slopes, -np.inf).argmax(axis=1)  # just above `low` the steepest of equals is ahead
    first = winner.copy()
    rows = np.arange(len(intercepts))
    position = np.full(len(rows), low)
    changes: list[tuple[Indices, Floats, Indices, Indices]] = []
    while len(rows):
        ours, steep = intercepts[rows], slopes[rows]
        now = winner[rows][:, None]
        rise = steep - np.take_along_axis(steep, now, axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            crossings = (np.take_along_axis(ours, now, axis=1) - ours) / rise
        crossings = np.where((rise > 0) & np.isfinite(ours), crossings, np.inf)
        nearest = crossings.min(axis=1)
        steepest = np.where(crossings == nearest[:, None], steep, -np.inf).argmax(axis=1)
        more = nearest < high
        rows, nearest = rows[more], np.maximum(nearest[more], position[rows[more]])  # rounding must not lead back
        changes.append((rows, nearest, winner[rows], steepest[more]))
        winner[rows], position[rows] = steepest[more], nearest
    lists, points, before, after = (np.concatenate(parts) for parts in zip(*changes, strict=True))
    return Envelopes(first, lists, points, before, after)


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of positions on a line that all give the same best value."""

    low: float
    high: float
    value: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def padded(rows: Sequence[npt.NDArray[Scalar]]) -> npt.NDArray[Scalar]:
    """Arrays (hypotheses, ...) of lists of different lengths as one (lists, most hypotheses, ...), with zeros after."""
    result = np.zeros((len(rows), max(map(len, rows)), *rows[0].shape[1:]), dtype=rows[0].dtype)
    for target, row in zip(result, rows, strict=True):
        target[: len(row)] = row
    return result


def sweep(
    metric: Metric, statistics: Counts, intercepts: Floats, slopes: Floats, low: float, high: float
) -> tuple[Floats, Floats]:
    """The metric's value as a step function of the position on a line.

    Args:
        statistics: (lists, hypotheses, k). intercepts, slopes: (lists, hypotheses), minus infinity where a list has
            no such hypothesis.

    Returns:
        edges (m + 1,), from `low` to `high`, and values (m,) between them.
    """
    found = upper_envelopes(intercepts, slopes, low, high)
    total = statistics[np.arange(len(statistics)), found.first].sum(axis=0)
    order = np.argsort(found.points, kind="stable")
    changes = statistics[found.lists, found.after] - statistics[found.lists, found.before]
    sums = total + np.concatenate([np.zeros((1, len(total)), np.int64), np.cumsum(changes[order], axis=0)])
    edges = np.concatenate([[low], found.points[order], [high]])
    wide = np.flatnonzero(np.diff(edges) > 1e-12 * (high - low))  # several lists may change at one point
    return np.append(edges[wide], high), metric.values(sums[wide])


def best_interval(edges: Floats, values: Floats, higher_is_better: bool) -> Interval:
    """The widest interval with the best value; neighbours of equal value are one; the first of equally wide ones."""
    best = values.max() if higher_is_better else values.min()
    good = values == best
    starts = np.flatnonzero(good & ~np.concatenate([[False], good[:-1]]))
    stops = np.flatnonzero(good & ~np.concatenate([good[1:], [False]])) + 1
    widest = int(np.argmax(edges[stops] - edges[starts]))
    return Interval(float(edges[starts[widest]]), float(edges[stops[widest]]), float(best))
