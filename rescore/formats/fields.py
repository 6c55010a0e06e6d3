"""Further facts about utterances in records and tables, such as the accent: what `--by`
groups figures by.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rescore.errors import listed
from rescore.nbest import NbestList

Fields = Mapping[str, str]
"""Texts, numbers and truth values of an utterance, as texts, by their keys."""
LONGEST = 100
"""Characters of the value of a field at most; a longer text is no name of a group."""

NAMES_OF_GROUPS = (
    *("speaker", "speaker_id", "speaker_name", "spk", "spk_id"),
    *("session", "session_id"),
    *("gender", "sex", "age", "age_group", "accent", "dialect", "region", "locale"),
)
"""Usual columns of groups of utterances, for --by. Numbers in them are names of groups,
not scores; only --field makes such a column a column of scores. `channel` is not here:
it is a column of scores of --respell.
"""


NAMES_OF_SYSTEMS = (
    *("system", "system_id", "system_name", "model", "model_id", "model_name"),
    *("backend", "backend_id", "recognizer", "recogniser", "engine", "provider"),
    "filter",  # of lm-evaluation-harness
)
"""Usual keys of the system that wrote a text. Only --field gives them this role: the
hypotheses of a list may be of several systems.
"""


def holds_names(key: str, groups: Iterable[str] = ()) -> bool:
    """Return whether a key or column has the names of systems, or of groups of
    utterances: then numbers in it are neither scores nor ids.

    Args:
        key: The key or column.
        groups: Keys that name groups in this call, beside the usual keys.
    """
    lower = key.strip().lower()
    if lower in NAMES_OF_SYSTEMS or lower in NAMES_OF_GROUPS:
        return True
    return any(lower == group.strip().lower() for group in groups)


def systems_in(fields: Fields) -> Fields:
    """Return the fields with usual keys of systems.

    Args:
        fields: The fields of an utterance.
    """
    return {
        key: name for key, name in fields.items() if key.lower() in NAMES_OF_SYSTEMS
    }


def other_system(fields: Fields, before: Fields) -> str | None:
    """Return the key that names another system than before; None if no key does.

    Args:
        fields: The fields of an utterance.
        before: The fields of its id before.
    """
    for key, name in systems_in(fields).items():
        if before.get(key, name) != name:
            return key
    return None


class TextOfUtterance(NamedTuple):
    """What a file of references or source texts says of an utterance."""

    id: str
    texts: tuple[str, ...]
    place: str
    fields: Fields
    """What no role has, such as an accent."""


def fields_of(
    record: Mapping[str, Any],
    known: Collection[str],
    texts: Collection[str] = (),
    is_whole: bool = False,
) -> dict[str, str]:
    """Return what no role has in a record, as texts.

    Args:
        record: The keys and values of an utterance.
        known: The keys that have a role.
        texts: The hypotheses: a value that is one of them is no fact of its own.
        is_whole: Whether long texts, lists and objects are fields, too; lists and
            objects are written as JSON.

    Example:
        >>> fields_of({"id": "u1", "accent": "us", "snr": 7.5, "noisy": True}, {"id"})
        {'accent': 'us', 'snr': '7.5', 'noisy': 'true'}
    """
    fields = {}
    for key, value in record.items():
        if key in known or value is None:
            continue
        if isinstance(value, str):
            text = " ".join(value.split())
        elif isinstance(value, list | dict) and not is_whole:
            continue
        else:
            text = json.dumps(value, ensure_ascii=False)
        is_short = is_whole or len(text) <= LONGEST
        if text and is_short and text not in texts:
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


def or_field(lists: Sequence[NbestList], role: str, in_python: bool) -> str:
    """Return the end of a message about a text that is missing: the keys and columns of
    the lists that no role has, if there are any, as one of them may hold it.

    Args:
        lists: The lists.
        role: `ref` or `src`.
        in_python: Whether the message names options as Python does.

    Example:
        >>> lists = [NbestList("u1", [], fields={"wanted": "a b", "accent": "us"})]
        >>> or_field(lists, "ref", in_python=False)
        ', or --field ref=NAME if the lists hold it (wanted, accent)'
    """
    names = dict.fromkeys(name for nbest in lists for name in nbest.fields)
    if not names:
        return ""
    option = f'field={{"{role}": NAME}}' if in_python else f"--field {role}=NAME"
    return f", or {option} if the lists hold it ({listed(names, room=100)})"
