"""What this wing weighs: columns and origins of hypotheses that its parts add."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rescore.asr.agreement import Agreement
from rescore.asr.mixture import AGREEMENT, Mixture, named
from rescore.columns import Reserved, Role
from rescore.config import SYSTEMS
from rescore.dataset import Dataset
from rescore.errors import OptionError, UserError, counted
from rescore.expansion import Expansion
from rescore.features import Feature, Situation
from rescore.metrics import Normaliser
from rescore.options import Declared, option
from rescore.tuning import Weights

log = logging.getLogger(__name__)

EQUAL = "equal"
"""The value of --votes for equal votes."""

CHANNEL = "channel"
"""The column with the log probability of what was heard given what respelled words
mean; 0 where there are none.
"""

EDITS = "edits"
"""The column with the number of words that respelling changed."""

MERGED = "merged"
"""The origin of hypotheses of another system alone."""

RECOMBINED = "recombined"
"""The origin of hypotheses that are made of parts of other hypotheses."""

RESPELLED = "respelled"
"""The origin of hypotheses that have words of a lexicon in the place of others."""


@dataclass(frozen=True, kw_only=True)
class VoteOptions(Declared):
    """The option of votes that are not tuned."""

    votes: str | None = option(
        None,
        "Votes of several systems without --dev: by their agreement with each other, or"
        " equal.  [default: agreement]",
        group=SYSTEMS,
        choices=(AGREEMENT, EQUAL),
    )


class SystemVotes(Feature):
    """The votes of several systems (`rescore.asr.mixture`): they make the first pass,
    and are tuned beside all other weights; without dev lists they follow from the
    agreement of the systems.
    """

    Options = VoteOptions
    origins = (MERGED,)

    def check_lists(self, at: Situation, expansions: Sequence[Expansion]) -> None:
        """See that dev lists and lists have the same systems, and that --votes is read.

        Raises:
            UserError: They have other systems.
            OptionError: Votes are tuned, the weights have votes, or the lists have no
                systems.
        """
        _check_same(at)
        if at.tunes:
            _refuse(at, "--dev and --folds tune votes")
        elif at.former_weights is not None and at.former_weights.mixture is not None:
            _refuse(at, "the weights have votes")
        elif at.decides_lists and not at.lists.header.by_systems:
            _refuse(at, "the lists are not combined of several systems")

    def completed(self, at: Situation, weights: Weights, words: Normaliser) -> Weights:
        """Return the weights with the votes of the systems of the lists, as far as the
        weights have none: by agreement, unless equal votes are asked for.
        """
        systems = at.lists.header.systems
        if weights.mixture is not None or not systems:
            return weights
        if _votes_asked(at) == EQUAL or at.of_requests:
            return weights
        votes = Agreement.of(at.lists, systems, words).votes
        mixture = Mixture(votes, estimated=True)
        at.note("votes", named(mixture), "the agreement of the systems")
        _warn_of_left_out(at.lists)
        return replace(weights, mixture=mixture)


def _warn_of_left_out(lists: Dataset) -> None:
    """Say so where votes by agreement are estimated on a part of the lists: on those
    with references.

    Args:
        lists: The lists that votes are estimated on.
    """
    left_out = lists.header.left_out
    if left_out:
        log.warning(
            "votes are estimated on the %s with references, not on all %s, and --best"
            " has their texts alone; for all lists give no references, and measure the"
            " texts of --best with `rescore eval --ref FILE --allow-missing`",
            counted(len(lists), "list"),
            f"{len(lists) + left_out:,}",
        )


def _check_same(at: Situation) -> None:
    """Check, before anything is tuned, that dev lists and lists have the same systems.

    Raises:
        UserError: They have other systems.
    """
    if not at.lists or not at.dev or at.config.force_weights:
        return
    systems, theirs = at.lists.header.systems, at.dev.header.systems
    if theirs and set(systems) != set(theirs):
        raise UserError(
            f"--dev {at.config.dev or ''} has lists of the systems"
            f" {', '.join(theirs)}, but the systems of these lists are"
            f" {', '.join(systems) or 'unknown'}; combine the same systems, with"
            " the same --name"
        )


def _votes_asked(at: Situation) -> str | None:
    """Return the value of --votes."""
    return at.config.weighing.of(VoteOptions).votes


def _refuse(at: Situation, why: str) -> None:
    """Refuse --votes, if it is given.

    Args:
        at: The situation.
        why: The reason.

    Raises:
        OptionError: It is given.
    """
    votes = _votes_asked(at)
    if votes is not None:
        raise OptionError(f"--votes {votes}: {why}")


class Recombined(Feature):
    """Hypotheses of --recombine, which have no column of their own."""

    origins = (RECOMBINED,)


class Respelled(Feature):
    """Hypotheses of --respell: the score of their channel, and a bonus for each changed
    word.
    """

    reserved_columns: ClassVar = {
        CHANNEL: Reserved(
            Role.CHANNEL, "unit of the channel score", comes_with_hypotheses=True
        ),
        EDITS: Reserved(Role.COUNT, "changed word", comes_with_hypotheses=True),
    }
    new_words = (RESPELLED,)
