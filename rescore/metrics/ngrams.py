"""N-grams of many texts against each other: what BLEU and chrF count, for all pairs of a list at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Counts, Values

CELLS = 1 << 25
"""The largest matrix of texts and n-grams that is multiplied at once: 128 MiB."""


@dataclass(frozen=True, slots=True)
class NgramCounts:
    """How often each text has each n-gram of one order, where it has it at all."""

    texts: int
    row: npt.NDArray[np.int64]
    """(k,): the text."""
    gram: npt.NDArray[np.int64]
    """(k,): the n-gram, numbered from 0."""
    count: Counts
    """(k,)."""

    @property
    def totals(self) -> Counts:
        """(texts,): all n-grams of each text."""
        return np.bincount(self.row, self.count, self.texts).astype(np.int64)

    def matches(self) -> Counts:
        """(texts, texts): of each pair the n-grams in common, each as often as both have it.

        An n-gram that comes three times is three features, "at least once", "twice", "three times": then the matches
        are the products of 0/1 vectors. What only one text has matches nothing but itself.
        """
        row, feature = self._features()
        shared = np.bincount(feature)[feature] > 1
        row, feature = row[shared], np.unique(feature[shared], return_inverse=True)[1]
        found = np.zeros((self.texts, self.texts), dtype=np.int64)
        width = max(1, CELLS // self.texts)
        for start in range(0, int(feature.max(initial=-1)) + 1, width):
            here = (feature >= start) & (feature < start + width)
            has = np.zeros((self.texts, int(feature[here].max()) - start + 1), dtype=np.float32)
            has[row[here], feature[here] - start] = 1.0
            found += (has @ has.T).astype(np.int64)
        np.fill_diagonal(found, self.totals)
        return found

    def _features(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        most = int(self.count.max(initial=1))
        row = np.repeat(self.row, self.count)
        occurrence = np.arange(len(row)) - np.repeat(np.cumsum(self.count) - self.count, self.count)
        return row, np.unique(np.repeat(self.gram, self.count) * most + occurrence, return_inverse=True)[1]

    def expected(self, posteriors: Values) -> tuple[Values, float]:
        """(texts,) matches of each text with the expected counts under posteriors (texts,), and their total.

        The expected counts stand for all texts as references (DeNero et al. 2009; Vamvas and Sennrich 2024).
        """
        reference = np.bincount(self.gram, posteriors[self.row] * self.count)
        matches = np.minimum(self.count.astype(np.float64), reference[self.gram])
        return np.bincount(self.row, matches, self.texts).astype(np.float64), float(reference.sum())


def ngram_counts(texts: Sequence[Sequence[Hashable]], orders: int) -> list[NgramCounts]:
    """The n-grams of token sequences, for each order from 1 on."""
    numbers: dict[Hashable, int] = {}
    tokens = np.array([numbers.setdefault(token, len(numbers)) for text in texts for token in text], dtype=np.int64)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    row = np.repeat(np.arange(len(texts)), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(tokens))  # tokens from here to the text's end
    place = np.arange(len(tokens))
    code = tokens
    found = []
    for order in range(1, orders + 1):
        if order > 1:
            fits = left[place] >= order
            place, code = place[fits], code[fits]
            code = np.unique(code * len(numbers) + tokens[place + order - 1], return_inverse=True)[1]
        size = int(code.max(initial=0)) + 1
        pairs, count = np.unique(row[place] * size + code, return_counts=True)
        found.append(NgramCounts(len(texts), pairs // size, pairs % size, count))
    return found
