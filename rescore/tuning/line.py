"""Exact search along a line of weights (Och 2003): upper envelopes of hypotheses'
scores, and the metric on them.

On a line `start + x * direction` the score of a hypothesis is `intercept + x * slope`.
In each list the winner at x is the upper envelope of these lines; where the winner
changes, the statistics of the set change.

Example: two hypotheses of scores -1 - 3x and -3 + 2x cross at x = 0.4: the first wins
below it, the second above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Counts, Metric

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
TOGETHER = 20_000
"""Hypotheses whose lines are compared together: so many fit into a processor's
cache.
"""
NARROW = 1e-12
"""Share of the range below which an interval is rounding: several lists may change at
one point.
"""


class Envelopes(NamedTuple):
    """The upper envelopes of many lists: the winner at the lower end, and the changes
    of winner by their position.
    """

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


def upper_envelopes(
    intercepts: Floats, slopes: Floats, low: float, high: float
) -> Envelopes:
    """Where the maximum of the lines `intercepts + x * slopes` changes over [low,
    high], in each row.

    Of lines that are the same, the first wins. Lines of which a part is not finite
    (padding, a score of -inf) never win, unless all of a row are such: then the first
    does. Changes of any one list come in ascending order.

    Intercepts and slopes are (lists, hypotheses).
    """
    number = max(100, TOGETHER // max(1, intercepts.shape[1]))
    starts = range(0, max(1, len(intercepts)), number)
    parts = [
        _envelopes(intercepts[at : at + number], slopes[at : at + number], low, high)
        for at in starts
    ]
    first, lists, points, before, after = (
        np.concatenate(each) for each in zip(*parts, strict=True)
    )
    lists = lists + np.repeat(starts, [len(part.lists) for part in parts])
    order = np.argsort(points, kind="stable")
    return Envelopes(first, lists[order], points[order], before[order], after[order])


def _envelopes(
    intercepts: Floats, slopes: Floats, low: float, high: float
) -> Envelopes:
    """All lists take their next change at once: from the winner, the change is the
    nearest crossing with a steeper line. Changes of all lists are in no order.
    """
    usable = np.isfinite(intercepts) & np.isfinite(slopes)
    # Transposed: (hypotheses, lists). Lists lie side by side, where NumPy finds their
    # minima fastest.
    intercepts = np.ascontiguousarray(np.where(usable, intercepts, -np.inf).T)
    slopes = np.ascontiguousarray(np.where(usable, slopes, 0.0).T)
    at_low, at_high = intercepts + low * slopes, intercepts + high * slopes
    # of equals the steepest is ahead
    winner = _steepest(at_low == at_low.max(axis=0), slopes)
    first, position = winner.copy(), np.full(len(winner), low)
    # The maximum of lines is convex: a line that reaches it at both ends is the maximum
    # between them.
    rows = np.flatnonzero(_of(at_high, winner) < at_high.max(axis=0))
    intercepts, slopes = intercepts.take(rows, axis=1), slopes.take(rows, axis=1)
    changes: list[tuple[Indices, Floats, Indices, Indices]] = []
    while len(rows) or not changes:  # rows: the lists whose winner may still change
        rise = slopes - _of(slopes, winner[rows])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            crossings = (_of(intercepts, winner[rows]) - intercepts) / rise
        np.putmask(crossings, rise <= 0, np.inf)
        nearest = crossings.min(axis=0)
        more = np.flatnonzero(nearest < high)
        intercepts, slopes, crossings = (
            each.take(more, axis=1) for each in (intercepts, slopes, crossings)
        )
        rows, after = rows[more], _steepest(crossings == nearest[more], slopes)
        # rounding must not lead back
        nearest = np.maximum(nearest[more], position[rows])
        changes.append((rows, nearest, winner[rows], after))
        winner[rows], position[rows] = after, nearest
    return Envelopes(
        first, *(np.concatenate(parts) for parts in zip(*changes, strict=True))
    )


def _of(values: Floats, which: Indices) -> Floats:
    """(lists,) the value of one hypothesis of each list, of values (hypotheses, lists);
    `take` is NumPy's fastest.
    """
    return values.ravel().take(which * len(which) + np.arange(len(which)))


def _steepest(among: Flags, slopes: Floats) -> Indices:
    """(lists,) the first of the steepest among some hypotheses (hypotheses, lists)."""
    return np.where(among, slopes, -np.inf).argmax(axis=0)


class Interval(NamedTuple):
    """An interval of positions on a line that all give the same best value."""

    low: float
    high: float
    value: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def swept(
    metric: Metric,
    statistics: Counts,
    envelopes: Envelopes,
    low: float,
    high: float,
    times: Counts | None = None,
) -> tuple[Floats, Floats]:
    """The metric's value as a step function of the position on a line: edges (m + 1,),
    from `low` to `high`, and values (m,) between them; of statistics (lists,
    hypotheses, k) of lists that count so many `times` (lists,), or once.
    """
    weight = np.ones(len(statistics), dtype=np.int64) if times is None else times
    # (k,)
    total = weight @ taken(statistics, np.arange(len(statistics)), envelopes.first)
    counted = np.flatnonzero(weight[envelopes.lists])
    lists = envelopes.lists[counted]
    before, after = (
        taken(statistics, lists, which[counted])
        for which in (envelopes.before, envelopes.after)
    )
    # (changes + 1, k)
    sums = np.cumsum(np.vstack([total, (after - before) * weight[lists, None]]), axis=0)
    edges = np.concatenate([[low], envelopes.points[counted], [high]])
    wide = np.flatnonzero(np.diff(edges) > NARROW * (high - low))
    return np.append(edges[wide], high), metric.values(sums[wide])


def taken(statistics: Counts, lists: Indices, hypotheses: Indices) -> Counts:
    """(n, k) the statistics (lists, hypotheses, k) of hypotheses (n,) of lists (n,)."""
    number = statistics.shape[1]
    return statistics.reshape(-1, statistics.shape[2]).take(
        lists * number + hypotheses, axis=0
    )


def best_interval(edges: Floats, values: Floats, higher_is_better: bool) -> Interval:
    """The widest interval with the best of values (m,) between edges (m + 1,);
    neighbours of equal value are one; the first of equally wide ones.
    """
    best = values.max() if higher_is_better else values.min()
    good = values == best
    starts = np.flatnonzero(good & ~np.concatenate([[False], good[:-1]]))
    stops = np.flatnonzero(good & ~np.concatenate([good[1:], [False]])) + 1
    widest = int(np.argmax(edges[stops] - edges[starts]))
    return Interval(
        float(edges[starts[widest]]), float(edges[stops[widest]]), float(best)
    )
