"""What is odd in a file but can be read: reported once, with its number and first place; or, if strict, an error.

And which ids came already: an id twice is an error always.
"""

from __future__ import annotations

import hashlib
import logging

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError

log = logging.getLogger(__name__)

UTF8 = "are not UTF-8; undecodable bytes were read as \ufffd"
CRLF = "end in a carriage return, which was left out"
BOM = "begin with a byte order mark, which was left out"
NO_SCORES = "have no scores; their order is the first pass (--s2s rank): minus the log of the place"
TWICE = "have a hypothesis twice; both were kept"
"""Nothing here changes which hypotheses there are, or which utterances: what does is an error always."""


class InputWarnings:
    """The warnings about one command's inputs."""

    def __init__(self, strict: bool = False, refused: str | None = None) -> None:
        """`strict`: the first of them is an error. `refused`: one kind that is an error all the same."""
        self._strict, self._refused = strict, refused
        self._found: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, unit: str, what: str, place: str) -> None:
        """
        Args:
            unit: what is counted: lines, files, lists. what: one of the above. place: where it was met.

        Raises:
            UserError: warnings are errors.
        """
        if what == self._refused:
            raise UserError(f"{place}: {unit} that {what.partition(';')[0]}; convert the file with iconv")
        if self._strict:
            raise UserError(f"{place}: {unit} that {what.partition('; ')[0].partition(', which')[0]} (--strict)")
        number, first = self._found.get((unit, what), (0, place))
        self._found[unit, what] = number + 1, first

    def report(self) -> None:
        """Log what was met, one line per kind, and forget it."""
        for (unit, what), (number, first) in self._found.items():
            log.warning("%s %s %s (first: %s)", f"{number:,}", unit, what, first)
        self._found.clear()


RECENT = 1 << 14


class IdSet:
    """A set of texts, kept as 64-bit hashes: the newest in a Python set, all others in sorted arrays.

    Two of a million different texts have the same hash with a probability of 3e-8.
    """

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted: list[npt.NDArray[np.uint64]] = []

    @property
    def parts(self) -> list[int]:
        """The sizes of what it is kept in."""
        return [len(self._recent), *map(len, self._sorted)]

    def add(self, text: str) -> bool:
        """Whether the text is new; it no longer is."""
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        if key in self._recent or any(_holds(values, key) for values in self._sorted):
            return False
        self._recent.add(key)
        if len(self._recent) >= RECENT:
            # Arrays of doubling sizes: few to look into, and each id is merged a few times only.
            merged = np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))
            while self._sorted and len(self._sorted[-1]) <= len(merged):
                merged = np.concatenate([merged, self._sorted.pop()])
            self._sorted.append(np.sort(merged))
            self._recent = set()
        return True


def _holds(values: npt.NDArray[np.uint64], key: int) -> bool:
    at = int(np.searchsorted(values, np.uint64(key)))
    return at < len(values) and int(values[at]) == key
