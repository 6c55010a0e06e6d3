"""What this wing weighs: columns and origins of hypotheses that its parts add."""

from __future__ import annotations

from typing import ClassVar

from rescore.columns import Reserved, Role
from rescore.features import Feature

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


class SystemVotes(Feature):
    """The votes of several systems (`rescore.decision.mixture`): they make the first
    pass, and are tuned beside all other weights.
    """

    origins = (MERGED,)


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
