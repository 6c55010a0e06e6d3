"""The combination of columns of scores into one score per hypothesis, and the rules
that choose a text by these scores.

Four words stand for four things:

    rule        a way to choose a text, such as mbr (`DecisionRule`)
    decision    a rule with its options and the scale of posteriors (`Decision`)
    decider     a decision on some lists, for one scale after another (`Decider`)
    chooser     a rule that has seen its lists, with what it computes once (`Chooser`)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from rescore.columns import FIRST_PASS
from rescore.decision.first_pass import FirstPass
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.nbest import (
    NbestList,
    in_parts,
    in_tie_order,
    ranking,
    tie_key,
    without_copies,
)
from rescore.options import Declared, NoOptions, options_from_json, settings_of
from rescore.pace import paced
from rescore.parts import BEST, DECISIONS

Floats = npt.NDArray[np.float64]
LARGEST = float(np.finfo(np.float64).max)
"""Combined scores are cut here, so that no weight makes a finite score infinite."""
PAIRS = 1 << 16
"""Pairs of hypotheses in the lists that are decided together, at most: what a rule
computes once may grow with the square of a list's length.
"""


@dataclass(frozen=True, slots=True)
class ListWeights:
    """The weights, exclusions and first pass that decide about one list."""

    weights: Mapping[str, float]
    """The weight of each column of scores."""
    excluded: frozenset[str] = frozenset()
    """Hypotheses of these origins may not win, and have no posterior."""
    mixture: FirstPass | None = None
    """What makes the first pass; None if the list has its own first pass."""

    @property
    def weighted(self) -> list[str]:
        """The columns whose weight is not 0."""
        return [name for name, weight in self.weights.items() if weight]


WeightsOf = Mapping[str, float] | Callable[[NbestList], ListWeights]
"""The weight of each column; or a function that returns what decides about a list, if
this depends on the list.
"""
Losses = Callable[[Metric, Sequence[NbestList]], Sequence[Any]]
"""A method `DecisionRule.losses`."""


def weights_for(nbest: NbestList, weights: WeightsOf) -> ListWeights:
    """Return what decides about one list."""
    return weights(nbest) if callable(weights) else ListWeights(weights)


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


def combine(nbest: NbestList, weights: WeightsOf) -> Floats:
    """Return the weighted sum of the columns of a list.

    A hypothesis with a score of -inf is impossible, also under a negative weight. So is
    a hypothesis that may not win, unless no hypothesis may win. A column of weight 0
    does not count, even where it is -inf. Sums beyond the largest float are cut to it.

    Args:
        nbest: The list.
        weights: The weight of each column.

    Returns:
        Combined scores of shape (hypotheses,); -inf for impossible hypotheses.

    Raises:
        UserError: A column with a weight is absent.
    """
    list_weights = weights_for(nbest, weights)
    combined = np.zeros(len(nbest.hypotheses))
    impossible = np.zeros(len(combined), dtype=bool)
    for name, weight in list_weights.weights.items():
        if weight == 0:
            continue
        if name == FIRST_PASS and list_weights.mixture is not None:
            scores = np.array(list_weights.mixture.scores(nbest))
        else:
            scores = np.array(nbest.column(name), dtype=np.float64)
        impossible |= np.isneginf(scores)
        # no -inf in the sum: -inf - -inf is NaN; it is set at the end
        scores[impossible] = 0.0
        with np.errstate(over="ignore"):
            combined += weight * scores
        np.clip(combined, -LARGEST, LARGEST, out=combined)
    if list_weights.excluded:
        excluded = np.array(
            [
                hypothesis.origin in list_weights.excluded
                for hypothesis in nbest.hypotheses
            ]
        )
        if not excluded.all():
            impossible |= excluded
    combined[impossible] = -np.inf
    return combined


def best(lists: Sequence[NbestList], weights: WeightsOf) -> list[int]:
    """Return the index of the best hypothesis of each list, by `ranking`."""
    return [ranking(nbest, combine(nbest, weights).tolist())[0] for nbest in lists]


def sorted_by_score(
    nbest: NbestList, weights: WeightsOf, choice: str | None = None
) -> NbestList:
    """Return the list with its hypotheses sorted by the combined score (`ranking`),
    each of which has this score.

    Args:
        nbest: The list.
        weights: The weight of each column.
        choice: The text that the decision chose; None if it is the text with the best
            score. Its hypothesis becomes the first, with a score above the best one. A
            text that the list does not have changes nothing.
    """
    # A hypothesis that may not win has the least number: JSON has no minus infinity.
    scores = np.maximum(combine(nbest, weights), -LARGEST).tolist()
    order = ranking(nbest, scores)
    chosen = [index for index in order if nbest.hypotheses[index].text == choice]
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


def posteriors(scores_of_lists: Sequence[Floats], scale: float) -> list[Floats]:
    """Return the probabilities of hypotheses, proportional to exp(scale * score).

    An impossible hypothesis (a score of minus infinity) has the probability 0. If all
    hypotheses of a list are impossible, the first has all the probability.

    Args:
        scores_of_lists: Combined scores of each list, of shape (hypotheses,).
        scale: The scale of the posteriors.

    Returns:
        Probabilities of each list, of shape (hypotheses,), which add up to 1.
    """
    # All lists at once: a loop over short lists takes longer than the sums.
    scores = np.concatenate(scores_of_lists)
    sizes = np.array([len(list_scores) for list_scores in scores_of_lists])
    ends = np.cumsum(sizes)
    starts = ends - sizes
    highest = np.maximum.reduceat(scores, starts)
    all_impossible = np.isneginf(highest)
    scores[starts[all_impossible]] = 0.0
    highest[all_impossible] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        away = scale * (scores - np.repeat(highest, sizes))
        shares = np.where(np.isneginf(scores), 0.0, np.exp(away))
    shares /= np.repeat(np.add.reduceat(shares, starts), sizes)
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return [shares[start:end] for start, end in pairs]


class Chooser(Protocol):
    """A rule that has seen the lists that it decides.

    It computes what costs time and does not depend on scores (distances of pairs,
    alignments) once, when it is made, for every scale that is tried.
    """

    def texts(self, preferences: Sequence[Floats]) -> list[str]:
        """Return the text of each list.

        Args:
            preferences: For each list the posteriors (hypotheses,) of its hypotheses,
                or their scores for a rule that takes no scale.
        """
        ...

    def near(self, preferences: Sequence[Floats]) -> Chooser:
        """Return a faster chooser for preferences like these: rover aligns its networks
        once, with these posteriors. Other rules return this chooser.

        Args:
            preferences: As in `texts`.
        """
        ...

    def with_options(self, options: Any) -> Chooser:
        """Return the chooser of the same lists under other options of the rule."""
        ...


class DecisionRule:
    """A way to choose a text for each list.

    A subclass has `choose`, which decides list by list; or its own `chooser`, which
    computes something once for all scales.
    """

    Options: ClassVar[type[Declared]] = NoOptions
    """The options of the rule, for the command line, weights files, signatures and
    Python.
    """
    uses_posteriors: ClassVar[bool] = False
    """Whether the rule takes posteriors exp(scale * score); else it takes scores."""
    varied: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Options that are tuned with the first pass of several systems if they are not
    set: the values that are tried, the usual value first.
    """
    by_expected_loss: ClassVar[bool] = False
    """Whether the rule chooses by the least expected of its `losses`; weights and scale
    are then tuned together.
    """

    options: Any
    """The options of this rule, of the class `Options`."""

    def __init__(self, options: Any = None) -> None:
        """Make a rule.

        Args:
            options: Options of the class `Options`; None for the defaults.
        """
        self.options = self.Options() if options is None else options

    def chooser(self, lists: Sequence[NbestList], metric: Metric | None) -> Chooser:
        """Return the rule, ready for some lists.

        Args:
            lists: Lists of the hypotheses that may win, in the order in which equals
                win: of equals the first is chosen.
            metric: The metric whose expected loss counts; None if there is none.

        Raises:
            UserError: The rule needs a metric, and there is none.
        """
        return OneByOne(self, lists)

    def losses(self, metric: Metric, lists: Sequence[NbestList]) -> Sequence[Any]:
        """Return the losses of each list, for a rule by expected loss.

        Args:
            metric: The metric whose expected loss counts.
            lists: Lists, as in `chooser`.

        Returns:
            For each list an array of shape (hypotheses, hypotheses), the loss of the
            choice of a row where the column is right; or
            `rescore.decision.risk.ListLosses`.
        """
        raise NotImplementedError

    def choose(self, nbest: NbestList, preference: Floats) -> str:
        """Return the text chosen from a list.

        Args:
            nbest: The list, as in `chooser`.
            preference: The posterior of each hypothesis (hypotheses,), or its score for
                a rule that takes no scale.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class OneByOne:
    """The chooser of a rule that needs nothing but a list and its preferences."""

    rule: DecisionRule
    lists: Sequence[NbestList]

    def texts(self, preferences: Sequence[Floats]) -> list[str]:
        """Return the text of each list."""
        pairs = zip(self.lists, preferences, strict=True)
        return [self.rule.choose(nbest, preference) for nbest, preference in pairs]

    def near(self, preferences: Sequence[Floats]) -> OneByOne:
        """Return this chooser: no other is faster."""
        return self

    def with_options(self, options: Any) -> OneByOne:
        """Return the chooser of the rule with other options."""
        return OneByOne(type(self.rule)(options), self.lists)


class Best(DecisionRule):
    """The hypothesis with the best score; the first of equals."""

    def choose(self, nbest: NbestList, preference: Floats) -> str:
        """Return the text with the best score."""
        return nbest.hypotheses[int(np.argmax(preference))].text


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule of `DECISIONS`, its options, and the scale of the posteriors
    exp(scale * score) if the rule takes a scale.

    Raises:
        UserError: There is no such rule; the scale is below 0; the rule has no such
            option.
    """

    name: str = BEST
    scale: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """The options that are set, as JSON holds them (`rescore.options.as_json`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", DECISIONS.check(self.name))
        if self.scale is not None and not 0 <= self.scale < math.inf:
            raise UserError(
                f"the scale of a decision is {self.scale:g}; it must be 0 or a number"
                " above 0"
            )

    @property
    def options(self) -> Any:
        """The options, of the rule's class `Options`."""
        try:
            return options_from_json(DECISIONS[self.name].Options, self.settings)
        except UserError as error:
            raise UserError(f"decision {self.name}: {error}") from None

    @property
    def rule(self) -> DecisionRule:
        """The rule with its options."""
        rule: DecisionRule = DECISIONS[self.name](self.options)
        return rule

    @property
    def for_signature(self) -> dict[str, str]:
        """The options that differ from their usual values, for signatures."""
        if not self.settings:
            return {}
        usual = settings_of(DECISIONS[self.name].Options())
        differing = {}
        for name, text in settings_of(self.options).items():
            if usual.get(name) != text:
                differing[name] = text
        return differing

    def completed_by(self, former: Decision) -> Decision:
        """Return the decision with the scale and the options that it lacks.

        Args:
            former: A decision that was tuned before; it completes only the same rule.
        """
        if former.name != self.name:
            return self
        scale = former.scale if self.scale is None else self.scale
        return Decision(self.name, scale, former.settings | self.settings)

    @property
    def is_best(self) -> bool:
        """Whether the best score chooses the text."""
        return self.name == BEST

    @property
    def lacks_scale(self) -> bool:
        """Whether the rule takes a scale and the decision has none."""
        return self.scale is None and self.uses_posteriors

    @property
    def uses_posteriors(self) -> bool:
        """Whether the rule takes posteriors, which have a scale."""
        return bool(DECISIONS[self.name].uses_posteriors)

    def distinct(self, nbest: NbestList, columns: Iterable[str]) -> NbestList:
        """Return a list as the decision sees it: without copies of a hypothesis. If the
        scale is 0, hypotheses are samples, and each of them counts.

        Args:
            nbest: The list.
            columns: The columns that have a weight.
        """
        if self.scale == 0:
            return nbest
        return without_copies(nbest, tuple(columns))

    @property
    def losses(self) -> Losses | None:
        """The losses of a rule by expected loss; None for another rule."""
        rule = self.rule
        return rule.losses if rule.by_expected_loss else None

    def texts(
        self, metric: Metric | None, lists: Sequence[NbestList], weights: WeightsOf
    ) -> list[str]:
        """Return the text that is chosen for each list.

        Args:
            metric: The metric whose expected loss counts; None if there is none.
            lists: The lists.
            weights: The weights of columns.

        Raises:
            UserError: The rule needs a scale or a metric, and there is none.
        """
        texts: list[str] = []
        stream: Iterable[NbestList] = lists
        if self.uses_posteriors:  # Only these rules need a line about progress.
            stream = paced(lists, "decided %d of %d lists")
        for portion in in_parts(stream, PAIRS, _pairs):
            texts += Decider(self, metric, portion, weights).texts(self.scale)
        return texts


def _pairs(nbest: NbestList) -> int:
    """Return the number of pairs of hypotheses of a list."""
    return len(nbest.hypotheses) ** 2


def _samples_in_order(nbest: NbestList) -> NbestList:
    """Return a list of samples in an order that does not depend on the order in which
    they were drawn: of equals the decision takes the first.
    """
    order = sorted(nbest.hypotheses, key=lambda each: (*tie_key(each), each.text))
    return replace(nbest, hypotheses=order)


class Decider:
    """One decision on some lists, for one scale after another.

    Equal hypotheses with equal scores count once. If the scale of the decision is 0,
    they are samples, and each of them counts.
    """

    def __init__(
        self,
        decision: Decision,
        metric: Metric | None,
        lists: Sequence[NbestList],
        weights: WeightsOf,
    ) -> None:
        """Combine the scores of the lists, and make the chooser.

        Args:
            decision: The decision.
            metric: The metric whose expected loss counts; None if there is none.
            lists: The lists.
            weights: The weights of columns.
        """
        self.decision = decision
        self.lists: list[NbestList] = []
        """The hypotheses that may win, in the order in which equals win."""
        for nbest in lists:
            list_weights = weights_for(nbest, weights)
            allowed = candidates(nbest, list_weights.excluded)
            allowed = decision.distinct(allowed, list_weights.weighted)
            if decision.scale == 0:
                allowed = _samples_in_order(allowed)
            self.lists.append(allowed)
        self.scores = [combine(nbest, weights) for nbest in self.lists]
        self.chooser = decision.rule.chooser(self.lists, metric)

    def texts(self, scale: float | None) -> list[str]:
        """Return the text that is chosen for each list, by combined scores or by
        posteriors.

        Args:
            scale: The scale of the posteriors; None for a rule that takes no scale.

        Raises:
            UserError: The rule needs a scale, and it is None.
        """
        if not self.decision.uses_posteriors:
            return self.chooser.texts(self.scores)
        if scale is None:
            raise UserError(
                f"{self.decision.name} needs the scale of posteriors; give --scale, or"
                " tune it on dev lists"
            )
        return self.chooser.texts(posteriors(self.scores, scale))
