"""Names of utterances in two files: equal ids, or else paths of the same audio file.

An id is read as it stands, so that `spk1/a.wav` and `spk2/a.wav` are two utterances.
Other files may call the first one `a`, or `/data/spk1/a.wav`: such names are matched
where each fits a single other name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

from rescore.errors import UserError
from rescore.ids import is_path, short, tail, without_blanks

T = TypeVar("T")

DEEPEST = 8
"""Parts of a path that are compared, at most."""


def part_of(path: str, offset: object) -> str:
    """Return the id of an audio file, or of the part of a file that starts at a second,
    as manifests name it: `talk.wav` or `talk.wav@12.5`.

    Args:
        path: The path, or another id, which stays as it is. Blanks in a path are
            written as in URLs.
        offset: The start in seconds, as JSON has it; None for the whole file.
    """
    path = without_blanks(path)
    if isinstance(offset, bool) or not isinstance(offset, (int, float)):
        return path
    if not offset or not math.isfinite(offset) or not is_path(path):
        return path
    return f"{path}@{repr(offset).removesuffix('.0')}"


def matched(ours: Iterable[str], theirs: Iterable[str]) -> dict[str, str]:
    """Return which of our names stands for each of their names.

    Equal names match. Of the others, paths of audio files match names with the same
    last parts, if these parts are unique on both sides.

    Args:
        ours: The names of one side.
        theirs: The names of the other side; those without a match are left out.
    """
    known = dict.fromkeys(ours)
    others = dict.fromkeys(theirs)
    pairs = {name: name for name in others if name in known}
    rest = [name for name in known if name not in pairs]
    other_rest = [name for name in others if name not in pairs]
    if not any(map(is_path, rest)) and not any(map(is_path, other_rest)):
        return pairs
    for depth in range(1, DEEPEST + 1):
        own = _by_tail(rest, depth)
        other = _by_tail(other_rest, depth)
        if own is not None and other is not None:
            for key, name in other.items():
                if key in own:
                    pairs[name] = own[key]
            break
    return pairs


def _by_tail(names: Collection[str], depth: int) -> dict[str, str] | None:
    """Return names by their last parts; None if two names have the same parts."""
    by_tail = {tail(name, depth): name for name in names}
    return by_tail if len(by_tail) == len(names) else None


class ByName(Generic[T]):
    """Values of utterances, which are asked for one after another.

    Args:
        values: The value of each name.
        place: The file of the values, for messages.
    """

    def __init__(self, values: Mapping[str, T], place: str) -> None:
        self._values = values
        self._place = place
        self._names: dict[str, list[str]] = {}
        """The names with the same short name."""
        for name in values:
            self._names.setdefault(short(name), []).append(name)
        self._taken: dict[str, str] = {}
        """The utterance that has each value that was found by a short name."""

    def get(self, name: str) -> T | None:
        """Return the value of an utterance; None if it has none.

        Args:
            name: The utterance.

        Raises:
            UserError: Several names fit the utterance, or the value belongs to another
                utterance.
        """
        if name in self._values:
            return self._values[name]
        names = self._names.get(short(name), [])
        if not names:
            return None
        if len(names) > 1 and is_path(name):
            fitting = [one for one in names if _are_alike(one, name)]
            names = fitting if len(fitting) == 1 else names
        if len(names) > 1:
            raise UserError(
                f"{self._place}: {names[0][-80:]} and {names[1][-80:]} fit utterance"
                f" {name[-80:]}; give both files the same ids"
            )
        other = self._taken.setdefault(names[0], name)
        if other != name:
            raise UserError(
                f"{self._place}: {names[0][-80:]} fits utterances {other[-80:]} and"
                f" {name[-80:]}; give both files the same ids"
            )
        return self._values[names[0]]


def _are_alike(first: str, second: str) -> bool:
    """Return whether two paths have the same last two parts."""
    return tail(first, 2) == tail(second, 2)
