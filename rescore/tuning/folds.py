"""Sets of lists: which columns they have, how they overlap, and tuning in folds."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rescore.columns import FIRST_PASS, Role
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.nbest import NbestList, bonus_columns
from rescore.pace import paced
from rescore.tuning.tune import tune
from rescore.tuning.tuned import Tuned
from rescore.tuning.weights import HELD_OUT, TuningOptions, Weights

if TYPE_CHECKING:
    from rescore.metrics.folds import Folds

log = logging.getLogger(__name__)

LARGE_SET = 500
"""Lists from which on a bonus can be tuned beside a single weight without fitting
accidents.
"""

SCALE_RATIO = 5.0
"""Ratio of spreads of first-pass scores from which on two sets cannot have the same
weights.
"""


def choose_columns(lists: Sequence[NbestList], asked: Sequence[str] = ()) -> list[str]:
    """The columns to tune: those asked for, or those of language models."""
    if not asked:
        return Dataset.of(lists).model_columns
    return [name for name in dict.fromkeys(asked) if name != FIRST_PASS]


def added_columns(lists: Sequence[NbestList]) -> list[str]:
    """The columns that expansions added to lists, whose weights are tuned as bonuses.

    Raises:
        UserError: some lists have them and others not.
    """
    columns: list[str] | None = None
    for nbest in lists:
        own = bonus_columns(nbest)
        columns = own if columns is None else columns
        if own != columns:
            name = min({*own} ^ {*columns})
            raise UserError(
                f"utterance {nbest.id}: {'has' if name in own else 'lacks'} the column"
                f" {name}, unlike the lists before; add it to all lists, or none"
            )
    return columns or []


def warn_of_unused(lists: Sequence[NbestList], columns: Sequence[str]) -> None:
    """Say so where lists have scores of models that are not among the models of a run,
    which gave `columns`.
    """
    known = Dataset.of(lists).header.columns.items()
    unused = [
        name for name, column in known if column.role is Role.LM and name not in columns
    ]
    if unused and columns:
        log.warning(
            "the scores of %s in the lists are not used beside --lm; to use them, too,"
            " add the model with `rescore score` and run without --lm",
            ", ".join(unused),
        )


def warn_of_single(lists: Sequence[NbestList]) -> None:
    """Say so where no list leaves a choice."""
    if lists and all(len(nbest.hypotheses) == 1 for nbest in lists):
        log.warning(
            "%severy list has only one hypothesis, so reranking cannot change anything;"
            " write more hypotheses in the decoder, for example with --nbest 10",
            Dataset.of(lists).header.place,
        )


def warn_of_overlap(lists: Sequence[NbestList], dev: Sequence[NbestList]) -> None:
    """Say so where dev and test share utterances: of one id, with the same
    references.
    """
    known = {(nbest.id, nbest.references) for nbest in dev}
    shared = [nbest.id for nbest in lists if (nbest.id, nbest.references) in known]
    if shared:
        log.warning(
            "%d of %d test utterances are also in the dev lists (first: %s); the"
            " figures on them are too good",
            len(shared),
            len(lists),
            shared[0],
        )


def warn_of_scales(lists: Sequence[NbestList], dev: Sequence[NbestList]) -> None:
    """Say so where the first-pass scores of dev and test differ in scale: then weights
    of the one are wrong here.
    """
    of_test, of_dev = _spread(lists), _spread(dev)
    if of_test and of_dev and max(of_test / of_dev, of_dev / of_test) > SCALE_RATIO:
        log.warning(
            "best and worst first-pass score of a list differ by %.3g in the dev lists"
            " but by %.3g in the test lists (medians), so the weights may not fit; use"
            " scores of one system, either all sums or all means",
            of_dev,
            of_test,
        )


def _spread(lists: Sequence[NbestList]) -> float:
    """The median over lists of the difference between the best and the worst first-pass
    score.
    """
    scores = [nbest.column(FIRST_PASS) for nbest in lists if len(nbest.hypotheses) > 1]
    spreads = [
        max(list_scores) - min(list_scores)
        for list_scores in scores
        if math.isfinite(min(list_scores))
    ]
    return statistics.median(spreads) if spreads else 0.0


def tuned_in_folds(
    folds: Folds,
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    options: TuningOptions,
) -> list[Weights]:
    """Return the weights of each fold, tuned on the lists of the other folds."""
    weights_of_folds = []
    for fold in paced(range(folds.number), "tuned %d of %d folds"):
        rest = [
            nbest
            for nbest, place in zip(lists, folds.fold, strict=True)
            if place != fold
        ]
        tuned = Tuned.on(HELD_OUT, rest, held_out=True)
        weights_of_folds.append(tune(metric, rest, columns, options, tuned))
    return weights_of_folds
