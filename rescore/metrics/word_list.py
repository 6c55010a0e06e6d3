"""Word error rates in and outside a list of words: names, terms, what must not be wrong (arXiv 2104.02194).

BWER counts the words of the list, UWER all others. A substitution or deletion belongs to the word of the reference, an
insertion to the word inserted; so the errors of both add up to those of WER.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescore.errors import UserError
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts, MetricOptions
from rescore.metrics.normalise import Normaliser, WordList, paired_words
from rescore.metrics.wer import DELETIONS, INSERTIONS, REFERENCE, SUBSTITUTIONS, ErrorRate


class ListedErrorRate(ErrorRate):
    """The word errors of the words in a list, or of all others, in percent of those words in the references."""

    def __init__(self, listed: WordList, inside: bool = True, normaliser: Normaliser | None = None) -> None:
        super().__init__(normaliser=normaliser)
        self.name, self.unit = ("BWER", "listed word") if inside else ("UWER", "other word")
        self._list, self._inside = listed, inside
        self._words = listed.words(self.words)

    @classmethod
    def of_listed(cls, options: MetricOptions, references: Sequence[str]) -> ListedErrorRate:
        return cls._checked(options, references, True)

    @classmethod
    def of_others(cls, options: MetricOptions, references: Sequence[str]) -> ListedErrorRate:
        return cls._checked(options, references, False)

    @classmethod
    def _checked(cls, options: MetricOptions, references: Sequence[str], inside: bool) -> ListedErrorRate:
        if options.words is None:
            raise UserError("--metric bwer and uwer take the words of a file: give --words FILE")
        made = cls(options.words, inside, options.normaliser)
        if references and not any(made._counts(word) for text in references for word in made.words.reference(text)):
            which = "is a word of" if inside else "is outside"
            raise UserError(f"{options.words.path}: no word of the references {which} this list")
        return made

    @property
    def settings(self) -> dict[str, str]:
        return super().settings | {"tok": "space", "align": "sclite", "words": self._list.digest}

    @property
    def versions(self) -> dict[str, str]:
        return {}

    @property
    def options(self) -> MetricOptions:
        return MetricOptions(normaliser=self.words, words=self._list)

    def _counts(self, word: str) -> bool:
        return (word in self._words) == self._inside

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        result = np.zeros((len(references), 4), dtype=np.int64)
        pairs = zip(*paired_words(references, hypotheses, self.words), strict=True)
        for row, (reference, hypothesis) in zip(result, pairs, strict=True):
            row[REFERENCE] = sum(map(self._counts, reference))
            if reference != hypothesis and (row[REFERENCE] or any(map(self._counts, hypothesis))):
                for expected, found in align(reference, hypothesis):
                    if expected != found and self._counts(str(found if expected is None else expected)):
                        row[INSERTIONS if expected is None else DELETIONS if found is None else SUBSTITUTIONS] += 1
        return result

    def details(self, sums: Counts) -> dict[str, int | float]:
        words = "listed_words" if self._inside else "other_words"
        return dict(zip(("substitutions", "deletions", "insertions", words), map(int, sums), strict=True))
