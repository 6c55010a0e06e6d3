"""The best weights for one decision on lists with references: `Tuner` searches for
them, tests their gain, and writes the record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from rescore.columns import FIRST_PASS, Role, comes_from_expansion
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision, combine
from rescore.decision.choice import candidates
from rescore.decision.first_pass import FirstPass
from rescore.errors import UserError
from rescore.metrics.base import (
    Counts,
    Metric,
    check_measurable,
    is_better,
    text_statistics,
)
from rescore.metrics.significance import in_order
from rescore.nbest import NbestList, columns_for, new_word_origins_in
from rescore.parts import TUNING_OF_SYSTEMS, resolve
from rescore.signature import column_records
from rescore.tuning import pattern
from rescore.tuning.components import toolkit_score
from rescore.tuning.line import Floats
from rescore.tuning.lists import is_constant
from rescore.tuning.objective import TuningObjective, by_content
from rescore.tuning.record import STANDARD_ERRORS, Tuning, TuningOptions, Unproven
from rescore.tuning.scale import tune_scale
from rescore.tuning.search import (
    Optimum,
    errors_of_sum,
    gain_interval,
    line_search,
    optimise,
    significantly_better,
    without_useless,
)
from rescore.tuning.weights import FIRST_PASS_ALONE, Weights

log = logging.getLogger(__name__)

Fitted = Callable[[Dataset, TuningOptions, FirstPass], tuple[Weights, Counts]]
"""A function that tunes the weights of columns beside a first pass: it returns them and
the statistics (lists, k) of the chosen texts. It takes lists with this first pass.
"""


class TunesFirstPass(Protocol):
    """Tunes the first pass of lists of several systems, and the weights of columns
    beside it (`rescore.parts.TUNING_OF_SYSTEMS`).
    """

    def __call__(
        self,
        metric: Metric,
        lists: Dataset,
        options: TuningOptions,
        fitted: Fitted,
        has_columns: bool,
        level: int,
        warns: bool,
    ) -> Weights:
        """Return the weights of the first pass and of the columns.

        Args:
            metric: The metric that is tuned for.
            lists: Lists of several systems, with references.
            options: How weights are tuned, and the decision.
            fitted: Tunes the weights of columns beside a first pass.
            has_columns: Whether `fitted` tunes anything beside the first pass.
            level: Level of messages about the systems.
            warns: Whether warnings are given.
        """
        ...


def tune_weights(
    metric: Metric,
    lists: Dataset,
    columns: Sequence[str],
    options: TuningOptions | None = None,
    tuning: Tuning | None = None,
) -> Weights:
    """Return the best weights of LM columns and bonuses for one decision, on lists with
    references.

    The objective is the metric of the texts that the decision chooses. Unless `options`
    say otherwise, weights are averaged over bootstrap samples, and a column without a
    significant gain beside the others has weight 0. For a decision by expected loss,
    weights and scale are tuned together. For another decision that needs a scale, the
    weights are tuned for the best score.

    Args:
        metric: The metric that is tuned for.
        lists: Lists with references.
        columns: Columns of language models.
        options: How weights are tuned.
        tuning: The record of the lists; None for lists called dev.

    Raises:
        UserError: A list has no reference, or lacks a column; or all references are
            empty.
    """
    options = options or TuningOptions()
    tuning = tuning or Tuning.on("dev", lists)
    check_measurable(metric, lists, "weights cannot be tuned on them")
    weights = _searched(metric, lists, columns, options, tuning)
    asked = _Asked(tuple(columns), options.bonuses, options.negative)
    weights = _without_influence(metric, lists, columns, weights, asked)
    _warn_of_order(weights, lists)
    if tuning.held_out or lists.header.by_systems:
        return weights
    toolkit = toolkit_score(lists, columns)
    return replace(weights, tuning=replace(weights.tuning, toolkit=toolkit))


def _warn_of_order(weights: Weights, lists: Dataset) -> None:
    """Warn of lists without scores, on which no model has a weight."""
    columns = weights.score_columns
    if weights.tuning.held_out or not columns or any(map(weights.weighs, columns)):
        return
    if lists.is_order_only:
        log.warning(
            "the lists have no scores, and their order stands for scores: this may be"
            " why the weight is 0; write the scores of the recogniser into the lists"
        )


def _searched(
    metric: Metric,
    lists: Dataset,
    columns: Sequence[str],
    options: TuningOptions,
    tuning: Tuning,
    is_first: bool = True,
) -> Weights:
    """Return the weights of one search.

    Args:
        metric: The metric that is tuned for.
        lists: Lists with references.
        columns: Columns of language models.
        options: How weights are tuned.
        tuning: The record of the lists.
        is_first: Whether the search tells what it finds; a second one is silent.
    """
    if not lists.header.by_systems:
        return Tuner(metric, lists, columns, tuning, options, None, is_first).tune()

    def fitted(
        with_first_pass: Dataset, decided: TuningOptions, made_by: FirstPass
    ) -> tuple[Weights, Counts]:
        tuner = Tuner(
            metric, with_first_pass, columns, tuning, decided, made_by, is_first
        )
        return tuner.tune(), tuner.chosen

    has_columns = bool(columns or options.bonuses or options.given)
    shows = is_first and not tuning.held_out
    level = logging.INFO if shows else logging.DEBUG
    tune: TunesFirstPass = resolve(TUNING_OF_SYSTEMS)
    return tune(metric, lists, options, fitted, has_columns, level, is_first)


class _Asked(NamedTuple):
    """What the first search for weights is asked for."""

    columns: tuple[str, ...]
    """Columns of language models."""
    bonuses: tuple[str, ...]
    negative: tuple[str, ...]
    """Those of the columns whose weights have no bounds."""


def _without_influence(
    metric: Metric,
    lists: Dataset,
    columns: Sequence[str],
    weights: Weights,
    asked: _Asked,
) -> Weights:
    """Return weights on which the columns of weight 0 have no influence: the scale, the
    first pass and the other weights are those of a search without these columns.

    A column has an influence otherwise, even with weight 0: copies of a hypothesis
    differ in it, a search starts elsewhere, and the scale is tuned with it. A bonus may
    have left because a model did its work, and then the model left: so after a column
    all bonuses are asked again, and after a model all columns without bounds, too. A
    bonus that suits several models is asked again beside one model, too: it may have
    the larger part of the gain. The columns of expansions stay in the search, as they
    come with the hypotheses.

    Args:
        metric: The metric that is tuned for.
        lists: Lists with references.
        columns: Columns of language models.
        weights: The weights of a search with these columns.
        asked: What the first search was asked for.
    """
    options = weights.tuning.options
    assert options
    header = lists.header

    def stays(name: str) -> bool:
        is_cost = comes_from_expansion(name, header.records.get(name))
        return is_cost or weights.weighs(name)

    kept = list(filter(stays, columns))
    lost = set(columns).difference(kept)
    bonuses = tuple(filter(stays, options.bonuses))
    negative = tuple(filter(stays, options.negative))
    if not lost and len(bonuses) == len(options.bonuses):
        return weights
    if lost:
        bonuses = asked.bonuses
    if not lost.issubset(options.negative):  # a model
        negative = asked.negative
        kept = [name for name in asked.columns if name in kept or name in negative]
    fewer = replace(options, bonuses=bonuses, negative=negative)
    again = _searched(metric, lists, kept, fewer, weights.tuning, is_first=False)
    again = _without_influence(metric, lists, kept, again, asked)
    return weights.as_without_columns(again)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of one search."""

    weights: dict[str, float]
    """The weights of all columns that were tuned; 0 for columns that were left out."""
    chosen: Counts
    """The statistics of the texts that the decision chooses with them, of shape
    (lists, k).
    """
    decision: Decision
    excluded: frozenset[str] = frozenset()
    """Hypotheses of these origins may not win."""
    unproven: Unproven | None = None
    """The best weights, if the weights here are 0 because no gain was significant."""
    low: float | None = None
    """The lower end of the interval in which a single weight is equally good."""
    high: float | None = None
    """The upper end of this interval."""
    with_all: float | None = None
    """The metric with weights of all columns, in percent, if columns were left out."""


class Tuner:
    """One search with the decision inside."""

    def __init__(
        self,
        metric: Metric,
        lists: Dataset,
        columns: Sequence[str],
        tuning: Tuning,
        options: TuningOptions,
        mixture: FirstPass | None = None,
        is_first: bool = True,
    ) -> None:
        """Make a tuner.

        Args:
            metric: The metric that is tuned for.
            lists: Lists with references.
            columns: Columns of language models.
            tuning: The record of the lists.
            options: How weights are tuned.
            mixture: What made the first pass of lists of several systems.
            is_first: Whether warnings are given; a second search is silent.

        Raises:
            UserError: An option does not suit the columns.
        """
        for name in options.negative:
            if name not in columns:
                raise UserError(
                    f"--allow-negative {name}: not a column of an LM; there are"
                    f" {', '.join(columns)}"
                )
        self.metric = metric
        self.options = options
        self.tuning = tuning
        self.mixture = mixture
        self._is_first = is_first
        self.shares = [name for name in columns if name not in options.negative]
        """Columns whose weights lie between 0 and 1."""
        self.free = [*options.bonuses, *options.negative]
        """Columns whose weights have no bounds."""
        self.given = options.given
        self.names = [*self.shares, *self.free]
        """All columns that are tuned."""
        self.ordered = [*columns, *options.bonuses, *self.given]
        """The columns in the order in which they were named."""
        weighted = [FIRST_PASS, *self.names, *self.given]
        distinct = options.decision.distinct
        self.lists = lists.with_lists(
            distinct(nbest, weighted) for nbest in in_order(lists)
        )
        self.varying = {
            name for name in self.names if not is_constant(name, self.lists)
        }
        """Columns that can change something: the others are the same for all hypotheses
        of each list, so no search tries them.
        """
        self.losses = options.decision.losses if options.decision.lacks_scale else None
        """The losses of a decision whose scale is tuned together with the weights."""
        self._own_scale = options.decision.uses_posteriors and self.losses is None
        """Whether the decision has a scale that is not tuned with the weights."""

    def tune(self) -> Weights:
        """Return the weights to write, with their record.

        `chosen` then has the statistics (lists, k) of the texts that they choose.
        """
        fit = self._fit()
        weights = replace(
            self._weights(fit.weights, fit.excluded),
            decision=fit.decision,
            mixture=self.mixture,
        )
        self.chosen = fit.chosen
        if not self._own_scale:
            self.chosen = self._texts(weights)
        value = self._value(self.chosen)
        first_pass = self._value(self._texts(FIRST_PASS_ALONE))
        tuned_columns = dict.fromkeys(self.names, 0.0)
        tuning = replace(
            self.tuning.with_figures(self.metric, value, first_pass),
            low=fit.low,
            high=fit.high,
            with_all=fit.with_all,
            columns=column_records(self.lists, tuned_columns),
            options=self.options,
            unproven=fit.unproven,
        )
        return replace(weights, tuning=tuning)

    def _fit(self) -> SearchResult:
        """Return the best weights for the decision."""
        if not self.names and self._own_scale:
            return self._decided({FIRST_PASS: 1.0, **self.given}, frozenset())
        new_words = new_word_origins_in(self.lists, self.lists.header, self.free)
        usual = columns_for(self.lists.header, self.names, ())
        columns = usual
        excluded = frozenset(new_words)
        every = self._search(usual, excluded)
        if new_words:
            # Hypotheses with new words may win only where this gains something.
            with_new = columns_for(self.lists.header, self.names, new_words)
            trial = self._search(with_new, frozenset())
            if self._better(trial.chosen, every.chosen):
                every = trial
                columns = with_new
                excluded = frozenset()
            else:
                self._tell_rejected(new_words, trial, every)
        best = every
        if self.options.bagging:
            best = without_useless(every, set(usual), self._optimise)
        fit = self._as_fit(best, columns, excluded)
        if self._own_scale:
            fit = self._for_decision(fit, best, frozenset(new_words))
        elif best is not every:
            fit = replace(fit, with_all=every.objective.value(every.average))
        if fit.excluded and self.given:
            return self._admitting(fit, new_words)
        return fit

    def _tell_rejected(
        self, new_words: Sequence[str], trial: Optimum, every: Optimum
    ) -> None:
        """Warn that hypotheses with new words do not gain.

        Args:
            new_words: Their origins.
            trial: The optimum with these hypotheses.
            every: The optimum without them.
        """
        if not self._is_first:
            return
        named = " and ".join(new_words)
        outcome = f"nothing is {named}"
        if self.given:
            outcome = f"{named} words win by the given bonus only"
        log.warning(
            "%s hypotheses have no %sgain on %s (%.2f with, %.2f without): %s",
            named,
            "significant " if self.options.bagging else "",
            self.tuning.source,
            trial.value,
            every.value,
            outcome,
        )

    def _admitting(self, fit: SearchResult, new_words: Sequence[str]) -> SearchResult:
        """Return the fit in which hypotheses with new words may win, because the user
        gives a bonus that these words can have.

        These lists may lack the words, and then each of these hypotheses is wrong here:
        a search with the bonus would cancel it. So the weight of a channel is 1, as its
        scores are log-probabilities, and the weights of counts are 0; if this does
        significant harm without the given bonus, they are tuned without it. All other
        weights stay.

        Args:
            fit: The fit without these hypotheses.
            new_words: Their origins.
        """
        usual = columns_for(self.lists.header, self.free, ())
        costs = {}
        for name in columns_for(self.lists.header, self.free, new_words):
            if name not in usual:
                is_channel = self.lists.header.role(name) is Role.CHANNEL
                costs[name] = 1.0 if is_channel else 0.0
        tuned = {
            name: weight for name, weight in fit.weights.items() if name in self.names
        }
        without = {FIRST_PASS: fit.weights[FIRST_PASS], **tuned}
        before = self._texts(Choice(without, fit.excluded))
        after = self._texts(Choice(without | costs))
        if self._better(before, after):
            lists = [_summed(nbest, without, list(costs)) for nbest in self.lists]
            columns = [FIRST_PASS, *costs]
            objective = TuningObjective.of(self.metric, lists, columns, list(costs))
            costs, _ = objective.weights(self._optimise(objective).average)
            del costs[FIRST_PASS]
        admitted = self._decided({**fit.weights, **costs}, frozenset())
        return replace(
            fit,
            weights=admitted.weights,
            chosen=admitted.chosen,
            decision=admitted.decision,
            excluded=frozenset(),
        )

    def _search(self, names: Sequence[str], excluded: frozenset[str]) -> Optimum:
        """Return the optimum over columns beside the first pass.

        Args:
            names: The columns; those that change nothing are left out.
            excluded: Hypotheses of these origins may not win.
        """
        lists = [candidates(nbest, excluded) for nbest in self.lists]
        names = [name for name in names if name in self.varying]
        bounded = [FIRST_PASS, *(name for name in names if name not in self.free)]
        free = [name for name in names if name in self.free]
        if self.given:
            lists = [_raised(nbest, self.given, bounded) for nbest in lists]
        objective = TuningObjective.of(self.metric, lists, [*bounded, *free], free)
        by_values = by_content(objective.features, objective.present)
        ordered = [objective.columns[index] for index in by_values]
        # The first pass comes first, then bounded columns, then free columns.
        ordered.sort(key=lambda name: (name != FIRST_PASS, name in free))
        objective = objective.over(ordered)
        if self.losses is None:
            return self._optimise(objective)
        start = pattern.equal_weights(objective)
        if pattern.are_deep(lists):
            start = line_search(objective)
        weights, _ = objective.weights(start)
        kept = pattern.likely(lists, weights)
        if kept is not None:
            objective = TuningObjective.of(
                self.metric, lists, objective.columns, free, kept=kept
            )
        objective = pattern.deciding_by(self.losses, objective, lists, kept)
        return self._optimise(objective)

    def _optimise(self, objective: TuningObjective) -> Optimum:
        """Return the optimum of an objective, as `options` say."""
        # A search for BLEU that begins with the weights of the best score ends where
        # dev lists and other lists have less.
        equal = self.metric.words is None
        tried = self._tried(objective)
        return optimise(objective, self.options.bagging, equal, tried)

    def _tried(self, objective: TuningObjective) -> int:
        """Return the number of columns that are tried beside the first pass.

        The columns of expansions are not tried: they come with new hypotheses, whose
        gain has a test of its own.
        """
        usual = columns_for(self.lists.header, objective.columns, ())
        return len(usual) - 1

    def _as_fit(
        self, best: Optimum, names: Sequence[str], excluded: frozenset[str]
    ) -> SearchResult:
        """Return the fit of an optimum.

        Args:
            best: The optimum.
            names: Columns; those that the optimum does not have get weight 0.
            excluded: Hypotheses of these origins may not win.
        """
        fit = self._at(best.point, best.objective, names, excluded)
        if best.helps:
            return self._with_interval(fit, best)
        if not best.plain[1:].any():
            return fit
        objective = best.objective
        tested, _ = objective.weights(best.average)
        trial = self._at(best.average, objective, names, excluded)
        alone = objective.chosen(best.alone)
        number = self._tried(objective)
        unproven = self._unproven(tested, trial, alone, number)
        if unproven is not None:
            unproven = replace(unproven, model_alone=best.tried_alone)
        return replace(fit, unproven=unproven)

    def _at(
        self,
        point: Floats,
        objective: TuningObjective,
        names: Sequence[str],
        excluded: frozenset[str],
    ) -> SearchResult:
        """Return the fit of a point of the search.

        Args:
            point: The point.
            objective: The objective, whose columns the point weighs.
            names: Columns; those that the objective does not have get weight 0.
            excluded: Hypotheses of these origins may not win.
        """
        weights, scale = objective.weights(point)
        decision = self.options.decision
        if objective.losses is not None:
            decision = replace(decision, scale=scale)
        return SearchResult(
            dict.fromkeys(names, 0.0) | weights | self.given,
            objective.chosen(point),
            decision,
            excluded,
        )

    def _with_interval(self, fit: SearchResult, best: Optimum) -> SearchResult:
        """Return the fit with the interval in which its weight is equally good, if the
        best score has a single weight.
        """
        is_single = len(self.shares) == 1 and not self.free
        if not is_single or not self.options.decision.is_best:
            return fit
        (name,) = self.shares
        objective = best.objective
        ends = []
        for share in same(objective, float(best.point[1])):
            weights, _ = objective.weights(np.array([1 - share, share]))
            ends.append(weights[name])
        low, high = ends
        return replace(fit, low=low, high=high)

    def _for_decision(
        self, fit: SearchResult, best: Optimum, new_words: frozenset[str]
    ) -> SearchResult:
        """Return the weights of the best score with a decision that has its own scale;
        the first pass alone if the texts do not gain by these weights.

        Args:
            fit: The fit for the best score.
            best: The optimum for the best score.
            new_words: Origins that may not win if the first pass decides alone.
        """
        zeros = dict.fromkeys(fit.weights, 0.0) | {FIRST_PASS: 1.0, **self.given}
        alone = self._decided(zeros, new_words)
        average, _ = best.objective.weights(best.average)
        weights = zeros | average
        fixed = {FIRST_PASS, *self.given}
        if not any(weights[name] for name in weights if name not in fixed):
            return alone
        trial = self._decided(weights, fit.excluded)
        number = sum(1 for name in self.names if weights.get(name))
        if self._better(trial.chosen, alone.chosen, errors_of_sum(number)):
            return trial
        unproven = self._unproven(weights, trial, alone.chosen, number)
        return replace(alone, unproven=unproven)

    def _decided(
        self, weights: Mapping[str, float], excluded: frozenset[str]
    ) -> SearchResult:
        """Return the fit of weights with the scale of the decision; the best scale if
        the decision has none.
        """
        decision = self.options.decision
        choice = Choice(dict(weights), excluded, decision)
        if decision.lacks_scale:
            decision, chosen = tune_scale(choice, self.metric, self.lists)
        else:
            chosen = self._texts(choice)
        return SearchResult(dict(weights), chosen, decision, excluded)

    def _texts(self, choice: Choice) -> Counts:
        """Return the statistics (lists, k) of the texts that are chosen."""
        # The lists have the first pass that the mixture makes.
        texts = replace(choice, mixture=None).texts(self.metric, self.lists)
        return text_statistics(self.metric, self.lists, texts)

    def _unproven(
        self,
        weights: Mapping[str, float],
        trial: SearchResult,
        alone: Counts,
        number: int,
    ) -> Unproven | None:
        """Return the record of weights whose gain is not significant; None without
        resampling.

        Args:
            weights: The weights.
            trial: Their fit.
            alone: The statistics (lists, k) of the texts that the first pass chooses.
            number: Number of columns that were tuned together.
        """
        if not self.options.bagging:
            return None
        named = {}
        for name, weight in weights.items():
            is_tested = name in self.shares or (name in self.free and weight)
            if is_tested and name in self.varying:
                named[name] = weight
        errors = errors_of_sum(number)
        low, high = gain_interval(self.metric, trial.chosen, alone, errors)
        before = self._value(alone)
        return Unproven(
            named,
            self._value(trial.chosen),
            low,
            high,
            before,
            errors,
            emptied=self._emptied(trial),
        )

    def _emptied(self, fit: SearchResult) -> int:
        """Return the number of lists for which a fit chooses an empty text, and whose
        references have words.
        """
        doubtful = [
            nbest
            for nbest in self.lists
            if all(map(str.strip, nbest.references))
            and not all(hypothesis.text.strip() for hypothesis in nbest.hypotheses)
        ]
        choice = Choice(fit.weights, fit.excluded, fit.decision)
        texts = choice.texts(self.metric, self.lists.with_lists(doubtful))
        return sum(1 for text in texts if not text.strip())

    def _weights(
        self, weights: Mapping[str, float], excluded: frozenset[str]
    ) -> Weights:
        """Return the weights in the order in which their columns were named, the first
        pass first.
        """
        lm = {name: weights.get(name, 0.0) for name in self.shares}
        bonuses = {name: weights[name] for name in self.free if name in weights}
        result = Weights.interpolation(lm, self.tuning, bonuses | self.given)
        ordered = {}
        for name in [FIRST_PASS, *self.ordered]:
            if name in result.weights:
                ordered[name] = result.weights[name]
        return replace(result, weights=ordered, excluded=excluded)

    def _better(
        self, ours: Counts, theirs: Counts, errors: float = STANDARD_ERRORS
    ) -> bool:
        """Return whether choices (lists, k) are better than others: by more than some
        standard errors, or on these very lists with --no-bagging.
        """
        if self.options.bagging:
            return significantly_better(self.metric, ours, theirs, errors)
        return is_better(
            self._value(ours), self._value(theirs), self.metric.higher_is_better
        )

    def _value(self, chosen: Counts) -> float:
        """Return the metric of choices (lists, k), in percent."""
        return float(self.metric.values(chosen.sum(axis=0)[None])[0])


def _raised(
    nbest: NbestList, given: Mapping[str, float], columns: Sequence[str]
) -> NbestList:
    """Return the list with given bonuses added to each bounded column.

    The weights of these columns add up to 1, so every point of the search has the
    bonuses.
    """
    bonuses = combine(nbest, Choice(dict(given))).tolist()
    hypotheses = []
    for hypothesis, bonus in zip(nbest.hypotheses, bonuses, strict=True):
        scores = dict(hypothesis.scores)
        for name in columns:
            scores[name] += bonus
        hypotheses.append(replace(hypothesis, scores=scores))
    return replace(nbest, hypotheses=hypotheses)


def _summed(
    nbest: NbestList, weights: Mapping[str, float], columns: Sequence[str]
) -> NbestList:
    """Return the list with its combined score as first pass, and some columns."""
    combined = combine(nbest, Choice(dict(weights))).tolist()
    hypotheses = []
    for hypothesis, score in zip(nbest.hypotheses, combined, strict=True):
        scores = {name: hypothesis.scores[name] for name in columns}
        scores[FIRST_PASS] = score
        hypotheses.append(replace(hypothesis, scores=scores))
    return replace(nbest, hypotheses=hypotheses)


def same(objective: TuningObjective, weight: float) -> tuple[float, float]:
    """Return the interval around a single weight in which the metric keeps its value.

    Args:
        objective: An objective over the first pass and one column.
        weight: The weight of the standardised column, in [0, 1].

    Returns:
        Both ends of the interval.
    """
    first_pass = np.array([1.0, 0.0])
    towards_column = np.array([-1.0, 1.0])
    edges, values = objective.line(first_pass, towards_column, 0.0, 1.0)
    index = int(np.searchsorted(edges, weight, side="right")) - 1
    index = min(max(index, 0), len(values) - 1)
    others = np.flatnonzero(values != values[index])
    below = others[others < index]
    above = others[others > index]
    first = int(below.max(initial=-1)) + 1
    end = int(above.min(initial=len(values)))
    return float(edges[first]), float(edges[end])
