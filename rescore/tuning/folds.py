"""Tuning in folds: the weights of each fold are tuned on all other lists, and the
texts that they choose show what weights of all lists are worth.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rescore.columns import (
    FIRST_PASS,
    comes_from_expansion,
)
from rescore.dataset import Dataset
from rescore.metrics.base import Metric, is_better, text_statistics
from rescore.metrics.folds import Folds
from rescore.metrics.significance import places_in_order
from rescore.pace import paced
from rescore.tuning.record import HELD_OUT, Tuning, TuningOptions, Unproven
from rescore.tuning.search import gain_interval
from rescore.tuning.tune import tune_weights
from rescore.tuning.weights import Weights

log = logging.getLogger(__name__)


def tuned_in_folds(
    folds: Folds,
    metric: Metric,
    lists: Dataset,
    columns: Sequence[str],
    options: TuningOptions,
) -> list[Weights]:
    """Return the weights of each fold, tuned on the lists of the other folds.

    Args:
        folds: The fold of each list.
        metric: The metric that is tuned for.
        lists: Lists with references.
        columns: Columns of language models.
        options: How weights are tuned.
    """
    weights_of_folds = []
    of_list = np.array(folds.fold_of_list)
    for fold in paced(range(folds.number), "tuned %d of %d folds"):
        others = lists.part(np.flatnonzero(of_list != fold).tolist())
        tuning = Tuning.on(HELD_OUT, others, held_out=True)
        weights_of_folds.append(tune_weights(metric, others, columns, options, tuning))
    return weights_of_folds


@dataclass(frozen=True, slots=True)
class InFolds:
    """A set whose folds have weights of their own: which weights decide each list."""

    fold_of_list: Sequence[int]
    """The number of the fold of each list."""
    weights: Sequence[Weights]
    """The weights of each fold, with their decision."""

    def of_lists(self) -> Iterator[Weights]:
        """Yield the weights of each list."""
        for fold in self.fold_of_list:
            yield self.weights[fold]

    def changed(self, change: Callable[[Weights], Weights]) -> InFolds:
        """Return the same folds with changed weights."""
        return replace(self, weights=[change(weights) for weights in self.weights])

    def texts(self, metric: Metric | None, lists: Dataset) -> list[str]:
        """Return the text of each list that the weights of its fold choose; the lists
        of a fold are decided together.

        Args:
            metric: The metric whose expected loss counts, where a decision needs one.
            lists: The lists.
        """
        texts = [""] * len(lists)
        for fold, weights in enumerate(self.weights):
            places = [at for at, its in enumerate(self.fold_of_list) if its == fold]
            of_fold = lists.with_lists(lists[place] for place in places)
            chosen = weights.texts(metric, of_fold)
            for place, text in zip(places, chosen, strict=True):
                texts[place] = text
        return texts


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The weights of a set that was cut into folds, and what they choose."""

    weights: Weights
    """The weights of all lists."""
    in_folds: InFolds
    """The weights of each fold, tuned on the other folds."""
    texts: list[str] | None = None
    """The text that the weights of its fold choose from each list; None if no lists
    were decided.
    """


def judged_by_folds(
    folds: Folds,
    metric: Metric,
    lists: Dataset,
    weights: Weights,
    weights_of_folds: Sequence[Weights],
) -> HeldOut:
    """Return the weights of all lists and of each fold, with weight 0 for all columns
    that were tuned if the folds are worse than without these columns.

    Bonuses that the user gives and the decision stay, and so does the first pass of
    several systems.

    Args:
        folds: The fold of each list.
        metric: The metric that is tuned for.
        lists: Lists with references.
        weights: The weights of all lists.
        weights_of_folds: The weights of each fold, tuned on the other folds.
    """
    options = weights.tuning.options
    assert options
    result = InFolds(folds.fold_of_list, weights_of_folds)
    tuned = [name for name in weights.weights if name not in options.given]
    tuned.remove(FIRST_PASS)
    is_used = any(any(map(each.weighs, tuned)) for each in weights_of_folds)
    header = lists.header
    if header.by_systems or not (options.bagging and is_used):
        return HeldOut(weights, result)
    costs: list[str] = []
    if options.given:
        for name in options.bonuses:
            if comes_from_expansion(name, header.records.get(name)):
                costs.append(name)
    fewer = replace(options, bonuses=tuple(costs), negative=())
    alone = tuned_in_folds(folds, metric, lists, (), fewer)
    texts = result.texts(metric, lists)
    texts_without = replace(result, weights=alone).texts(metric, lists)
    # The bootstrap draws lists by their places, which must not depend on the file.
    places = places_in_order(lists)
    ours = text_statistics(metric, lists, texts)[places]
    theirs = text_statistics(metric, lists, texts_without)[places]
    sums = np.stack([ours.sum(axis=0), theirs.sum(axis=0)])
    value, before = metric.values(sums).tolist()
    if not is_better(before, value, metric.higher_is_better):
        return HeldOut(weights, result, texts)
    low, high = gain_interval(metric, ours, theirs)
    named = {name: weights.weights[name] for name in tuned}
    unproven = Unproven(named, value, low, high, before, held_out=True)
    first = tune_weights(metric, lists, (), fewer, weights.tuning)
    without = []
    for of_fold, without_columns in zip(weights_of_folds, alone, strict=True):
        without.append(of_fold.as_without_columns(without_columns))
    kept = weights.as_without_columns(first)
    kept = replace(kept, tuning=replace(kept.tuning, unproven=unproven))
    return HeldOut(kept, replace(result, weights=without), texts_without)
