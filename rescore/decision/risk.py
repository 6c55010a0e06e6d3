"""Minimum Bayes risk: the hypothesis with the least expected loss under the posteriors
of all hypotheses. Losses of pairs are computed only where they can change a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from rescore.dataset import Dataset
from rescore.decision.rules import DecisionRule, Floats
from rescore.errors import UserError
from rescore.metrics.base import Metric, PairLosses, Places, metric_input
from rescore.metrics.cached import CachedMetric
from rescore.nbest import NbestList

CHUNK = 100_000
"""Pairs of texts that are compared together: this bounds memory."""
SHORT = 64
"""Texts of a list up to which all pairs are compared: bounds would cost more."""
RARE = 0.03
"""Posterior of all texts together that lower bounds of expected losses leave out."""
MULTIPLIED = 16
"""Hypotheses of the longest list from which on expected losses are products of
matrices. For shorter lists, NumPy adds faster along the lists.
"""
EQUAL = 1e-12
"""Expected losses that differ by less are equal."""


class _Table:
    """A square matrix whose rows are computed when they are read; other rows take no
    memory.
    """

    def __init__(
        self, compute: Callable[[Places], Floats], size: int, dtype: type[np.floating]
    ) -> None:
        """Make an empty table.

        Args:
            compute: Returns some rows, of shape (places, size).
            size: Number of rows, and of columns.
            dtype: The type of the numbers.
        """
        self._compute = compute
        self._rows = np.empty((size, size), dtype)
        """The rows in the order in which they were computed; others are not filled."""
        self._at = np.full(size, -1)
        """The place of each row in `_rows`; -1 for a row that is not computed."""
        self._known = np.arange(0)
        """The rows that are computed, in this order."""

    def __getitem__(self, rows: Places) -> Floats:
        """Return a copy of some rows."""
        self.known_with(rows)
        return self._rows[self._at[rows]]

    def known_with(self, rows: Places) -> tuple[Places, Floats]:
        """Return all rows that were read, now or before, without a copy.

        Args:
            rows: The rows that are read now.

        Returns:
            Their places of shape (known,), and the rows of shape (known, size).
        """
        new = rows[self._at[rows] < 0]
        if len(new):
            start = len(self._known)
            end = start + len(new)
            self._rows[start:end] = self._compute(new)
            self._at[new] = np.arange(start, end)
            self._known = np.append(self._known, new)
        return self._known, self._rows[: len(self._known)]


class _Square:
    """The losses between texts that searches compare: the losses between the texts of
    one search serve the next search, whose texts are nearly the same.
    """

    def __init__(self, compute: PairLosses, size: int) -> None:
        """Make a square without texts.

        Args:
            compute: Returns the losses of choices in rows, right texts in columns.
            size: Number of texts.
        """
        self._compute = compute
        self._at = np.full(size, -1)
        """The place of each text in `_losses`; -1 for a text that no search asked
        for.
        """
        self._known = np.arange(0)
        self._losses = np.empty((0, 0))

    def among(self, texts: Places) -> Floats:
        """Return the losses between some texts, of shape (texts, texts)."""
        new = texts[self._at[texts] < 0]
        if len(new):
            number = len(self._known)
            every = np.append(self._known, new)
            losses = np.empty((len(every), len(every)))
            losses[:number, :number] = self._losses
            losses[number:] = self._compute(new, every)
            if number:
                losses[:number, number:] = self._compute(self._known, new)
            self._at[new] = np.arange(number, len(every))
            self._known = every
            self._losses = losses
        own = self._at[texts]
        return self._losses[np.ix_(own, own)]


class ListLosses:
    """The losses between the different texts of a list, computed where they can change
    a choice.

    The expected loss of a text is R(i) = sum over texts j of p(j) * loss(i, j), and
    losses are not negative. Let L(i) be the same sum over some of the texts j, with
    lower bounds of the losses; then L(i) <= R(i). Let b be the text with the least L.
    A text with L(i) > R(b) has R(i) > R(b), so it cannot have the least expected loss.
    R is computed for all other texts, so the definition makes the same choice.
    """

    def __init__(self, metric: Metric, nbest: NbestList) -> None:
        """Number the texts of a list; no loss is computed yet.

        Args:
            metric: The metric whose losses count.
            nbest: The list.
        """
        number_of: dict[str, int] = {}
        which = []
        for hypothesis in nbest.hypotheses:
            number = number_of.setdefault(hypothesis.text, len(number_of))
            which.append(number)
        texts = list(number_of)
        self.size = len(texts) ** 2
        """Number of losses."""
        self._metric = metric
        self._texts = texts
        self._which = np.array(which, dtype=np.intp)
        """The text of each hypothesis, of shape (hypotheses,)."""
        self._every = np.arange(len(texts))
        inputs = [metric_input(metric, nbest, text) for text in texts]
        # A loss may be negative under a learned metric: it may exceed its best value.
        self._bounded = len(texts) > SHORT and not metric.learned
        compare = metric.pair_losses or self._one_by_one
        exact = compare(inputs)
        least = exact
        if self._bounded and metric.least_losses:
            least = metric.least_losses(inputs)
        self._losses = _Table(
            lambda rows: exact(rows, self._every), len(texts), np.float64
        )
        """Losses of choices in rows; columns are right."""
        self._between: Callable[[], Floats] = lambda: self._losses[self._every]
        """Returns the losses between all texts."""
        self._square = _Square(exact, len(texts))
        self._among: Callable[[Places], Floats] = self._square.among
        """Returns the losses between some texts."""
        self._least = _Table(
            lambda rows: least(self._every, rows).T, len(texts), np.float32
        )
        """Lower bounds of losses; right texts in rows, choices in columns."""

    def among(self, places: Places) -> ListLosses:
        """Return the losses between some hypotheses; a loss that is computed for them
        is known for all.

        Args:
            places: The places of the hypotheses.
        """
        own, which = np.unique(self._which[places], return_inverse=True)
        some = copy(self)
        some.size = len(own) ** 2
        some._which = which
        some._every = np.arange(len(own))
        some._between = lambda: self._among(own)
        some._among = lambda texts: self._among(own[texts])
        some._losses = _Table(
            lambda rows: self._losses[own[rows]][:, own], len(own), np.float64
        )
        some._least = _Table(
            lambda rows: self._least[own[rows]][:, own], len(own), np.float32
        )
        return some

    def matrix(self) -> Floats:
        """Return all losses, of shape (hypotheses, hypotheses): choices in rows, right
        hypotheses in columns.
        """
        return self._between()[np.ix_(self._which, self._which)]

    def choose(self, posteriors: Floats) -> Places:
        """Return the hypothesis with the least expected loss for each point.

        Of equals the more probable is taken, then the first.

        Args:
            posteriors: Posteriors of shape (points, hypotheses).

        Returns:
            Hypotheses of shape (points,).
        """
        shares = self._of_texts(posteriors)
        texts = self._every
        if self._bounded:
            texts = self._possible(shares)
        rank = np.full(len(self._every), -1)  # of a text among `texts`
        rank[texts] = np.arange(len(texts))
        own = np.flatnonzero(rank[self._which] >= 0)  # hypotheses with these texts
        of_texts = shares @ self._losses[texts].T
        risks = of_texts[:, rank[self._which[own]]]
        equal = risks <= risks.min(axis=1, keepdims=True) + EQUAL
        return own[np.where(equal, posteriors[:, own], -1.0).argmax(axis=1)]

    def _of_texts(self, posteriors: Floats) -> Floats:
        """Return the posteriors of texts (points, texts), from the posteriors of
        hypotheses (points, hypotheses).
        """
        shares = np.zeros((len(posteriors), len(self._every)))
        if len(self._every) < len(self._which):
            np.add.at(shares.T, self._which, posteriors.T)
        else:
            shares[:, self._which] = posteriors
        return shares

    def _possible(self, shares: Floats) -> Places:
        """Return the texts that can have the least expected loss at any point.

        Args:
            shares: Posteriors of shape (points, texts).
        """
        most = shares.max(axis=0)
        order = np.argsort(most)
        probable = order[np.cumsum(most[order]) > RARE]
        known, rows = self._least.known_with(probable)
        bounds = shares[:, known].astype(np.float32) @ rows  # L, (points, texts)
        # Rounding adds less than this to a sum of this many numbers of 24 bits.
        bounds *= 1 - 1e-7 * len(self._every)
        lowest, place = np.unique(bounds.argmin(axis=1), return_inverse=True)
        points = np.arange(len(bounds))
        reached = (shares @ self._losses[lowest].T)[points, place]  # R(b), (points,)
        return np.flatnonzero((bounds <= reached[:, None] + EQUAL).any(axis=0))

    def _one_by_one(self, inputs: Sequence[Any]) -> PairLosses:
        """Return a function that computes losses by the metric's statistics."""

        def compare(choices: Places, references: Places) -> Floats:
            pairs = list(product(choices, references))
            losses = []
            for start in range(0, len(pairs), CHUNK):
                part = pairs[start : start + CHUNK]
                chosen = [inputs[choice] for choice, _ in part]
                right = [(self._texts[reference],) for _, reference in part]
                losses.append(
                    self._metric.losses(self._metric.statistics(chosen, right))
                )
            return np.concatenate(losses).reshape(len(choices), -1)

        return compare


def least_expected(
    losses: Floats | Sequence[ListLosses],
    posteriors: Sequence[Floats],
    present: npt.NDArray[np.bool_],
) -> list[Places]:
    """Return the hypothesis of each list with the least expected loss, at each point.

    Of equals the more probable is taken, then the first.

    Args:
        losses: Losses as in `rescore.tuning.objective.TuningObjective`.
        posteriors: For each point, posteriors of shape (lists, hypotheses).
        present: False after the end of a list, of shape (lists, hypotheses).

    Returns:
        For each point, hypotheses of shape (lists,).
    """
    # All points together: they share the losses that are computed or read.
    together = np.stack(posteriors, axis=1)  # (lists, points, hypotheses)
    if not isinstance(losses, np.ndarray):
        choices = []
        sizes = present.sum(axis=1).tolist()
        for list_losses, shares, size in zip(losses, together, sizes, strict=True):
            choices.append(list_losses.choose(shares[:, :size]))
        return list(np.array(choices).T)
    if losses.shape[1] < MULTIPLIED:
        every = [np.einsum("lij,lj->li", losses, shares) for shares in posteriors]
        risks = np.stack(every, axis=1)
    else:
        risks = together @ losses.transpose(0, 2, 1)
    risks = np.where(present[:, None], risks, np.inf)
    equal = risks <= risks.min(axis=2, keepdims=True) + EQUAL
    return list(np.where(equal, together, -1.0).argmax(axis=2).T)


def compared(metric: Metric, lists: Sequence[NbestList]) -> list[ListLosses]:
    """Return the losses of each list; a `CachedMetric` keeps them for the next time."""
    if isinstance(metric, CachedMetric):
        return metric.losses_of_lists(lists, compared)
    return [ListLosses(metric, nbest) for nbest in lists]


@dataclass(frozen=True, slots=True)
class RiskChooser:
    """The chooser of a rule by expected loss, which knows the losses of all lists."""

    rule: LeastExpectedLoss
    metric: Metric
    lists: Dataset
    losses: Sequence[Floats | ListLosses]

    def texts(self, preferences: Sequence[Floats]) -> list[str]:
        """Return the text with the least expected loss of each list.

        Of equals the more probable is taken, then the first.

        Args:
            preferences: For each list the posteriors (hypotheses,) of its hypotheses.
        """
        texts = []
        every = zip(self.lists, self.losses, preferences, strict=True)
        for nbest, losses, shares in every:
            if isinstance(losses, ListLosses):
                winner = int(losses.choose(shares[None])[0])
            else:
                risks = losses @ shares
                equal = risks <= risks.min() + EQUAL
                winner = int(np.where(equal, shares, -1.0).argmax())
            texts.append(nbest.hypotheses[winner].text)
        return texts

    def near(self, preferences: Sequence[Floats]) -> RiskChooser:
        """Return this chooser: its losses serve all posteriors."""
        return self

    def with_options(self, options: Any) -> RiskChooser:
        """Return the chooser of the rule with other options."""
        return type(self.rule)(options).chooser(self.lists, self.metric)


class LeastExpectedLoss(DecisionRule):
    """The hypothesis with the least expected loss under the posteriors of all
    hypotheses. A subclass has `losses`.
    """

    uses_posteriors = True
    by_expected_loss = True

    def chooser(self, lists: Dataset, metric: Metric | None) -> RiskChooser:
        """Return the rule with the losses of some lists.

        Raises:
            UserError: There is no metric.
        """
        if metric is None:
            raise UserError("a decision by expected loss needs a metric")
        return RiskChooser(self, metric, lists, self.losses(metric, lists))


class MinimumBayesRisk(LeastExpectedLoss):
    """The hypothesis with the least expected loss under the posteriors of all
    hypotheses (Kumar and Byrne 2004; over an N-best list, Stolcke et al. 1997).

    The loss is the metric's: word or character errors, or the distance of a sentence's
    score from a perfect score.
    """

    def losses(
        self, metric: Metric, lists: Sequence[NbestList]
    ) -> Sequence[ListLosses]:
        """Return the metric's losses of each list."""
        return compared(metric, lists)
