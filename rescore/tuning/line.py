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
"""Hypotheses whose lines are compared together: this number fits into a processor's
cache.
"""
NARROW = 1e-12
"""Share of the range below which an interval is a rounding error: several lists may
change at one position.
"""


class Envelopes(NamedTuple):
    """The upper envelopes of many lists: the winner at the lower end, and the changes
    of the winner, sorted by their position.
    """

    first: Indices
    """The winner of each list at the lower end, of shape (lists,)."""
    lists: Indices
    """The list in which the winner changes, of shape (changes,)."""
    points: Floats
    """The position on the line, of shape (changes,)."""
    before: Indices
    """The winner below the position, of shape (changes,)."""
    after: Indices
    """The winner above the position, of shape (changes,)."""


def upper_envelopes(
    intercepts: Floats, slopes: Floats, low: float, high: float
) -> Envelopes:
    """Return where the maximum of the lines `intercept + x * slope` changes in each
    list.

    Of equal lines the first wins. A line with a part that is not finite (padding, a
    score of -inf) never wins, unless all lines of a list are like this: then the first
    wins. The changes of each list come in ascending order.

    Args:
        intercepts: Scores at x = 0, of shape (lists, hypotheses).
        slopes: Changes of the scores, of the same shape.
        low: The lower end of x.
        high: The upper end of x.
    """
    number = max(100, TOGETHER // max(1, intercepts.shape[1]))
    starts = range(0, max(1, len(intercepts)), number)
    parts = []
    for start in starts:
        rows = slice(start, start + number)
        parts.append(_envelopes(intercepts[rows], slopes[rows], low, high))
    every = Envelopes(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    lists = every.lists + np.repeat(starts, [len(part.lists) for part in parts])
    order = np.argsort(every.points, kind="stable")
    return Envelopes(
        every.first,
        lists[order],
        every.points[order],
        every.before[order],
        every.after[order],
    )


def _envelopes(
    intercepts: Floats, slopes: Floats, low: float, high: float
) -> Envelopes:
    """Return the envelopes of few lists, whose changes are in no order.

    All lists take their next change at once: from the winner, the change is the nearest
    crossing with a steeper line.
    """
    usable = np.isfinite(intercepts) & np.isfinite(slopes)
    if not usable.all():
        intercepts = np.where(usable, intercepts, -np.inf)
        slopes = np.where(usable, slopes, 0.0)
    # Views of shape (hypotheses, lists). The order in memory stays: an objective keeps
    # numbers along the longer axis side by side, where NumPy finds minima fastest.
    intercepts = intercepts.T
    slopes = slopes.T
    at_low = intercepts + low * slopes
    at_high = intercepts + high * slopes
    # Just above the lower end the steepest of equals is ahead.
    first = _steepest(at_low == at_low.max(axis=0), slopes)
    winner = first.copy()
    position = np.full(len(winner), low)
    # The maximum of lines is convex: a line that reaches it at both ends is the maximum
    # between them. `rows` are the other lists, whose winner may still change.
    rows = np.flatnonzero(_of(at_high, winner) < at_high.max(axis=0))
    intercepts = _of_lists(intercepts, rows)
    slopes = _of_lists(slopes, rows)
    changes: list[tuple[Indices, Floats, Indices, Indices]] = []
    while len(rows) or not changes:
        rise = slopes - _of(slopes, winner[rows])
        crossings = _of(intercepts, winner[rows]) - intercepts
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            crossings /= rise
        np.putmask(crossings, rise <= 0, np.inf)
        nearest = crossings.min(axis=0)
        more = np.flatnonzero(nearest < high)
        if len(more) < len(rows):
            rows = rows[more]
            nearest = nearest[more]
            intercepts = _of_lists(intercepts, more)
            slopes = _of_lists(slopes, more)
            crossings = _of_lists(crossings, more)
        after = _steepest(crossings == nearest, slopes)
        # Rounding must not lead back.
        reached = np.maximum(nearest, position[rows])
        changes.append((rows, reached, winner[rows], after))
        winner[rows] = after
        position[rows] = reached
    fields = (np.concatenate(parts) for parts in zip(*changes, strict=True))
    return Envelopes(first, *fields)


def _of(values: Floats, which: Indices) -> Floats:
    """Return the value of one hypothesis of each list, of shape (lists,).

    Args:
        values: Values of shape (hypotheses, lists).
        which: A hypothesis of each list, of shape (lists,).
    """
    lists = np.arange(len(which))
    if not values.flags.c_contiguous:  # `ravel` would copy them
        return values[which, lists]
    # `take` is faster than `values[which, lists]`.
    return values.ravel().take(which * len(which) + lists)


def _of_lists(values: Floats, lists: Indices) -> Floats:
    """Return the values of some lists, in the same order in memory.

    Args:
        values: Values of shape (hypotheses, lists).
        lists: The places of the lists.
    """
    if not values.flags.c_contiguous:
        return values[:, lists]
    # `take` is faster than `values[:, lists]`, and does not transpose the memory.
    return values.take(lists, axis=1)


def _steepest(among: Flags, slopes: Floats) -> Indices:
    """Return the first of the steepest lines of each list, of shape (lists,).

    Args:
        among: Whether a line counts, of shape (hypotheses, lists).
        slopes: Slopes of the same shape.
    """
    return np.where(among, slopes, -np.inf).argmax(axis=0)


class Interval(NamedTuple):
    """An interval of positions on a line that all give the same value."""

    low: float
    high: float
    value: float

    @property
    def middle(self) -> float:
        """The position in the middle."""
        return (self.low + self.high) / 2


def swept(
    metric: Metric,
    statistics: Counts,
    envelopes: Envelopes,
    low: float,
    high: float,
    times: Counts | None = None,
) -> tuple[Floats, Floats]:
    """Return the metric as a step function of the position on a line.

    Args:
        metric: The metric.
        statistics: The statistics of shape (lists, hypotheses, k).
        envelopes: The winner of each list along the line.
        low: The lower end of the line.
        high: The upper end of the line.
        times: Number of times that each list counts, of shape (lists,); None for once.

    Returns:
        Edges of shape (steps + 1,), from `low` to `high`, and values of shape (steps,)
        between them, in percent.
    """
    if times is None:
        times = np.ones(len(statistics), dtype=np.int64)
    every = np.arange(len(statistics))
    at_low = times @ taken(statistics, every, envelopes.first)  # (k,)
    counted = np.flatnonzero(times[envelopes.lists])
    lists = envelopes.lists[counted]
    before = taken(statistics, lists, envelopes.before[counted])
    after = taken(statistics, lists, envelopes.after[counted])
    changes = (after - before) * times[lists, None]
    sums = np.cumsum(np.vstack([at_low, changes]), axis=0)  # (changes + 1, k)
    edges = np.concatenate([[low], envelopes.points[counted], [high]])
    wide = np.flatnonzero(np.diff(edges) > NARROW * (high - low))
    return np.append(edges[wide], high), metric.values(sums[wide])


def taken(statistics: Counts, lists: Indices, hypotheses: Indices) -> Counts:
    """Return the statistics of some hypotheses, of shape (n, k).

    Args:
        statistics: The statistics of shape (lists, hypotheses, k).
        lists: The list of each hypothesis, of shape (n,).
        hypotheses: The index of each hypothesis in its list, of shape (n,).
    """
    number, size = statistics.shape[1:]
    rows = statistics.reshape(-1, size)
    return rows.take(lists * number + hypotheses, axis=0)


def best_interval(edges: Floats, values: Floats, higher_is_better: bool) -> Interval:
    """Return the widest interval with the best value; the first of equally wide ones.

    Neighbours of equal value are one interval.

    Args:
        edges: Positions of shape (steps + 1,), in ascending order.
        values: Values of shape (steps,) between them.
        higher_is_better: Whether the highest value is the best.
    """
    best = values.max() if higher_is_better else values.min()
    good = values == best
    starts = np.flatnonzero(good & ~np.concatenate([[False], good[:-1]]))
    stops = np.flatnonzero(good & ~np.concatenate([good[1:], [False]])) + 1
    widest = int(np.argmax(edges[stops] - edges[starts]))
    low = float(edges[starts[widest]])
    high = float(edges[stops[widest]])
    return Interval(low, high, float(best))
