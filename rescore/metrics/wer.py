"""Word error rate as sclite counts it, and character error rate by jiwer (rapidfuzz)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from importlib.metadata import version
from itertools import product

import jiwer
import numpy as np

from rescore.errors import UserError
from rescore.metrics.alignment import align, error_counts
from rescore.metrics.base import Counts, MetricOptions, Values
from rescore.metrics.normalise import Normaliser, WordList, paired_words

SUBSTITUTIONS, DELETIONS, INSERTIONS, REFERENCE = range(4)


class ErrorRate:
    """(substitutions + deletions + insertions) / reference units, in percent.

    Texts are normalised first (by default as sclite does: case is folded). Words are parted by white space; characters
    include the blanks between words, as in ESPnet. With several references the one with the fewest errors counts.
    """

    higher_is_better = False
    aggregated = None

    def __init__(self, characters: bool = False, normaliser: Normaliser | None = None) -> None:
        self.name, self.unit = ("CER", "character") if characters else ("WER", "word")
        self.words = normaliser or Normaliser()

    @classmethod
    def of_words(cls, options: MetricOptions, references: Sequence[str]) -> ErrorRate:
        return cls(False, options.normaliser)

    @classmethod
    def of_characters(cls, options: MetricOptions, references: Sequence[str]) -> ErrorRate:
        return cls(True, options.normaliser)

    @property
    def settings(self) -> dict[str, str]:
        how = {"tok": "space", "align": "sclite"} if self.unit == "word" else {"tok": "char"}
        return self.words.settings | how

    @property
    def versions(self) -> dict[str, str]:
        if self.unit == "word":
            return {}
        return {name: version(name) for name in ("jiwer", "rapidfuzz")}

    @property
    def options(self) -> MetricOptions:
        return MetricOptions(normaliser=self.words)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: substitutions, deletions, insertions, reference units."""
        best = np.zeros((len(hypotheses), 4), dtype=np.int64)
        for rank in range(max(map(len, references), default=0)):
            rows = [index for index, texts in enumerate(references) if rank < len(texts)]
            found = self._count([references[row][rank] for row in rows], [hypotheses[row] for row in rows])
            if rank:
                fewer = found[:, :REFERENCE].sum(axis=1) < best[rows, :REFERENCE].sum(axis=1)
                found = np.where(fewer[:, None], found, best[rows])
            best[rows] = found
        return best

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        of_references, of_hypotheses = paired_words(references, hypotheses, self.words)
        if self.unit == "character":
            return _characters(
                [" ".join(words) for words in of_references], [" ".join(words) for words in of_hypotheses]
            )
        lengths = np.array([len(words) for words in of_references], dtype=np.int64)
        return np.column_stack([error_counts(of_references, of_hypotheses), lengths])

    def values(self, sums: Counts) -> Values:
        errors, units = sums[:, :REFERENCE].sum(axis=1), sums[:, REFERENCE]
        # Without reference units, as in a sample of empty references: no errors are 0, and any are infinite.
        alone = np.where(errors > 0, np.inf, 0.0)
        return np.asarray(np.divide(100.0 * errors, units, out=alone, where=units > 0), dtype=np.float64)

    def sentence_values(self, statistics: Counts) -> Values:
        # Hypotheses of one list share the reference: the number of errors orders them, also where it is empty.
        units = np.maximum(statistics[:, REFERENCE], 1)
        return np.asarray(100.0 * statistics[:, :REFERENCE].sum(axis=1) / units, dtype=np.float64)

    def losses(self, statistics: Counts) -> Values:
        return statistics[:, :REFERENCE].sum(axis=1).astype(np.float64)

    @property
    def pair_losses(self) -> Callable[[Sequence[str]], Values] | None:
        glm = self.words.glm
        if glm is None or not glm.sided:
            return None
        # A hypothesis in the place of a reference is still a hypothesis: it keeps the rules for these.
        alike = copy(self)
        alike.words = replace(self.words, glm=replace(glm, of_references=glm.of_hypotheses))

        def losses(texts: Sequence[str]) -> Values:
            pairs = list(product(texts, texts))
            rows = alike.statistics([one for one, _ in pairs], [(other,) for _, other in pairs])
            return self.losses(rows).reshape(len(texts), len(texts))

        return losses

    def details(self, sums: Counts) -> dict[str, int | float]:
        names = ("substitutions", "deletions", "insertions", "ref_words" if self.unit == "word" else "ref_characters")
        return dict(zip(names, map(int, sums), strict=True))


def _characters(references: list[str], hypotheses: list[str]) -> Counts:
    output = jiwer.process_characters(references, hypotheses)
    counts = np.zeros((len(hypotheses), 4), dtype=np.int64)
    for row, chunks, reference in zip(counts, output.alignments, output.references, strict=True):
        row[REFERENCE] = len(reference)
        for chunk in chunks:
            if chunk.type == "substitute":
                row[SUBSTITUTIONS] += chunk.ref_end_idx - chunk.ref_start_idx
            elif chunk.type == "delete":
                row[DELETIONS] += chunk.ref_end_idx - chunk.ref_start_idx
            elif chunk.type == "insert":
                row[INSERTIONS] += chunk.hyp_end_idx - chunk.hyp_start_idx
    return counts


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
