"""Minimum Bayes risk: the hypothesis of least expected loss under the posteriors of all hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rescore.decision.rules import DecisionRule, Floats
from rescore.errors import UserError
from rescore.metrics.base import Metric, PairLosses, Places, metric_input
from rescore.metrics.cached import CachedMetric
from rescore.nbest import NbestList

CHUNK = 100_000
"""Pairs of texts that are compared together: bounds memory."""
SHORT = 64
"""Texts of a list of which all pairs are compared: a choice among fewer costs less than its bounds."""
RARE = 0.03
"""Posterior of all texts together that the lower bounds of expected losses leave out."""
EQUAL = 1e-12
"""Expected losses that differ by less are equal."""


class _Table:
    """A square matrix whose rows are computed when they are asked for; the others take no memory."""

    def __init__(self, compute: Callable[[Places], Floats], size: int, dtype: type[np.floating]) -> None:
        self._compute, self._rows, self._there = compute, np.empty((size, size), dtype), np.zeros(size, dtype=bool)

    def __getitem__(self, rows: Places) -> Floats:
        new = rows[~self._there[rows]]
        if len(new):
            self._rows[new], self._there[new] = self._compute(new), True
        return self._rows[rows]


class ListLosses:
    """The losses of a list's different texts, which are computed where they can change a choice.

    The expected loss of a text is R(i) = sum over texts j of p(j) * loss(i, j), and losses are not negative. A sum L(i)
    over some of the texts j, with numbers that no loss is below, is therefore at most R(i). If b is the text of the
    least L, only texts with L(i) <= R(b) can have the least expected loss, because for others R(b) < L(i) <= R(i). R is
    computed for these texts, so the definition makes the same choice.
    """

    def __init__(self, metric: Metric, nbest: NbestList) -> None:
        self._metric, self.size = metric, len({hypothesis.text for hypothesis in nbest.hypotheses}) ** 2
        rank: dict[str, int] = {}
        which = [rank.setdefault(hypothesis.text, len(rank)) for hypothesis in nbest.hypotheses]
        self._which, self._texts, self._every = np.array(which, dtype=np.intp), list(rank), np.arange(len(rank))
        inputs = [metric_input(metric, nbest, text) for text in rank]
        self._bounded = len(rank) > SHORT and not metric.learned  # a learned metric may exceed its best value
        exact = least = (metric.pair_losses or self._one_by_one)(inputs)
        if self._bounded and metric.least_losses:
            least = metric.least_losses(inputs)
        self._losses = _Table(lambda rows: exact(rows, self._every), len(rank), np.float64)
        self._least = _Table(lambda rows: least(self._every, rows).T, len(rank), np.float32)  # references in rows

    def matrix(self) -> Floats:
        """(hypotheses, hypotheses) the losses: choices in rows, right hypotheses in columns."""
        return self._losses[self._every][np.ix_(self._which, self._which)]

    def choose(self, posteriors: Floats) -> Places:
        """(points,) the hypothesis of least expected loss under posteriors (points, hypotheses); of equals the more
        probable, then the first."""
        shares, texts = posteriors, self._every
        if len(texts) < len(self._which):
            shares = np.zeros((len(posteriors), len(texts)))
            np.add.at(shares.T, self._which, posteriors.T)
        if self._bounded:
            most = shares.max(axis=0)
            order = np.argsort(most)
            likely = order[np.cumsum(most[order]) > RARE]
            least = shares[:, likely].astype(np.float32) @ self._least[likely]
            least *= 1 - 1e-7 * len(texts)  # sums of so many numbers of 24 bits may be rounded up by less
            first, place = np.unique(least.argmin(axis=1), return_inverse=True)
            reached = (shares @ self._losses[first].T)[np.arange(len(least)), place]
            texts = np.flatnonzero((least <= reached[:, None] + EQUAL).any(axis=0))
        rank = np.full(len(self._every), -1)
        rank[texts] = np.arange(len(texts))
        own = np.flatnonzero(rank[self._which] >= 0)
        risks = (shares @ self._losses[texts].T)[:, rank[self._which[own]]]
        equal = risks <= risks.min(axis=1, keepdims=True) + EQUAL
        return own[np.where(equal, posteriors[:, own], -1.0).argmax(axis=1)]

    def _one_by_one(self, inputs: Sequence[Any]) -> PairLosses:
        def compare(choices: Places, references: Places) -> Floats:
            pairs = [(inputs[choice], (self._texts[place],)) for choice in choices for place in references]
            parts = (zip(*pairs[start : start + CHUNK], strict=True) for start in range(0, len(pairs), CHUNK))
            losses = [self._metric.losses(self._metric.statistics(*map(list, part))) for part in parts]
            return np.concatenate(losses).reshape(len(choices), -1)

        return compare


def compared(metric: Metric, lists: Sequence[NbestList]) -> list[ListLosses]:
    """The losses of each list; those that a `CachedMetric` knows are not computed again."""
    if isinstance(metric, CachedMetric):
        return metric.losses_of_lists(lists, compared)
    return [ListLosses(metric, nbest) for nbest in lists]


class MinimumBayesRisk(DecisionRule):
    """The hypothesis of least expected loss under the posteriors of all hypotheses (Kumar and Byrne 2004; over an
    N-best list, Stolcke et al. 1997).

    The loss is the metric's: word or character errors, or the distance of a sentence's score from a perfect score.
    """

    needs_scale = True
    losses = staticmethod(compared)  # type: ignore[assignment]  # mypy takes a ClassVar of functions for a method

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[ListLosses]:
        if metric is None:
            raise UserError("minimum Bayes risk needs a metric")
        return compared(metric, lists)

    def choose(self, nbest: NbestList, preference: Floats, prepared: ListLosses) -> str:
        return nbest.hypotheses[int(prepared.choose(preference[None])[0])].text
