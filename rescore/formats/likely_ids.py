"""Which key or column has the ids of utterances, in records of which no key has a known
name of ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rescore.errors import counted
from rescore.formats.fields import holds_names
from rescore.formats.ids import Words
from rescore.formats.rows import Row
from rescore.formats.source import InputProblem, InputWarnings
from rescore.formats.understood import tell_likely_ids

MOST_LISTS = 1_000
"""Records with lists that are looked at, at most: their values are in memory."""


class LikelyIds:
    """Looks for the key that names the utterance in records without known ids.

    The values of this key differ in all records and look like ids. If each record has
    one hypothesis, its values may also stand in blocks, of which the records have the
    same reference.

    Args:
        keys: The keys that may name utterances.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._last: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._seen: dict[str, dict[str, None]] = {key: {} for key in keys}
        """The values of each key that may name utterances, in their order."""
        self._records = 0
        self._have_lists = False

    def add(self, value: Mapping[str, Any], row: Row, is_list: bool) -> None:
        """Look at a record; a key whose values come back, or whose blocks have several
        references, names no utterances. Of records with lists, the first thousand are
        enough.

        Args:
            value: The record.
            row: What the record says.
            is_list: Whether the record may have several hypotheses.
        """
        self._have_lists |= is_list
        if self._have_lists and self._records >= MOST_LISTS:
            return
        self._records += 1
        for name, seen in list(self._seen.items()):
            value_of_key = value.get(name)
            if not isinstance(value_of_key, str | int):
                del self._seen[name]
                continue
            cell = str(value_of_key)
            last, references = self._last.get(name, (None, ()))
            if cell == last and references == row.references:
                continue
            if cell in seen or not cell.strip():
                del self._seen[name]
                continue
            seen[cell] = None
            self._last[name] = (cell, row.references)

    def tell(self, warnings: InputWarnings, place: str) -> None:
        """Warn that each record became a list of one hypothesis, if the values of a key
        stand in blocks; else name the key whose values differ and look like ids.

        Args:
            warnings: Collects the warning.
            place: The file.
        """
        for name, seen in self._seen.items():
            if not self._have_lists and 1 < len(seen) <= self._records / 2:
                warnings.add("file", _ungrouped(name, self._records), place)
                return
        for name, seen in self._seen.items():
            if len(seen) == self._records > 1 and _are_like_ids(name, list(seen)):
                tell_likely_ids(place, name)
                return


def _are_like_ids(name: str, values: Sequence[str]) -> bool:
    """Return whether different values of a key look like ids.

    Args:
        name: The key.
        values: Its values.
    """
    if holds_names(name):
        return False
    are_single_words = all(len(value.split()) == 1 for value in values)
    have_letters = any(map(str.isalpha, "".join(values)))
    return are_single_words and have_letters and Words(values, name).have_look


def _ungrouped(column: str, records: int) -> InputProblem:
    """Return the problem of a file whose records each became a list.

    Args:
        column: The key or column that may name the utterances.
        records: The number of records.
    """
    became = f"{counted(records, 'list')} of one hypothesis"
    return InputProblem(
        f"became {became}",
        f"became {became} each",
        f"; if {column} is the utterance: --field id={column}",
    )
