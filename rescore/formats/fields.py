"""Further facts about utterances in records and tables, such as the accent: what `--by`
groups figures by.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rescore.nbest import NbestList

Fields = Mapping[str, str]
"""Texts and whole numbers of an utterance, by their keys."""
LONGEST = 100
"""Characters of the value of a field at most; a longer text is no name of a group."""


class TextOfUtterance(NamedTuple):
    """What a file of references or source texts says of an utterance."""

    id: str
    texts: tuple[str, ...]
    place: str
    fields: Fields
    """What no role has, such as an accent."""


def fields_of(
    record: Mapping[str, Any], known: Collection[str], texts: Collection[str] = ()
) -> dict[str, str]:
    """Return the texts and whole numbers of a record that no role has.

    Args:
        record: The keys and values of an utterance.
        known: The keys that have a role.
        texts: The hypotheses: a value that is one of them is no fact of its own.

    Example:
        >>> fields_of({"id": "u1", "accent": "us", "speaker": 7, "ok": True}, {"id"})
        {'accent': 'us', 'speaker': '7'}
    """
    fields = {}
    for key, value in record.items():
        if key in known or isinstance(value, bool):
            continue
        if not isinstance(value, str | int):
            continue
        text = " ".join(str(value).split())
        if text and len(text) <= LONGEST and text not in texts:
            fields[key] = text
    return fields


def with_fields(
    lists: Sequence[NbestList], fields_of_files: Sequence[Mapping[str, Fields]]
) -> list[NbestList]:
    """Return the lists with the fields of files that they do not have themselves.

    Args:
        lists: The lists.
        fields_of_files: The fields by the ids of the lists, of each file; the first
            with a field counts.
    """
    every = list(lists)
    for by_id in fields_of_files:
        for index, nbest in enumerate(every):
            more = by_id.get(nbest.id)
            if more:
                every[index] = replace(nbest, fields={**more, **nbest.fields})
    return every
