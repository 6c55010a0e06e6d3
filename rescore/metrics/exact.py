"""The share of texts that equal a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rescore.metrics.base import Counts, Metric, PairLosses, Places, Values
from rescore.metrics.normalise import NormalisedWords, Normaliser, paired_words
from rescore.metrics.numbers import decimal

EQUAL, TEXTS = range(2)
"""The columns of statistics."""


class ExactMatch(Metric):
    """Share of texts whose words equal those of one of their references, in percent.

    Where answers are taken out of texts (`Normaliser.answer`), a text without an answer
    equals no text, and answers that are numbers are equal if their values are.
    """

    name = "exact"
    unit = "text"
    words: Normaliser

    Options = NormalisedWords

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        self.words = self.options.normaliser

    @property
    def settings(self) -> dict[str, str]:
        settings = self.words.settings
        if self._takes_answers:
            settings = settings | {"num": "decimal"}
        return settings | {"tok": self.words.unit}

    @property
    def _takes_answers(self) -> bool:
        """Whether answers are taken out of texts."""
        return self.words.answer is not None

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return which hypotheses equal one of their references.

        Args:
            hypotheses: The hypotheses.
            references: One or more references for each hypothesis.

        Returns:
            Counts of shape (hypotheses, 2): 1 for an equal text, and 1 for each text.
        """
        rows = np.ones((len(hypotheses), 2), dtype=np.int64)
        every = [text for texts in references for text in texts]
        right, ours = paired_words(every, hypotheses, self.words)
        start = 0
        for row, words, texts in zip(rows, ours, references, strict=True):
            end = start + len(texts)
            known = map(self._value, right[start:end])
            row[EQUAL] = self._counts(words) and self._value(words) in known
            start = end
        return rows

    def _counts(self, words: Sequence[str]) -> bool:
        """Return whether words may equal others: no answer equals nothing."""
        return bool(words) or not self._takes_answers

    def _value(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return what is compared of words: the value of an answer that is a number."""
        if self._takes_answers and len(words) == 1:
            return (decimal(words[0]),)
        return tuple(words)

    def values(self, sums: Counts) -> Values:
        return np.asarray(100.0 * sums[:, EQUAL] / np.maximum(sums[:, TEXTS], 1))

    def losses(self, statistics: Counts) -> Values:
        return (statistics[:, TEXTS] - statistics[:, EQUAL]).astype(np.float64)

    def pair_losses(self, texts: Sequence[str]) -> PairLosses:
        """Return a function that compares the texts of a list: 0 if they are equal,
        else 1.

        Args:
            texts: The texts of the list.
        """
        numbers: dict[tuple[str, ...], int] = {}
        of_texts = []
        for words in map(self.words, texts):
            of_texts.append(numbers.setdefault(self._value(words), len(numbers)))
        kind = np.array(of_texts)
        counts = np.array([self._counts(words) for words in numbers])[kind]

        def compare(choices: Places, references: Places) -> Values:
            equal = kind[choices][:, None] == kind[references]
            return 1.0 - (equal & counts[references])

        return compare

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"equal_texts": int(sums[EQUAL]), "texts": int(sums[TEXTS])}
