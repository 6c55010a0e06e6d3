"""Word error rate as sclite counts it, and character error rate by jiwer (rapidfuzz)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import product
from typing import Any

import numpy as np

from rescore.errors import UserError
from rescore.metrics.alignment import align, error_counts
from rescore.metrics.base import Counts, Metric, Spoken, Values
from rescore.metrics.normalise import Normaliser, WordList, paired_words
from rescore.options import Declared, option

SUBSTITUTIONS, DELETIONS, INSERTIONS, REFERENCE = range(4)


class ErrorRate(Metric):
    """(substitutions + deletions + insertions) / reference units, in percent.

    Texts are normalised first (by default as sclite does: case is folded). Words are parted by white space, or split
    further as the normaliser says; characters include the blanks between words, as in ESPnet. With several references
    the one with the fewest errors counts.
    """

    higher_is_better = False
    name = "WER"
    unit = "word"
    words: Normaliser

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        normaliser: Normaliser = option(Normaliser, nested=Normaliser)

    def __init__(self, normaliser: Normaliser | None = None) -> None:
        self.words = normaliser or Normaliser()

    @classmethod
    def choose(cls, options: Options, references: Sequence[str]) -> ErrorRate:
        return cls(options.normaliser)

    @property
    def settings(self) -> dict[str, str]:
        how = {"tok": self.words.unit, "align": "sclite"} if self.unit == "word" else {"tok": "char"}
        return self.words.settings | how

    @property
    def versions(self) -> dict[str, str]:
        if self.unit == "word":
            return {}
        return {name: version(name) for name in ("jiwer", "rapidfuzz")}

    @property
    def options(self) -> Declared:
        return ErrorRate.Options(normaliser=self.words)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: substitutions, deletions, insertions, reference units."""
        best = np.zeros((len(hypotheses), 4), dtype=np.int64)
        for rank in range(max(map(len, references), default=0)):
            rows = [index for index, texts in enumerate(references) if rank < len(texts)]
            counts = self._count([references[row][rank] for row in rows], [hypotheses[row] for row in rows])
            if rank:
                fewer = counts[:, :REFERENCE].sum(axis=1) < best[rows, :REFERENCE].sum(axis=1)
                counts = np.where(fewer[:, None], counts, best[rows])
            best[rows] = counts
        return best

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        if self.unit == "character":
            whole = replace(self.words, split_characters=False, split_mixed=False)
            of_references, of_hypotheses = paired_words(references, hypotheses, whole)
            return _characters(
                [" ".join(words) for words in of_references], [" ".join(words) for words in of_hypotheses]
            )
        of_references, of_hypotheses = paired_words(references, hypotheses, self.words)
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
    def pair_losses(self) -> Callable[[Sequence[str]], Values] | None:  # type: ignore[override]
        glm = self.words.glm
        if glm is None or not glm.sided:
            return None
        # A hypothesis in the place of a reference is still a hypothesis: it keeps the rules for these.
        alike = copy(self)
        alike.words = replace(self.words, glm=replace(glm, of_references=glm.of_hypotheses))
        return alike._losses_of_pairs

    def _losses_of_pairs(self, texts: Sequence[str]) -> Values:
        pairs = list(product(texts, texts))
        rows = self.statistics([first for first, _ in pairs], [(second,) for _, second in pairs])
        return self.losses(rows).reshape(len(texts), len(texts))

    def details(self, sums: Counts) -> dict[str, int | float]:
        names = ("substitutions", "deletions", "insertions", "ref_words" if self.unit == "word" else "ref_characters")
        return dict(zip(names, map(int, sums), strict=True))


class CharacterErrorRate(ErrorRate):
    """(substitutions + deletions + insertions) / characters of the reference, in percent."""

    name, unit = "CER", "character"


class MixedErrorRate(ErrorRate):
    """The word error rate where each character of Chinese, Japanese and Thai is a word."""

    name = "MER"

    @classmethod
    def choose(cls, options: ErrorRate.Options, references: Sequence[str]) -> ErrorRate:
        return cls(replace(options.normaliser, split_characters=False, split_mixed=True))


def _characters(references: list[str], hypotheses: list[str]) -> Counts:
    import jiwer

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
    """The word errors of the words in a list, or of all others, in percent of those words in the references.

    A substitution or deletion counts for the word of the reference, an insertion for the inserted word (Le et al.
    2021). Each utterance has its own list if the file gives its words by utterance.
    """

    name, unit = "BWER", "listed word"
    inside = True
    """Whether the words of the list count; else all other words."""

    @dataclass(frozen=True, kw_only=True)
    class Options(ErrorRate.Options):
        words: WordList | None = option(
            None,
            "Your own words, such as names, one per line; or one line `utterance word word ...` per utterance. BWER is "
            "the error rate of these words, UWER of all other words. --boost adds a bonus for each of them; --respell "
            "keeps them and proposes them as replacements.",
            metavar="FILE",
            reads=True,
            read=WordList.load,
        )

    def __init__(self, listed: WordList, normaliser: Normaliser | None = None) -> None:
        super().__init__(normaliser)
        self._list = listed
        self._words = listed.words(self.words)
        self._by_utterance = listed.words_by_utterance(self.words)

    @property
    def reads_utterance(self) -> bool:  # type: ignore[override]
        return self._list.by_utterance

    @classmethod
    def choose(cls, options: ErrorRate.Options, references: Sequence[str]) -> ListedErrorRate:
        assert isinstance(options, ListedErrorRate.Options)
        if options.words is None:
            raise UserError("--metric bwer and uwer need --words FILE")
        metric = cls(options.words, options.normaliser)
        spoken = {word for text in references for word in metric.words.reference(text)}
        alone = not options.words.by_utterance  # a word that one utterance lists is another word in the others
        if references and not (spoken & metric._words if cls.inside else not alone or spoken - metric._words):
            which = "is a word of" if cls.inside else "is outside"
            raise UserError(f"{options.words.path}: no word of the references {which} this list")
        return metric

    @property
    def settings(self) -> dict[str, str]:
        form = {"words-by": "utterance"} if self._list.by_utterance else {}
        return super().settings | {"tok": self.words.unit, "align": "sclite", "words": self._list.digest} | form

    @property
    def versions(self) -> dict[str, str]:
        return {}

    @property
    def options(self) -> Declared:
        return ListedErrorRate.Options(normaliser=self.words, words=self._list)

    @property
    def pair_losses(self) -> Callable[[Sequence[Any]], Values] | None:  # type: ignore[override]
        if not self.reads_utterance:
            return super().pair_losses

        def losses(texts: Sequence[Spoken]) -> Values:
            alone = copy(self)
            alone._list = replace(self._list, by_utterance=False)
            alone._words = self._listed(texts[0].utterance)
            return (alone.pair_losses or alone._losses_of_pairs)([spoken.text for spoken in texts])

        return losses

    def statistics(self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: substitutions, deletions, insertions, reference words; only words that count."""
        if not self.reads_utterance:
            return super().statistics(hypotheses, references)
        result = np.zeros((len(hypotheses), 4), dtype=np.int64)
        for row, hypothesis, texts in zip(result, hypotheses, references, strict=True):
            listed = self._listed(hypothesis.utterance)
            rows = [self._errors(*self.words.nearest(text, hypothesis.text), listed) for text in texts]
            row[:] = min(rows, key=lambda counts: sum(counts[:REFERENCE]))
        return result

    def _listed(self, utterance: str) -> frozenset[str]:
        """
        Raises:
            UserError: the file does not name the utterance.
        """
        if utterance not in self._by_utterance:
            raise UserError(
                f"{self._list.path}: utterance {utterance} is not in it; give each a line, `utterance word word ...`"
            )
        return self._by_utterance[utterance]

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        pairs = zip(*paired_words(references, hypotheses, self.words), strict=True)
        rows = [self._errors(reference, hypothesis, self._words) for reference, hypothesis in pairs]
        return np.array(rows, dtype=np.int64).reshape(len(rows), 4)

    def _errors(self, reference: Sequence[str], hypothesis: Sequence[str], listed: frozenset[str]) -> list[int]:
        def counts(word: str) -> bool:
            return (word in listed) == self.inside

        row = [0, 0, 0, sum(map(counts, reference))]
        if reference != hypothesis and (row[REFERENCE] or any(map(counts, hypothesis))):
            for expected, heard in align(reference, hypothesis):
                if expected != heard and counts(str(heard if expected is None else expected)):
                    row[INSERTIONS if expected is None else DELETIONS if heard is None else SUBSTITUTIONS] += 1
        return row

    def details(self, sums: Counts) -> dict[str, int | float]:
        words = "listed_words" if self.inside else "other_words"
        return dict(zip(("substitutions", "deletions", "insertions", words), map(int, sums), strict=True))


class OtherErrorRate(ListedErrorRate):
    """The word errors of all words outside the list."""

    name, unit = "UWER", "other word"
    inside = False
