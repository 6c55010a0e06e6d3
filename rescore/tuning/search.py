"""The search for the best weights: the best point of an objective, averaged over
resamples of the lists, and a test of the gain of each column.

The best score is searched exactly along lines (Och 2003), minimum Bayes risk by a
pattern search over scale times weights. Columns are standardised. Columns and lists
are ordered by their content. So a search depends neither on the names of columns, the
ids of lists and the units of scores nor on the order of lists and hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from rescore.metrics.base import Counts, Metric, is_better
from rescore.pace import paced
from rescore.tuning import pattern
from rescore.tuning.climb import climb
from rescore.tuning.line import Floats, Indices, best_interval
from rescore.tuning.objective import TuningObjective
from rescore.tuning.record import STANDARD_ERRORS, TriedAlone

SEED = 12345
"""Seed of all resampling."""
SAMPLES = 20
"""Bootstrap samples that an average is made of."""
FEWER = 5
"""Samples of an average over more than `MANY` lists, whose best points differ less."""
MANY = 10_000
"""Lists up to which an average is made of `SAMPLES` samples."""
MOST_PARTS = 5
"""Columns beside the first pass up to which a search for minimum Bayes risk begins with
the best points of all sets of fewer columns; with more columns, of single columns.
"""
LONGEST_OF_PARTS = 64
"""Hypotheses of a list, at most, for which parts of a set of columns are searched."""
CHANCE = 0.05
"""The chance, at most, that one of several useless models gains when each is tried
alone.
"""
TRIALS = 400
"""Bootstrap samples of a test of a gain."""


class Optimum(NamedTuple):
    """The result of a search; points are weights of shape (columns,)."""

    objective: TuningObjective
    """The objective over the columns that are left."""
    point: Floats
    """The weights to use."""
    alone: Floats
    """The first pass alone, with its best scale if the decision has a scale."""
    average: Floats
    """The mean of the best points of resamples; `plain` without resampling."""
    plain: Floats
    """The best point on these very lists."""
    tried_alone: TriedAlone | None = None
    """The best of the models that were tried alone, if none of them gains."""

    @property
    def helps(self) -> bool:
        """Whether a column beside the first pass has a weight."""
        return bool(self.point[1:].any())

    @property
    def chosen(self) -> Counts:
        """The statistics of the text chosen from each list, of shape (lists, k)."""
        return self.objective.chosen(self.point)

    @property
    def value(self) -> float:
        """The metric of the chosen texts, in percent."""
        return self.objective.value(self.point)


class Searches:
    """The searches for one metric that are done: none is done twice.

    A search over fewer columns repeats steps of the search before it, and rows of a
    comparison repeat steps of each other.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[bytes, bool, bool, int], tuple[Any, ...]] = {}
        """The points of each optimum, without its objective."""

    def optimum(
        self, objective: TuningObjective, bagging: bool, equal: bool, tried: int
    ) -> Optimum:
        """Return the point with the best value; arguments as in `optimise`."""
        numbers = objective.digest()
        if numbers is None:
            return optimise(objective, bagging, equal, tried)
        key = (numbers, bagging, equal, tried)
        if key not in self._found:
            _, *points = optimise(objective, bagging, equal, tried)
            self._found[key] = tuple(points)
        return Optimum(objective, *self._found[key])


def optimise(
    objective: TuningObjective,
    bagging: bool = True,
    equal: bool = False,
    tried: int | None = None,
) -> Optimum:
    """Return the point with the best value.

    Args:
        objective: The objective.
        bagging: Whether the point is the average of the best points of bootstrap
            samples, or the first pass alone if this average is not significantly
            better.
        equal: Whether a search for minimum Bayes risk begins with equal weights of all
            language models; else it begins with the weights of the best score.
        tried: Number of columns that are tried, which the gain has to be significant
            for; None for all columns beside the first pass.
    """
    if tried is None:
        tried = len(objective.columns) - 1
    if objective.losses is None:
        alone = objective.first_pass
        plain = line_search(objective)
    else:
        alone = pattern.search(
            objective,
            pattern.scaled(objective, objective.first_pass),
            only_scale=True,
        )
        plain = _least_risk(objective, alone, bagging, equal, tried)
    if not bagging or not plain[1:].any():
        return Optimum(objective, plain, alone, plain, plain)
    average = bagged(objective, plain, alone)
    gains = significantly_better(
        objective.metric,
        objective.chosen(average),
        objective.chosen(alone),
        errors_of_sum(tried),
    )
    point = average if gains else alone
    return Optimum(objective, point, alone, average, plain)


def _least_risk(
    objective: TuningObjective, alone: Floats, bagging: bool, equal: bool, tried: int
) -> Floats:
    """Return the best point for minimum Bayes risk on these very lists.

    Args:
        objective: An objective with losses.
        alone: The first pass with its best scale.
        bagging: As in `optimise`.
        equal: As in `optimise`.
        tried: As in `optimise`.
    """
    if equal:
        start = pattern.equal_weights(objective)
    else:
        start = optimise(_by_score(objective), bagging, tried=tried).point
    return _from_starts(objective, alone, start, equal)


def _by_score(objective: TuningObjective) -> TuningObjective:
    """Return the objective of the same columns for the best score."""
    return replace(objective, losses=None, choices={}, envelopes={})


def _from_starts(
    objective: TuningObjective, alone: Floats, start: Floats, equal: bool
) -> Floats:
    """Return the best point that a pattern search reaches.

    Args:
        objective: An objective with losses.
        alone: The first pass with its best scale.
        start: A point (columns,) whose direction is tried at all scales.
        equal: As in `optimise`.
    """
    starts = [
        alone,
        *pattern.scaled(objective, objective.first_pass),
        *pattern.scaled(objective, start),
        *_best_of_parts(objective, alone, equal),
    ]
    return pattern.search(objective, starts)


def _best_of_parts(
    objective: TuningObjective, alone: Floats, equal: bool
) -> list[Floats]:
    """Return the best points over fewer columns, as points over all columns.

    Each is searched once (`TuningObjective.parts`), so a set of columns is never worse
    on these lists than its parts. Long lists have no such points: these searches take
    as long as the search itself.

    Args:
        objective: An objective with losses.
        alone: The first pass with its best scale.
        equal: As in `optimise`.
    """
    first_pass, *others = objective.columns
    sets: list[tuple[str, ...]] = []
    if len(others) <= 1 or objective.present.shape[1] > LONGEST_OF_PARTS:
        return []
    if len(others) > MOST_PARTS:
        sets += [(first_pass, name) for name in others]
    else:
        for left in others:
            sets.append(tuple(name for name in objective.columns if name != left))
    points = []
    for names in sets:
        places = [objective.columns.index(name) for name in names]
        if names not in objective.parts:
            fewer = objective.over(names)
            start = pattern.equal_weights(fewer)
            if not equal:
                start = line_search(_by_score(fewer))
            found = _from_starts(fewer, alone[places], start, equal)
            objective.parts[names] = found
        point = np.zeros(len(objective.columns))
        point[places] = objective.parts[names]
        points.append(point)
    return points


def without_useless(
    best: Optimum, columns: Collection[str], again: Callable[[TuningObjective], Optimum]
) -> Optimum:
    """Return the optimum over the columns that gain significantly beside the others.

    Columns leave in turn: bonuses and other weights without bounds first, then the
    column without which the best weights of the others have the best value. A column
    stays if the best weights of all columns are significantly better than the best
    weights without it and without the columns that left before; so nothing significant
    is lost step by step. If all columns together do not gain, the best of the models
    that gain alone stays, or of the bonuses without a model: a useless column hides no
    useful one. The gains that are demanded grow with the number of columns
    (`errors_of_sum`, `errors_of_best`).

    Args:
        best: The optimum over all columns.
        columns: The columns that may be left out.
        again: Searches over fewer columns.
    """
    every = best
    objective = best.objective
    if not best.helps and len(objective.columns) > 2:
        return _best_alone(best, columns, again)
    free = _free_columns(objective)
    undecided = [name for name in objective.columns if name in columns]
    most = len(undecided) * (len(undecided) + 1) // 2
    steps = paced(range(most), "columns left out: %d of at most %d searches")
    while undecided and best.helps and len(best.objective.columns) > 2:
        candidates = [name for name in undecided if name in free] or undecided
        column, others = _least_useful(best, candidates, again, steps)
        undecided.remove(column)
        fewer = len(objective.columns) - len(others.objective.columns)
        stays = significantly_better(
            objective.metric, every.chosen, others.chosen, errors_of_sum(fewer)
        )
        if not stays:
            best = others
    return best


def _free_columns(objective: TuningObjective) -> set[str]:
    """Return the columns whose weights have no bounds."""
    pairs = zip(objective.columns, objective.free, strict=True)
    return {name for name, is_free in pairs if is_free}


def _best_alone(
    best: Optimum, columns: Collection[str], again: Callable[[TuningObjective], Optimum]
) -> Optimum:
    """Return the best optimum with a single model that gains; if none gains, `best`
    with a record of the model that came closest. Without a model, the columns without
    bounds are tried.

    Args: as in `without_useless`.
    """
    objective = best.objective
    free = _free_columns(objective)
    first_pass = objective.columns[0]
    others = objective.columns[1:]
    models = [name for name in others if name not in free]
    names = [name for name in models or others if name in columns]
    errors = errors_of_best(len(names))
    gaining = []
    tried = []
    for name in paced(names, "columns alone: %d of %d searches"):
        single = again(objective.over([first_pass, name]))
        first = single.objective.chosen(single.alone)
        if significantly_better(objective.metric, single.chosen, first, errors):
            gaining.append(single)
            continue
        tested = single.objective.chosen(single.average)
        low, high = gain_interval(objective.metric, tested, first, 1.0)
        gain = (low + high) / 2
        tried.append(TriedAlone(name, gain, (high - low) / 2, errors))
    if gaining:
        return max(gaining, key=lambda optimum: objective.sign * optimum.value)
    closest = max(tried, key=lambda model: model.gained_errors, default=None)
    return best._replace(tried_alone=closest if models else None)


def _least_useful(
    best: Optimum,
    candidates: Sequence[str],
    again: Callable[[TuningObjective], Optimum],
    steps: Iterator[int],
) -> tuple[str, Optimum]:
    """Return the column without which the other columns have the best value, and the
    optimum over these others.

    Args:
        best: The optimum over all columns.
        candidates: The columns.
        again: As in `without_useless`.
        steps: Counts searches, and logs how many are done.
    """
    objective = best.objective
    optima = []
    for column, _ in zip(candidates, steps, strict=False):
        others = [name for name in objective.columns if name != column]
        optima.append((column, again(objective.over(others))))
    return max(optima, key=lambda pair: objective.sign * pair[1].value)


def line_search(objective: TuningObjective) -> Floats:
    """Return the best point for the best score, found along lines.

    One weight is found exactly: the middle of the widest interval with the best value
    in [0, 1]. Several weights are searched along lines, each exactly, from every single
    column's best, from single columns, and from the middle of two and of all; so the
    value is never worse than with the best single column. Two free columns may gain
    only together, such as a channel and a bonus for each change; if all columns are
    free, the search begins with each of them, too. If nothing is better than the first
    pass, the first pass has all the weight.

    Args:
        objective: An objective without losses.

    Returns:
        Weights of standardised columns of shape (columns,).
    """
    alone = objective.first_pass
    corners = np.eye(len(alone))[~objective.free]
    starts = [alone]
    for corner in corners[1:]:
        direction = corner - alone
        edges, values = objective.line(alone, direction, 0.0, 1.0)
        best = best_interval(edges, values, objective.metric.higher_is_better)
        starts.append(alone + best.middle * direction)
    if not _is_one_line(objective):
        middles = [(corner + other) / 2 for corner, other in combinations(corners, 2)]
        points = [*starts, *corners[1:], *middles, corners.mean(axis=0)]
        if len(corners) == 1:
            points += list(alone + np.eye(len(alone))[objective.free])
        starts = [alone, *(climb(objective, point) for point in points)]
    # The first of equals is taken.
    return max(starts, key=lambda point: objective.sign * objective.value(point))


def _is_one_line(objective: TuningObjective) -> bool:
    """Return whether all weights lie on one line: at most one, and it is bounded."""
    return len(objective.columns) <= 2 and not objective.free.any()


def bagged(objective: TuningObjective, optimum: Floats, alone: Floats) -> Floats:
    """Return the mean of the best points of bootstrap samples of the lists.

    Args:
        objective: The objective.
        optimum: The point (columns,) where the search in each sample begins.
        alone: The point (columns,) of the first pass alone, which counts for a sample
            in which nothing is better.

    Returns:
        Weights of standardised columns of shape (columns,).
    """
    number = SAMPLES if len(objective.times) <= MANY else FEWER
    random = np.random.default_rng(SEED)
    samples: Iterable[int] = range(number)
    if objective.losses is not None or not _is_one_line(objective):
        named = ", ".join(objective.columns)
        samples = paced(range(number), f"weights of {named}: %d of %d samples")
    points = [_best(objective.sample(random), optimum, alone) for _ in samples]
    return np.asarray(np.mean(points, axis=0), dtype=np.float64)


def _best(sample: TuningObjective, optimum: Floats, alone: Floats) -> Floats:
    """Return the best point of one sample; arguments as in `bagged`."""
    if sample.losses is not None:
        return pattern.search(sample, [optimum, alone])
    point = line_search(sample) if _is_one_line(sample) else climb(sample, optimum)
    gains = is_better(
        sample.value(point), sample.value(alone), sample.metric.higher_is_better
    )
    return point if gains else alone


def errors_of_sum(number: int) -> float:
    """Return the standard errors that the gain by several columns has to exceed.

    The best weights of useless columns gain on the lists that they are tuned on: in
    units of its standard error, the gain by the best direction among so many grows like
    the length of a vector of random numbers, the square root of their number (Scheffe
    1953).

    Args:
        number: Number of columns that are tuned together.
    """
    return STANDARD_ERRORS + math.sqrt(max(1, number)) - 1


def errors_of_best(number: int) -> float:
    """Return the standard errors that the largest of several gains has to exceed.

    By chance, one of these gains exceeds this number with a probability of `CHANCE` at
    most (Bonferroni). The number is never below `STANDARD_ERRORS`.

    Args:
        number: Number of columns that are tried alone.
    """
    return max(STANDARD_ERRORS, -NormalDist().inv_cdf(CHANCE / max(1, number)))


def significantly_better(
    metric: Metric, ours: Counts, theirs: Counts, errors: float = STANDARD_ERRORS
) -> bool:
    """Return whether choices are better than others and their `gain_interval` lies
    above 0.

    Args:
        metric: The metric.
        ours: The statistics of our choice from each list, of shape (lists, k).
        theirs: The statistics of the other choice, of the same shape.
        errors: Standard errors that the gain has to exceed.
    """
    values = metric.values(np.stack([ours.sum(axis=0), theirs.sum(axis=0)]))
    better = is_better(float(values[0]), float(values[1]), metric.higher_is_better)
    return better and gain_interval(metric, ours, theirs, errors)[0] > 0


def gain_interval(
    metric: Metric, ours: Counts, theirs: Counts, errors: float = STANDARD_ERRORS
) -> tuple[float, float]:
    """Return the gain of choices over others, less and plus some standard errors.

    The standard error is that of a paired bootstrap over lists. A single list is no
    evidence: its gain counts as its own error.

    Args:
        metric: The metric.
        ours: The statistics of our choice from each list, of shape (lists, k).
        theirs: The statistics of the other choice, of the same shape.
        errors: Number of standard errors.

    Returns:
        Both ends of the interval in points of the metric; below 0 they are a loss.
    """
    number = len(ours)
    random = np.random.default_rng(SEED)
    gain = float(_gains(metric, ours, theirs, [np.arange(number)])[0])
    error = abs(gain)
    if number > 1:
        samples = (random.integers(0, number, number) for _ in range(TRIALS))
        error = float(np.std(_gains(metric, ours, theirs, samples)))
    return gain - errors * error, gain + errors * error


def _gains(
    metric: Metric, ours: Counts, theirs: Counts, samples: Iterable[Indices]
) -> Floats:
    """Return the gain in each sample, in points, of shape (samples,).

    Args:
        metric: The metric.
        ours: The statistics of our choice from each list, of shape (lists, k).
        theirs: The statistics of the other choice, of the same shape.
        samples: The places of the lists of each sample.
    """
    sums = []
    for places in samples:
        times = np.bincount(places, minlength=len(ours))
        sums += [times @ ours, times @ theirs]
    values = metric.values(np.stack(sums))
    gains: Floats = values[::2] - values[1::2]
    return gains if metric.higher_is_better else -gains
