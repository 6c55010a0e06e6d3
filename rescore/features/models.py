"""Features that are scores: of language models, parts of the toolkit's own score, and
the columns that files and expansions bring; and which columns have no weight.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence

from rescore.columns import Role
from rescore.dataset import Dataset
from rescore.errors import UserError, counted, listed
from rescore.expansion import Expansion
from rescore.features.base import (
    Feature,
    Reason,
    Situation,
    WeightedColumn,
    WeightKind,
)
from rescore.parts import FORMATS
from rescore.tuning.lists import choose_columns, warn_of_measurements, why_untunable

log = logging.getLogger(__name__)

LEFT_OUT = "left out of the tuning"
COUNTS = (Role.COUNT, Role.CHANNEL)
"""Roles of columns whose weight is a bonus."""


class Models(Feature):
    """Scores of the language models of a run, or else of the models that scored the
    lists before, and the columns of scores that the file itself has.
    """

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield a share for each model and each column of the file, and a weight
        without bounds for each part of the toolkit's score that --column names.
        """
        names = [lm.name for lm in at.models]
        if at.tuning_lists:
            names += _of_lists(at)
        for name in dict.fromkeys(names):
            # The kind follows from what the column is, not from the option.
            is_part = at.tuning_lists.header.role(name) is Role.COMPONENT
            kind = WeightKind.SIGNED if is_part else WeightKind.SHARE
            yield WeightedColumn(name, kind)

    def unweighted(self, at: Situation, weighted: Collection[str]) -> Iterator[Reason]:
        """Yield the columns of the files that have no weight."""
        if at.tunes:
            names_by_reason: dict[str, list[str]] = {}
            for name, why in _untunable(at).items():
                names_by_reason.setdefault(why, []).append(name)
        else:
            why = "columns of the lists; --dev LISTS or --folds 5 tunes them"
            names_by_reason = {why: at.lists.own_columns}
        subject = LEFT_OUT if at.tunes else "without a weight"
        for why, names in names_by_reason.items():
            others = [name for name in names if name not in weighted]
            if others:
                yield Reason(subject, listed(others), why, shown=True)


def _of_lists(at: Situation) -> list[str]:
    """Return the columns of scores in the lists whose weights are tuned: as --column
    names them, else of the models that scored the lists, if there are no others, and
    of the file itself.
    """
    lists = at.tuning_lists
    named = at.config.columns
    if named or not at.models:
        names = choose_columns(lists, named)
    else:
        names = []
        warn_of_measurements(lists)
    if not named:
        untunable = _untunable(at)
        for name in lists.own_columns:
            if name not in names and name not in untunable:
                names.append(name)
    return [name for name in names if lists.header.role(name) not in COUNTS]


def _untunable(at: Situation) -> dict[str, str]:
    """Return the columns of the files that cannot be tuned beside the scores of models,
    with the reasons.
    """
    reasons = {}
    for lists in at.all_sets:
        for name in lists.own_columns:
            if why := why_untunable(name, at.tuning_lists, at.all_sets):
                reasons[name] = why
    return reasons


class Components(Feature):
    """The parts of the toolkit's own score, such as its acoustic score."""

    def check_lists(self, at: Situation, expansions: Sequence[Expansion]) -> None:
        """See that the lists have parts of the score, and that new hypotheses will have
        them.
        """
        if not at.config.components:
            return
        columns = at.tuning_lists.columns(Role.COMPONENT)
        if not columns:
            own = at.tuning_lists.own_columns
            advice = f"; {listed(own)}: tuned without --components" if own else ""
            raise UserError(
                "--components: the lists have no parts of the first-pass score;"
                f" formats that can have them: {', '.join(_with_components())} (espnet2"
                f" in {{n}}best_recog/scores, moses as features){advice}"
            )
        for expansion in expansions:
            expansion.check_components(at.tuning_lists, columns)
        _tell_absent(at.tuning_lists, columns)

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield a weight without bounds for each part, with --components."""
        if at.config.components:
            yield from self._parts(at, "--components")

    def weighted_alone(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield a weight without bounds for each part, as with --components."""
        if not at.config.expands and not at.tuning_lists.header.by_systems:
            yield from self._parts(at, "no scores of language models", shown=True)

    def unweighted(self, at: Situation, weighted: Collection[str]) -> Iterator[Reason]:
        """Yield the parts of the toolkit's score that are not tuned."""
        if at.tunes:
            yield from parts_left_out(at.tuning_lists, weighted)

    def _parts(
        self, at: Situation, why: str, shown: bool = False
    ) -> Iterator[WeightedColumn]:
        """Yield a weight without bounds for each part."""
        columns = at.tuning_lists.columns(Role.COMPONENT)
        if not columns:
            return
        named = ", ".join(columns)
        why += ": parts of the toolkit's score, weights without bounds"
        at.reasons.append(Reason("components", named, why, shown))
        for name in columns:
            yield WeightedColumn(name, WeightKind.SIGNED)


def _with_components() -> list[str]:
    """Return the formats whose lists can have parts of the toolkit's score."""
    every = FORMATS.loaded()
    return [name for name, format_ in every if getattr(format_, "components", "")]


def parts_left_out(lists: Dataset, weighted: Collection[str]) -> Iterator[Reason]:
    """Yield which parts of the toolkit's score have no weight, if there are any.

    Args:
        lists: The lists.
        weighted: The columns that have a weight.
    """
    names = [name for name in lists.columns(Role.COMPONENT) if name not in weighted]
    if names:
        toolkit = lists.header.records[names[0]].model
        why = f"components of {toolkit}; --components tunes them"
        yield Reason(LEFT_OUT, listed(names), why, shown=True)


def _tell_absent(lists: Dataset, columns: Sequence[str]) -> None:
    """Log how many hypotheses lack a part of the score, which is then 0."""
    wanted = set(columns)
    number = 0
    example = ""
    for nbest in lists:
        for hypothesis in nbest.hypotheses:
            absent = wanted - hypothesis.scores.keys()
            if absent:
                number += 1
                example = example or f"{nbest.id}, {min(absent)}"
    if number:
        log.warning(
            "--components: %s without some parts of the score, which count as 0"
            " (first: %s)",
            counted(number, "hypothesis"),
            example,
        )


class Counts(Feature):
    """Counts that a file brings and --column names: a bonus for each."""

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield a bonus for each count."""
        if not at.tuning_lists:
            return
        for name in at.config.columns:
            if at.tuning_lists.header.role(name) in COUNTS:
                yield WeightedColumn(name, WeightKind.BONUS)


class Expanded(Feature):
    """The columns that expansions add with new hypotheses: a bonus for each unit."""

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield a bonus for each column."""
        for name in at.expansion_columns:
            yield WeightedColumn(name, WeightKind.BONUS)
