"""Links between the words of two texts, and how probable they are before the words are seen.

In the models of Brown et al. 1993 each word of the predicted text comes from one word of the given text, or from NULL,
which stands in front of it. A link is a pair of these; the links of a predicted word stand together.
"""

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
    """How probable a link is by its place alone.

    Without a tension all links are alike (Model 1). With one, fast_align's Model 2 (Dyer et al. 2013): NULL has
    `null`, and what remains is shared in proportion to exp(-tension * distance).
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
