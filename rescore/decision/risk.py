"""Minimum Bayes risk: the hypothesis of least expected loss under the posteriors of all
hypotheses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
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
"""Texts of a list of which all pairs are compared: a choice among fewer costs less than
its bounds.
"""
RARE = 0.03
"""Posterior of all texts together that the lower bounds of expected losses leave
out.
"""
EQUAL = 1e-12
"""Expected losses that differ by less are equal."""


class _Table:
    """A square matrix whose rows are computed when they are asked for; the others take
    no memory.
    """

    def __init__(
        self, compute: Callable[[Places], Floats], size: int, dtype: type[np.floating]
    ) -> None:
        self._compute, self._rows, self._at = (
            compute,
            np.empty((size, size), dtype),
            np.full(size, -1),
        )
        self._known = np.arange(0)

    def __getitem__(self, rows: Places) -> Floats:
        self.known_with(rows)
        return self._rows[self._at[rows]]

    def known_with(self, rows: Places) -> tuple[Places, Floats]:
        """All rows that were asked for, now or before: their places, and the rows
        themselves, which are not copied.
        """
        new = rows[self._at[rows] < 0]
        if len(new):
            end = len(self._known) + len(new)
            self._rows[len(self._known) : end] = self._compute(new)
            self._at[new] = np.arange(len(self._known), end)
            self._known = np.append(self._known, new)
        return self._known, self._rows[: len(self._known)]


class ListLosses:
    """The losses of a list's different texts, which are computed where they can change
    a choice.

    The expected loss of a text is R(i) = sum over texts j of p(j) * loss(i, j), and
    losses are not negative. A sum L(i) over some of the texts j, with numbers that no
    loss is below, is therefore at most R(i). If b is the text of the least L, only
    texts with L(i) <= R(b) can have the least expected loss, because for others R(b) <
    L(i) <= R(i). R is computed for these texts, so the definition makes the same
    choice.
    """

    def __init__(self, metric: Metric, nbest: NbestList) -> None:
        self._metric, self.size = (
            metric,
            len({hypothesis.text for hypothesis in nbest.hypotheses}) ** 2,
        )
        rank: dict[str, int] = {}
        which = [
            rank.setdefault(hypothesis.text, len(rank))
            for hypothesis in nbest.hypotheses
        ]
        self._which, self._texts, self._every = (
            np.array(which, dtype=np.intp),
            list(rank),
            np.arange(len(rank)),
        )
        inputs = [metric_input(metric, nbest, text) for text in rank]
        # a learned metric may exceed its best value
        self._bounded = len(rank) > SHORT and not metric.learned
        exact = least = (metric.pair_losses or self._one_by_one)(inputs)
        if self._bounded and metric.least_losses:
            least = metric.least_losses(inputs)
        self._losses = _Table(
            lambda rows: exact(rows, self._every), len(rank), np.float64
        )
        # references in rows
        self._least = _Table(
            lambda rows: least(self._every, rows).T, len(rank), np.float32
        )

    def among(self, places: Places) -> ListLosses:
        """The same losses, of some of the hypotheses: what is computed for these is
        known for all.
        """
        own, which = np.unique(self._which[places], return_inverse=True)
        some = copy(self)
        some._which, some._every = which, np.arange(len(own))
        some._losses = _Table(
            lambda rows: self._losses[own[rows]][:, own], len(own), np.float64
        )
        some._least = _Table(
            lambda rows: self._least[own[rows]][:, own], len(own), np.float32
        )
        return some

    def matrix(self) -> Floats:
        """(hypotheses, hypotheses) the losses: choices in rows, right hypotheses in
        columns.
        """
        return self._losses[self._every][np.ix_(self._which, self._which)]

    def choose(self, posteriors: Floats) -> Places:
        """(points,) the hypothesis of least expected loss under posteriors (points,
        hypotheses); of equals the more probable, then the first.
        """
        shares, texts = np.zeros((len(posteriors), len(self._every))), self._every
        if len(texts) < len(self._which):
            np.add.at(shares.T, self._which, posteriors.T)
        else:
            shares[:, self._which] = posteriors
        if self._bounded:
            most = shares.max(axis=0)
            order = np.argsort(most)
            known, rows = self._least.known_with(order[np.cumsum(most[order]) > RARE])
            least = shares[:, known].astype(np.float32) @ rows
            # sums of so many numbers of 24 bits may be rounded up by less
            least *= 1 - 1e-7 * len(texts)
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
            pairs = [
                (inputs[choice], (self._texts[place],))
                for choice in choices
                for place in references
            ]
            parts = (
                zip(*pairs[start : start + CHUNK], strict=True)
                for start in range(0, len(pairs), CHUNK)
            )
            losses = [
                self._metric.losses(self._metric.statistics(*map(list, part)))
                for part in parts
            ]
            return np.concatenate(losses).reshape(len(choices), -1)

        return compare


def least_expected(
    losses: Floats | Sequence[ListLosses],
    posteriors: Sequence[Floats],
    present: np.ndarray,
) -> list[Places]:
    """Of each point the choices (lists,), under the point's posteriors (lists,
    hypotheses) of hypotheses that are `present` (lists, hypotheses); losses as in
    `rescore.tuning.objective.Objective`.
    """
    if not isinstance(losses, np.ndarray):
        together = np.stack(posteriors, axis=1)  # (lists, points, hypotheses)
        every = zip(losses, together, present.sum(axis=1).tolist(), strict=True)
        return list(
            np.array([each.choose(shares[:, :size]) for each, shares, size in every]).T
        )
    choices = []
    for shares in posteriors:
        risk = np.where(present, np.einsum("lij,lj->li", losses, shares), np.inf)
        least = risk <= risk.min(axis=1, keepdims=True) + EQUAL
        # the more probable, then the first
        choices.append(np.where(least, shares, -1.0).argmax(axis=1))
    return choices


def compared(metric: Metric, lists: Sequence[NbestList]) -> list[ListLosses]:
    """The losses of each list; those that a `CachedMetric` knows are not computed
    again.
    """
    if isinstance(metric, CachedMetric):
        return metric.losses_of_lists(lists, compared)
    return [ListLosses(metric, nbest) for nbest in lists]


@dataclass(frozen=True, slots=True)
class RiskChooser:
    """Chooses by expected loss, with the losses of all lists at hand."""

    rule: LeastExpectedLoss
    metric: Metric
    lists: Sequence[NbestList]
    losses: Sequence[Floats | ListLosses]

    def texts(self, preferences: Sequence[Floats]) -> list[str]:
        """Return the text of least expected loss of each list; of equals the more
        probable text, then the first.
        """
        texts = []
        for nbest, losses, shares in zip(
            self.lists, self.losses, preferences, strict=True
        ):
            if isinstance(losses, ListLosses):
                winner = int(losses.choose(shares[None])[0])
            else:
                risks = losses @ shares
                least = risks <= risks.min() + EQUAL
                winner = int(np.where(least, shares, -1.0).argmax())
            texts.append(nbest.hypotheses[winner].text)
        return texts

    def near(self, preferences: Sequence[Floats]) -> RiskChooser:
        """Return this chooser: its losses serve all posteriors."""
        return self

    def under(self, options: Any) -> RiskChooser:
        """Return the chooser of the rule with other options."""
        return type(self.rule)(options).chooser(self.lists, self.metric)


class LeastExpectedLoss(DecisionRule):
    """The hypothesis of least expected loss under the posteriors of all hypotheses; a
    subclass says what the losses are.
    """

    needs_scale = True
    by_expected_loss = True

    def chooser(self, lists: Sequence[NbestList], metric: Metric | None) -> RiskChooser:
        if metric is None:
            raise UserError("a decision by expected loss needs a metric")
        return RiskChooser(self, metric, lists, self.losses(metric, lists))


class MinimumBayesRisk(LeastExpectedLoss):
    """The hypothesis of least expected loss under the posteriors of all hypotheses
    (Kumar and Byrne 2004; over an N-best list, Stolcke et al. 1997).

    The loss is the metric's: word or character errors, or the distance of a sentence's
    score from a perfect score.
    """

    def losses(
        self, metric: Metric, lists: Sequence[NbestList]
    ) -> Sequence[ListLosses]:
        return compared(metric, lists)
