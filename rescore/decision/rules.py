"""The rules that choose a text by scores, or by the posteriors that scores make.

Three words stand for three things:

    choice      what decides: weights, exclusions, a decision, a first pass
                (`choice.Choice`)
    decision    a rule by its name, with its options and the scale of posteriors
                (`Decision`)
    rule        a way to choose a text, such as mbr (`DecisionRule`); a rule may hold
                what it computes once for many scales in a `Chooser` of its own
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.nbest import NbestList, without_copies
from rescore.options import Declared, NoOptions, options_from_json, settings_of
from rescore.parts import BEST, DECISIONS

Floats = npt.NDArray[np.float64]
Losses = Callable[[Metric, Sequence[NbestList]], Sequence[Any]]
"""A method `DecisionRule.losses`."""


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

    def chooser(self, lists: Dataset, metric: Metric | None) -> Chooser:
        """Return the rule, ready for some lists.

        Args:
            lists: Lists of the hypotheses that may win, in the order in which equals
                win: of equals the first is chosen.
            metric: The metric whose expected loss counts; None if there is none.

        Raises:
            UserError: The rule needs a metric, and there is none.
        """
        return OneByOne(self, lists)

    def misfit(self, metric: Metric) -> str:
        """Return why the rule cannot choose texts that a metric measures, and what to
        do; empty if it can.

        Args:
            metric: The metric that is tuned for or reported.
        """
        return ""

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
    lists: Dataset

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

    @property
    def told(self) -> list[str]:
        """The options that differ from their usual values, in words: `no word 1`."""
        options = self.for_signature.items()
        return [f"{name.replace('-', ' ')} {value}" for name, value in options]

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
