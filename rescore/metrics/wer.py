"""Error rates of words and characters, in the alignment of sclite or jiwer.

`ErrorRate` has what all of them share; a subclass decides what the units are, and what
aligns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, PairLosses, Places, Values
from rescore.metrics.counting import CLOSEST, batches, encoded, encoded_counts
from rescore.metrics.edits import edit_counts, jiwer_counts, jiwer_versions
from rescore.metrics.normalise import NormalisedWords, Normaliser, paired_words
from rescore.options import option, settings_of

SUBSTITUTIONS, DELETIONS, INSERTIONS, REFERENCE = range(4)
"""The columns of statistics."""


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

    _encoded: tuple[Sequence[str], list[str]] = ((), [])
    """The last texts of `_units`, and what it returned."""

    Options = NormalisedWords

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        self.words = self.options.normaliser
        if self.words.open_asr:  # kaldialign's errors have no short cut
            self.alignment = "kaldialign"
            self.pair_losses = None  # type: ignore[assignment, method-assign]
            self.least_losses = None  # type: ignore[assignment, method-assign]

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
        return settings_of(self.options, without=NormalisedWords)

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return the errors of hypotheses beside their closest references.

        Args:
            hypotheses: The hypotheses.
            references: One or more references for each hypothesis.

        Returns:
            Counts of shape (hypotheses, 4): substitutions, deletions, insertions and
            reference units.
        """
        if self.alignment == "sclite":
            references = self.words.spoken(references, hypotheses)
        best = np.zeros((len(hypotheses), 4), dtype=np.int64)
        most = max(map(len, references), default=0)
        for rank in range(most):
            rows = [row for row, texts in enumerate(references) if rank < len(texts)]
            counts = self._count(
                [references[row][rank] for row in rows],
                [hypotheses[row] for row in rows],
            )
            if rank > 0:
                before = best[rows]
                is_closer = _distances(counts) < _distances(before)
                counts = np.where(is_closer[:, None], counts, before)
            best[rows] = counts
        return best

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        """Return the columns of `statistics` of pairs of texts."""
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
        # Empty references count as one word: the number of errors orders texts.
        units = np.maximum(sums[:, REFERENCE], 1)
        return np.asarray(100.0 * _errors(sums) / units)

    def measures(self, sums: Counts) -> npt.NDArray[np.bool_]:
        return sums[:, REFERENCE] > 0

    def losses(self, statistics: Counts) -> Values:
        return _errors(statistics).astype(np.float64)

    def best_places(self, statistics: Sequence[Counts]) -> list[int]:
        """Return the places whose texts have the lowest error rate of the set.

        Hypotheses of a list that are closest to references of different lengths are
        chosen by errors less rate times reference units, for the rate that this choice
        has (Dinkelbach 1967).

        Args:
            statistics: Counts of shape (hypotheses, k) for each list.
        """
        places = super().best_places(statistics)
        if not any(np.ptp(rows[:, REFERENCE]) for rows in statistics):
            return places
        rate = np.inf
        while True:
            chosen = [
                rows[place] for rows, place in zip(statistics, places, strict=True)
            ]
            sums = np.sum(chosen, axis=0)
            lower = sums[:REFERENCE].sum() / max(1, sums[REFERENCE])
            if lower >= rate:
                return places
            rate = lower
            places = []
            for rows in statistics:
                costs = _errors(rows) - rate * rows[:, REFERENCE]
                places.append(int(costs.argmin()))

    def pair_losses(self, texts: Sequence[str]) -> PairLosses:
        """Return a function that counts the errors between texts of a list.

        Args:
            texts: The texts of the list.
        """
        units = self._units(texts)

        def compare(choices: Places, references: Places) -> Values:
            right = [units[place] for place in references.tolist()]
            chosen = [units[place] for place in choices.tolist()]
            hypotheses = [text for text in chosen for _ in right]
            counts = encoded_counts(right * len(chosen), hypotheses)
            return self.losses(counts).reshape(len(choices), -1)

        return compare

    def least_losses(self, texts: Sequence[str]) -> PairLosses:
        """Return a function that computes edit distances between texts of a list.

        Edit distances are the fewest errors, which sclite's alignment exceeds in rare
        cases.

        Args:
            texts: The texts of the list.
        """
        units = self._units(texts)

        def compare(choices: Places, references: Places) -> Values:
            distances = cdist(
                [units[place] for place in choices],
                [units[place] for place in references],
                scorer=Levenshtein.distance,
                dtype=np.float32,
            )
            return np.asarray(distances)

        return compare

    def _units(self, texts: Sequence[str]) -> list[str]:
        """Return texts with a character for each unit.

        The last texts are kept: a list is asked for its `pair_losses` and its
        `least_losses` one after the other.
        """
        known, units = self._encoded
        if texts is not known:
            units = encoded(list(map(self.words, texts)))
            self._encoded = texts, units
        return units

    def details(self, sums: Counts) -> dict[str, int | float]:
        names = ("substitutions", "deletions", "insertions", f"ref_{self.unit}s")
        return dict(zip(names, map(int, sums), strict=True))


def _errors(statistics: Counts) -> Counts:
    """Return the number of errors of each row, of shape (rows,)."""
    return statistics[:, :REFERENCE].sum(axis=1)


def _distances(statistics: Counts) -> Counts:
    """Return numbers by which references are ordered, of shape (rows,)."""
    return statistics[:, :REFERENCE] @ CLOSEST


class WordErrorRate(ErrorRate):
    """The word error rate, in the alignment that an option chooses."""

    @dataclass(frozen=True, kw_only=True)
    class Options(NormalisedWords):
        align: str = option(
            "sclite",
            "WER, MER: the tool whose rules align words. The numbers of substitutions,"
            " deletions and insertions depend on it, the error rate rarely.",
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
        ours, theirs = paired_words(references, hypotheses, self.words)
        parts = [np.zeros((0, 4), dtype=np.int64)]
        for pairs in batches(ours, theirs):
            units = encoded([*ours[pairs], *theirs[pairs]])
            number = len(ours[pairs])
            parts.append(self._edits(units[:number], units[number:]))
        return np.concatenate(parts)

    def units(self, text: str) -> Sequence[str]:
        """Return the words of a text."""
        return self.words(text)


class MixedErrorRate(WordErrorRate):
    """The word error rate where each character of Chinese, Japanese and Thai is a
    word.
    """

    name = "MER"

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        # The options keep the user's normaliser, which other metrics share.
        self.words = replace(self.words, split_characters=False, split_mixed=True)


class CharacterErrorRate(ErrorRate):
    """The character error rate, in jiwer's alignment."""

    name = "CER"
    unit = "character"
    alignment = "jiwer"

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        # Characters are counted below. Words are for decisions, confidences and lists
        # of words, which need words also where no blanks are between them.
        if not self.words.split_characters:
            self.words = replace(self.words, split_mixed=True)

    @property
    def settings(self) -> dict[str, str]:
        return self.words.settings | {"tok": "char"} | self._further_settings

    pair_losses = ErrorRate.least_losses
    """Edit distances are jiwer's errors."""

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        return self._edits(self._units(references), self._units(hypotheses))

    def _units(self, texts: Sequence[str]) -> list[str]:
        units = {text: self.units(text) for text in dict.fromkeys(texts)}
        return [units[text] for text in texts]

    def units(self, text: str) -> str:
        """Return the characters of a text, with the blanks between words."""
        whole = replace(self.words, split_characters=False, split_mixed=False)
        return " ".join(whole(text))
