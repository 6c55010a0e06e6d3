"""Weights that hold on other lists: averaged over bootstrap samples, and taken only where the gain is significant.

The best weights of a small dev set are partly those of its accidents. Averages over samples of its lists (bagging,
Breiman 1996) vary less; and where the gain over the first pass is within chance, the first pass is kept. Compared with
the plain optimum by cross-validation on eight sets (docs/tuning.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rescore.metrics.base import Counts, Metric
from rescore.tuning.line import Floats, best_interval
from rescore.tuning.multi import SEED, Space, climb

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
    found = []
    for _ in range(samples):
        drawn = random.integers(0, number, number)
        sample = replace(
            space, statistics=space.statistics[drawn], features=space.features[drawn], present=space.present[drawn]
        )
        found.append(_best(sample, optimum, alone))
    mean: Floats = np.mean(found, axis=0)
    return mean


def _best(sample: Space, optimum: Floats, alone: Floats) -> Floats:
    if sample.columns == 2 and not sample.free:
        direction = np.array([-1.0, 1.0])
        best = best_interval(*sample.line(alone, direction, 0.0, 1.0), sample.metric.higher_is_better)
        point, value = alone + best.middle * direction, best.value
    else:
        point, value = climb(sample, optimum, np.random.default_rng(SEED))
    start = sample.value(alone)
    better = value > start if sample.metric.higher_is_better else value < start
    return point if better else alone


def is_significant(space: Space, weights: Floats, than: Floats | None = None) -> bool:
    """Whether weights are significantly better than others, or than the first pass."""
    others = first_pass(space) if than is None else than
    return significantly_better(space.metric, _chosen(space, weights), _chosen(space, others))


def significantly_better(metric: Metric, ours: Counts, theirs: Counts, trials: int = TRIALS, seed: int = SEED) -> bool:
    """Whether choices are better than others by `ERRORS` standard errors, by a paired bootstrap over lists.

    Args:
        ours, theirs: (lists, k) statistics of what is chosen from each list.
    """
    random = np.random.default_rng(seed)
    number = len(ours)
    sign = 1.0 if metric.higher_is_better else -1.0

    def gain(rows: np.ndarray) -> Floats:
        values = metric.values(np.stack([ours[rows].sum(axis=0), theirs[rows].sum(axis=0)]))
        return sign * (values[0] - values[1])

    observed = float(gain(np.arange(number)))
    return observed > ERRORS * float(np.std([gain(random.integers(0, number, number)) for _ in range(trials)]))


def first_pass(space: Space) -> Floats:
    """The point at which the first pass decides alone."""
    alone = np.zeros(space.columns)
    alone[0] = 1.0
    return alone


def _chosen(space: Space, weights: Floats) -> Counts:
    return space.statistics[np.arange(len(space.statistics)), space.project(weights).argmax(axis=1)]
