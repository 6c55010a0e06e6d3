"""Speakers of utterances, and sets cut into folds by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import re2

from rescore.errors import UserError, counted
from rescore.metrics.base import Counts

SPEAKER = r"^(.+?)[-_]"
"""The speaker in an utterance id, as in sclite and Kaldi: the part before the first
hyphen or underscore.
"""


def speakers(ids: Sequence[str], pattern: str | None = None) -> list[str]:
    """The speaker (or document) of each utterance id: the first group of a regular
    expression.

    Raises:
        UserError: the expression is invalid, or does not match an id.
    """
    pattern = pattern or SPEAKER
    options = re2.Options()
    options.log_errors = False  # RE2 writes to stderr itself
    try:
        expression = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode() if isinstance(error, re2.error) else "not UTF-8"
        raise UserError(
            f"--speaker: {pattern!r} is not a regular expression of RE2 ({reason})"
        ) from None
    labels = []
    for name in ids:
        match = expression.search(name)
        speaker = match[min(1, expression.groups)] if match else None
        if speaker is None:
            raise UserError(
                f"utterance {name}: --speaker {pattern} does not match it; give another"
                " expression"
            )
        labels.append(speaker)
    return labels


def by_group(rows: Sequence[Counts], groups: Sequence[str]) -> Counts:
    """(groups, k) statistics summed over the rows of each group."""
    names = {name: index for index, name in enumerate(dict.fromkeys(groups))}
    result = np.zeros((len(names), len(rows[0])), dtype=np.int64)
    np.add.at(
        result, [names[name] for name in groups], np.asarray(rows, dtype=np.int64)
    )
    return result


@dataclass(frozen=True, slots=True)
class Folds:
    """How a set is cut into parts."""

    number: int
    """How many."""
    unit: str
    """The unit that is kept in a fold: `speaker` or `utterance`."""
    fold: list[int]
    """The part of each utterance."""


def split(ids: Sequence[str], number: int, pattern: str | None = None) -> Folds:
    """Cut a set into parts of about equal size; equal ids give equal parts.

    Args:
        number: of parts. pattern: expression for the speaker or document in an id; None
            for the usual pattern, or for single utterances if ids show no speakers or
            fewer speakers than parts.

    Raises:
        UserError: there are fewer units than parts, or a given pattern does not match.
    """
    if number < 2:
        raise UserError(f"--folds {number}: at least 2 are needed")
    groups, unit = list(ids), "utterance"
    try:
        found = speakers(ids, pattern)
        if pattern or number <= len(set(found)) < len(ids):
            groups, unit = found, "speaker"
    except UserError:
        if pattern:
            raise
    sizes = Counter(groups)
    if len(sizes) < number:
        raise UserError(
            f"--folds {number}: only {counted(len(sizes), unit)}; give fewer folds"
        )
    loads = [0] * number
    place: dict[str, int] = {}
    # the largest first
    for group, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        place[group] = loads.index(min(loads))
        loads[place[group]] += size
    return Folds(number, unit, [place[group] for group in groups])
