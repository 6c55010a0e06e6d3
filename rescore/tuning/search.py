"""Searches for the point of an objective, averaged over resamples, and the test of each
column's gain.

The best score is searched exactly along lines (Och 2003), minimum Bayes risk by a
pattern search over scale times weights. Columns are standardised and ordered by
content, and lists come in the order of their ids, so a search depends neither on the
names of columns and the units of scores nor on the order of lists and hypotheses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from rescore.metrics.base import Counts, Metric, is_better
from rescore.tuning.line import Floats, best_interval
from rescore.tuning.objective import Objective

SEED = 12345
SAMPLES, FEWER, MANY = 20, 5, 10_000
"""Bootstrap samples that an average is made of: of more than `MANY` lists `FEWER`, as
their best points differ less.
"""
TRIALS = 400
"""Bootstrap samples of a test of gain."""
ERRORS = 2.0
"""Standard errors that a gain has to exceed in all tests: of all columns against the
first pass (`optimise`), of one column beside the others (`without_useless`), and of
hypotheses with new words (`rescore.tuning.tune`).
"""


class Optimum(NamedTuple):
    """What a search ends with; points are (columns,)."""

    objective: Objective
    """Over the columns that are left."""
    point: Floats
    """The weights to use."""
    alone: Floats
    """The first pass alone, with its best scale where there is one."""
    average: Floats
    """The mean of the best points of resamples; `plain` without resampling."""
    plain: Floats
    """The best point of these very lists."""

    @property
    def helps(self) -> bool:
        """Whether a column beside the first pass has a weight."""
        return bool(self.point[1:].any())

    @property
    def chosen(self) -> Counts:
        """(lists, k) the statistics of the choice from each list."""
        return self.objective.chosen(self.point)

    @property
    def value(self) -> float:
        return self.objective.value(self.point)


def optimise(
    objective: Objective, bagging: bool = True, equal: bool = False
) -> Optimum:
    """The point with the best value; with `bagging` the average of the best points of
    bootstrap samples, or the first pass alone where the average is not significantly
    better.

    Args:
        equal: begin a search for minimum Bayes risk with equal weights of all language
            models, not with the weights of the best score.
    """
    alone = objective.first_pass
    if objective.losses is None:
        plain = line_search(objective)
    else:
        # here: only decisions by expected loss need it
        from rescore.tuning import pattern

        best_score = replace(objective, losses=None, choices={}, envelopes={})
        start = (
            pattern.equal_weights(objective)
            if equal
            else optimise(best_score, bagging).point
        )
        alone = pattern.search(
            objective, pattern.scaled(objective, alone), only_scale=True
        )
        starts = [
            alone,
            *pattern.scaled(objective, objective.first_pass),
            *pattern.scaled(objective, start),
        ]
        plain = pattern.search(objective, starts)
    if not bagging or not plain[1:].any():
        return Optimum(objective, plain, alone, plain, plain)
    average = bagged(objective, plain, alone)
    gains = significantly_better(
        objective.metric, objective.chosen(average), objective.chosen(alone)
    )
    return Optimum(objective, average if gains else alone, alone, average, plain)


def without_useless(
    best: Optimum, columns: Collection[str], again: Callable[[Objective], Optimum]
) -> Optimum:
    """The optimum over the columns that gain something significant beside the others.

    Columns leave in turn: bonuses and other weights without bounds first, then the
    column without which the best weights of the others have the best value. A column
    stays if the best weights of all columns are significantly better than the best
    weights without it and without the columns that left before; so nothing significant
    is lost step by step. Where all together do not gain, the best of the models that
    gain alone stays: a useless one hides no useful one. `columns` may be left out;
    `again` searches over fewer columns.
    """
    every, objective = best, best.objective
    free = {
        name
        for name, is_free in zip(objective.columns, objective.free, strict=True)
        if is_free
    }
    if not best.helps and len(objective.columns) > 2:
        models = [
            name
            for name in objective.columns[1:]
            if name in columns and name not in free
        ]
        each = (again(objective.over([objective.columns[0], name])) for name in models)
        return max(
            (own for own in each if own.helps),
            key=lambda own: objective.sign * own.value,
            default=best,
        )
    undecided = [name for name in objective.columns if name in columns]
    while undecided and len(best.objective.columns) > 2 and best.helps:
        first = [name for name in undecided if name in free] or undecided
        without = {
            column: again(
                best.objective.over(
                    [name for name in best.objective.columns if name != column]
                )
            )
            for column in first
        }
        column = max(first, key=lambda name: objective.sign * without[name].value)
        undecided.remove(column)
        if not significantly_better(
            objective.metric, every.chosen, without[column].chosen
        ):
            best = without[column]
    return best


def line_search(objective: Objective) -> Floats:
    """The best point for the best score, found along lines.

    One weight is found exactly: the middle of the widest interval with the best value
    in [0, 1]. Several are searched along lines, each exactly, from every single
    column's best, from single columns, and from the middle of two and of all; so the
    value is never worse than with the best single column. Two free columns may gain
    only together, as a channel and a bonus for each change; if all columns are free,
    the search begins with each of them, too. Where nothing is better than the first
    pass, the first pass has all weight.
    """
    alone = objective.first_pass
    corners = np.eye(len(alone))[~objective.free]
    starts = [alone]
    for corner in corners[1:]:
        direction = corner - alone
        best = best_interval(
            *objective.line(alone, direction, 0.0, 1.0),
            objective.metric.higher_is_better,
        )
        starts.append(alone + best.middle * direction)
    if len(alone) > 2 or objective.free.any():
        # here: one weight is found along one line
        from rescore.tuning.climb import climb

        middles = [(corner + other) / 2 for corner, other in combinations(corners, 2)]
        points = [*starts, *corners[1:], *middles, corners.mean(axis=0)]
        if len(corners) == 1:
            points += list(alone + np.eye(len(alone))[objective.free])
        starts = [alone, *(climb(objective, point) for point in points)]
    # of equals the first
    return max(starts, key=lambda point: objective.sign * objective.value(point))


def bagged(objective: Objective, optimum: Floats, alone: Floats) -> Floats:
    """The mean of the best points of bootstrap samples of the lists.

    In each sample the search begins at `optimum`, and the first pass alone counts where
    nothing is better.
    """
    number = SAMPLES if len(objective.times) <= MANY else FEWER
    random, samples = np.random.default_rng(SEED), iter(range(number))
    if objective.losses is not None or len(alone) > 2 or objective.free.any():
        from rescore.pace import paced  # here: the search for one weight is fast

        samples = paced(
            range(number),
            f"weights of {', '.join(objective.columns)}: %d of %d samples",
        )
    points = [_best(objective.sample(random), optimum, alone) for _ in samples]
    return np.asarray(np.mean(points, axis=0), dtype=np.float64)


def _best(sample: Objective, optimum: Floats, alone: Floats) -> Floats:
    if sample.losses is not None:
        from rescore.tuning import pattern

        return pattern.search(sample, [optimum, alone])
    if len(optimum) == 2 and not sample.free.any():
        point = line_search(sample)
    else:
        from rescore.tuning.climb import climb

        point = climb(sample, optimum)
    return (
        point
        if is_better(
            sample.value(point), sample.value(alone), sample.metric.higher_is_better
        )
        else alone
    )


def significantly_better(metric: Metric, ours: Counts, theirs: Counts) -> bool:
    """Whether choices (lists, k) are better than others: their `gain_interval` lies
    above 0.
    """
    values = metric.values(np.stack([ours.sum(axis=0), theirs.sum(axis=0)]))
    better = is_better(float(values[0]), float(values[1]), metric.higher_is_better)
    return better and gain_interval(metric, ours, theirs)[0] > 0


def gain_interval(metric: Metric, ours: Counts, theirs: Counts) -> tuple[float, float]:
    """The gain of choices over others, less and plus `ERRORS` standard errors by a
    paired bootstrap over lists, in points; below 0 it is a loss.

    One list is evidence of nothing: the gain counts as its own error.
    """
    random, number = np.random.default_rng(SEED), len(ours)
    sign = 1.0 if metric.higher_is_better else -1.0

    def gains(samples: Iterable[np.ndarray]) -> Floats:
        counts = (np.bincount(rows, minlength=number) for rows in samples)
        values = metric.values(
            np.stack([times @ choice for times in counts for choice in (ours, theirs)])
        )
        return sign * (values[::2] - values[1::2])

    observed = error = float(gains([np.arange(number)])[0])
    if number > 1:
        error = float(
            np.std(gains(random.integers(0, number, number) for _ in range(TRIALS)))
        )
    return observed - ERRORS * abs(error), observed + ERRORS * abs(error)
