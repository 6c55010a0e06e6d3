"""Exact search along a line of weights (Och 2003): upper envelopes of hypotheses' scores, and the metric on them.

On a line `start + x * direction` the score of a hypothesis is `intercept + x * slope`. In each list the winner at x is
the upper envelope of these lines; where the winner changes, the statistics of the set change.

Example: two hypotheses of scores -1 - 3x and -3 + 2x cross at x = 0.4: the first wins below it, the second above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Counts, Metric

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
NARROW = 1e-12
"""Share of the range below which an interval is rounding: several lists may change at one point."""


class Envelopes(NamedTuple):
    """The upper envelopes of many lists: the winner at the lower end, and the changes of winner."""

    first: Indices
    """(lists,) the winner at the lower end"""
    lists: Indices
    """(changes,) the list in which the winner changes"""
    points: Floats
    """(changes,) the position on the line"""
    before: Indices
    """(changes,) the winner below the position"""
    after: Indices
    """(changes,) the winner above"""


def upper_envelopes(intercepts: Floats, slopes: Floats, low: float, high: float) -> Envelopes:
    """Where the maximum of the lines `intercepts + x * slopes` changes over [low, high], in each row.

    Of lines that are the same, the first wins. Lines of which a part is not finite (padding, a score of -inf) never
    win, unless all of a row are such: then the first does. Changes of any one list come in ascending order.

    All lists take their next change at once: from the winner, the change is the nearest crossing with a steeper line.
    Intercepts and slopes are (lists, hypotheses).
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
    while len(rows):  # rows: the lists whose winner may still change
        ours, steep = intercepts[rows], slopes[rows]  # (rows, hypotheses)
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


class Interval(NamedTuple):
    """An interval of positions on a line that all give the same best value."""

    low: float
    high: float
    value: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def swept(
    metric: Metric, statistics: Counts, envelopes: Envelopes, low: float, high: float, times: Counts | None = None
) -> tuple[Floats, Floats]:
    """The metric's value as a step function of the position on a line: edges (m + 1,), from `low` to `high`, and values
    (m,) between them; of statistics (lists, hypotheses, k) of lists that count so many `times` (lists,), or once."""
    weight = np.ones(len(statistics), dtype=np.int64) if times is None else times
    total = weight @ statistics[np.arange(len(statistics)), envelopes.first]  # (k,)
    order = np.argsort(envelopes.points, kind="stable")
    lists, before, after = envelopes.lists[order], envelopes.before[order], envelopes.after[order]
    changes = (statistics[lists, after] - statistics[lists, before]) * weight[lists, None]  # (changes, k)
    sums = total + np.concatenate([np.zeros((1, len(total)), np.int64), np.cumsum(changes, axis=0)])
    edges = np.concatenate([[low], envelopes.points[order], [high]])
    wide = np.flatnonzero(np.diff(edges) > NARROW * (high - low))
    return np.append(edges[wide], high), metric.values(sums[wide])


def best_interval(edges: Floats, values: Floats, higher_is_better: bool) -> Interval:
    """The widest interval with the best of values (m,) between edges (m + 1,); neighbours of equal value are one; the
    first of equally wide ones."""
    best = values.max() if higher_is_better else values.min()
    good = values == best
    starts = np.flatnonzero(good & ~np.concatenate([[False], good[:-1]]))
    stops = np.flatnonzero(good & ~np.concatenate([good[1:], [False]])) + 1
    widest = int(np.argmax(edges[stops] - edges[starts]))
    return Interval(float(edges[starts[widest]]), float(edges[stops[widest]]), float(best))
