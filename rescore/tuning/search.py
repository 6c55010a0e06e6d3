"""Exact searches for weights: along a line, over several columns, and averaged over resamples (Och 2003)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Counts, Metric, is_better
from rescore.metrics.significance import paired_interval
from rescore.nbest import Origin

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)


def weighted(features: Floats, weights: Floats, present: npt.NDArray[np.bool_]) -> Floats:
    """(lists, hypotheses) sums of features (lists, hypotheses, columns) under weights (columns,).

    Columns are added one after another, as `rescore.decision.combine` adds them, so that hypotheses with equal features
    have equal sums. What has -inf in a column with a weight is impossible (-inf), and so is what is not present.
    """
    scores = np.zeros(features.shape[:-1])
    with np.errstate(invalid="ignore", over="ignore"):
        for column in np.flatnonzero(weights).tolist():
            scores += weights[column] * features[..., column]
    return np.where(present & np.isfinite(scores), scores, -np.inf)


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
    envelopes = upper_envelopes(intercepts, slopes, low, high)
    total = statistics[np.arange(len(statistics)), envelopes.first].sum(axis=0)
    order = np.argsort(envelopes.points, kind="stable")
    changes = statistics[envelopes.lists, envelopes.after] - statistics[envelopes.lists, envelopes.before]
    sums = total + np.concatenate([np.zeros((1, len(total)), np.int64), np.cumsum(changes[order], axis=0)])
    edges = np.concatenate([[low], envelopes.points[order], [high]])
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


MAX_SQUARED = 1e150
"""Whose square is a float."""


def spreads(features: Floats, present: npt.NDArray[np.bool_]) -> Floats:
    """(columns,) the standard deviation of scores within a list, the mean over lists; without impossible hypotheses.

    Args:
        features: (lists, hypotheses, columns). present: (lists, hypotheses).
    """
    possible = (present & np.isfinite(features).all(axis=-1))[..., None]
    number = np.maximum(possible.sum(axis=1, keepdims=True), 1)
    values = np.where(possible, features, 0.0)
    with np.errstate(over="ignore"):
        away = np.where(possible, values - (values / number).sum(axis=1, keepdims=True), 0.0)
    away = away.clip(-MAX_SQUARED, MAX_SQUARED)
    deviations: Floats = np.sqrt((away**2).sum(axis=1) / number[:, 0]).mean(axis=0)
    return deviations


def magnitude(spread: float) -> float:
    """The power of ten at or below a spread, so that columns whose spreads are alike are searched alike; 1 for 0."""
    return 10.0 ** math.floor(math.log10(spread)) if spread > 0 else 1.0


Tried = TypeVar("Tried")


def admitted(
    origins: Sequence[Origin],
    among: Callable[[frozenset[Origin]], Tried],
    gains: Callable[[Origin, Tried, Tried], bool],
) -> Tried:
    """What is tuned among the origins of hypotheses that gain, each beside those that gained before.

    Args:
        origins: in the order of trial. among: what is tuned without hypotheses of some origins.
        gains: whether an origin's trial is better than the best so far.
    """
    excluded = frozenset(origins)
    best = among(excluded)
    for origin in origins:
        trial = among(excluded - {origin})
        if gains(origin, trial, best):
            excluded, best = excluded - {origin}, trial
    return best


RESTARTS = 10
SEED = 12345
MAX_WEIGHT = 1e150
"""No weight is looked for beyond: its square is still a number."""


@dataclass(frozen=True, slots=True)
class Space:
    """What is searched: scores and statistics of all hypotheses, padded to the longest list.

    Hypotheses stand in the order in which equals win (`rescore.nbest.tie_order`): of equals the first is right.
    Columns come in the order: first pass, language models, then `free` features, whose weights have no bounds.
    """

    metric: Metric
    statistics: Counts
    """(lists, hypotheses, k)"""
    features: Floats
    """(lists, hypotheses, columns)"""
    present: npt.NDArray[np.bool_]
    """(lists, hypotheses): False where a list is shorter than the longest"""
    unit: float = 1.0
    """The `magnitude` of the differences of a list's first-pass scores: what free weights are looked for in."""
    steps: tuple[float, ...] = ()
    """The magnitude of the differences of each free feature within a list; 1 for counts."""

    @property
    def free(self) -> int:
        return len(self.steps)

    @property
    def columns(self) -> int:
        return self.features.shape[-1]

    @property
    def units(self) -> Floats:
        """(free,) the weights with which free features differ as scores do."""
        return self.unit / np.array(self.steps, dtype=np.float64)

    @property
    def reach(self) -> float:
        """The largest weights of free features, in `units`: beyond, a count decides by itself.

        No difference of scores within a list is larger; counts differ by at least 1, and score weights add up to 1. No
        weight is larger than `MAX_WEIGHT`.
        """
        scores = self.features[..., : self.columns - self.free]
        usable = np.isfinite(scores) & self.present[..., None]
        highest = np.where(usable, scores, -np.inf).max(axis=1)
        lowest = np.where(usable, scores, np.inf).min(axis=1)
        with np.errstate(over="ignore"):
            widest = float(np.where(np.isfinite(highest), highest - lowest, 0.0).max())
        return min(1.0 + widest / self.unit, MAX_WEIGHT / float(self.units.max(initial=1.0)))

    def project(self, weights: Floats) -> Floats:
        """(lists, hypotheses) scores; a column of weight 0 does not count, not even where it is -inf.

        What has -inf in another column is impossible (-inf), whatever the sign of the weight.
        """
        return weighted(self.features, weights, self.present)

    def line(self, start: Floats, direction: Floats, low: float, high: float) -> tuple[Floats, Floats]:
        """Edges and values of `sweep` along `start + x * direction`."""
        return sweep(self.metric, self.statistics, self.project(start), self.project(direction), low, high)

    def value(self, weights: Floats) -> float:
        """The metric's value at a point."""
        return float(self.metric.values(self.chosen(weights).sum(axis=0)[None])[0])

    def chosen(self, weights: Floats) -> Counts:
        """(lists, k) the statistics of what is chosen at a point."""
        return self.statistics[np.arange(len(self.statistics)), self.project(weights).argmax(axis=1)]


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
    optima = [climb(space, point, random) for point in points]
    values = np.array([value for _, value in optima])
    best = int(values.argmax() if space.metric.higher_is_better else values.argmin())
    return optima[best]


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
        moves = [(space.value(place), place) for swept, place in moves if sign * (swept - value) > 0]
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
    scores, units, reach = space.columns - space.free, space.units, space.reach
    corners = np.eye(space.columns)
    for index in range(scores):
        line = coordinate(point, index, scores)
        if line is not None:
            yield *line, 0.0, 1.0
    for index, unit in enumerate(units.tolist(), scores):
        others = point.copy()
        others[index] = 0.0
        yield others, corners[index], -reach * unit, reach * unit
    for _ in range(space.columns):
        direction = random.normal(size=space.columns)
        direction[:scores] -= direction[:scores].mean()
        direction[scores:] *= units
        falls, rises = direction < 0, direction > 0
        falls[scores:] = rises[scores:] = False
        high = float((point[falls] / -direction[falls]).min(initial=reach))
        low = float((-point[rises] / direction[rises]).max(initial=-reach))
        if low < high:
            yield point, direction, low, high


SAMPLES = 20
TRIALS = 400
ERRORS = 2.0
"""Standard errors by which weights have to be better than the first pass."""


def bagged(space: Space, optimum: Floats, samples: int = SAMPLES, seed: int = SEED) -> Floats:
    """The mean of the best weights of bootstrap samples of the lists.

    In each sample the search starts from `optimum`, and the first pass alone counts where nothing found is better.
    """
    random = np.random.default_rng(seed)
    alone = first_pass(space)
    number = len(space.statistics)
    optima = []
    for _ in range(samples):
        drawn = random.integers(0, number, number)
        sample = replace(
            space, statistics=space.statistics[drawn], features=space.features[drawn], present=space.present[drawn]
        )
        optima.append(_best(sample, optimum, alone))
    mean: Floats = np.mean(optima, axis=0)
    return mean


def _best(sample: Space, optimum: Floats, alone: Floats) -> Floats:
    if sample.columns == 2 and not sample.free:
        direction = np.array([-1.0, 1.0])
        best = best_interval(*sample.line(alone, direction, 0.0, 1.0), sample.metric.higher_is_better)
        point, value = alone + best.middle * direction, best.value
    else:
        point, value = climb(sample, optimum, np.random.default_rng(SEED))
    return point if is_better(value, sample.value(alone), sample.metric.higher_is_better) else alone


def is_significant(space: Space, weights: Floats) -> bool:
    """Whether weights are significantly better than the first pass."""
    return significantly_better(space.metric, space.chosen(weights), space.chosen(first_pass(space)))


def significantly_better(metric: Metric, ours: Counts, theirs: Counts, trials: int = TRIALS, seed: int = SEED) -> bool:
    """Whether choices are better than others by `ERRORS` standard errors, by a paired bootstrap over lists.

    Args:
        ours, theirs: (lists, k) statistics of what is chosen from each list. One list is evidence of nothing.
    """
    if len(ours) < 2:
        return False
    random = np.random.default_rng(seed)
    number = len(ours)
    sign = 1.0 if metric.higher_is_better else -1.0

    def gain(rows: np.ndarray) -> Floats:
        values = metric.values(np.stack([ours[rows].sum(axis=0), theirs[rows].sum(axis=0)]))
        return sign * (values[0] - values[1])

    observed = float(gain(np.arange(number)))
    return observed > ERRORS * float(np.std([gain(random.integers(0, number, number)) for _ in range(trials)]))


def gain_interval(space: Space, weights: Floats) -> tuple[float, float]:
    """The 95 % confidence interval of the gain of weights over the first pass, in points; below 0 it is a loss."""
    sign = 1.0 if space.metric.higher_is_better else -1.0
    low, high = sorted(
        sign * end
        for end in paired_interval(space.metric, list(space.chosen(first_pass(space))), list(space.chosen(weights)))
    )
    return low, high


def first_pass(space: Space) -> Floats:
    """The point at which the first pass decides alone."""
    alone = np.zeros(space.columns)
    alone[0] = 1.0
    return alone
