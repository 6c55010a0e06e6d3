"""Which ids came already, in little memory: 8 bytes an id."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

RECENT = 1 << 14


class Seen:
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
