"""Scores and weights into one score per hypothesis, and the rules that choose a
text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from rescore.columns import FIRST_PASS
from rescore.decision.mixture import Mixture, first_pass
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.nbest import NbestList, in_parts, in_tie_order, ranking, without_copies
from rescore.options import Declared, NoOptions, from_json, settings_of
from rescore.parts import DECISIONS


@dataclass(frozen=True, slots=True)
class ListWeights:
    """What decides about one list."""

    columns: Mapping[str, float]
    """The weight of each column of scores."""
    excluded: frozenset[str] = frozenset()
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


def candidates(nbest: NbestList, excluded: Collection[str] = ()) -> NbestList:
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
"""Pairs of hypotheses in the lists that are decided together, at most: what a rule
computes once may grow with the square of a list's length.
"""


Losses = Callable[[Metric, Sequence[NbestList]], Sequence[Any]]
"""As `DecisionRule.losses`."""


class Chooser(Protocol):
    """A rule that has seen the lists that it decides.

    What costs time and does not depend on scores (distances of pairs, alignments) is
    computed once, when the chooser is made, and serves every scale that is tried.
    """

    def texts(self, preferences: Sequence[Floats]) -> list[str]:
        """Return the text of each list.

        Args:
            preferences: For each list the posteriors (hypotheses,) of its hypotheses,
                or their scores for a rule that takes no scale.
        """
        ...

    def near(self, preferences: Sequence[Floats]) -> Chooser:
        """Return a faster chooser for preferences near these, or this chooser."""
        ...

    def under(self, options: Any) -> Chooser:
        """Return the chooser of the same lists under other options of the rule."""
        ...


class DecisionRule:
    """Chooses a text for each list: by `choose`, list by list, or by a `chooser` of its
    own, where something is computed once for all scales.
    """

    Options: ClassVar[type[Declared]] = NoOptions
    """The options of the rule: the command line, weights files, signatures and Python
    have them.
    """
    needs_scale: ClassVar[bool] = False
    """Whether the rule takes posteriors exp(scale * score); else it takes scores."""
    varied: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Options that are tuned with the votes of several systems, where they are not set:
    the values that are tried, the usual value first.
    """
    by_expected_loss: ClassVar[bool] = False
    """Whether the rule chooses the least expected of its `losses`: weights and scale
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
            metric: The metric whose expected loss counts, where a rule needs one.

        Raises:
            UserError: The rule needs a metric, and there is none.
        """
        return OneByOne(self, lists)

    def losses(self, metric: Metric, lists: Sequence[NbestList]) -> Sequence[Any]:
        """Return the losses of each list, of a rule by expected loss: (hypotheses,
        hypotheses), of choosing a row where the column is right; or
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

    def under(self, options: Any) -> OneByOne:
        """Return the chooser of the rule with other options."""
        return OneByOne(type(self.rule)(options), self.lists)


class Best(DecisionRule):
    """The hypothesis with the best score, the first of equals."""

    def choose(self, nbest: NbestList, preference: Floats) -> str:
        return nbest.hypotheses[int(np.argmax(preference))].text


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule of `DECISIONS`, its options, and the scale of the posteriors
    exp(scale * score), where the rule takes one.

    Raises:
        UserError: There is no such rule; the scale is below 0; the rule has no such
            option.
    """

    name: str = "best"
    scale: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """The options that are set, as JSON holds them (`rescore.options.as_json`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", DECISIONS.check(self.name))
        if self.scale is not None and not 0 <= self.scale < float("inf"):
            raise UserError(
                f"the scale of a decision is {self.scale:g}; it must be 0 or a number"
                " above 0"
            )

    @property
    def options(self) -> Any:
        """The options, of the rule's class `Options`."""
        try:
            return from_json(DECISIONS[self.name].Options, self.settings)
        except UserError as error:
            raise UserError(f"decision {self.name}: {error}") from None

    @property
    def rule(self) -> DecisionRule:
        """The rule with its options."""
        rule: DecisionRule = DECISIONS[self.name](self.options)
        return rule

    @property
    def signed(self) -> dict[str, str]:
        """The options that differ from the usual ones, for signatures."""
        if not self.settings:
            return {}
        usual = settings_of(DECISIONS[self.name].Options())
        settings = settings_of(self.options)
        return {
            name: text for name, text in settings.items() if usual.get(name) != text
        }

    def completed_by(self, tuned: Decision) -> Decision:
        """Return the decision with what it leaves open as it was tuned: the scale, if
        it has none, and options that are not set.
        """
        if tuned.name != self.name:
            return self
        scale = tuned.scale if self.scale is None else self.scale
        return Decision(self.name, scale, tuned.settings | self.settings)

    @property
    def needs_scale(self) -> bool:
        """Whether the rule needs a scale that is not there yet."""
        return self.scale is None and self.takes_scale

    @property
    def takes_scale(self) -> bool:
        """Whether the rule is about posteriors, so that it has a scale."""
        return bool(DECISIONS[self.name].needs_scale)

    @property
    def losses(self) -> Losses | None:
        """The losses of a rule by expected loss; None for another rule."""
        rule = self.rule
        return rule.losses if rule.by_expected_loss else None

    def texts(
        self, metric: Metric | None, every: Sequence[NbestList], weights: WeightsOf
    ) -> list[str]:
        """Return the text that is chosen for each list.

        Raises:
            UserError: The rule needs a scale, or a metric, that is not given.
        """
        texts: list[str] = []
        lists: Iterable[NbestList] = every
        if self.takes_scale:  # the best scores are found at once
            from rescore.pace import paced

            lists = paced(every, "decided %d of %d lists")
        for portion in in_parts(lists, PAIRS, lambda nbest: len(nbest.hypotheses) ** 2):
            texts += Decider(self, metric, portion, weights).texts(self.scale)
        return texts


class Decider:
    """One decision on given lists, for one scale after another.

    Equal hypotheses with equal scores count once, unless the scale of the decision is
    0: then all of them count, as samples do.
    """

    def __init__(
        self,
        decision: Decision,
        metric: Metric | None,
        lists: Sequence[NbestList],
        weights: WeightsOf,
    ) -> None:
        self.decision = decision
        self.lists: list[NbestList] = []
        """The hypotheses that may win, in the order in which equals win."""
        for nbest in lists:
            allowed = candidates(nbest, weights_for(nbest, weights).excluded)
            samples = decision.scale == 0
            self.lists.append(allowed if samples else without_copies(allowed))
        self.scores = [combine(nbest, weights) for nbest in self.lists]
        self.chooser = decision.rule.chooser(self.lists, metric)

    def texts(self, scale: float | None) -> list[str]:
        """Return the text that is chosen for each list, by combined scores or by
        posteriors.

        Raises:
            UserError: The rule needs a scale, and it is None.
        """
        if not self.decision.takes_scale:
            return self.chooser.texts(self.scores)
        if scale is None:
            raise UserError(
                f"{self.decision.name} needs the scale of posteriors; give --scale, or"
                " tune it on dev lists"
            )
        return self.chooser.texts(posteriors(self.scores, scale))
