"""The votes of several systems, tuned on lists with references: the power of the error
rates with which their mixture decides best.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from rescore.asr.mixture import (
    Floats,
    Mixture,
    applied,
    system_posteriors,
    system_texts,
)
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.decision.rules import Chooser, posteriors
from rescore.metrics.base import Counts, Metric, text_statistics, text_value
from rescore.metrics.significance import in_order
from rescore.nbest import NbestList
from rescore.pace import paced
from rescore.styles import text
from rescore.tuning.line import Indices
from rescore.tuning.record import TuningOptions
from rescore.tuning.scale import MANY, tune_scale
from rescore.tuning.search import gain_interval, significantly_better
from rescore.tuning.tune import Fitted
from rescore.tuning.weights import Weights

log = logging.getLogger(__name__)

POWERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Powers that are tried: the vote of a system is (least error rate / its error rate) to
a power.
"""
LEAST_RATE = 0.1
"""The least error rate that votes are made of, in percent: a system without an error
does not decide alone.
"""
EQUAL_VOTES = "equal votes"
"""The beginning of the name of the row of equal votes of all systems."""


def equal_votes_with(decisions: Iterable[Decision]) -> str:
    """Return how tables name equal votes: with the options of the decision, which
    tuning may change, such as `equal votes (no word 1)`.

    Args:
        decisions: The decision of all lists, or of each fold.
    """
    told = {_told(decision) for decision in decisions}
    options = "options tuned in each fold"
    if len(told) == 1:
        (options,) = told
    return f"{EQUAL_VOTES} ({options})" if options else EQUAL_VOTES


def _told(decision: Decision) -> str:
    """Return the options that differ from what several systems have without tuning."""
    varied = decision.rule.varied
    settings = {}
    for name, value in decision.settings.items():
        if name not in varied or value != varied[name][0]:
            settings[name] = value
    return ", ".join(replace(decision, settings=settings).told)


def tune_with_votes(
    metric: Metric,
    lists: Dataset,
    options: TuningOptions,
    fitted: Fitted,
    has_columns: bool,
    level: int,
    warns: bool = True,
) -> Weights:
    """Return the votes of systems, and the weights of columns beside the first pass
    that these votes make.

    Columns are tuned beside the votes and beside the best single system. This system
    decides unless the texts by votes are better by more than one standard error: votes
    of smaller gains are as often worse on other lists.

    Args:
        metric: The metric that is tuned for.
        lists: Lists of several systems, with references.
        options: How weights are tuned, and the decision.
        fitted: Tunes the weights of columns beside a mixture.
        has_columns: Whether `fitted` tunes anything beside the first pass.
        level: Level of the message about the systems.
        warns: Whether a warning says that the best system decides.
    """
    lists = lists.with_lists(in_order(lists))
    tuner = _VoteTuner(metric, lists, options.decision)
    voting = tuner.best_vote()
    number = f"{len(lists):,}"
    if log.isEnabledFor(level):
        table = tuner.table(voting)
        log.log(
            level,
            "the systems, on the %s lists that votes are tuned on:\n%s",
            number,
            table,
        )
    best = tuner.best_system
    alone = Vote(tuner.mixture_of({best: 1.0}), options.decision)

    def fit(vote: Vote) -> tuple[Weights, Counts]:
        decision = vote.decision
        if decision.lacks_scale and not has_columns:
            # votes were tuned with this scale
            decision = replace(decision, scale=1.0)
        voted = [_possible(applied(vote.mixture, nbest)) for nbest in lists]
        return fitted(
            lists.with_lists(voted), replace(options, decision=decision), vote.mixture
        )

    by_votes, ours = fit(voting)
    by_one, theirs = fit(alone)
    first_pass = text_value(metric, lists, Choice({FIRST_PASS: 1.0}).texts(None, lists))
    low, high = gain_interval(metric, ours, theirs)
    # The gain less one standard error; twice the gain without resampling.
    clear = low + (high - low) / 4 if options.bagging else low + high
    if warns and clear <= 0 and len(tuner.systems) > 1:
        log.warning(
            "the vote has no clear gain over the best system on these %s lists (%.2f,"
            " %s alone %.2f): %s decides",
            number,
            by_votes.value,
            best,
            by_one.value,
            best,
        )
    weights = by_votes if clear > 0 else by_one
    tuning = replace(weights.tuning, options=options, first_pass=first_pass)
    return replace(weights, tuning=tuning)


def _possible(nbest: NbestList) -> NbestList:
    """Return the list without the hypotheses that no system with votes wrote."""
    possible = []
    for hypothesis in nbest.hypotheses:
        if hypothesis.scores[FIRST_PASS] > -math.inf:
            possible.append(hypothesis)
    return replace(nbest, hypotheses=possible)


@dataclass(frozen=True, slots=True)
class Vote:
    """The votes of systems, and the decision that chooses by them."""

    mixture: Mixture
    decision: Decision


class _VoteTuner:
    """Tries votes of systems on lists with references.

    One number is tuned for all systems together, so that few lists are enough: the
    power of the error rates. Options of the decision that vary with votes
    (`DecisionRule.varied`) are tuned with it.
    """

    def __init__(self, metric: Metric, lists: Dataset, decision: Decision) -> None:
        """Make a tuner.

        Args:
            metric: The metric that is tuned for.
            lists: Lists of several systems, with references.
            decision: The decision.
        """
        self._metric = metric
        self._lists = lists
        self._decision = decision
        self.systems = lists.header.systems
        self._scales = _scales(metric, lists, self.systems)
        unscaled = replace(decision, scale=None)
        allowed = Choice({FIRST_PASS: 1.0}, decision=unscaled).allowed(lists)
        self._chooser = decision.rule.chooser(allowed, metric)
        shares = []
        for nbest in allowed:
            shares.append(system_posteriors(nbest, self.systems, self._scales))
        self._sizes = [len(own) for own in shares]
        self._together = np.concatenate(shares)
        """Posteriors of shape (hypotheses of all lists, systems)."""
        self._starts = np.cumsum([0, *self._sizes[:-1]])
        """The index of the first hypothesis of each list."""
        rates = []
        self._rates_of_all: list[float] = []
        """The error rate of each system; a list without its text has an empty text."""
        for index, name in enumerate(self.systems):
            texts = system_texts(allowed, name)
            counts = text_statistics(metric, lists, texts)
            heard = np.array([own[:, index].any() for own in shares])
            rates.append(_rate(metric, counts[heard]))
            self._rates_of_all.append(_rate(metric, counts))
        errors = np.maximum(LEAST_RATE, rates)
        self._ratios = errors.min() / errors
        """The least error rate over the error rate of each system, of shape (systems,);
        only lists with a text of the system count.
        """

    @cached_property
    def _held(self) -> Chooser:
        """The chooser near votes in the middle of the votes that are tried."""
        middle = self._preferences(self._of_power(0.5), scale=1.0)
        return self._chooser.near(middle)

    @property
    def best_system(self) -> str:
        """The system with the least error rate."""
        return self.systems[int(np.argmin(self._rates_of_all))]

    def mixture_of(self, votes: Mapping[str, float]) -> Mixture:
        """Return the mixture of votes; a system without a vote gets the vote 0."""
        every = {name: votes.get(name, 0.0) for name in self.systems}
        return Mixture(every, self._scales)

    def _of_power(self, power: float) -> Mixture:
        """Return the mixture whose votes are a power of the ratios of error rates."""
        votes = (self._ratios**power).tolist()
        return self.mixture_of(dict(zip(self.systems, votes, strict=True)))

    def best_vote(self) -> Vote:
        """Return the votes with which the decision is best, and its options.

        The first of equals is taken; the very first has equal votes and the usual
        options.
        """
        held = self._held
        best = self._equal_vote
        least = math.inf
        for power in paced(POWERS, "tried votes of %d of %d powers"):
            mixture = self._of_power(power)
            preferences = self._preferences(mixture)
            for decision in _variants(self._decision):
                counts = self._counts(held, decision, preferences)
                rate = _rate(self._metric, counts)
                if rate < least:
                    best = Vote(mixture, decision)
                    least = rate
        return best

    @property
    def _equal_vote(self) -> Vote:
        """Equal votes of all systems, with the usual options."""
        equal = self.mixture_of(dict.fromkeys(self.systems, 1.0))
        return Vote(equal, next(iter(_variants(self._decision))))

    def _preferences(
        self, mixture: Mixture, scale: float | None = None
    ) -> Sequence[Floats]:
        """Return the preferences of a chooser for each list, of shape (hypotheses,).

        They are posteriors under votes, or the natural logs of the mixture for a rule
        that takes no scale.

        Args:
            mixture: The votes of all systems.
            scale: The scale of posteriors; None for the scale of the decision.
        """
        votes = np.array(list(mixture.votes.values()))
        mixed = _mixed_in_lists(self._together, votes, self._starts, self._sizes)
        scores = np.split(mixed, self._starts[1:])
        if not self._decision.uses_posteriors:
            return scores
        return posteriors(scores, scale or self._decision.scale or 1.0)

    def _rate_of(self, vote: Vote, chooser: Chooser) -> float:
        """Return the error rate of the texts that a vote chooses, in percent."""
        return _rate(self._metric, self._counts_of(vote, chooser))

    def _counts_of(self, vote: Vote, chooser: Chooser) -> Counts:
        """Return the statistics of the texts that a vote chooses, (lists, k)."""
        preferences = self._preferences(vote.mixture)
        return self._counts(chooser, vote.decision, preferences)

    def _counts(
        self, chooser: Chooser, decision: Decision, preferences: Sequence[Floats]
    ) -> Counts:
        """Return the statistics (lists, k) of the texts that a decision chooses.

        Args:
            chooser: The chooser of the lists.
            decision: The decision, whose options the chooser takes.
            preferences: The preferences of the votes (`_preferences`).
        """
        texts = chooser.with_options(decision.options).texts(preferences)
        return text_statistics(self._metric, self._lists, texts)

    def table(self, voting: Vote) -> str:
        """Return a table of the systems: the metric of each alone, the metric of all
        others, and its votes; then all with equal and with tuned votes. All rows have
        the decision of the tuned votes, so that votes are the only difference. A line
        says without which systems the vote is significantly better.
        """
        chooser = self._chooser
        if sum(self._sizes) >= MANY:
            chooser = self._held
        rows = [["", self._metric.name, "without it", "votes"]]
        together = self._counts_of(voting, chooser)
        useless = []
        if len(self.systems) > 1:
            votes = voting.mixture.votes
            for name, rate in zip(self.systems, self._rates_of_all, strict=True):
                others = Vote(self.mixture_of({**votes, name: 0.0}), voting.decision)
                counts = self._counts_of(others, chooser)
                without = _rate(self._metric, counts)
                if significantly_better(self._metric, counts, together):
                    useless.append(name)
                shown = [self._shown(rate), self._shown(without)]
                rows.append([name, *shown, f"{votes[name]:.2g}"])
        equal_vote = replace(self._equal_vote, decision=voting.decision)
        equal = self._rate_of(equal_vote, chooser)
        name = equal_votes_with([voting.decision])
        rows.append([name, self._shown(equal), "", ""])
        rows.append(["tuned votes", self._shown(_rate(self._metric, together)), "", ""])
        table = text(rows)
        if len(self.systems) > 1:
            table += f"\n{_advice(useless)}"
        return table

    def _shown(self, rate: float) -> str:
        """Return the metric of an error rate in percent, for the table."""
        top = 100.0 if self._metric.higher_is_better else 0.0
        return f"{abs(top - rate):.2f}"


def _advice(useless: Sequence[str]) -> str:
    """Return which systems should be left out.

    Args:
        useless: The systems without which the vote is significantly better.
    """
    if useless:
        named = " or ".join(useless)
        return f"the vote is significantly better without {named}: leave it out"
    return "no system harms the vote significantly"


def _variants(decision: Decision) -> Iterator[Decision]:
    """Yield the decision with all values of the options that vary with votes and are
    not set, the usual values first.
    """
    varied = dict(decision.rule.varied)
    for name in decision.settings:
        varied.pop(name, None)
    for values in product(*varied.values()):
        chosen = dict(zip(varied, values, strict=True))
        yield replace(decision, settings=decision.settings | chosen)


def _mixed_in_lists(
    together: Floats, votes: Floats, starts: Indices, sizes: Sequence[int]
) -> Floats:
    """Return `rescore.asr.mixture.mixed` of many lists at once.

    Args:
        together: Posteriors of shape (hypotheses of all lists, systems).
        votes: The vote of each system, of shape (systems,).
        starts: The index of the first hypothesis of each list.
        sizes: Number of hypotheses of each list.

    Returns:
        The natural log of the mixture, of shape (hypotheses of all lists,).
    """
    total = together @ votes
    unheard = np.repeat(np.maximum.reduceat(total, starts) == 0, sizes)
    total = np.where(unheard, together.sum(axis=1), total)
    sums = np.maximum(np.add.reduceat(total, starts), 1e-300)
    with np.errstate(divide="ignore"):
        return np.log(total / np.repeat(sums, sizes))


def _rate(metric: Metric, counts: Counts) -> float:
    """Return the error rate of choices (lists, k), in percent.

    It is the metric, or what the metric lacks to 100 if higher values are better.
    Without choices it is 100.
    """
    if not len(counts):
        return 100.0
    value = float(metric.values(counts.sum(axis=0)[None])[0])
    return 100 - value if metric.higher_is_better else value


def _scales(metric: Metric, lists: Dataset, systems: Sequence[str]) -> dict[str, float]:
    """Return the posterior scale of each system that has several texts in a list: the
    best scale for minimum Bayes risk over its texts.
    """
    scales = {}
    for name in systems:
        if not _has_several_texts(name, lists):
            continue
        alone = Choice({FIRST_PASS: 1.0}, decision=Decision("mbr"))
        own = lists.with_lists(_lists_of(name, lists))
        decision, _ = tune_scale(alone, metric, own)
        scales[name] = decision.scale or 1.0
    return scales


def _has_several_texts(system: str, lists: Dataset) -> bool:
    """Return whether a system has several texts in a list."""
    for nbest in lists:
        if sum(system in hypothesis.scores for hypothesis in nbest.hypotheses) > 1:
            return True
    return False


def _lists_of(system: str, lists: Dataset) -> list[NbestList]:
    """Return the lists of one system alone, with its scores as first pass; without
    lists to which it gave no text.
    """
    every = []
    for nbest in lists:
        own = []
        for hypothesis in nbest.hypotheses:
            if system in hypothesis.scores:
                score = hypothesis.scores[system]
                own.append(replace(hypothesis, scores={FIRST_PASS: score}))
        if own:
            every.append(replace(nbest, hypotheses=own))
    return every
