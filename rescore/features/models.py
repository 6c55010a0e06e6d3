"""Features that are scores: of language models, parts of the toolkit's own score, and
the columns that files and expansions bring.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from rescore.columns import Role
from rescore.dataset import Dataset
from rescore.errors import UserError, counted
from rescore.expansion import Expansion
from rescore.features.base import (
    Feature,
    Reason,
    Situation,
    WeightedColumn,
    WeightKind,
)
from rescore.tuning.folds import choose_columns

log = logging.getLogger(__name__)

COUNTS = (Role.COUNT, Role.CHANNEL)
"""Roles of columns whose weight is a bonus."""


class Models(Feature):
    """Scores of the language models of a run; without models, the scores that the lists
    have.
    """

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield a share for each model, and a weight without bounds for each part of
        the toolkit's score that --column names.
        """
        names = [lm.name for lm in at.models]
        if not names and at.tuning_lists:
            header = at.tuning_lists.header
            chosen = choose_columns(at.tuning_lists, at.config.columns)
            names = [name for name in chosen if header.role(name) not in COUNTS]
        for name in names:
            # The kind follows from what the column is, not from the option.
            is_part = at.tuning_lists.header.role(name) is Role.COMPONENT
            kind = WeightKind.SIGNED if is_part else WeightKind.SHARE
            yield WeightedColumn(name, kind)


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
            raise UserError(
                "--components: the lists have no parts of the first-pass score; of"
                " ESPnet2 these are in {n}best_recog/scores, of Kaldi and SRILM the"
                " acoustic and the LM score; columns of your own table are tuned"
                " without --components"
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
        if not at.config.expands and not at.tuning_lists.header.systems:
            yield from self._parts(at, "no scores of language models", shown=True)

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
