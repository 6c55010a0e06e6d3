"""The first pass of lists: which score or order it is, and which names columns may
have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rescore.columns import (
    FIRST_PASS,
    FORMER_FIRST_PASS,
    RANK,
    SCORE,
    SUM,
    WORDS,
    forbidden_names,
    found_columns,
)
from rescore.errors import UserError
from rescore.formats.rows import drop_tags
from rescore.formats.source import NO_SCORES, SAMPLES, TAGS, InputWarnings
from rescore.nbest import Hypothesis, NbestList, check_scores

MEANS = frozenset({"avg", "average", "mean"})
"""Words in the names of scores that are means over tokens."""


def choose_first_pass(
    nbest: NbestList,
    s2s: str,
    place: str,
    warnings: InputWarnings,
    are_samples: bool = False,
    beside: Sequence[str] = (),
) -> None:
    """Make a column of the file, or its order, the first pass.

    A list without scores is ranked by its order, with a warning if it has several
    hypotheses. A single hypothesis needs no first-pass score.

    Args:
        nbest: The list, which is changed.
        s2s: The column.
        place: Where the list comes from, for messages.
        warnings: Counts lists without scores.
        are_samples: Whether hypotheses are samples: without scores they have no order,
            and each gets the score 0.
        beside: Columns that files of scores add later, for messages.

    Raises:
        UserError: A hypothesis lacks the column.
    """
    is_scored = has_scores(nbest)
    is_single = (
        len(nbest.hypotheses) == 1 and FIRST_PASS not in nbest.hypotheses[0].scores
    )
    lacks_order = not is_scored and not is_single and s2s == FIRST_PASS
    if lacks_order:
        warnings.add("list", SAMPLES if are_samples else NO_SCORES, place)
    if lacks_order and are_samples:
        for hypothesis in nbest.hypotheses:
            _set_first_pass(hypothesis, 0.0)
    elif s2s not in (RANK, FIRST_PASS):
        _with_first_pass(nbest, s2s, place, beside)
    elif not is_scored or s2s == RANK or is_single:
        rank_by_order(nbest)


def make_sound(
    nbest: NbestList,
    place: str,
    s2s: str,
    warnings: InputWarnings,
    are_samples: bool = False,
    beside: Sequence[str] = (),
) -> None:
    """Check the scores and columns of a list, drop its tags, and give it a first pass.

    Args:
        nbest: The list, which is changed.
        place: Where the list comes from, for messages.
        s2s: The column to use as first-pass score.
        warnings: Counts lists with tags, and lists without scores.
        are_samples: Whether hypotheses without scores have no order.
        beside: Columns that files of scores add later, for messages.

    Raises:
        UserError: A score is no number, or a column has a reserved name.
    """
    check_scores(nbest, place)
    if drop_tags(nbest):
        warnings.add("list", TAGS, place)
    choose_first_pass(nbest, s2s, place, warnings, are_samples, beside)
    check_columns(nbest, place)


def has_scores(nbest: NbestList) -> bool:
    """Return whether a hypothesis has a score of any name."""
    return any(hypothesis.scores for hypothesis in nbest.hypotheses)


def is_by_order(nbest: NbestList) -> bool:
    """Return whether the first-pass scores are those of `rank_by_order`, of several
    hypotheses.
    """
    of_file = [one for one in nbest.hypotheses if FIRST_PASS in one.scores]
    scores = sorted((one.scores[FIRST_PASS] for one in of_file), reverse=True)
    expected = [-math.log(rank) for rank in range(1, len(scores) + 1)]
    return scores == expected


def rank_by_order(nbest: NbestList) -> None:
    """Make the order of the file the first pass."""
    for rank, hypothesis in enumerate(nbest.hypotheses, 1):
        _set_first_pass(hypothesis, -math.log(rank))


def _with_first_pass(
    nbest: NbestList, column: str, place: str, beside: Sequence[str]
) -> None:
    """Make another column the first pass."""
    if any(column not in hypothesis.scores for hypothesis in nbest.hypotheses):
        if column == WORDS:  # a column of every list, but here a file's own is meant
            which = "in the file"
        else:
            which = found_columns(column, {*nbest.column_names, *beside})
        raise UserError(f"{place}: no score {column!r} {which}; choose another --s2s")
    for hypothesis in nbest.hypotheses:
        _set_first_pass(hypothesis, hypothesis.scores.pop(column))


def _set_first_pass(hypothesis: Hypothesis, score: float) -> None:
    """Make a score the first pass. The old first pass goes under its own name, so that
    nothing is lost and the sum no longer marks a mean.
    """
    hypothesis.combined = None  # of another first pass
    former = hypothesis.scores.pop(FIRST_PASS, None)
    scores = {FIRST_PASS: score, **hypothesis.scores}
    if former is not None:
        scores[FORMER_FIRST_PASS] = former
    hypothesis.scores = scores


def is_mean(name: str) -> bool:
    """Return whether the name of a score says that it is a mean over tokens.

    Args:
        name: The name of a key or a column.

    Example:
        >>> is_mean("avg_logprob"), is_mean("logp"), is_mean("meaning")
        (True, False, False)
    """
    return not MEANS.isdisjoint(re.split(r"[\W_\d]+", name.lower()))


READERS_OWN = {FIRST_PASS, SUM, FORMER_FIRST_PASS, SCORE}
"""Reserved names of first-pass columns, which readers and writers of files handle
themselves.
"""


def check_columns(nbest: NbestList, place: str) -> None:
    """Check that each hypothesis has a first pass, and that no column has a reserved
    name, unless the record of the list says that a command of this package added it.
    """
    allowed = {FIRST_PASS, *READERS_OWN.difference(nbest.header.records)}
    for name, column in nbest.header.records.items():
        if not column.is_component:
            allowed.add(name)
    reserved = forbidden_names()
    for rank, hypothesis in enumerate(nbest.hypotheses, 1):
        for name in hypothesis.scores:
            if name in reserved and name not in allowed:
                raise UserError(
                    f"{place}: the name of the column {name} is reserved; give the"
                    " column another name"
                )
        if FIRST_PASS in hypothesis.scores:
            continue
        what = f"{place}, hypothesis {rank}: no first-pass score"
        columns = list(hypothesis.scores)
        if not columns:
            raise UserError(
                f"{what} (null is no score); add the score, or give --s2s rank, which"
                " takes the order of the file"
            )
        raise UserError(
            f"{what} among its columns ({', '.join(columns)}); choose a column with"
            f" --s2s, or --field score=-{columns[0]} where lower is better"
        )
