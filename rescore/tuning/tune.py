"""The best weights on lists with references, for one decision."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.decision.mixture import Mixture
from rescore.decision.rules import ListWeights, WeightsOf, candidates, combine
from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, is_better, text_statistics
from rescore.metrics.listed import LISTED
from rescore.metrics.significance import in_order
from rescore.nbest import NbestList, columns_for, new_word_origins, without_copies
from rescore.signature import origins
from rescore.tuning.objective import Objective, by_content
from rescore.tuning.search import (
    Optimum,
    gain_interval,
    optimise,
    significantly_better,
    without_useless,
)
from rescore.tuning.tuned import Tuned
from rescore.tuning.weights import TunedFor, TuningOptions, Unproven, Weights

log = logging.getLogger(__name__)


def tune(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    options: TuningOptions | None = None,
    tuned: Tuned | None = None,
) -> Weights:
    """Return the best weights of LM columns, and of bonuses, for one decision, on lists
    with references.

    The objective is the metric of the texts that the decision chooses. Weights are
    averaged over bootstrap samples. A column whose gain beside the others is within
    chance is left out, and so are all of them (or as `options` say). For a decision by
    expected loss, weights and scale are tuned together; for another decision that needs
    a scale, the weights are tuned for the best score.

    Args:
        metric: The metric that is tuned for.
        lists: Lists with references.
        columns: Columns of language models.
        options: How weights are tuned.
        tuned: The record of the lists; None for lists called dev.

    Raises:
        UserError: A list has no reference, or lacks a column.
    """
    options = options or TuningOptions()
    tuned = tuned or Tuned.on("dev", lists)
    if Dataset.of(lists).header.systems:
        # here: most lists are of one system
        from rescore.tuning.mixture import tune_with_votes

        def fitted(
            voted: Sequence[NbestList], decided: TuningOptions, mixture: Mixture
        ) -> tuple[Weights, Counts]:
            tuner = Tuner(metric, voted, columns, tuned, decided, mixture)
            return tuner.tune(), tuner.chosen

        has_columns = bool(columns or options.bonuses or options.given)
        level = logging.DEBUG if tuned.held_out else logging.INFO
        return tune_with_votes(metric, lists, options, fitted, has_columns, level)
    weights = Tuner(metric, lists, columns, tuned, options).tune()
    if LISTED in options.bonuses and not weights.weighs(LISTED):
        log.warning(
            "the boost of listed words has no significant gain on %s: it is off;"
            " --boost NUMBER sets it",
            tuned.source,
        )
    return weights


@dataclass(frozen=True, slots=True)
class Fit:
    """What one search ends with."""

    weights: dict[str, float]
    """Of all columns that were tuned; 0 for those that were left out."""
    chosen: Counts
    """(lists, k) the statistics of the texts that the decision chooses with them."""
    decision: Decision
    excluded: frozenset[str] = frozenset()
    """Hypotheses of these origins may not win."""
    unproven: Unproven | None = None
    """The best weights, where these are 0 because no gain was significant."""
    low: float | None = None
    """A single weight is as good from here ..."""
    high: float | None = None
    """... to here."""
    with_all: float | None = None
    """The metric with weights of all columns, where some were left out."""


class Tuner:
    """One search, with the decision inside, on lists whose first pass a mixture may
    have made.
    """

    def __init__(
        self,
        metric: Metric,
        lists: Sequence[NbestList],
        columns: Sequence[str],
        tuned: Tuned,
        options: TuningOptions,
        mixture: Mixture | None = None,
    ) -> None:
        """
        Raises:
            UserError: an option does not suit the columns.
        """
        for name in options.negative:
            if name not in columns:
                raise UserError(
                    f"--allow-negative {name}: not a column of an LM; there are"
                    f" {', '.join(columns)}"
                )
        self.metric = metric
        self.options = options
        self.tuned = tuned
        self.mixture = mixture
        self.models = [name for name in columns if name not in options.negative]
        self.free = [*options.bonuses, *options.negative]
        self.given = options.given
        self.named = [*columns, *options.bonuses, *self.given]
        self.lists = [without_copies(nbest) for nbest in in_order(lists, lists)]
        self.losses = options.decide.losses if options.decide.needs_scale else None
        self._own_scale = options.decide.takes_scale and self.losses is None

    def tune(self) -> Weights:
        """The weights to write."""
        fit = self._fit()
        weights = replace(
            self._weights(fit.weights, fit.excluded),
            columns=origins(self.lists, dict.fromkeys([*self.models, *self.free], 0.0)),
            options=self.options,
            unproven=fit.unproven,
            decision=fit.decision,
            mixture=self.mixture,
        )
        chosen = self.chosen = (
            fit.chosen if self._own_scale else self._texts(weights.decision, weights.of)
        )
        first_pass = self._value(self._texts(Decision(), {FIRST_PASS: 1.0}))
        about = TunedFor.by(
            self.metric, self._value(chosen), first_pass, len(self.lists)
        )
        return replace(
            weights,
            tuned_for=replace(about, low=fit.low, high=fit.high, with_all=fit.with_all),
        )

    def _fit(self) -> Fit:
        """The weights for the decision."""
        names = [*self.models, *self.free]
        header = Dataset.of(self.lists).header
        new_words = new_word_origins(self.lists, header, self.free)
        if not names and self._own_scale:
            return self._decided({FIRST_PASS: 1.0, **self.given}, frozenset())

        def among(excluded: frozenset[str]) -> Optimum:
            kept = columns_for(header, names, set(new_words) - excluded)
            return self._search(
                [candidates(nbest, excluded) for nbest in self.lists], kept
            )

        excluded = frozenset(new_words)
        best = among(excluded)
        if new_words:  # they may win only where they gain
            trial = among(frozenset())
            if self._better(trial.chosen, best.chosen):
                best, excluded = trial, frozenset()
            else:
                named = " and ".join(new_words)
                log.warning(
                    "%s hypotheses have no significant gain on %s (%.2f with, %.2f"
                    " without): nothing is %s",
                    *(named, self.tuned.source, trial.value, best.value, named),
                )
        every = best
        if self.options.bagging:
            removable = {*columns_for(header, names, ())}
            best = without_useless(best, removable, self._optimise)
        fit = self._as_fit(
            best, columns_for(header, names, set(new_words) - excluded), excluded
        )
        if self._own_scale:
            return self._for_decision(fit, best, frozenset(new_words))
        return (
            fit
            if best is every
            else replace(fit, with_all=every.objective.value(every.average))
        )

    def _search(self, lists: Sequence[NbestList], names: Sequence[str]) -> Optimum:
        """The optimum over columns beside the first pass, on lists of the hypotheses
        that may win.
        """
        bounded, free = (
            [name for name in names if (name in self.free) == is_free]
            for is_free in (False, True)
        )
        lists = (
            [_raised(nbest, self.given, [FIRST_PASS, *bounded]) for nbest in lists]
            if self.given
            else lists
        )
        objective = Objective.of(
            self.metric, lists, [FIRST_PASS, *bounded, *free], free
        )
        by_values = [
            objective.columns[place]
            for place in by_content(objective.features, objective.present)
        ]
        objective = objective.over(
            sorted(by_values, key=lambda name: (name != FIRST_PASS, name in free))
        )
        if self.losses:
            # here: only decisions by expected loss need it
            from rescore.tuning import pattern

            kept = pattern.likely(
                lists, objective.weights(pattern.equal_weights(objective))[0]
            )
            if kept:
                objective = Objective.of(
                    self.metric, lists, objective.columns, free, kept=kept
                )
            objective = pattern.deciding_by(self.losses, objective, lists, kept)
        return self._optimise(objective)

    def _optimise(self, objective: Objective) -> Optimum:
        # From the weights of the best score on, a search for BLEU ends where dev and
        # other lists have less.
        return optimise(
            objective, self.options.bagging, equal=self.metric.words is None
        )

    def _as_fit(
        self, best: Optimum, names: Sequence[str], excluded: frozenset[str]
    ) -> Fit:
        """The fit of an optimum; columns of `names` that are not in it have weight
        0.
        """
        objective, point, ends = best.objective, best.point, None
        if (
            best.helps
            and len(self.models) == 1
            and not self.free
            and self.options.decide.name == "best"
        ):
            ends = same(objective, float(point[1]))
        weights, scale = objective.weights(point)
        decide = (
            self.options.decide
            if objective.losses is None
            else replace(self.options.decide, scale=scale)
        )
        fit = Fit(
            dict.fromkeys(names, 0.0) | weights | self.given,
            objective.chosen(point),
            decide,
            excluded,
        )
        if ends:
            low, high = (
                objective.weights(np.array([1 - end, end]))[0][self.models[0]]
                for end in ends
            )
            return replace(fit, low=low, high=high)
        if best.helps or not best.plain[1:].any():
            return fit
        alone, tested = objective.chosen(best.alone), objective.chosen(best.average)
        return replace(
            fit,
            unproven=self._unproven(objective.weights(best.average)[0], tested, alone),
        )

    def _for_decision(self, fit: Fit, best: Optimum, new_words: frozenset[str]) -> Fit:
        """The weights of the best score with a decision's own scale, where its texts
        gain by them.

        Args:
            fit, best: for the best score. new_words: origins that may not win where the
                first pass decides alone.
        """
        zeros = dict.fromkeys(fit.weights, 0.0) | {FIRST_PASS: 1.0, **self.given}
        alone = self._decided(zeros, new_words)
        weights = zeros | best.objective.weights(best.average)[0]
        if not any(
            weight
            for name, weight in weights.items()
            if name not in (FIRST_PASS, *self.given)
        ):
            return alone
        trial = self._decided(weights, fit.excluded)
        if self._better(trial.chosen, alone.chosen):
            return trial
        return replace(
            alone, unproven=self._unproven(weights, trial.chosen, alone.chosen)
        )

    def _decided(self, weights: Mapping[str, float], excluded: frozenset[str]) -> Fit:
        """The fit of weights with the decision's own scale, the best one where it has
        none.
        """
        decision = self.options.decide

        def deciding(nbest: NbestList) -> ListWeights:
            return ListWeights(weights, excluded, self.mixture)

        if decision.needs_scale:
            # here: the best score has no scale
            from rescore.tuning.scale import tune_scale

            decision, chosen = tune_scale(decision, self.metric, self.lists, deciding)
        else:
            chosen = self._texts(decision, deciding)
        return Fit(dict(weights), chosen, decision, excluded)

    def _texts(self, decision: Decision, weights: WeightsOf) -> Counts:
        """(lists, k) the statistics of the texts that a decision chooses."""
        return text_statistics(
            self.metric, self.lists, decision.texts(self.metric, self.lists, weights)
        )

    def _unproven(
        self, weights: Mapping[str, float], chosen: Counts, alone: Counts
    ) -> Unproven | None:
        """The record of weights whose gain is not significant; None without
        resampling.
        """
        if not self.options.bagging:
            return None
        named = {
            name: weight
            for name, weight in weights.items()
            if name in self.models or (name in self.free and weight)
        }
        interval = gain_interval(self.metric, chosen, alone)
        return Unproven(named, self._value(chosen), *interval, alone=self._value(alone))

    def _weights(
        self, weights: Mapping[str, float], excluded: frozenset[str] = frozenset()
    ) -> Weights:
        """The weights in the order in which their columns were named, the first pass
        first.
        """
        lm = {name: weights.get(name, 0.0) for name in self.models}
        bonuses = {name: weights[name] for name in self.free if name in weights}
        result = Weights.interpolation(lm, self.tuned, bonuses | self.given)
        ordered = [
            name
            for name in dict.fromkeys([FIRST_PASS, *self.named])
            if name in result.weights
        ]
        return replace(
            result,
            weights={name: result.weights[name] for name in ordered},
            excluded=excluded,
        )

    def _better(self, ours: Counts, theirs: Counts) -> bool:
        """Whether choices (lists, k) are better than others: significantly so, or on
        these lists with --no-bagging.
        """
        if self.options.bagging:
            return significantly_better(self.metric, ours, theirs)
        return is_better(
            self._value(ours), self._value(theirs), self.metric.higher_is_better
        )

    def _value(self, chosen: Counts) -> float:
        """The metric of choices (lists, k), in percent."""
        return float(self.metric.values(chosen.sum(axis=0)[None])[0])


def _raised(
    nbest: NbestList, given: Mapping[str, float], columns: Sequence[str]
) -> NbestList:
    """The list with given bonuses in each bounded column. The weights of these columns
    add up to 1, so every point of the search has the bonuses.
    """
    bonus = combine(nbest, given).tolist()
    return replace(
        nbest,
        hypotheses=[
            replace(
                one,
                scores=one.scores
                | {name: one.scores[name] + extra for name in columns},
            )
            for one, extra in zip(nbest.hypotheses, bonus, strict=True)
        ],
    )


def same(objective: Objective, weight: float) -> tuple[float, float]:
    """How far a single weight can move before any choice on these lists changes the
    value.
    """
    edges, values = objective.line(
        np.array([1.0, 0.0]), np.array([-1.0, 1.0]), 0.0, 1.0
    )
    place = int(
        np.clip(np.searchsorted(edges, weight, side="right") - 1, 0, len(values) - 1)
    )
    others = np.flatnonzero(values != values[place])
    below, above = others[others < place], others[others > place]
    first, last = int(below.max(initial=-1)) + 1, int(above.min(initial=len(values)))
    return float(edges[first]), float(edges[last])
