"""A list of one's own words, and the error rates of these words and of all others."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.formats.text import begin_with_ids, first_words, read_lines
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts
from rescore.metrics.normalise import FLAGS, Normaliser
from rescore.metrics.wer import (
    DELETIONS,
    INSERTIONS,
    REFERENCE,
    SUBSTITUTIONS,
    ErrorRate,
)
from rescore.nbest import Column, Header, NbestList, Role
from rescore.options import read_file

LISTED = "listed"
"""The column with the number of words of the user's list (`--words`) in the text."""


@dataclass(frozen=True, slots=True)
class WordList:
    """The words of a file: one or more per line, or Kaldi's form, an utterance and its
    words per line.
    """

    lines: tuple[str, ...]
    path: str
    by_utterance: bool = False
    """Whether each line begins with an utterance, for which its words are listed."""

    @classmethod
    def load(cls, path: str | Path) -> WordList:
        """Read a file of words.

        If all lines begin with different ids that contain a digit, some ids are
        followed by words, and no line has an arrow, each utterance has its own list.

        Raises:
            UserError: the file cannot be read, is not UTF-8, or has no word; or most
            lines begin with ids, but not all with different ids.
        """
        numbers = {
            line: number
            for number, line in enumerate(read_lines(Path(path), empty=True), 1)
            if line
        }
        lines = tuple(sorted(numbers))
        if not lines:
            raise UserError(f"{path}: no word in it; expected one per line")
        several = [line for line in lines if len(line.split()) > 1]
        arrows = any("=>" in line for line in lines)
        by_utterance = bool(several) and not arrows and begin_with_ids(lines)
        with_ids = [line for line in several if begin_with_ids([line])]
        if not by_utterance and not arrows and 2 * len(with_ids) > len(lines):
            raise UserError(
                f"{path}: most lines begin with an utterance; give each line another"
                f" utterance, or none{OR}"
            )
        if not by_utterance and (
            line := next((line for line in lines if "\t" in line), None)
        ):
            raise UserError(
                f"{path}: line {numbers[line]}: has a tab; expected `term` or `heard =>"
                " term`"
            )
        return cls(lines, str(path), by_utterance)

    @property
    def digest(self) -> str:
        """Of the words, in any order."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:12]

    @property
    def names(self) -> frozenset[str]:
        """The first words of the lines, if they can be ids."""
        return (
            frozenset(first_words(self.lines))
            if begin_with_ids(self.lines)
            else frozenset()
        )

    @property
    def reads(self) -> str:
        """What a metric with this list reads beside a text (`Metric.reads`)."""
        return "utterance" if self.by_utterance else ""

    @property
    def terms(self) -> list[str]:
        """The terms of all utterances: of a line, or between tabs behind an utterance,
        else each word behind it.
        """
        return (
            list(chain(*self.terms_of.values()))
            if self.by_utterance
            else [form_and_term(line)[1] for line in self.lines]
        )

    @property
    def terms_of(self) -> dict[str, list[str]]:
        """The terms of each utterance; empty if all utterances share a list."""
        rows = (
            line.split("\t" if "\t" in line else None)
            for line in self.lines
            if self.by_utterance
        )
        return {name.strip(): terms for name, *terms in rows}


class Terms:
    """Listed terms, each as the words that a normaliser cuts it into."""

    def __init__(self, terms: Iterable[str], words: Normaliser) -> None:
        self._terms = frozenset(term for text in terms if (term := tuple(words(text))))
        self._longest = max(map(len, self._terms), default=0)

    def places(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """The terms in a text: first word, and word behind the last."""
        return longest_matches(words, self._terms, self._longest)

    def marks(self, words: Sequence[str]) -> list[bool]:
        """For each word of a text, whether it is part of a term."""
        marks = [False] * len(words)
        for first, last in self.places(words):
            marks[first:last] = [True] * (last - first)
        return marks


class OwnTerms:
    """The terms of each utterance: its own, or those of all utterances. Boost, BWER and
    recall count these.
    """

    def __init__(self, listed: WordList, words: Normaliser) -> None:
        self.every, self._list = Terms(listed.terms, words), listed
        self._own = {
            name: Terms(terms, words) for name, terms in listed.terms_of.items()
        }

    def of(self, utterance: str) -> Terms:
        """The terms of an utterance.

        Raises:
            UserError: words are listed by utterance, but not for this utterance.
        """
        if self._list.by_utterance and utterance not in self._own:
            raise UserError(
                f"{self._list.path}: utterance {utterance} is not in it; give each a"
                f" line, `utterance word ...`{OR}"
            )
        return self._own.get(utterance, self.every)


def longest_matches(
    words: Sequence[str], terms: Container[tuple[str, ...]], longest: int
) -> Iterator[tuple[int, int]]:
    """The terms in a text, none longer than `longest` words: first word, and word
    behind the last; the longest term at each place, without overlap.
    """
    place = 0
    while place < len(words):
        ends = range(min(len(words), place + longest), place, -1)
        end = next((end for end in ends if tuple(words[place:end]) in terms), None)
        if end is not None:
            yield place, end
        place = place + 1 if end is None else end


def with_listed(
    lists: Iterable[NbestList], listed: WordList, words: Normaliser
) -> Iterator[NbestList]:
    """The lists with one more column: how many words of each hypothesis BWER counts as
    listed, of the utterance's own list if words are listed by utterance.
    """
    own = OwnTerms(listed, words)
    column = listed_column(listed, words)
    before, header = Header(), Header()
    for nbest in lists:
        if nbest.header is not before:
            before = nbest.header
            header = before.with_columns({LISTED: column})
        terms = own.of(nbest.id)
        hypotheses = [
            replace(
                one,
                scores=one.scores | {LISTED: float(sum(terms.marks(words(one.text))))},
            )
            for one in nbest.hypotheses
        ]
        yield replace(nbest, hypotheses=hypotheses, header=header)


def listed_column(listed: WordList, words: Normaliser) -> Column:
    """Return the record of the column of listed words."""
    return Column("listed", "", counting(words, listed.digest), "", Role.COUNT)


def counting(words: Normaliser, digest: str) -> str:
    """How a column of listed words was counted, for its record: the list, and how texts
    are cut unless as for WER.
    """
    return ",".join([f"words:{digest}", *_cutting(words)])


def _cutting(words: Normaliser) -> list[str]:
    """The switches of a normaliser that are on, with the value of a switch that has
    one.
    """
    values = {name: getattr(words, name) for name in FLAGS}
    return [
        name if value is True else f"{name}={value}"
        for name, value in values.items()
        if value
    ]


def check_counting(sets: Iterable[Dataset], words: Normaliser) -> None:
    """
    Raises:
        UserError: the column of listed words was counted in other words than the
        metric's.
    """
    for column in (
        lists.header.columns[LISTED] for lists in sets if LISTED in lists.header.columns
    ):
        if column.norm.split(",")[1:] != _cutting(words):
            raise UserError(
                f"column {LISTED} has other words than the metric counts; give --words"
                " FILE to count again"
            )


OR = "; if the lines are terms, write one of them as `term => term`"
"""The end of a message about a list that may be one by utterance."""


def form_and_term(line: str) -> tuple[str | None, str]:
    """The heard form, if the line has an arrow, and the term of a line of a word list:
    `term`, or `heard => term`.
    """
    form, arrow, term = line.rpartition("=>")
    return form.strip() if arrow else None, term.strip()


class ListedErrorRate(ErrorRate):
    """The word errors of the words in a list, or of all others, in percent of those
    words in the references.

    A term of several words counts where the whole term stands, the longest term at each
    place. A substitution or deletion counts for the word of the reference, an insertion
    for the inserted word (Le et al. 2021). Each utterance has its own list if the file
    gives its words by utterance.
    """

    name, unit = "BWER", "listed word"
    inside = True
    """Whether the words of the list count; else all other words."""

    @dataclass(frozen=True, kw_only=True)
    class Options(ErrorRate.Options):
        words: WordList | None = read_file(
            None,
            "Your own words, such as names, one per line; or one line `utterance word"
            " word ...` per utterance. BWER is the error rate of these words, UWER of"
            " all other words. --boost adds a bonus for each of them, counted in the"
            " column listed; --respell keeps them and proposes them as replacements.",
            read=WordList.load,
        )

    # Its words depend on the utterance.
    pair_losses = least_losses = None  # type: ignore[assignment]

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        listed = self.options.words
        if listed is None:
            raise UserError(f"--metric {self.name.lower()} needs --words FILE")
        self._list: WordList = listed
        self.reads = listed.reads
        self._terms = OwnTerms(listed, self.words)

    @classmethod
    def choose(cls, options: Any, references: Sequence[str]) -> ListedErrorRate:
        metric = cls(options)
        if references and not metric._counts_words_of(references):
            which = "is a word of" if cls.inside else "is outside"
            raise UserError(
                f"{options.words.path}: no word of the references {which} this list"
            )
        return metric

    def _counts_words_of(self, references: Sequence[str]) -> bool:
        """Return whether a word of the references counts.

        A word that one utterance lists is another word in the others.
        """
        marks: set[bool] = set()
        for text in references:
            marks.update(self._terms.every.marks(self.words(text)))
        if self.inside:
            return True in marks
        return bool(marks) if self.reads else False in marks

    @property
    def settings(self) -> dict[str, str]:
        form = {"words-by": "utterance"} if self._list.by_utterance else {}
        return super().settings | {"align": "sclite"} | form

    def _count(self, references: list[str], hypotheses: list[Any]) -> Counts:
        """Only words that count."""
        words = cache(self.words)
        rows = []
        for reference, hypothesis in zip(references, hypotheses, strict=True):
            utterance, text = hypothesis if self.reads else ("", hypothesis)
            rows.append(
                self._errors(words(reference), words(text), self._terms.of(utterance))
            )
        return np.array(rows, dtype=np.int64)

    def _errors(
        self, reference: Sequence[str], hypothesis: Sequence[str], terms: Terms
    ) -> list[int]:
        said, written = (
            [mark == self.inside for mark in terms.marks(words)]
            for words in (reference, hypothesis)
        )
        row = [0, 0, 0, sum(said)]
        if reference != hypothesis and (row[REFERENCE] or any(written)):
            of_reference, of_hypothesis = iter(said), iter(written)
            for expected, heard in align(reference, hypothesis):
                inserted = heard is not None and next(of_hypothesis)
                counts = inserted if expected is None else next(of_reference)
                if expected != heard and counts:
                    row[
                        INSERTIONS
                        if expected is None
                        else DELETIONS
                        if heard is None
                        else SUBSTITUTIONS
                    ] += 1
        return row

    def details(self, sums: Counts) -> dict[str, int | float]:
        words = "listed_words" if self.inside else "other_words"
        return dict(
            zip(
                ("substitutions", "deletions", "insertions", words),
                map(int, sums),
                strict=True,
            )
        )


class OtherErrorRate(ListedErrorRate):
    """The word errors of all words outside the list."""

    name, unit = "UWER", "other word"
    inside = False
