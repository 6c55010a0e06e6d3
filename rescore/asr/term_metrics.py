"""Recall, precision and F1 of listed terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Counts, Values
from rescore.metrics.listed import ListedErrorRate, Terms

MATCHED = 0
"""The column of terms that reference and hypothesis both have."""
SPOKEN = 1
"""The column of terms of the reference."""
WRITTEN = 2
"""The column of terms of the hypothesis."""


class TermRate(ListedErrorRate):
    """How many of the listed terms in references are in hypotheses (recall), and the
    reverse (precision), in percent.

    A term is one or more words, as the normaliser has them. At each place of a text the
    longest term counts. Of a term that a text has n times and its reference m times,
    min(n, m) match.
    """

    higher_is_better = True
    unit = "term"
    shares: ClassVar[tuple[float, float]]
    """Matched terms are divided by this share of the terms in references, plus this
    share of those in hypotheses.
    """

    @classmethod
    def choose(cls, options: Any, references: Sequence[str]) -> TermRate:
        """Return the metric with the options."""
        return cls(options)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that matter for terms: all but the alignment of words."""
        settings = dict(super().settings)
        settings.pop("align", None)
        return settings

    def _counts_of(
        self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return the numbers of terms: counts of shape (hypotheses, 3), `MATCHED`,
        `SPOKEN` and `WRITTEN` terms.
        """
        rows = np.zeros((len(hypotheses), 3), dtype=np.int64)
        for row, hypothesis, texts in zip(rows, hypotheses, references, strict=True):
            utterance, text = hypothesis if self.reads else ("", hypothesis)
            terms = self._terms.of(utterance)
            written = occurring(self.words(text), terms)
            spoken = occurring(self.words(texts[0]), terms)
            row[MATCHED] = (spoken & written).total()
            row[SPOKEN] = spoken.total()
            row[WRITTEN] = written.total()
        return rows

    def best_places(self, statistics: Sequence[Counts]) -> list[int]:
        """Return the places with the fewest terms that are missed or wrongly written.

        Args:
            statistics: Counts of shape (hypotheses, 3) for each list.
        """
        return [int(self.losses(rows).argmin()) for rows in statistics]

    def values(self, sums: Counts) -> Values:
        """Return the rate of each row of counts, in percent."""
        below = self._below(sums)
        rates = np.full(len(sums), 100.0)  # without terms none is missed
        np.divide(100.0 * sums[:, MATCHED], below, out=rates, where=below > 0)
        return rates

    def measures(self, sums: Counts) -> npt.NDArray[np.bool_]:
        """Return whether there are terms that the rate is a share of."""
        return self._below(sums) > 0

    def _below(self, sums: Counts) -> Values:
        """Return what matched terms are divided by, of shape (sets,)."""
        return np.asarray(sums[:, [SPOKEN, WRITTEN]] @ np.array(self.shares))

    def sentence_values(self, statistics: Counts) -> Values:
        """Return minus the losses: higher is better."""
        return -self.losses(statistics)

    def losses(self, statistics: Counts) -> Values:
        """Return the number of terms missed, and written that were not said."""
        terms = statistics[:, SPOKEN] + statistics[:, WRITTEN]
        return (terms - 2 * statistics[:, MATCHED]).astype(np.float64)

    def details(self, sums: Counts) -> dict[str, int | float]:
        """Return the numbers of terms by their names in results files."""
        return {
            "matched_terms": int(sums[MATCHED]),
            "ref_terms": int(sums[SPOKEN]),
            "hyp_terms": int(sums[WRITTEN]),
        }


class Recall(TermRate):
    """Share of the terms in references that are in hypotheses."""

    name = "recall"
    undefined = "no listed term is in the references"
    shares = (1.0, 0.0)


class Precision(TermRate):
    """Share of the terms in hypotheses that are in references."""

    name = "precision"
    undefined = "no listed term is in the output"
    shares = (0.0, 1.0)


class F1(TermRate):
    """The harmonic mean of recall and precision."""

    name = "F1"
    undefined = "no listed term is in the references or the output"
    shares = (0.5, 0.5)


def occurring(words: Sequence[str], terms: Terms) -> Counter[tuple[str, ...]]:
    """Return how often each term stands in a text.

    Args:
        words: The words of the text.
        terms: The listed terms.
    """
    return Counter(tuple(words[first:last]) for first, last in terms.places(words))
