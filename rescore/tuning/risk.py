"""What minimum Bayes risk chooses under given weights, for all lists at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rescore.decision.combine import combine
from rescore.decision.rules import Losses
from rescore.metrics.base import Counts, Metric, list_statistics
from rescore.nbest import NbestList
from rescore.tuning.line import Floats, padded

log = logging.getLogger(__name__)

LARGEST = 1e150
"""Whose square is a float."""
PAIRS = 1 << 26
"""Pairs of hypotheses in all lists: 512 MiB."""
REMEMBERED = 2_000
"""Choices kept, of 8 bytes per list."""


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
    times: Counts
    """(lists,) how often each list counts: once, but for those of a bootstrap sample."""
    known: dict[bytes, npt.NDArray[np.intp]] = field(default_factory=dict)
    """What was chosen for a theta before; shared by all samples."""

    @classmethod
    def of(cls, metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], losses: Losses) -> Risk:
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
            np.ones(len(lists), dtype=np.int64),
        )

    def sample(self, random: np.random.Generator) -> Risk:
        """As many lists, drawn with replacement."""
        number = len(self.times)
        return replace(self, times=np.bincount(random.integers(0, number, number), minlength=number))

    def spread(self) -> Floats:
        """(columns,) the standard deviation of scores within a list, the mean over lists; those of -inf left out."""
        there = self.present[..., None] & np.isfinite(self.features)
        number = np.maximum(there.sum(axis=1, keepdims=True), 1)
        values = np.where(there, self.features, 0.0)
        away = np.where(there, values - (values / number).sum(axis=1, keepdims=True), 0.0)
        away = away.clip(-LARGEST, LARGEST)
        spread: Floats = np.sqrt((away**2).sum(axis=1) / number[:, 0]).mean(axis=0)
        return spread

    def value(self, theta: Floats) -> float:
        """The metric's value of the least risk under the posteriors of theta (columns,)."""
        return float(self.metric.values((self.times @ self.chosen(theta))[None])[0])

    def chosen(self, theta: Floats) -> Counts:
        """(lists, k) the statistics of what has the least risk in each list."""
        key = theta.tobytes()
        if key not in self.known:
            if len(self.known) == REMEMBERED:
                self.known.clear()
            self.known[key] = self._choose(theta)
        return self.statistics[np.arange(len(self.statistics)), self.known[key]]

    def _choose(self, theta: Floats) -> npt.NDArray[np.intp]:
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
        return np.where(least, posteriors, -1.0).argmax(axis=1)


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
