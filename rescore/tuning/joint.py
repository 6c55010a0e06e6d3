"""Weights and scale of a posterior together: for minimum Bayes risk, by expected loss."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rescore.decision import Decision, WeightsOf
from rescore.decision.mbr import losses
from rescore.decision.rules import Chooser, Losses, combine
from rescore.metrics.base import Counts, Metric, list_statistics, total, value
from rescore.nbest import COUNTS, EDITS, Hypothesis, NbestList
from rescore.tuning.search import SAMPLES, SEED, Floats, padded, significantly_better
from rescore.tuning.weights import NEVER

log = logging.getLogger(__name__)

SCALES = tuple(2.0 ** (exponent / 2) for exponent in range(-12, 9))
"""The posterior scales that are tried, from 1/64 to 16."""


def tune_scale(name: str, metric: Metric, lists: Sequence[NbestList], weights: WeightsOf) -> Decision:
    """The decision with that of `SCALES` whose texts are best on lists with references.

    Of equally good ones next to each other the middle one, in the longest run of such.
    """
    chooser = Chooser(name, metric, lists, weights)
    values = np.array([text_value(metric, lists, chooser.texts(scale)) for scale in SCALES])
    good = values == (values.max() if metric.higher_is_better else values.min())
    runs = np.split(np.flatnonzero(good), np.flatnonzero(np.diff(np.flatnonzero(good)) > 1) + 1)
    longest = max(runs, key=len)
    return Decision(name, SCALES[int(longest[(len(longest) - 1) // 2])])


def text_value(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> float:
    """The metric's value where these texts are chosen, in percent."""
    chosen = [
        NbestList(nbest.id, [Hypothesis(text)], nbest.references, nbest.source)
        for nbest, text in zip(lists, texts, strict=True)
    ]
    return value(metric, total(list_statistics(metric, chosen), [0] * len(chosen)))


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
