"""Weights and scale together, for minimum Bayes risk.

Under this decision the error is no step function along a line, as the posteriors of all hypotheses of a list count: it
has to be searched. A point is theta = scale * weights, one number a column; the posterior is exp(theta * scores). From
the weights that were tuned for the best score, and from the first pass alone, each with several scales, single numbers
are changed by ever smaller factors as long as that helps (a pattern search, Hooke and Jeeves 1961).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rescore.decision.combine import combine
from rescore.decision.mbr import losses
from rescore.metrics.base import Counts, Metric, list_statistics
from rescore.nbest import COUNTS, NbestList
from rescore.tuning.line import Floats, padded

log = logging.getLogger(__name__)

STEPS = (2.0, 2**0.5, 2**0.25, 2**0.125)
"""Factors by which a number is changed, one after another."""
SCALES = tuple(2.0**exponent for exponent in range(-6, 5))
PAIRS = 1 << 26
"""Pairs of hypotheses in all lists: 512 MiB."""
SMALL = 0.05
"""Share of the largest number with which a column that has no weight begins."""


@dataclass(frozen=True, slots=True)
class Risk:
    """What is searched: scores, losses and statistics of all hypotheses, padded to the longest list."""

    metric: Metric
    statistics: Counts
    """(lists, hypotheses, k)"""
    features: Floats
    """(lists, hypotheses, columns)"""
    losses: Floats
    """(lists, hypotheses, hypotheses)"""
    present: np.ndarray
    """(lists, hypotheses)"""

    @classmethod
    def of(cls, metric: Metric, lists: Sequence[NbestList], columns: Sequence[str]) -> Risk:
        """Of lists with references."""
        longest = max(len(nbest.hypotheses) for nbest in lists)
        every = np.zeros((len(lists), longest, longest))
        for target, loss in zip(every, losses(metric, lists), strict=True):
            target[: len(loss), : len(loss)] = loss
        return cls(
            metric,
            padded(list_statistics(metric, lists)),
            padded([np.array([nbest.column(name) for name in columns]).T for nbest in lists]),
            every,
            padded([np.ones(len(nbest.hypotheses), dtype=bool) for nbest in lists]),
        )

    def value(self, theta: Floats) -> float:
        """The metric's value of the least risk under the posteriors of theta (columns,)."""
        used = np.flatnonzero(theta)
        with np.errstate(invalid="ignore", over="ignore"):
            scores = self.features[..., used] @ theta[used]
            scores = np.where(self.present & np.isfinite(scores), scores, -np.inf)  # -inf is impossible for any sign
            highest = scores.max(axis=1, keepdims=True)
            weights = np.exp(np.where(np.isfinite(highest), scores - highest, np.where(self.present, 0.0, -np.inf)))
        posteriors = weights / weights.sum(axis=1, keepdims=True)
        risk = np.einsum("lij,lj->li", self.losses, posteriors)
        risk[~self.present] = np.inf
        # Of equal risks the more probable, then the first, as `least_risk` chooses.
        least = risk <= risk.min(axis=1, keepdims=True) + 1e-12
        chosen = np.where(least, posteriors, -1.0).argmax(axis=1)
        return float(self.metric.values(self.statistics[np.arange(len(chosen)), chosen].sum(axis=0)[None])[0])


def tune_jointly(
    metric: Metric, lists: Sequence[NbestList], weights: Mapping[str, float], negative: Sequence[str] = ()
) -> tuple[dict[str, float], float, float]:
    """Weights, scale, and the metric's value with them, for minimum Bayes risk.

    Args:
        weights: of the best score, where the search begins; all its columns take part.
        negative: columns whose weights may be negative; those of counts always may.
    """
    columns = list(weights)
    risk = Risk.of(metric, pruned(lists, weights), columns)
    sign = 1.0 if metric.higher_is_better else -1.0
    best, value = np.zeros(len(columns)), -np.inf
    for start in _starts(np.array(list(weights.values()))):
        found = sign * risk.value(start)
        if found > value:
            best, value = start, found
    free = np.array([name in COUNTS or name in negative for name in columns])
    for step in STEPS:
        better = True
        while better:
            better = False
            for candidate in _around(best, step, free):
                found = sign * risk.value(candidate)
                if found > value + 1e-9:
                    best, value, better = candidate, found, True
    scale = float(best[~free].sum())
    return dict(zip(columns, (best / scale).tolist(), strict=True)), scale, sign * value


def pruned(lists: Sequence[NbestList], weights: Mapping[str, float], pairs: int = PAIRS) -> list[NbestList]:
    """Long lists without their least probable hypotheses, so that at most `pairs` are compared in all."""
    most = max(2, int((pairs / len(lists)) ** 0.5))
    if all(len(nbest.hypotheses) <= most for nbest in lists):
        return list(lists)
    log.info("tuning looks at the best %d hypotheses of each list", most)
    found = []
    for nbest in lists:
        best = np.sort(np.argsort(-combine(nbest, weights), kind="stable")[:most])
        found.append(replace(nbest, hypotheses=[nbest.hypotheses[rank] for rank in best]))
    return found


def _starts(weights: Floats) -> Iterator[Floats]:
    alone = np.zeros(len(weights))
    alone[0] = 1.0
    for scale in SCALES:
        yield scale * alone
        if (weights != alone).any() and weights[0] > 0:
            yield scale * weights


def _around(theta: Floats, step: float, free: np.ndarray) -> Iterator[Floats]:
    """Neighbours: all numbers, or one of them, made larger or smaller; or one put in, taken out, or turned round."""
    yield theta * step
    yield theta / step
    small = SMALL * float(np.abs(theta).max()) * (step - 1.0)
    for index, number in enumerate(theta.tolist()):
        changed = [number * step, number / step, *([0.0] if index else [])] if number else [small]
        if free[index]:
            changed += [-small, -number]
        for one in changed:
            if one != number and (index or one > 0):
                candidate = theta.copy()
                candidate[index] = one
                yield candidate
