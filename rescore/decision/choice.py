"""The choice: what decides one text for each list.

A `Choice` has the weight of each column, the hypotheses that may not win, the decision,
and what makes the first pass of several systems. `combine` makes one score of the
columns of a hypothesis, `Choice.texts` decides lists by these scores, and
`sorted_by_score` sorts them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np

from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.decision.first_pass import FirstPass
from rescore.decision.rules import Decision, Floats, posteriors
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.nbest import NbestList, in_parts, in_tie_order, ranking
from rescore.pace import paced

LARGEST = float(np.finfo(np.float64).max)
"""Combined scores are cut here, so that no weight makes a finite score infinite."""
PAIRS = 1 << 16
"""Pairs of hypotheses in the lists that are decided together, at most: what a rule
computes once may grow with the square of a list's length.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What decides: the weights, the hypotheses that may not win, the decision, and
    what makes the first pass of several systems.

    Raises:
        UserError: A weight is not a number.
    """

    weights: dict[str, float]
    """The weight of each column of scores."""
    excluded: frozenset[str] = frozenset()
    """Hypotheses of these origins, such as `respelled`, may not win, and have no
    posterior.
    """
    decision: Decision = field(default_factory=Decision)
    """The rule that chooses a text by the weighted scores."""
    mixture: FirstPass | None = None
    """What makes the first pass of lists of several systems; None for lists of one
    system.
    """

    def __post_init__(self) -> None:
        plain: dict[str, float] = {}
        for name, weight in self.weights.items():
            if not isinstance(weight, Real) or not math.isfinite(weight):
                raise UserError(
                    f"weight of {name} is {weight!r}, not a number; give a number or"
                    " tune again"
                )
            # JSON holds int and float, but not NumPy's numbers.
            plain[name] = weight if isinstance(weight, int) else float(weight)
        object.__setattr__(self, "weights", plain)

    @property
    def weighted(self) -> list[str]:
        """The columns whose weight is not 0."""
        return [name for name, weight in self.weights.items() if weight]

    @property
    def sorted_excluded(self) -> tuple[str, ...]:
        """The origins of `excluded`, sorted, for signatures."""
        return tuple(sorted(self.excluded))

    @property
    def shares(self) -> dict[str, float]:
        """How much each system counts in the first pass, by the name that signatures
        have; empty for lists of one system.
        """
        return dict(self.mixture.shares) if self.mixture else {}

    def allowed(self, lists: Dataset) -> Dataset:
        """Return the lists as the decision sees them: the hypotheses that may win, in
        the order in which equals win.

        Equal hypotheses with equal scores count once. If the scale of the decision is
        0, they are samples, and each of them counts.

        Args:
            lists: The lists.
        """
        allowed = []
        for nbest in lists:
            kept = candidates(nbest, self.excluded)
            allowed.append(self.decision.distinct(kept, self.weighted))
        return lists.with_lists(allowed)

    def texts(self, metric: Metric | None, lists: Dataset) -> list[str]:
        """Return the text that is chosen for each list.

        Args:
            metric: The metric whose expected loss counts; None if there is none.
            lists: The lists.

        Raises:
            UserError: A list lacks a column that has a weight; the rule needs a scale
                or a metric, and there is none.
        """
        texts: list[str] = []
        stream: Iterable[NbestList] = lists
        if self.decision.uses_posteriors:  # Only these rules need a line of progress.
            stream = paced(lists, "decided %d of %d lists")
        for portion in in_parts(stream, PAIRS, _pairs):
            allowed = self.allowed(lists.with_lists(portion))
            chooser = self.decision.rule.chooser(allowed, metric)
            texts += chooser.texts(self._preferences(allowed))
        return texts

    def _preferences(self, allowed: Dataset) -> list[Floats]:
        """Return the posterior of each hypothesis (hypotheses,) of each list, or its
        combined score for a rule that takes no scale.
        """
        scores = [combine(nbest, self) for nbest in allowed]
        if not self.decision.uses_posteriors:
            return scores
        if self.decision.scale is None:
            raise UserError(
                f"{self.decision.name} needs the scale of posteriors; give --scale, or"
                " tune it on dev lists"
            )
        return posteriors(scores, self.decision.scale)


def candidates(nbest: NbestList, excluded: Collection[str] = ()) -> NbestList:
    """Return the list of the hypotheses that may win, in the order in which equals win.

    Args:
        nbest: The list.
        excluded: Hypotheses of these origins may not win, unless there are no others.
    """
    allowed = []
    for hypothesis in nbest.hypotheses:
        if hypothesis.origin not in excluded:
            allowed.append(hypothesis)
    if 0 < len(allowed) < len(nbest.hypotheses):
        nbest = replace(nbest, hypotheses=allowed)
    return in_tie_order(nbest)


def combine(nbest: NbestList, choice: Choice) -> Floats:
    """Return the weighted sum of the columns of a list.

    A hypothesis with a score of -inf is impossible, also under a negative weight. So is
    a hypothesis that may not win, unless no hypothesis may win. A column of weight 0
    does not count, even where it is -inf. Sums beyond the largest float are cut to it.

    Args:
        nbest: The list.
        choice: What decides: its weights, exclusions and first pass.

    Returns:
        Combined scores of shape (hypotheses,); -inf for impossible hypotheses.

    Raises:
        UserError: A column with a weight is absent.
    """
    combined = np.zeros(len(nbest.hypotheses))
    impossible = np.zeros(len(combined), dtype=bool)
    for name, weight in choice.weights.items():
        if weight == 0:
            continue
        if name == FIRST_PASS and choice.mixture is not None:
            scores = np.array(choice.mixture.scores(nbest))
        else:
            scores = np.array(nbest.column(name), dtype=np.float64)
        impossible |= np.isneginf(scores)
        # no -inf in the sum: -inf - -inf is NaN; it is set at the end
        scores[impossible] = 0.0
        with np.errstate(over="ignore"):
            combined += weight * scores
        np.clip(combined, -LARGEST, LARGEST, out=combined)
    if choice.excluded:
        excluded = np.array(
            [hypothesis.origin in choice.excluded for hypothesis in nbest.hypotheses]
        )
        if not excluded.all():
            impossible |= excluded
    combined[impossible] = -np.inf
    return combined


def best(lists: Dataset, choice: Choice) -> list[int]:
    """Return the index of the best hypothesis of each list, by `ranking`."""
    return [ranking(nbest, combine(nbest, choice).tolist())[0] for nbest in lists]


def sorted_by_score(
    nbest: NbestList, choice: Choice, text: str | None = None
) -> NbestList:
    """Return the list with its hypotheses sorted by the combined score (`ranking`),
    each of which has this score.

    Args:
        nbest: The list.
        choice: What decides: its weights, exclusions and first pass.
        text: The text that the decision chose; None if it is the text with the best
            score. Its hypothesis becomes the first, with a score above the best one. A
            text that the list does not have changes nothing.
    """
    # A hypothesis that may not win has the least number: JSON has no minus infinity.
    scores = np.maximum(combine(nbest, choice), -LARGEST).tolist()
    order = ranking(nbest, scores)
    chosen = [index for index in order if nbest.hypotheses[index].text == text]
    if chosen and chosen[0] != order[0]:
        above = math.nextafter(scores[order[0]], math.inf)
        scores[chosen[0]] = min(above, LARGEST)
        order.remove(chosen[0])
        order.insert(0, chosen[0])
    is_sorted = order == sorted(order)
    hypotheses = []
    for index in order:
        hypothesis = nbest.hypotheses[index]
        rank = hypothesis.rank
        if rank is None and not is_sorted:
            # The rank keeps the toolkit's order: it decides between equals later, too.
            rank = index
        hypotheses.append(replace(hypothesis, rank=rank, combined=scores[index]))
    return replace(nbest, hypotheses=hypotheses)


def _pairs(nbest: NbestList) -> int:
    """Return the number of pairs of hypotheses of a list."""
    return len(nbest.hypotheses) ** 2
