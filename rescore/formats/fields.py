"""Further facts about utterances in records and tables, such as the accent: what `--by`
groups figures by.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

LONGEST = 100
"""Characters of the value of a field at most; a longer text is no name of a group."""


def fields_of(record: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    """Return the texts and whole numbers of a record that no role has.

    Args:
        record: The keys and values of an utterance.
        known: The keys that have a role.

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
        if text and len(text) <= LONGEST:
            fields[key] = text
    return fields
