"""The best weights for one decision on lists with references: `Tuner` searches for
them, first with all columns, then without the columns of weight 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from rescore.columns import comes_from_expansion
from rescore.dataset import Dataset
from rescore.decision.first_pass import FirstPass
from rescore.metrics.base import Counts, Metric, check_measurable
from rescore.parts import TUNING_OF_SYSTEMS, resolve
from rescore.tuning.components import toolkit_score
from rescore.tuning.record import Tuning, TuningOptions
from rescore.tuning.search import Searches
from rescore.tuning.tuner import Tuner
from rescore.tuning.weights import Weights

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
    searches: Searches | None = None,
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
        searches: The searches for this metric that are done; None for none.

    Raises:
        UserError: A list has no reference, or lacks a column; or all references are
            empty.
    """
    options = options or TuningOptions()
    tuning = tuning or Tuning.on("dev", lists)
    check_measurable(metric, lists, "weights cannot be tuned on them")
    if searches is None:
        searches = Searches()
    weights = _searched(metric, lists, columns, options, tuning, searches)
    asked = _Asked(tuple(columns), options.bonuses, options.negative, searches)
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
    searches: Searches,
    is_first: bool = True,
) -> Weights:
    """Return the weights of one search.

    Args:
        metric: The metric that is tuned for.
        lists: Lists with references.
        columns: Columns of language models.
        options: How weights are tuned.
        tuning: The record of the lists.
        searches: The searches that are done.
        is_first: Whether the search tells what it finds; a second one is silent.
    """
    if not lists.header.by_systems:
        tuner = Tuner(metric, lists, columns, tuning, options, searches, None, is_first)
        return tuner.tune()

    def fitted(
        with_first_pass: Dataset, decided: TuningOptions, made_by: FirstPass
    ) -> tuple[Weights, Counts]:
        # Each first pass has searches of its own.
        tuner = Tuner(
            metric,
            with_first_pass,
            columns,
            tuning,
            decided,
            Searches(),
            made_by,
            is_first,
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
    searches: Searches
    """The searches that are done."""


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
    again = _searched(
        metric, lists, kept, fewer, weights.tuning, asked.searches, is_first=False
    )
    again = _without_influence(metric, lists, kept, again, asked)
    return weights.as_without_columns(again)
