"""Recall, precision and F1 of listed terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from rescore.errors import UserError
from rescore.metrics.base import Counts, Values
from rescore.metrics.listed import ListedErrorRate, WordList
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.options import Declared

MATCHED, SPOKEN, WRITTEN = range(3)

Terms = frozenset[tuple[str, ...]]


class TermRate(ErrorRate):
    """How many of the listed terms in references are in hypotheses (recall), and the reverse (precision), in percent.

    A term is one or more words, as the normaliser has them. At each place of a text the longest term counts. Of a term
    that a text has n times and its reference m times, min(n, m) match.
    """

    higher_is_better = True

    unit = "term"
    Options = ListedErrorRate.Options

    def __init__(self, listed: WordList, normaliser: Normaliser | None = None) -> None:
        super().__init__(normaliser)
        self._list, self.reads = listed, listed.reads
        self._terms = _terms(listed.entries, self.words)
        self._of_utterance = dict(_of_utterances(listed, self.words))

    @classmethod
    def choose(cls, options: ErrorRate.Options, references: Sequence[str]) -> TermRate:
        assert isinstance(options, ListedErrorRate.Options)
        if options.words is None:
            raise UserError(f"--metric {cls.name.lower()} needs --words FILE")
        return cls(options.words, options.normaliser)

    @property
    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("jiwer", "rapidfuzz")}

    @property
    def settings(self) -> dict[str, str]:
        form = {"words-by": "utterance"} if self._list.by_utterance else {}
        return self.words.settings | {"tok": self.words.unit, "words": self._list.digest} | form

    @property
    def options(self) -> Declared:
        return ListedErrorRate.Options(normaliser=self.words, words=self._list)

    def statistics(self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: terms of both, of the reference, of the hypothesis; of several references the one that fits best."""
        rows = np.zeros((len(hypotheses), 3), dtype=np.int64)
        for row, hypothesis, texts in zip(rows, hypotheses, references, strict=True):
            terms, text = self._terms, hypothesis
            if self._list.by_utterance:
                terms, text = self._of_utterance.get(hypothesis.about, frozenset()), hypothesis.text
            longest = max(map(len, terms), default=0)
            written = occurring(self.words(text), terms, longest)
            spoken = [occurring(self.words(reference), terms, longest) for reference in texts]
            best = max(spoken, key=lambda counts: 2 * (counts & written).total() - counts.total())
            row[:] = (best & written).total(), best.total(), written.total()
        return rows

    def values(self, sums: Counts) -> Values:
        below = self.denominator(sums)
        empty = np.full(len(sums), 100.0)  # without terms none is missed
        return np.asarray(np.divide(100.0 * sums[:, MATCHED], below, out=empty, where=below > 0), dtype=np.float64)

    def denominator(self, sums: Counts) -> Values:
        """(m, 3) -> (m,) the number of terms that the matched terms are a share of."""
        raise NotImplementedError

    def sentence_values(self, statistics: Counts) -> Values:
        return -self.losses(statistics)

    def losses(self, statistics: Counts) -> Values:
        """Terms missed, and terms written that were not said."""
        return (statistics[:, SPOKEN] + statistics[:, WRITTEN] - 2 * statistics[:, MATCHED]).astype(np.float64)

    def details(self, sums: Counts) -> dict[str, int | float]:
        return dict(zip(("matched_terms", "ref_terms", "hyp_terms"), map(int, sums), strict=True))


class Recall(TermRate):
    """Share of the terms in references that are in hypotheses."""

    name = "recall"

    def denominator(self, sums: Counts) -> Values:
        return sums[:, SPOKEN].astype(np.float64)


class Precision(TermRate):
    """Share of the terms in hypotheses that are in references."""

    name = "precision"

    def denominator(self, sums: Counts) -> Values:
        return sums[:, WRITTEN].astype(np.float64)


class F1(TermRate):
    """The harmonic mean of recall and precision."""

    name = "F1"

    def denominator(self, sums: Counts) -> Values:
        return np.asarray((sums[:, SPOKEN] + sums[:, WRITTEN]) / 2, dtype=np.float64)


def _terms(texts: Iterable[str], normaliser: Normaliser) -> Terms:
    """The words of each text as those of references are compared."""
    return frozenset(words for text in texts if (words := tuple(normaliser(text))))


def _of_utterances(listed: WordList, normaliser: Normaliser) -> Iterator[tuple[str, Terms]]:
    """Each utterance and its terms, each of one word unless tabs separate them; none if all share a list."""
    for line in listed.lines if listed.by_utterance else ():
        name, *terms = line.split("\t") if "\t" in line else line.split()
        yield name.strip(), _terms(terms, normaliser)


def occurring(words: Sequence[str], terms: Terms, longest: int) -> Counter[tuple[str, ...]]:
    """How often each term stands in a text, the longest term at each place, without overlap."""
    counts: Counter[tuple[str, ...]] = Counter()
    place = 0
    while place < len(words):
        ends = range(min(len(words), place + longest), place, -1)
        end = next((end for end in ends if tuple(words[place:end]) in terms), None)
        if end is not None:
            counts[tuple(words[place:end])] += 1
        place = place + 1 if end is None else end
    return counts
