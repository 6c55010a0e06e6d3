"""Word error rate as sclite counts it, or as jiwer does."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, PairLosses, Places, Values
from rescore.metrics.counting import CLOSEST, encoded, encoded_counts
from rescore.metrics.edits import edit_counts, jiwer_counts, jiwer_versions
from rescore.metrics.normalise import Normaliser, paired_words
from rescore.options import Declared, option, settings_of

SUBSTITUTIONS, DELETIONS, INSERTIONS, REFERENCE = range(4)


class ErrorRate(Metric):
    """(substitutions + deletions + insertions) / reference units, in percent.

    Texts are normalised first (by default as sclite does: case is folded). Words are
    parted by white space, or split further as the normaliser says; characters include
    the blanks between words, as in ESPnet. With several references the one with the
    fewest errors counts, of equals the cheapest in sclite.
    """

    higher_is_better = False
    name = "WER"
    unit = "word"
    words: Normaliser
    alignment: str = "sclite"
    """What aligns the texts: sclite's rules, jiwer or kaldialign."""
    by_library: bool = False
    """Whether jiwer itself counts (`for_reports`), not the faster way that gives the
    same counts in its alignment.
    """

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        normaliser: Normaliser = option(Normaliser, nested=Normaliser)

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        self.words = self.options.normaliser
        if self.words.open_asr:  # it counts in a way of its own
            self.alignment = "kaldialign"
            self.pair_losses = self.least_losses = None  # type: ignore[assignment]

    @property
    def settings(self) -> dict[str, str]:
        counting = {"tok": self.words.unit, "align": self.alignment}
        return self.words.settings | counting | self._further_settings

    @property
    def versions(self) -> dict[str, str]:
        return jiwer_versions() if self.alignment == "jiwer" else {}

    @property
    def for_reports(self) -> Self:
        if self.alignment != "jiwer":
            return self
        reporting = copy(self)
        reporting.by_library = True
        return reporting

    @property
    def _further_settings(self) -> dict[str, str]:
        """The options that a subclass declares beside the normaliser."""
        return settings_of(self.options, without=ErrorRate.Options)

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Columns: substitutions, deletions, insertions, reference units."""
        best = np.zeros((len(hypotheses), 4), dtype=np.int64)
        for rank in range(max(map(len, references), default=0)):
            rows = [
                index for index, texts in enumerate(references) if rank < len(texts)
            ]
            counts = self._count(
                [references[row][rank] for row in rows],
                [hypotheses[row] for row in rows],
            )
            if rank:
                closer = (
                    counts[:, :REFERENCE] @ CLOSEST < best[rows, :REFERENCE] @ CLOSEST
                )
                counts = np.where(closer[:, None], counts, best[rows])
            best[rows] = counts
        return best

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        return self.words.counts(*paired_words(references, hypotheses, self.words))

    def _edits(self, references: list[str], hypotheses: list[str]) -> Counts:
        """Return the columns of `statistics` in jiwer's alignment.

        Args:
            references: References with a character for each unit.
            hypotheses: Hypotheses that were encoded like the references.
        """
        count = jiwer_counts if self.by_library else edit_counts
        errors = count(references, hypotheses)
        return np.column_stack([errors, list(map(len, references))])

    def values(self, sums: Counts) -> Values:
        errors, units = sums[:, :REFERENCE].sum(axis=1), sums[:, REFERENCE]
        # Without reference units, as in a sample of empty references: no errors are 0,
        # and any are infinite.
        alone = np.where(errors > 0, np.inf, 0.0)
        return np.asarray(
            np.divide(100.0 * errors, units, out=alone, where=units > 0),
            dtype=np.float64,
        )

    def sentence_values(self, statistics: Counts) -> Values:
        # Hypotheses of one list share the reference: the number of errors orders them,
        # also where it is empty.
        units = np.maximum(statistics[:, REFERENCE], 1)
        return np.asarray(
            100.0 * statistics[:, :REFERENCE].sum(axis=1) / units, dtype=np.float64
        )

    def losses(self, statistics: Counts) -> Values:
        return statistics[:, :REFERENCE].sum(axis=1).astype(np.float64)

    def pair_losses(self, texts: Sequence[str]) -> PairLosses:
        units = self._units(texts)

        def compare(choices: Places, references: Places) -> Values:
            pairs = (
                [units[place] for place in places.flat]
                for places in np.meshgrid(references, choices)
            )
            return (
                encoded_counts(*pairs)
                .sum(axis=1)
                .reshape(len(choices), -1)
                .astype(np.float64)
            )

        return compare

    def least_losses(self, texts: Sequence[str]) -> PairLosses:
        """Edit distances: the fewest errors, which sclite's alignment exceeds in rare
        cases.
        """
        from rapidfuzz.distance import Levenshtein
        from rapidfuzz.process import cdist

        units = self._units(texts)

        def compare(choices: Places, references: Places) -> Values:
            ours, theirs = (
                [units[place] for place in places] for places in (choices, references)
            )
            return np.asarray(
                cdist(ours, theirs, scorer=Levenshtein.distance, dtype=np.float32)
            )

        return compare

    def _units(self, texts: Sequence[str]) -> list[str]:
        return encoded(list(map(self.words, texts)))

    def details(self, sums: Counts) -> dict[str, int | float]:
        names = ("substitutions", "deletions", "insertions", f"ref_{self.unit}s")
        return dict(zip(names, map(int, sums), strict=True))


class WordErrorRate(ErrorRate):
    """The word error rate, in the alignment that an option chooses."""

    @dataclass(frozen=True, kw_only=True)
    class Options(ErrorRate.Options):
        align: str = option(
            "sclite",
            "WER, MER: whose rules align words. The numbers of substitutions, deletions"
            " and insertions depend on it, the error rate in rare cases.",
            choices=("sclite", "jiwer"),
        )

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        if self.options.align != "jiwer":
            return
        if self.words.open_asr:
            raise UserError(
                "--align jiwer: --open-asr aligns words by kaldialign; leave out one of"
                " the two options"
            )
        self.alignment = "jiwer"
        # Edit distances are jiwer's errors.
        self.pair_losses = self.least_losses  # type: ignore[method-assign]

    @property
    def _further_settings(self) -> dict[str, str]:
        return settings_of(self.options, without=WordErrorRate.Options)

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        if self.alignment != "jiwer":
            return super()._count(references, hypotheses)
        units = self._units([*references, *hypotheses])
        return self._edits(units[: len(references)], units[len(references) :])
