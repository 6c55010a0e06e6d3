"""A table of word translations, and the links between the words of two sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)

NULL = 0
"""The number of the word that stands in front of every given text."""
LONGEST_PHRASE = 16
"""The largest length of a phrase, in words or subwords."""


class Texts(NamedTuple):
    """Texts as numbers of words, one text behind another."""

    ids: Ids
    """(words,)"""
    starts: Ids
    """(texts + 1,) where each begins, and where the last one ends."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Texts:
        starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        return cls(np.fromiter((number for text in texts for number in text), np.int64, int(starts[-1])), starts)

    @property
    def lengths(self) -> Ids:
        """(texts,)"""
        return np.diff(self.starts)

    def with_null(self) -> Texts:
        """With NULL in front of each."""
        return Texts(np.insert(self.ids, self.starts[:-1], NULL), self.starts + np.arange(len(self.starts)))


@dataclass(frozen=True)
class Links:
    """All links of some predicted words."""

    given: Texts
    """With NULL in front of each."""
    predicted: Texts
    words: Ids
    """(words,) places in `predicted.ids`."""
    texts: Ids
    """(words,) the text that each word is in."""

    @cached_property
    def lengths(self) -> Ids:
        """(words,) how many links each word has; the first is that to NULL."""
        return self.given.lengths[self.texts]

    @cached_property
    def first(self) -> Ids:
        """(words,) where the links of each word begin."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def place(self) -> Ids:
        """(links,) the place of the given word in its text, from 1; 0 for NULL."""
        return np.arange(int(self.lengths.sum())) - self.spread(self.first)

    @property
    def given_words(self) -> Ids:
        """(links,) the numbers of the given words."""
        return self.given.ids[self.spread(self.given.starts[self.texts]) + self.place]

    @property
    def predicted_words(self) -> Ids:
        """(links,) the numbers of the predicted words."""
        return self.spread(self.predicted.ids[self.words])

    @cached_property
    def distance(self) -> Floats:
        """(links,) |i / n - j / m|, how far the i-th of n given words is from the j-th of m predicted ones; NULL: 0."""
        ahead = (self.words - self.predicted.starts[self.texts] + 1) / self.predicted.lengths[self.texts]
        distance: Floats = np.abs(self.place / self.spread(np.maximum(self.lengths - 1, 1)) - self.spread(ahead))
        distance[self.first] = 0.0
        return distance

    def spread(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """(words,) -> (links,)"""
        return np.repeat(values, self.lengths)

    def sums(self, values: Floats) -> Floats:
        """(links,) -> (words,)"""
        return np.add.reduceat(values, self.first) if len(values) else values


def texts_of_words(texts: Texts) -> Ids:
    """(words,) the text that each word is in."""
    return np.repeat(np.arange(len(texts.starts) - 1), texts.lengths)


def portions(links: Ids, most: int) -> Iterator[slice]:
    """Words whose links are at most `most` together, or one word; `links` (words,) are their numbers."""
    ends = np.cumsum(links)
    start = 0
    while start < len(links):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


@dataclass(frozen=True, slots=True)
class Alignment:
    """The prior probability of a link by its position.

    Without a tension, all links are equally probable (Model 1). With a tension, this is fast_align's Model 2 (Dyer et
    al. 2013): NULL has the probability `null`, and links share the rest in proportion to exp(-tension * distance).
    """

    tension: float | None = None
    null: float = 0.08

    def prior(self, links: Links) -> Floats:
        """(links,) the links of a word sum up to 1."""
        if self.tension is None:
            return links.spread(1.0 / links.lengths)
        weights = np.exp(-self.tension * links.distance)
        weights[links.first] = 0.0
        sums = links.sums(weights)
        prior = (1.0 - self.null) * weights / links.spread(np.where(sums > 0, sums, 1.0))
        prior[links.first] = np.where(sums > 0, self.null, 1.0)
        return prior


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The prior translations of a given word (a Dirichlet prior, MacKay and Peto 1995).

    With c the expected counts of the training, and u the frequency of the predicted word:

        t(w | g) = (c(w, g) + strength * prior(w | g)) / (c(g) + strength)
        prior(w | g) = (1 - copied) * u(w) + copied * (1 if w = g else 0)

    An unknown word can translate into any word, or stay as it is, as names and numbers do.
    """

    strength: float = 1.0
    copied: float = 0.3


@dataclass(frozen=True)
class LinkCounts:
    """Expected counts of links between words, the result of EM.

    Words are numbered from 1 to `size` - 1 for both sides together; 0 is NULL. Larger numbers are words that the
    training did not see; each number stands for one spelling.
    """

    starts: npt.NDArray[np.int64]
    """(size + 1,) where the entries of each given word begin."""
    words: npt.NDArray[np.int32]
    """(entries,) predicted words, ascending for each given word."""
    counts: npt.NDArray[np.float32]
    """(entries,) expected counts."""
    totals: Floats
    """(size,) the expected counts of each given word, including counts too small for an entry."""
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
        probabilities: Floats = (self.look_up(given, predicted) + smoothing.strength * prior) / (
            totals + smoothing.strength
        )
        return probabilities

    def unigrams(self, words: Ids) -> Floats:
        """(words,) u: frequencies, with one added for each word and for all unknown words together."""
        seen = np.where(words < self.size, self.frequencies[np.minimum(words, self.size - 1)], 0)
        unigrams: Floats = (seen + 1.0) / (self.frequencies.sum() + self.size)
        return unigrams

    def look_up(self, given: Ids, predicted: Ids) -> Floats:
        """(links,) the expected counts of pairs of words; 0 where there is no entry.

        Each different pair is looked up once, in ascending order, so memory is read sequentially.
        """
        known = np.flatnonzero((given < self.size) & (predicted < self.size))
        pairs, which = distinct(given[known] * self.size + predicted[known])
        place = np.minimum(np.searchsorted(self.keys, pairs), len(self.keys) - 1)
        counts = np.zeros(len(given))
        counts[known] = np.where(self.keys[place] == pairs, self.counts[place], 0.0)[which]
        return counts


def added(tables: Sequence[LinkCounts], weights: Sequence[float]) -> LinkCounts:
    """The weighted sum of the counts of tables of one size."""
    size = tables[0].size
    keys, entries = np.unique(np.concatenate([table.keys for table in tables]), return_inverse=True)
    counts = np.bincount(entries, np.concatenate([w * table.counts for w, table in zip(weights, tables, strict=True)]))
    frequencies = sum(weight * table.frequencies for weight, table in zip(weights, tables, strict=True))
    return LinkCounts(
        np.concatenate([[0], np.cumsum(np.bincount(keys // size, minlength=size))]),
        (keys % size).astype(np.int32),
        counts.astype(np.float32),
        np.asarray(sum(weight * table.totals for weight, table in zip(weights, tables, strict=True))),
        np.ceil(frequencies).astype(np.int64),
    )


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


def union(first: Ids, second: Ids) -> Ids:
    """The ascending union of two ascending arrays; fast if their ranges overlap little."""
    if not (len(first) and len(second)):
        return first if len(first) else second
    start, stop = np.searchsorted(first, second[0]), np.searchsorted(second, first[-1], side="right")
    return np.concatenate([first[:start], distinct(np.concatenate([first[start:], second[:stop]]))[0], second[stop:]])
