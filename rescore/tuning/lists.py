"""What tuning asks of lists: which columns can have a weight, whether dev and test
share utterances, and whether their scores have one scale.
"""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from rescore.columns import (
    FIRST_PASS,
    FROM_FILE,
    Role,
    comes_from_expansion,
    reserved_columns,
)
from rescore.correlations import pearson, varies
from rescore.dataset import FEWEST, Dataset
from rescore.decision import Decision
from rescore.decision.first_pass import class_of_records
from rescore.errors import UserError, counted
from rescore.metrics.base import Metric, list_statistics
from rescore.nbest import Header, NbestList, expansion_columns

log = logging.getLogger(__name__)

ENOUGH = 100
"""Lists with references below which a gain is often too small to tell from chance."""
FEW = "weights and scales that are tuned on %s vary much by chance"
"""What is wrong with weights that are tuned on fewer lists."""
SURE = 3.0
"""Standard errors by which the correlation of a column with errors is above 0."""
SCALE_RATIO = 5.0
"""Ratio of the spreads of first-pass scores from which on two sets cannot have the same
weights.
"""


def choose_columns(lists: Dataset, asked: Sequence[str] = ()) -> list[str]:
    """Return the columns to tune.

    Args:
        lists: The lists.
        asked: The columns that the user names; none for the columns of language models.
    """
    measured = lists.columns(Role.MEASUREMENT)
    if not asked:
        warn_of_measurements(lists)
        names = lists.model_columns
        return [name for name in names if not _is_number_in_list(name, lists)] or names
    for name in asked:
        if name in measured:
            log.warning(
                "--column %s: by its name, it measures texts against the reference; a"
                " gain by it says nothing about other lists",
                name,
            )
    return [name for name in dict.fromkeys(asked) if name != FIRST_PASS]


def warn_of_measurements(lists: Dataset) -> None:
    """Warn of columns that have no weight because they measure texts.

    Args:
        lists: The lists.
    """
    measured = lists.columns(Role.MEASUREMENT)
    if measured:
        log.warning(
            "%scolumns that measure texts against the reference have no weight (%s);"
            " if they are scores that read no reference, give them another name:"
            " --field qe=COLUMN",
            lists.header.prefix,
            ", ".join(measured),
        )


def why_untunable(name: str, tuned_on: Dataset, sets: Sequence[Dataset]) -> str:
    """Return why a column of the lists has no weight beside language models; empty if
    it can have one.

    Args:
        name: The name of the column.
        tuned_on: The lists that the weight is tuned on.
        sets: All sets of lists, which need the column.
    """
    for lists in sets:
        number = 0
        total = 0
        first = ""
        for nbest in lists:
            lacking = sum(name not in one.scores for one in nbest.hypotheses)
            number += lacking
            total += len(nbest.hypotheses)
            if lacking and not first:
                first = nbest.title
        if number:
            return (
                f"{number:,} of {counted(total, 'hypothesis')} lack it, first {first}"
            )
    if is_constant(name, tuned_on):
        return "the same for all hypotheses of each list"
    if _is_number_in_list(name, tuned_on):
        return f"numbers of the hypotheses in their list; --column {name} tunes it"
    return ""


def is_constant(name: str, lists: Iterable[NbestList]) -> bool:
    """Return whether a column is the same for all hypotheses of each list."""
    return all(len(set(nbest.column(name))) == 1 for nbest in lists)


def _is_number_in_list(name: str, lists: Iterable[NbestList]) -> bool:
    """Return whether a column numbers the hypotheses of each list in their order, from
    0 or 1.
    """
    several = [nbest for nbest in lists if len(nbest.hypotheses) > 1]
    for nbest in several:
        numbers = nbest.column(name)
        if numbers[0] not in (0, 1):
            return False
        if any(after != before + 1 for before, after in pairwise(numbers)):
            return False
    return bool(several)


def common_expansion_columns(lists: Iterable[NbestList]) -> list[str]:
    """Return the names of the columns that expansions added to all lists; their weights
    are bonuses.

    Raises:
        UserError: Some lists have such a column and others do not.
    """
    columns: list[str] | None = None
    for nbest in lists:
        own = expansion_columns(nbest)
        if columns is None:
            columns = own
        elif own != columns:
            name = min({*own} ^ {*columns})
            difference = "has" if name in own else "lacks"
            raise UserError(
                f"utterance {nbest.id}: {difference} the column"
                f" {name}, unlike the lists before; add it to all lists, or none"
            )
    return columns or []


def tell_order(decision: Decision, lists: Dataset) -> None:
    """Say that the order of lists without scores counts in a decision by posteriors.

    Args:
        decision: The decision.
        lists: The lists.
    """
    if decision.uses_posteriors and lists.is_order_only:
        log.info(
            "--decide %s counts the order of the hypotheses; for samples, which have no"
            " order, give --scale 0",
            decision.name,
        )


def warn_of_unused(lists: Dataset, columns: Sequence[str]) -> None:
    """Warn if lists have scores of models that are not among the models of a run.

    Args:
        lists: The lists.
        columns: The columns of the models of the run.
    """
    unused = []
    for name, column in lists.header.records.items():
        is_of_model = column.role is Role.LM and column != FROM_FILE
        if is_of_model and name not in columns:
            unused.append(name)
    if unused and columns:
        log.warning(
            "the scores of %s in the lists are not used beside --lm; to use them, too,"
            " add the model with `rescore score` and run without --lm",
            ", ".join(unused),
        )


def warn_of_unweighed(lists: Dataset, weighs: Callable[[str], bool]) -> None:
    """Warn of columns that could have a weight and have none, where nothing is tuned.

    Args:
        lists: The lists.
        weighs: Returns whether a column has a weight.
    """
    names = []
    for name in lists.columns(Role.LM):
        if not weighs(name) and not why_untunable(name, lists, [lists]):
            names.append(name)
    if names:
        log.warning(
            "%s: no weight is given or tuned, so the first pass decides alone; give"
            " --dev or --folds, which tune a weight, or --weight",
            ", ".join(names),
        )


def warn_of_single(lists: Dataset) -> None:
    """Warn if every list has a single hypothesis."""
    if lists and not lists.have_choices:
        log.warning(
            "%severy list has only one hypothesis, so reranking cannot change anything;"
            " write more hypotheses in the decoder, for example with --nbest 10",
            lists.header.prefix,
        )


def warn_of_constant(lists: Dataset, columns: Sequence[str]) -> None:
    """Warn of columns that are constant in every list: a weight adds the same to all
    hypotheses of a list, so it changes nothing.

    Columns of expansions are left out: they are constant wherever an expansion found no
    new hypothesis, and it says so itself.

    Args:
        lists: The lists that weights are tuned on.
        columns: The names of the columns whose weights the user asks for.
    """
    several = [nbest for nbest in lists if len(nbest.hypotheses) > 1]
    if not several:
        return
    constant = []
    known = reserved_columns()
    for name in columns:
        if comes_from_expansion(name, lists.header.records.get(name)):
            continue
        if not is_constant(name, several):
            continue
        if name in known and known[name].if_constant:
            log.warning("%s", known[name].if_constant)
        else:
            constant.append(name)
    if constant:
        log.warning(
            "%s: the same for all hypotheses of each list, so a weight changes nothing;"
            " leave the column out, or tune on other lists%s",
            ", ".join(constant),
            _advice_on_means(lists.header, constant),
        )


def _advice_on_means(header: Header, columns: Sequence[str]) -> str:
    """Return what to give if a division by the number of tokens may have made columns
    constant; empty if no column was divided.

    Args:
        header: The header of the lists.
        columns: The columns.
    """
    for name in columns:
        record = header.records.get(name)
        if record is not None and record.norm == "mean":
            return (
                ". The scores were divided by the number of tokens; --lm-norm sum"
                ' (lm_norm="sum" in Python) switches this off'
            )
    return ""


def warn_of_signs(metric: Metric, lists: Dataset, names: Sequence[str]) -> None:
    """Warn of columns without a weight of which a higher value goes with more errors,
    such as an estimated error rate: a weight above 0 cannot help.

    Args:
        metric: The metric.
        lists: Lists with references.
        names: The columns, which are no scores of language models.
    """
    if not names:
        return
    losses = list(map(metric.losses, list_statistics(metric, lists)))
    for name in names:
        correlations = []
        for nbest, own in zip(lists, losses, strict=True):
            values = np.array(nbest.column(name))
            if np.isfinite(values).all() and varies(own) and varies(values):
                correlations.append(pearson(values, own))
        if len(correlations) < FEWEST:
            continue
        error = np.std(correlations) / math.sqrt(len(correlations))
        if np.mean(correlations) > SURE * error:
            log.warning(
                "%s has no weight, and a higher %s goes with more errors: if lower is"
                " better, give --field %s=-%s, which changes the sign, or"
                " --allow-negative %s",
                *[name] * 5,
            )


def warn_of_overlap(lists: Dataset, dev: Iterable[NbestList]) -> None:
    """Warn if dev and test share utterances: lists with the same id and references."""
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


def warn_of_few(lists: Dataset) -> None:
    """Warn of lists that are too few to tune on.

    Args:
        lists: The lists that weights, or the first pass of several systems, are tuned
            on.
    """
    header = lists.header
    few = FEW
    enough = ENOUGH
    if header.by_systems:
        first_pass = class_of_records()
        if len(header.systems) < first_pass.fewest:
            return
        few = first_pass.few
        enough = first_pass.enough
    if len(lists) < enough:
        told = few % counted(len(lists), "list")
        log.warning("%s%s; tune on %d lists or more", header.prefix, told, enough)


def warn_of_scales(lists: Iterable[NbestList], dev: Iterable[NbestList]) -> None:
    """Warn if the first-pass scores of dev and test differ in scale: then the weights
    of dev are wrong for test.
    """
    of_test = _spread(lists)
    of_dev = _spread(dev)
    if of_test and of_dev and max(of_test / of_dev, of_dev / of_test) > SCALE_RATIO:
        log.warning(
            "best and worst first-pass score of a list differ by %.3g in the dev lists"
            " but by %.3g in the test lists (medians), so the weights may not fit; use"
            " scores of one system, either all sums or all means",
            of_dev,
            of_test,
        )


def _spread(lists: Iterable[NbestList]) -> float:
    """Return the difference between the best and the worst first-pass score of a list,
    the median over lists; 0 if no list has a difference.
    """
    spreads = []
    for nbest in lists:
        if len(nbest.hypotheses) > 1:
            scores = nbest.column(FIRST_PASS)
            if math.isfinite(min(scores)):
                spreads.append(max(scores) - min(scores))
    return statistics.median(spreads) if spreads else 0.0
