"""A set of ids that takes little memory."""

from __future__ import annotations

import hashlib

import numpy as np

RECENT = 1 << 16
"""Ids that are kept in a Python set before they join the array."""


class IdSet:
    """A set of texts, kept as 64-bit hashes: the newest in a Python set, all others in a sorted array.

    Two of a million different texts have the same hash with a probability of 3e-8.
    """

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._older = np.empty(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def add(self, text: str) -> bool:
        """Whether the text is new; it no longer is."""
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        at = int(np.searchsorted(self._older, np.uint64(key)))
        if key in self._recent or (at < len(self._older) and int(self._older[at]) == key):
            return False
        self._recent.add(key)
        if len(self._recent) >= RECENT:
            self._older = np.union1d(self._older, np.array(list(self._recent), dtype=np.uint64))
            self._recent = set()
        return True
