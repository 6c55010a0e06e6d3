"""Scores and weights into one score per hypothesis, and the rules that choose a
text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rescore.decision.mixture import Mixture, first_pass
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.nbest import (
    FIRST_PASS,
    NbestList,
    Origin,
    in_parts,
    in_tie_order,
    ranking,
    without_copies,
)
from rescore.parts import DECISIONS


@dataclass(frozen=True, slots=True)
class ListWeights:
    """What decides about one list."""

    columns: Mapping[str, float]
    """The weight of each column of scores."""
    excluded: frozenset[Origin] = frozenset()
    """Hypotheses of these origins may not win, nor vote."""
    mixture: Mixture | None = None
    """The votes of systems, which make the first pass; None for the first pass of the
    list.
    """


WeightsOf = Mapping[str, float] | Callable[[NbestList], ListWeights]
"""The weight of each column; or a function that says what decides about a list, where
that depends on the list.
"""


MAX_SCORE = float(np.finfo(np.float64).max)


def weights_for(nbest: NbestList, weights: WeightsOf) -> ListWeights:
    """What decides about one list."""
    return weights(nbest) if callable(weights) else ListWeights(weights)


def candidates(nbest: NbestList, excluded: Collection[Origin] = ()) -> NbestList:
    """The list of the hypotheses that may win, in the order in which equals win.

    A list of which all hypotheses are excluded is decided among them.
    """
    allowed = [
        hypothesis
        for hypothesis in nbest.hypotheses
        if hypothesis.origin not in excluded
    ]
    if 0 < len(allowed) < len(nbest.hypotheses):
        nbest = replace(nbest, hypotheses=allowed)
    return in_tie_order(nbest)


def combine(nbest: NbestList, weights: WeightsOf) -> npt.NDArray[np.float64]:
    """(hypotheses,) the weighted sum of the columns; a column of weight 0 does not
    count, not even where it is -inf.

    A hypothesis with a score of -inf is impossible under every other weight, also under
    a negative one, and so is a hypothesis that may not win. Sums that exceed what a
    float can hold are the largest float.
    """
    deciding = weights_for(nbest, weights)
    columns = (
        {FIRST_PASS: first_pass(deciding.mixture, nbest)} if deciding.mixture else {}
    )
    scores = np.zeros(len(nbest.hypotheses))
    impossible = np.zeros(len(scores), dtype=bool)
    for name, weight in deciding.columns.items():
        if weight:
            values = np.array(columns.get(name) or nbest.column(name))
            impossible |= np.isneginf(values)
            with np.errstate(over="ignore"):
                scores = np.clip(
                    scores + weight * np.where(impossible, 0.0, values),
                    -MAX_SCORE,
                    MAX_SCORE,
                )
    excluded = np.array(
        [hypothesis.origin in deciding.excluded for hypothesis in nbest.hypotheses]
    )
    scores[impossible if excluded.all() else impossible | excluded] = -np.inf
    return scores


def best(lists: Sequence[NbestList], weights: WeightsOf) -> list[int]:
    """The index of the best hypothesis of each list, by `ranking`."""
    return [ranking(nbest, combine(nbest, weights).tolist())[0] for nbest in lists]


def rerank(nbest: NbestList, weights: WeightsOf) -> NbestList:
    """The list with its hypotheses sorted by the combined score, by `ranking`."""
    order, hypotheses = (
        ranking(nbest, combine(nbest, weights).tolist()),
        nbest.hypotheses,
    )
    if order != sorted(order):  # of equals the toolkit's first stays the first
        places = [
            place if each.rank is None else each.rank
            for place, each in enumerate(hypotheses)
        ]
        hypotheses = [
            replace(each, rank=place)
            for each, place in zip(hypotheses, places, strict=True)
        ]
    return replace(nbest, hypotheses=[hypotheses[place] for place in order])


def posteriors(
    lists: Sequence[npt.NDArray[np.float64]], scale: float
) -> list[npt.NDArray[np.float64]]:
    """Of the scores (hypotheses,) of each list the probabilities, in proportion to
    exp(scale * score).

    A hypothesis whose score is minus infinity has none; where all are such, the first
    has all.
    """
    scores, sizes = np.concatenate(lists), np.array([len(each) for each in lists])
    ends = np.cumsum(sizes)
    starts = ends - sizes
    highest = np.maximum.reduceat(scores, starts)
    scores[starts[np.isneginf(highest)]] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        away = scale * (
            scores - np.repeat(np.where(np.isneginf(highest), 0.0, highest), sizes)
        )
        weights = np.where(np.isneginf(scores), 0.0, np.exp(away))
    weights /= np.repeat(np.add.reduceat(weights, starts), sizes)
    return [
        weights[start:end]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


Floats = npt.NDArray[np.float64]
PAIRS = 1 << 16
"""Of hypotheses of one list that are compared before a text is chosen: what a rule
needs to know of lists may grow with the square of their lengths.
"""


Losses = Callable[[Metric, Sequence[NbestList]], Sequence[Any]]
"""Of each list the (hypotheses, hypotheses) loss of choosing one where the other is
right, or its `ListLosses`.
"""


class DecisionRule:
    """Chooses a text for each list: by `choose`; or by `choose_all`, if it is faster
    over all lists at once.
    """

    needs_scale: ClassVar[bool] = False
    """Whether `choose` takes posteriors exp(scale * score); else it takes the scores
    themselves.
    """
    losses: ClassVar[Losses | None] = None
    """The losses of a rule that chooses the least expected loss: weights and scale are
    then tuned together.
    """
    counts_no_word: ClassVar[bool] = False
    """Whether it votes word by word, so that `Mixture.no_word` says something to it."""

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Any:
        """What `choose` needs to know of each list, in their order: computed once for
        all scales.
        """
        return [None] * len(lists)

    def hold(self, prepared: Any, preferences: Sequence[Floats]) -> None:
        """Keep what depends a little on preferences as it is for these, so that more of
        them are tried in less time; without any, let it go.
        """

    def choose(self, nbest: NbestList, preference: Floats, prepared: Any) -> str:
        """The text chosen from a list, given the posterior or score (hypotheses,) of
        each hypothesis.

        The list has the hypotheses that may win, in the order in which equals win: of
        equals the first is right.
        """
        raise NotImplementedError

    def choose_all(
        self,
        lists: Sequence[NbestList],
        preferences: Sequence[Floats],
        prepared: Any,
        no_word: Floats,
    ) -> list[str]:
        """The text chosen from each list; `prepared` is what `prepare` returned,
        `no_word` (lists,) as in `Mixture`.
        """
        return [
            self.choose(*each)
            for each in zip(lists, preferences, prepared, strict=True)
        ]


class Best(DecisionRule):
    """The hypothesis with the best score, the first of equals."""

    def choose(self, nbest: NbestList, preference: Floats, prepared: Any) -> str:
        return nbest.hypotheses[int(np.argmax(preference))].text


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule of `DECISIONS`, and the scale of the posteriors exp(scale * score), where
    the rule needs one.

    Raises:
        UserError: there is no such rule, or the scale is below 0.
    """

    name: str = "best"
    scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", DECISIONS.check(self.name))
        if self.scale is not None and not 0 <= self.scale < float("inf"):
            raise UserError(
                f"the scale of a decision is {self.scale:g}; it must be 0 or a number"
                " above 0"
            )

    @property
    def needs_scale(self) -> bool:
        """Whether the rule needs a scale that is not there yet."""
        return self.scale is None and bool(DECISIONS[self.name].needs_scale)

    @property
    def takes_scale(self) -> bool:
        """Whether the rule is about posteriors, so that it has a scale."""
        return bool(DECISIONS[self.name].needs_scale)

    @property
    def losses(self) -> Losses | None:
        """Those of a rule that chooses the least expected one."""
        return DECISIONS[self.name].losses

    def texts(
        self, metric: Metric | None, every: Sequence[NbestList], weights: WeightsOf
    ) -> list[str]:
        """The text that is chosen for each list.

        Raises:
            UserError: the rule needs a scale, or a metric, that is not given.
        """
        texts: list[str] = []
        lists: Iterable[NbestList] = every
        if self.takes_scale:  # the best scores are found at once
            from rescore.pace import paced

            lists = paced(every, "decided %d of %d lists")
        for portion in in_parts(lists, PAIRS, lambda nbest: len(nbest.hypotheses) ** 2):
            texts += Decider(
                self.name, metric, portion, weights, copies=self.scale == 0
            ).texts(self.scale)
        return texts


class Decider:
    """One rule on given lists, for one scale after another.

    Equal hypotheses with equal scores count once, unless `copies` says that all of them
    count, as samples do.
    """

    def __init__(
        self,
        name: str,
        metric: Metric | None,
        lists: Sequence[NbestList],
        weights: WeightsOf,
        copies: bool = False,
    ) -> None:
        self._name = name
        self.rule: DecisionRule = DECISIONS[name]()
        every = [weights_for(nbest, weights) for nbest in lists]
        pairs = zip(lists, every, strict=True)
        lists = [candidates(nbest, weight.excluded) for nbest, weight in pairs]
        self.lists = lists if copies else list(map(without_copies, lists))
        """Of the hypotheses that may win, in the order in which equals win."""
        self.scores = [combine(nbest, weights) for nbest in self.lists]
        self._no_word = np.array(
            [each.mixture.no_word if each.mixture else 1.0 for each in every]
        )
        self.prepared = self.rule.prepare(self.lists, metric)

    def chosen(
        self, preferences: Sequence[Floats], no_word: float | None = None
    ) -> list[str]:
        """The text that is chosen for each list by posteriors or scores (hypotheses,);
        `no_word` replaces the number of the lists' mixtures.
        """
        factors = (
            self._no_word if no_word is None else np.full(len(self.lists), no_word)
        )
        return self.rule.choose_all(self.lists, preferences, self.prepared, factors)

    def texts(self, scale: float | None) -> list[str]:
        """The text that is chosen for each list, by combined scores or by posteriors.

        Raises:
            UserError: the rule needs a scale, and it is None.
        """
        if not self.rule.needs_scale:
            return self.chosen(self.scores)
        if scale is None:
            raise UserError(
                f"{self._name} needs the scale of posteriors; give --scale, or tune it"
                " on dev lists"
            )
        return self.chosen(posteriors(self.scores, scale))
