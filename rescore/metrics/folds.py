"""Speakers of utterances, and sets cut into folds by speaker."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rescore.content import hash_of_set
from rescore.dataset import Dataset
from rescore.errors import UserError, counted, listed
from rescore.formats.id_groups import groups_of_ids
from rescore.metrics.base import Counts
from rescore.nbest import NbestList

log = logging.getLogger(__name__)

SPEAKER = r"^(.+?)[-_]"
"""The speaker in an utterance id, as in sclite and Kaldi: the part before the first
hyphen or underscore.
"""
SPEAKERS = "speaker"
"""The field of lists with the speaker; it decides before the ids."""
UNNAMED = "-"
"""Name of the group of utterances without the field."""


def labels_of_field(lists: Iterable[NbestList], name: str) -> list[str]:
    """Return the value of a field in each list, `UNNAMED` for a list without the field;
    empty if no list has it.

    Args:
        lists: The lists.
        name: The name of the field.
    """
    labels = [nbest.facts.get(name) for nbest in lists]
    if not any(label is not None for label in labels):
        return []
    return [UNNAMED if label is None else label for label in labels]


def speakers(lists: Sequence[NbestList], by: str | None = None) -> list[str]:
    """Return the speaker (or document) of each utterance.

    Args:
        lists: The lists; in ids that are paths of audio files, the names are searched
            before the folders.
        by: A field of the lists, or a regular expression whose first group is the
            speaker; None or `SPEAKERS` for the field `SPEAKERS`, or for `SPEAKER` if no
            list has it.

    Raises:
        UserError: The expression is invalid, or does not match an id; or the field is a
            column of scores.
    """
    by = by or SPEAKERS
    if labels := labels_of_field(lists, by):
        return labels
    pattern, option = by, f"--speaker {by}"
    if by == SPEAKERS:
        pattern, option = SPEAKER, f"--speaker {SPEAKER} (the default)"
    ids = [nbest.id for nbest in lists]
    try:
        return groups_of_ids(ids, pattern, option, _or_fields(lists))
    except UserError:
        check_no_scores(by, lists, "--speaker", f"call the column {SPEAKERS}")
        raise


def check_no_scores(
    name: str, lists: Iterable[NbestList], option: str, advice: str
) -> None:
    """Check that the name of a field is no column of scores.

    Args:
        name: The name, which no list has as a field.
        lists: The lists.
        option: The option that names it.
        advice: What the user should do.

    Raises:
        UserError: It is a column of scores.
    """
    if any(name in nbest.column_names for nbest in lists):
        raise UserError(
            f"{option} {name}: {name} was read as a column of scores, as it has"
            f" numbers; {advice}"
        )


def fields_of_lists(lists: Iterable[NbestList]) -> str:
    """Return the names of all fields of lists for a message; `none` without fields.

    Args:
        lists: The lists.
    """
    names = sorted({name for nbest in lists for name in nbest.facts})
    return listed(names, room=100) or "none"


def _or_fields(lists: Iterable[NbestList]) -> str:
    """Return what to give instead of an expression that does not match."""
    return f"another expression, or a field (found: {fields_of_lists(lists)})"


def warn_of_nameless(lists: Sequence[NbestList], by: str | None = None) -> None:
    """Warn of lists that lack the field of speakers, among lists that have it: they
    count as one speaker.

    Args:
        lists: The lists.
        by: As of `speakers`.
    """
    name = by or SPEAKERS
    without = [nbest for nbest in lists if name not in nbest.facts]
    if 1 < len(without) < len(lists):
        log.warning(
            "%d of %s have no field %s (first: %s) and count as one speaker, %s; name"
            " their speakers",
            len(without),
            counted(len(lists), "list"),
            name,
            without[0].title,
            UNNAMED,
        )


def by_group(rows: Sequence[Counts], groups: Sequence[str]) -> Counts:
    """Return statistics summed by group, in the order in which groups appear.

    Args:
        rows: Statistics of shape (k,) of each utterance.
        groups: The group of each utterance, such as its speaker.

    Returns:
        Counts of shape (groups, k).
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(groups))}
    place_of_row = [places[name] for name in groups]
    sums = np.zeros((len(places), len(rows[0])), dtype=np.int64)
    np.add.at(sums, place_of_row, np.asarray(rows, dtype=np.int64))
    return sums


@dataclass(frozen=True, slots=True)
class Folds:
    """How a set is cut into parts."""

    number: int
    """How many parts there are."""
    unit: str
    """The unit that is kept in one part: `speaker` or `utterance`."""
    fold_of_list: list[int]
    """The index of the part of each list, from 0."""
    cut: str = ""
    """A hash of the units: it says which lists stay together."""


def split(lists: Sequence[NbestList], number: int, pattern: str | None = None) -> Folds:
    """Return a cut of a set into parts of about equal size; equal ids, equal parts.

    The cut depends on the content of the lists and on who spoke them, and neither on
    their ids nor on their order.

    Args:
        lists: The lists.
        number: Number of parts.
        pattern: What names the speaker or document of a list (`speakers`). None for
            the usual pattern, or for single utterances if ids show no speakers or fewer
            speakers than parts.

    Raises:
        UserError: There are fewer units than parts, or `pattern` does not match.
    """
    if number < 2:
        raise UserError(f"--folds {number}: at least 2 are needed")
    ids = [nbest.id for nbest in lists]
    groups = ids
    unit = "utterance"
    if pattern:
        groups = speakers(lists, pattern)
        unit = "speaker"
    elif usual := _usual_speakers(lists, number):
        groups = usual
        unit = "speaker"
    sizes = Counter(groups)
    if len(sizes) < number:
        raise UserError(
            f"--folds {number}: only {counted(len(sizes), unit)}; give fewer folds"
        )
    keys: dict[str, list[str]] = {group: [] for group in sizes}
    for key, group in zip(Dataset.of(lists).content_keys, groups, strict=True):
        keys[group].append(key)
    content = {group: hash_of_set(of_group) for group, of_group in keys.items()}
    loads = [0] * number
    fold_of: dict[str, int] = {}
    # The largest group goes first, each to the smallest part.
    for group in sorted(sizes, key=lambda group: (-sizes[group], content[group])):
        smallest = loads.index(min(loads))
        fold_of[group] = smallest
        loads[smallest] += sizes[group]
    cut = hash_of_set(content.values())
    return Folds(number, unit, [fold_of[group] for group in groups], cut)


def warn_of_folds(
    lists: Sequence[NbestList], folds: Folds, pattern: str | None = None
) -> None:
    """Warn of utterances of a speaker in several folds, where there are fewer speakers
    than folds; and of lists without a speaker.

    Args:
        lists: The lists.
        folds: How `split` cut them.
        pattern: As of `split`.
    """
    if folds.unit == "speaker":
        warn_of_nameless(lists, pattern)
        return
    number = len(set(_shown_speakers(lists)))
    if 1 < number < folds.number:
        log.warning(
            "%s%s for %d folds, so utterances of a speaker are in several folds;"
            " --folds %d keeps each speaker in one",
            lists[0].header.prefix,
            counted(number, "speaker"),
            folds.number,
            number,
        )


def _shown_speakers(lists: Sequence[NbestList]) -> list[str]:
    """Return the speaker of each utterance, as fields or ids show it; empty if an id
    shows none.
    """
    try:
        return speakers(lists)
    except UserError:
        return []


def _usual_speakers(lists: Sequence[NbestList], number: int) -> list[str]:
    """Return the speakers of utterances that need no option.

    Returns:
        The speaker of each utterance; empty if an id shows none, if there are fewer
        speakers than `number`, or if each utterance has a speaker of its own.
    """
    labels = _shown_speakers(lists)
    if number <= len(set(labels)) < len(lists):
        return labels
    return []
