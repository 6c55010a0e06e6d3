"""Weights of several columns at once: exact line searches along coordinates and random directions, with restarts.

This is Och's method (2003, section 5). A point is a vector of weights, one per column. Only its direction decides which
hypothesis wins, so the weights of first pass and language models are kept at or above 0 with the sum 1; those of count
features (a word bonus) are free. Every line is searched exactly; which lines, is chosen with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Counts, Metric
from rescore.tuning.line import Floats, best_interval, sweep

RESTARTS = 10
SEED = 12345
LARGEST = 1e150
"""No weight is looked for beyond: its square is still a number."""


@dataclass(frozen=True, slots=True)
class Space:
    """What is searched: scores and statistics of all hypotheses, padded to the longest list.

    Columns come in the order: first pass, language models, then `free` count features.
    """

    metric: Metric
    statistics: Counts
    """(lists, hypotheses, k)"""
    features: Floats
    """(lists, hypotheses, columns)"""
    present: npt.NDArray[np.bool_]
    """(lists, hypotheses): False where a list is shorter than the longest"""
    free: int = 0

    @property
    def columns(self) -> int:
        return self.features.shape[-1]

    @property
    def bound(self) -> float:
        """A count feature with a weight beyond this decides by itself: no difference of scores within a list is larger.

        Counts differ by at least 1, and score weights add up to 1. It is at most `LARGEST`.
        """
        scores = self.features[..., : self.columns - self.free]
        usable = np.isfinite(scores) & self.present[..., None]
        highest = np.where(usable, scores, -np.inf).max(axis=1)
        lowest = np.where(usable, scores, np.inf).min(axis=1)
        with np.errstate(over="ignore"):
            widest = float(np.where(np.isfinite(highest), highest - lowest, 0.0).max())
        return min(1.0 + widest, LARGEST)

    def project(self, weights: Floats) -> Floats:
        """(lists, hypotheses) scores; a column of weight 0 does not count, not even where it is -inf.

        What has -inf in another column is impossible (-inf), whatever the sign of the weight.
        """
        used = np.flatnonzero(weights)
        with np.errstate(invalid="ignore", over="ignore"):
            scores = self.features[..., used] @ weights[used]
        return np.where(self.present & np.isfinite(scores), scores, -np.inf)

    def line(self, start: Floats, direction: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """Edges and values of `sweep` along `start + x * direction`."""
        return sweep(self.metric, self.statistics, self.project(start), self.project(direction), low, high)

    def value(self, weights: Floats) -> float:
        """The metric's value at a point, of equals the first hypothesis chosen, as a decision does."""
        chosen = self.project(weights).argmax(axis=1)
        return float(self.metric.values(self.statistics[np.arange(len(chosen)), chosen].sum(axis=0)[None])[0])


Line = tuple[Floats, Floats, float, float]


def search(space: Space, starts: Sequence[Floats], restarts: int = RESTARTS, seed: int = SEED) -> tuple[Floats, float]:
    """The best point that is found from `starts` and from `restarts` random ones, and its value.

    Never worse than any of `starts`. Of equally good points the first found.
    """
    random = np.random.default_rng(seed)
    scores = space.columns - space.free
    points = [*starts]
    for _ in range(restarts):
        points.append(np.concatenate([random.dirichlet(np.ones(scores)), np.zeros(space.free)]))
    found = [climb(space, point, random) for point in points]
    values = np.array([value for _, value in found])
    best = int(values.argmax() if space.metric.higher_is_better else values.argmin())
    return found[best]


def climb(space: Space, point: Floats, random: np.random.Generator) -> tuple[Floats, float]:
    """From a point along the best of the lines through it, again and again, as long as the value improves."""
    sign = 1.0 if space.metric.higher_is_better else -1.0
    value = space.value(point)
    while True:
        moves = []
        for start, direction, low, high in _lines(space, point, random):
            best = best_interval(*space.line(start, direction, low, high), space.metric.higher_is_better)
            moves.append((best.value, start + best.middle * direction))
        # What the sweep says of an interval holds at its middle up to rounding: that is looked up, not assumed.
        moves = [(space.value(place), place) for found, place in moves if sign * (found - value) > 0]
        best_move = max(moves, key=lambda move: sign * move[0], default=None)
        if best_move is None or sign * (best_move[0] - value) <= 0:
            return point, value
        value, point = best_move


def coordinate(point: Floats, index: int, scores: int) -> tuple[Floats, Floats] | None:
    """The line from without one score to that score alone, on which the others keep their proportions.

    None where the others have no weight.
    """
    start = point.copy()
    start[index] = 0.0
    rest = start[:scores].sum()
    if rest <= 0:
        return None
    start[:scores] /= rest
    direction = np.eye(len(point))[index] - start
    direction[scores:] = 0.0
    return start, direction


def _lines(space: Space, point: Floats, random: np.random.Generator) -> Iterator[Line]:
    """The whole line of each coordinate, then as many in random directions: start, direction, from, to."""
    scores, bound = space.columns - space.free, space.bound
    corners = np.eye(space.columns)
    for index in range(scores):
        line = coordinate(point, index, scores)
        if line is not None:
            yield *line, 0.0, 1.0
    for index in range(scores, space.columns):
        others = point.copy()
        others[index] = 0.0
        yield others, corners[index], -bound, bound
    for _ in range(space.columns):
        direction = random.normal(size=space.columns)
        direction[:scores] -= direction[:scores].mean()
        falls, rises = direction < 0, direction > 0
        falls[scores:] = rises[scores:] = False
        high = float((point[falls] / -direction[falls]).min(initial=bound))
        low = float((-point[rises] / direction[rises]).max(initial=-bound))
        if low < high:
            yield point, direction, low, high
