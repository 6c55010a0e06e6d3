"""Weights and scale together, for minimum Bayes risk.

Under this decision the error is no step function along a line, as the posteriors of all hypotheses of a list count: it
has to be searched. A point is theta = scale * weights, one per column; the posterior is exp(theta * scores). From
the weights that were tuned for the best score, and from the first pass alone, each with several scales, single numbers
are changed by ever smaller factors as long as that helps (a pattern search, Hooke and Jeeves 1961).

As for the best score (tuning/average.py), the point is then averaged over bootstrap samples, and the first pass alone
decides, with its own best scale, where the gain over it is within chance; respelled hypotheses take no part then, as
they have the first-pass score of those they came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rescore.decision.mbr import losses
from rescore.decision.rules import Losses
from rescore.metrics.base import Metric
from rescore.nbest import COUNTS, EDITS, NbestList
from rescore.tuning.average import SAMPLES, significantly_better
from rescore.tuning.line import Floats
from rescore.tuning.multi import SEED
from rescore.tuning.risk import Risk, pruned
from rescore.tuning.weights import NEVER

STEPS = (2.0, 2**0.5, 2**0.25, 2**0.125)
"""Factors by which a number is changed, one after another."""
STARTING_SCALES = tuple(2.0**exponent for exponent in range(-6, 5))
ENTRIES = (0.05, 0.25, 1.0, 4.0)
"""By how much (natural log) a column that has no weight begins to spread the posteriors of a list."""


def tune_jointly(
    metric: Metric,
    lists: Sequence[NbestList],
    weights: Mapping[str, float],
    negative: Sequence[str] = (),
    bagging: bool = True,
    losses: Losses = losses,
) -> tuple[dict[str, float], float, float]:
    """Weights, scale, and the metric's value with them, for minimum Bayes risk.

    Args:
        weights: of the best score, where the search begins; all its columns take part, the first pass first.
        negative: columns whose weights may be negative; those of counts always may.
        bagging: an average that has to be significantly better, not the best of these very lists.
        losses: whose expectation the decision rule minimises.
    """
    columns = list(weights)
    risk = Risk.of(metric, pruned(lists, weights), columns, losses)
    free = np.array([name in COUNTS or name in negative for name in columns])
    first_pass = np.zeros(len(columns))
    first_pass[0] = 1.0
    first_pass[[index for index, name in enumerate(columns) if name == EDITS]] = NEVER
    alone = _search(risk, _scaled(first_pass), np.ones_like(free), only_scale=True)
    start = np.array(list(weights.values()))
    best = _search(risk, [alone, *_scaled(first_pass), *_scaled(start)], free)
    if len(columns) > 1 and bagging:
        best = _bagged(risk, best, alone, free)
        if not significantly_better(metric, risk.chosen(best), risk.chosen(alone)):
            best = alone
    scale = float(best[~free].sum())
    found = best / scale
    found[found < NEVER / 1000] = NEVER  # a mean with it excludes as surely
    return dict(zip(columns, found.tolist(), strict=True)), scale, risk.value(best)


def _search(risk: Risk, starts: Sequence[Floats], free: np.ndarray, only_scale: bool = False) -> Floats:
    """The best point that is found from the best of some."""
    sign = 1.0 if risk.metric.higher_is_better else -1.0
    value, best = max(((sign * risk.value(start), -rank) for rank, start in enumerate(starts)))
    point = starts[-int(best)]
    spread = risk.spread()
    for step in STEPS:
        better = True
        while better:
            better = False
            for candidate in [point * step, point / step] if only_scale else _around(point, step, free, spread):
                found = sign * risk.value(candidate)
                if found > value + 1e-9:
                    point, value, better = candidate, found, True
    return point


def _bagged(risk: Risk, best: Floats, alone: Floats, free: np.ndarray) -> Floats:
    """The mean of the best points of bootstrap samples of the lists."""
    random = np.random.default_rng(SEED)
    mean: Floats = np.mean([_search(risk.sample(random), [best, alone], free) for _ in range(SAMPLES)], axis=0)
    return mean


def _scaled(weights: Floats) -> list[Floats]:
    return [scale * weights for scale in STARTING_SCALES] if weights[0] > 0 else []


def _around(theta: Floats, step: float, free: np.ndarray, spread: Floats) -> Iterator[Floats]:
    """Neighbours: all numbers, or one of them, made larger or smaller; or one put in, taken out, or turned round.

    Args:
        spread: (columns,) the standard deviation of scores within a list.
    """
    yield theta * step
    yield theta / step
    for index, number in enumerate(theta.tolist()):
        begin = [(step - 1.0) * share / float(spread[index]) for share in ENTRIES if spread[index] > 0]
        changed = [number * step, number / step, *([0.0] if index else [])] if number else begin
        if free[index]:
            changed = [*changed, *(-one for one in begin), -number]
        for one in changed:
            if one != number and (index or one > 0):
                candidate = theta.copy()
                candidate[index] = one
                yield candidate
