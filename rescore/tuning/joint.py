"""Weights and scale of a posterior together: for minimum Bayes risk, by expected loss."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescore.decision import Decision, WeightsOf
from rescore.decision.mbr import losses
from rescore.decision.rules import Decider, Losses, candidates, combine
from rescore.metrics.base import Counts, Metric, is_better, list_statistics, total, value
from rescore.nbest import (
    COUNTS,
    FIRST_PASS,
    Hypothesis,
    NbestList,
    Origin,
    columns_for,
    in_tie_order,
    new_word_origins,
    ranking,
)
from rescore.tuning.search import (
    MAX_SQUARED,
    SAMPLES,
    SEED,
    Floats,
    admitted,
    padded,
    significantly_better,
    spreads,
    weighted,
)

log = logging.getLogger(__name__)

SCALES = tuple(2.0 ** (exponent / 2) for exponent in range(-10, 15))
"""The posterior scales that are tried, in units of 1 / `spread`: from 1/32 to 128."""


def spread(scores: Sequence[Floats]) -> float:
    """The standard deviation of the finite scores of a list, the mean over lists; 1 where nothing differs."""
    deviations = [
        float(np.std(np.clip(finite, -MAX_SQUARED, MAX_SQUARED)))
        if len(finite := list_scores[np.isfinite(list_scores)])
        else 0.0
        for list_scores in scores
    ]
    return max(float(np.mean(deviations)), 1 / MAX_SQUARED) if any(deviations) else 1.0


def scale_grid(scores: Sequence[Floats]) -> list[float]:
    """`SCALES` for the combined scores of lists: a posterior scale has the inverse unit of the scores."""
    unit = spread(scores)
    return [scale / unit for scale in SCALES]


def warn_at_end(scale: float, grid: Sequence[float], what: str) -> None:
    """Say so where the best scale is the first or the last that was tried."""
    if scale in (grid[0], grid[-1]):
        log.warning(
            "%s: the best scale of the posteriors, %.4g, is at the end of the searched range (%.4g to %.4g)",
            what,
            scale,
            grid[0],
            grid[-1],
        )


def tune_scale(name: str, metric: Metric, lists: Sequence[NbestList], weights: WeightsOf) -> Decision:
    """The decision with that of `scale_grid` whose texts are best on lists with references.

    Of equally good scales next to each other the middle one, in the longest run of them.
    """
    decider = Decider(name, metric, lists, weights)
    grid = scale_grid(decider.scores)
    values = np.array([text_value(metric, lists, decider.texts(scale)) for scale in grid])
    good = values == (values.max() if metric.higher_is_better else values.min())
    runs = np.split(np.flatnonzero(good), np.flatnonzero(np.diff(np.flatnonzero(good)) > 1) + 1)
    longest = max(runs, key=len)
    scale = grid[int(longest[(len(longest) - 1) // 2])]
    warn_at_end(scale, grid, f"--decide {name}")
    return Decision(name, scale)


def text_value(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> float:
    """The metric's value where these texts are chosen, in percent."""
    return value(metric, text_sums(metric, lists, texts))


def text_sums(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> Counts:
    """(k,) the statistics of the set where these texts are chosen."""
    chosen = [
        NbestList(nbest.id, [Hypothesis(text)], nbest.references, nbest.source)
        for nbest, text in zip(lists, texts, strict=True)
    ]
    return total(list_statistics(metric, chosen), [0] * len(chosen))


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
        lists = [in_tie_order(nbest) for nbest in lists]
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

    def scores(self, theta: Floats) -> Floats:
        """(lists, hypotheses) the combined scores."""
        return weighted(self.features, theta, self.present)

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
        scores = self.scores(theta)
        with np.errstate(invalid="ignore", over="ignore"):
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
    log.info("tuning uses only the best %d hypotheses of each list", most)
    shorter = []
    for nbest in lists:
        best = sorted(ranking(nbest, combine(nbest, weights).tolist())[:most])
        shorter.append(replace(nbest, hypotheses=[nbest.hypotheses[place] for place in best]))
    return shorter


STEPS = (2.0, 2**0.5, 2**0.25, 2**0.125)
"""Factors by which a number is changed, one after another."""
STARTING_SCALES = tuple(2.0**exponent for exponent in range(-5, 8))
"""In units of 1 / `spread`."""
ENTRIES = (0.05, 0.25, 1.0, 4.0)
"""By how much (natural log) a column that has no weight begins to spread the posteriors of a list."""


class JointWeights(NamedTuple):
    """Weights and scale that were tuned together."""

    weights: dict[str, float]
    scale: float
    value: float
    """The metric's value with them."""
    excluded: frozenset[Origin] = frozenset()
    """Hypotheses of these origins may not win, nor vote."""


def equal_weights(lists: Sequence[NbestList], columns: Iterable[str], negative: Sequence[str] = ()) -> dict[str, float]:
    """Equal weights for all language models, in units of their spread; together half of the first pass's weight.

    Each weight is divided by the `spread` of its column; columns that may be negative, and counts, have weight 0.
    """
    columns = list(columns)
    models = [name for name in columns if name != FIRST_PASS and name not in COUNTS and name not in negative]
    shares = dict.fromkeys(columns, 0.0) | dict.fromkeys(models, 0.5 / max(1, len(models))) | {FIRST_PASS: 1.0}
    weights = {
        name: share / spread([np.array(nbest.column(name)) for nbest in lists]) if share else 0.0
        for name, share in shares.items()
    }
    whole = sum(weights.values())
    return {name: weight / whole for name, weight in weights.items()}


def tune_jointly(
    metric: Metric,
    lists: Sequence[NbestList],
    weights: Mapping[str, float],
    negative: Sequence[str] = (),
    bagging: bool = True,
    losses: Losses = losses,
) -> JointWeights:
    """Weights and scale for minimum Bayes risk; without hypotheses of new words, where these gain nothing.

    Args:
        weights: of the best score, where the search begins; all its columns take part, the first pass first.
        negative: columns whose weights may be negative; those of counts always may.
        bagging: an average that has to be significantly better, not the best of these very lists.
        losses: whose expectation the decision rule minimises.
    """

    def tuned(lists: Sequence[NbestList], weights: Mapping[str, float]) -> tuple[JointWeights, Counts]:
        columns = list(weights)
        risk = Risk.of(metric, pruned(lists, weights), columns, losses)
        free = np.array([name in COUNTS or name in negative for name in columns])
        theta = _best_theta(risk, np.array(list(weights.values())), free, bagging)
        scale = float(theta[~free].sum())
        named = dict(zip(columns, (theta / scale).tolist(), strict=True))
        return JointWeights(named, scale, risk.value(theta)), risk.chosen(theta)

    def among(excluded: frozenset[Origin]) -> tuple[JointWeights, Counts]:
        names = columns_for(weights, set(origins) - excluded)
        tuned_weights, choice = tuned(
            [candidates(nbest, excluded) for nbest in lists], {name: weights[name] for name in names}
        )
        return tuned_weights._replace(excluded=excluded), choice

    def gains(_: Origin, trial: tuple[JointWeights, Counts], best: tuple[JointWeights, Counts]) -> bool:
        if bagging:
            return significantly_better(metric, trial[1], best[1])
        return is_better(trial[0].value, best[0].value, metric.higher_is_better)

    present = {hypothesis.origin for nbest in lists for hypothesis in nbest.hypotheses}
    origins = [origin for origin in new_word_origins(lists, weights) if origin in present]
    if not origins:
        return tuned(lists, weights)[0]
    # Else all spellings of a hypothesis, each with its first-pass score, would vote for one another.
    return admitted(origins, among, gains)[0]


def _best_theta(risk: Risk, start: Floats, free: np.ndarray, bagging: bool) -> Floats:
    """Scale times weights: the best point from `start` on; the first pass alone where it gains nothing significant."""
    first_pass = np.zeros(len(start))
    first_pass[0] = 1.0
    alone = _search(risk, _scaled(risk, first_pass, free), free, only_scale=True)
    best = _search(risk, [alone, *_scaled(risk, first_pass, free), *_scaled(risk, start, free)], free)
    if len(start) > 1 and bagging:
        best = _bagged(risk, best, alone, free)
        if not significantly_better(risk.metric, risk.chosen(best), risk.chosen(alone)):
            return alone
    return best


def _search(risk: Risk, starts: Sequence[Floats], free: np.ndarray, only_scale: bool = False) -> Floats:
    """The best point that is found from the best of some."""
    sign = 1.0 if risk.metric.higher_is_better else -1.0
    value, best = max(((sign * risk.value(start), -rank) for rank, start in enumerate(starts)))
    point = starts[-int(best)]
    columns = spreads(risk.features, risk.present)
    for step in STEPS:
        better = True
        while better:
            better = False
            for candidate in [point * step, point / step] if only_scale else _around(point, step, free, columns):
                reached = sign * risk.value(candidate)
                if reached > value + 1e-9:
                    point, value, better = candidate, reached, True
    return point


def _bagged(risk: Risk, best: Floats, alone: Floats, free: np.ndarray) -> Floats:
    """The mean of the best points of bootstrap samples of the lists."""
    random = np.random.default_rng(SEED)
    mean: Floats = np.mean([_search(risk.sample(random), [best, alone], free) for _ in range(SAMPLES)], axis=0)
    return mean


def _scaled(risk: Risk, weights: Floats, free: np.ndarray) -> list[Floats]:
    """The starting points of some weights; none where only bonuses have a weight, as these have no scale."""
    if weights[~free].sum() <= 0:
        return []
    unit = spread(list(risk.scores(weights)))
    return [scale / unit * weights for scale in STARTING_SCALES]


def _around(theta: Floats, step: float, free: np.ndarray, spreads: Floats) -> Iterator[Floats]:
    """Neighbours: all numbers, or one of them, made larger or smaller; or one put in, taken out, or turned round.

    Args:
        spreads: (columns,) the standard deviation of scores within a list.
    """
    yield theta * step
    yield theta / step
    for index, number in enumerate(theta.tolist()):
        begin = [(step - 1.0) * share / float(spreads[index]) for share in ENTRIES if spreads[index] > 0]
        changed = [number * step, number / step, *([0.0] if index else [])] if number else begin
        if free[index]:
            changed = [*changed, *(-start for start in begin), -number]
        for changed_number in changed:
            if changed_number != number and (index or changed_number > 0):
                candidate = theta.copy()
                candidate[index] = changed_number
                if candidate[~free].sum() > 0:
                    yield candidate
