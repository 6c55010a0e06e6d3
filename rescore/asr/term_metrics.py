"""Recall, precision and F1 of listed terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from rescore.metrics.base import Counts, Values
from rescore.metrics.listed import ListedErrorRate, Terms

MATCHED, SPOKEN, WRITTEN = range(3)


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
        return cls(options)

    @property
    def settings(self) -> dict[str, str]:
        return {
            name: value for name, value in super().settings.items() if name != "align"
        }

    def statistics(
        self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Columns: terms of both, of the reference, of the hypothesis; of several
        references the one that fits best.
        """
        rows = np.zeros((len(hypotheses), 3), dtype=np.int64)
        for row, hypothesis, texts in zip(rows, hypotheses, references, strict=True):
            utterance, text = hypothesis if self.reads else ("", hypothesis)
            terms = self._terms.of(utterance)
            written, *spoken = (
                occurring(self.words(each), terms) for each in (text, *texts)
            )
            best = max(
                spoken,
                key=lambda counts: 2 * (counts & written).total() - counts.total(),
            )
            row[:] = (best & written).total(), best.total(), written.total()
        return rows

    def values(self, sums: Counts) -> Values:
        below = sums[:, [SPOKEN, WRITTEN]] @ np.array(self.shares)
        empty = np.full(len(sums), 100.0)  # without terms none is missed
        return np.asarray(
            np.divide(100.0 * sums[:, MATCHED], below, out=empty, where=below > 0),
            dtype=np.float64,
        )

    def sentence_values(self, statistics: Counts) -> Values:
        return -self.losses(statistics)

    def losses(self, statistics: Counts) -> Values:
        """Terms missed, and terms written that were not said."""
        return (
            statistics[:, SPOKEN] + statistics[:, WRITTEN] - 2 * statistics[:, MATCHED]
        ).astype(np.float64)

    def details(self, sums: Counts) -> dict[str, int | float]:
        return dict(
            zip(
                ("matched_terms", "ref_terms", "hyp_terms"), map(int, sums), strict=True
            )
        )


class Recall(TermRate):
    """Share of the terms in references that are in hypotheses."""

    name, shares = "recall", (1.0, 0.0)


class Precision(TermRate):
    """Share of the terms in hypotheses that are in references."""

    name, shares = "precision", (0.0, 1.0)


class F1(TermRate):
    """The harmonic mean of recall and precision."""

    name, shares = "F1", (0.5, 0.5)


def occurring(words: Sequence[str], terms: Terms) -> Counter[tuple[str, ...]]:
    """How often each term stands in a text."""
    return Counter(tuple(words[first:last]) for first, last in terms.places(words))
