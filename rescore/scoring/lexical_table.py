"""t(predicted word | given word), as sparse arrays, smoothed for words that are rare or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rescore.scoring.lexical_links import NULL, Floats, Ids


@dataclass(frozen=True, slots=True)
class Smoothing:
    """What a given word is taken to mean before it was seen (a Dirichlet prior, MacKay and Peto 1995).

    With c the expected counts of the training, and u the frequency of the predicted word:

        t(w | g) = (c(w, g) + strength * prior(w | g)) / (c(g) + strength)
        prior(w | g) = (1 - copied) * u(w) + copied * (1 if w = g else 0)

    so that an unknown word may mean anything, and stay as it is: names and numbers do.
    """

    strength: float = 1.0
    copied: float = 0.3


@dataclass(frozen=True)
class LinkCounts:
    """Expected counts of links between words: what EM leaves.

    Words are numbered from 1 to `size` - 1 for both sides together; 0 is NULL. Larger numbers are words that the
    training did not see; one number means one spelling.
    """

    starts: npt.NDArray[np.int64]
    """(size + 1,) where the entries of each given word begin."""
    words: npt.NDArray[np.int32]
    """(entries,) predicted words, ascending for each given word."""
    counts: npt.NDArray[np.float32]
    """(entries,) expected counts."""
    totals: Floats
    """(size,) the expected counts of each given word, those that were too small for an entry included."""
    frequencies: npt.NDArray[np.int64]
    """(size,) how often each word was predicted."""

    @property
    def size(self) -> int:
        return len(self.totals)

    @cached_property
    def keys(self) -> Ids:
        """(entries,) given word * size + predicted word, ascending."""
        return np.repeat(np.arange(self.size), np.diff(self.starts)) * self.size + self.words

    def probabilities(self, given: Ids, predicted: Ids, smoothing: Smoothing) -> Floats:
        """(links,) t of each pair of words."""
        prior = (1.0 - smoothing.copied) * self.unigrams(predicted)
        prior += smoothing.copied * ((given == predicted) & (given != NULL))
        totals = np.where(given < self.size, self.totals[np.minimum(given, self.size - 1)], 0.0)
        found: Floats = (self.look_up(given, predicted) + smoothing.strength * prior) / (totals + smoothing.strength)
        return found

    def unigrams(self, words: Ids) -> Floats:
        """(words,) u: frequencies with one more for each word, and for all unknown ones together."""
        seen = np.where(words < self.size, self.frequencies[np.minimum(words, self.size - 1)], 0)
        unigrams: Floats = (seen + 1.0) / (self.frequencies.sum() + self.size)
        return unigrams

    def look_up(self, given: Ids, predicted: Ids) -> Floats:
        """(links,) the expected counts of pairs of words; 0 where there is no entry.

        Each different pair is looked up once, and in ascending order: memory is read in its order.
        """
        known = np.flatnonzero((given < self.size) & (predicted < self.size))
        pairs, which = distinct(given[known] * self.size + predicted[known])
        place = np.minimum(np.searchsorted(self.keys, pairs), len(self.keys) - 1)
        found = np.zeros(len(given))
        found[known] = np.where(self.keys[place] == pairs, self.counts[place], 0.0)[which]
        return found


def distinct(keys: Ids) -> tuple[Ids, Ids]:
    """The different keys, ascending, and for each key its rank among them: numpy's `unique`, four times as fast.

    Key and place are sorted as one number, which numpy does with vector instructions.

    Args:
        keys: (n,) at least 0, below 2**63 / n.
    """
    if not len(keys):
        return keys, keys
    bits = len(keys).bit_length()
    packed = (keys << bits) | np.arange(len(keys))
    packed.sort()
    place = packed & ((1 << bits) - 1)
    packed >>= bits
    new = np.ones(len(keys), dtype=bool)
    np.not_equal(packed[1:], packed[:-1], out=new[1:])
    rank = np.empty(len(keys), dtype=np.int64)
    rank[place] = np.cumsum(new) - 1
    return packed[new], rank


def union(one: Ids, other: Ids) -> Ids:
    """What is in one or the other of two ascending arrays, ascending; fast where few of the one lie among the other."""
    if not (len(one) and len(other)):
        return one if len(one) else other
    start, stop = np.searchsorted(one, other[0]), np.searchsorted(other, one[-1], side="right")
    return np.concatenate([one[:start], distinct(np.concatenate([one[start:], other[:stop]]))[0], other[stop:]])
