"""A list of the user's own words, and the error rates of these words and of all others.

Terms of several words count where the whole term stands, and the longest term at a
place wins. An utterance has its own terms if the list gives words by utterance.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rescore.columns import Column, Role
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.formats.ids import ByName, begin_with_ids, first_words
from rescore.formats.sentences import read_lines
from rescore.formats.wordlists import (
    BiasedText,
    biased_texts,
    form_and_term,
    has_arrow,
    without_scores,
    without_weights,
)
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts
from rescore.metrics.normalise import FLAGS, NormalisedWords, Normaliser
from rescore.metrics.wer import (
    DELETIONS,
    INSERTIONS,
    SUBSTITUTIONS,
    ErrorRate,
)
from rescore.nbest import NbestList, SharedChange
from rescore.options import read_file

log = logging.getLogger(__name__)

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
        """Return the words of a file (`of_lines`).

        Args:
            path: The file.

        Raises:
            UserError: The file cannot be read or is not UTF-8, or its lines are no word
                list.
        """
        return cls.of_lines(read_lines(Path(path), empty=True), str(path))

    @classmethod
    def of_lines(cls, every: Iterable[str], path: str) -> WordList:
        """Return the words of lines.

        If all lines begin with different ids that contain a digit, some ids are
        followed by words, and no line has an arrow, each utterance has its own list. So
        it has if all lines have lists of words behind their texts (`biased_texts`).
        Weights of hotwords are left out, and a line says so.

        Args:
            every: The lines; empty lines do not count.
            path: The file, for messages.

        Raises:
            UserError: There is no word; or most lines begin with ids, but not all with
                different ids.
        """
        every = [line.strip() for line in every]
        biased = biased_texts(every, path)
        if biased is not None:
            if any(text.has_distractors for text in biased):
                log.info(
                    "%s: the words of an utterance are in its third column; the"
                    " distractors of the fourth are not used",
                    path,
                )
            return cls(_own_lines(biased, path), path, by_utterance=True)
        numbers = {line: number for number, line in enumerate(every, 1) if line}
        lines = tuple(sorted(numbers))
        if not lines:
            raise UserError(f"{path}: no word in it; expected one per line")
        hotwords = without_scores(lines)
        if not hotwords.dropped:
            if _are_by_utterance(lines):
                return cls(lines, path, by_utterance=True)
            hotwords = without_weights(lines)
        if hotwords.dropped:
            log.warning("%s: %s; only the words are used", path, hotwords.dropped)
            terms = dict(zip(lines, hotwords.terms, strict=True))
            numbers = {terms[line]: number for line, number in numbers.items()}
            lines = tuple(sorted(numbers))
        if not any(map(has_arrow, lines)):
            _check_ids(path, lines)
        _check_tabs(path, numbers)
        return cls(lines, path)

    @property
    def digest(self) -> str:
        """A digest of the words, in any order."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:12]

    @property
    def names(self) -> frozenset[str]:
        """The first words of the lines, if they can be ids."""
        if not begin_with_ids(self.lines):
            return frozenset()
        return frozenset(first_words(self.lines))

    @property
    def reads(self) -> str:
        """What a metric with this list reads beside a text (`Metric.reads`)."""
        return "utterance" if self.by_utterance else ""

    @property
    def terms(self) -> list[str]:
        """The terms of all utterances: the term of each line, or the terms behind each
        utterance.
        """
        if self.by_utterance:
            return list(chain(*self.terms_of.values()))
        return [form_and_term(line)[1] for line in self.lines]

    @property
    def terms_of(self) -> dict[str, list[str]]:
        """The terms of each utterance; empty if all utterances share a list.

        Tabs part the terms of a line that has a tab; otherwise each word is a term.
        """
        terms_of: dict[str, list[str]] = {}
        if not self.by_utterance:
            return terms_of
        for line in self.lines:
            name, *terms = line.split("\t" if "\t" in line else None)
            terms_of[name.strip()] = terms
        return terms_of


def _own_lines(texts: Iterable[BiasedText], path: str | Path) -> tuple[str, ...]:
    """Return lines `utterance<TAB>word<TAB>...` of texts with words of their own.

    Raises:
        UserError: Two texts have the same id.
    """
    lines: dict[str, str] = {}
    for text in texts:
        if text.id in lines:
            raise UserError(
                f"{path}: utterance {text.id} is duplicated; give each a single line"
            )
        lines[text.id] = "\t".join((text.id, *text.words))
    return tuple(sorted(lines.values()))


def _are_by_utterance(lines: Sequence[str]) -> bool:
    """Return whether lines begin with utterances that have words behind them."""
    if any(map(has_arrow, lines)) or not begin_with_ids(lines):
        return False
    behind = [line.split()[1:] for line in lines]
    if all(len(words) == 1 and words[0].isdecimal() for words in behind):
        return False  # names such as B2B, with weights
    return any(behind)


def _has_several_words(line: str) -> bool:
    """Return whether a line has more than one word."""
    return len(line.split()) > 1


def _check_ids(path: str | Path, lines: Sequence[str]) -> None:
    """Raise an error if most lines begin with an id that has words behind it."""
    with_ids = 0
    for line in lines:
        if _has_several_words(line) and begin_with_ids([line]):
            with_ids += 1
    if 2 * with_ids > len(lines):
        raise UserError(
            f"{path}: most lines begin with an utterance; give each line another"
            f" utterance, or none{OR}"
        )


def _check_tabs(path: str | Path, numbers: Mapping[str, int]) -> None:
    """Raise an error if a line of terms has a tab.

    Args:
        path: The file.
        numbers: The number of each line in the file.
    """
    for line in sorted(numbers):
        if "\t" in line:
            raise UserError(
                f"{path}: line {numbers[line]}: has a tab; expected `term` or `heard =>"
                " term`"
            )


class Terms:
    """Listed terms, each as the words that a normaliser cuts it into."""

    def __init__(self, terms: Iterable[str], words: Normaliser) -> None:
        cut = [tuple(words(term)) for term in terms]
        self._terms = frozenset(filter(None, cut))
        self._longest = max(map(len, self._terms), default=0)

    def places(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield the place of each term in a text: its first word, and the word behind
        its last.
        """
        return longest_matches(words, self._terms, self._longest)

    def marks(self, words: Sequence[str]) -> list[bool]:
        """Return for each word of a text whether it is part of a term."""
        marks = [False] * len(words)
        for first, last in self.places(words):
            marks[first:last] = [True] * (last - first)
        return marks


class OwnTerms:
    """The terms of each utterance: its own, or those of all utterances. Boost, BWER and
    recall count these.
    """

    def __init__(self, listed: WordList, words: Normaliser) -> None:
        self.every = Terms(listed.terms, words)
        self._list = listed
        own = {name: Terms(terms, words) for name, terms in listed.terms_of.items()}
        self._own = ByName(own, listed.path)

    def of(self, utterance: str) -> Terms:
        """Return the terms of an utterance.

        Raises:
            UserError: Words are listed by utterance, but not for this utterance.
        """
        if not self._list.by_utterance:
            return self.every
        terms = self._own.get(utterance)
        if terms is None:
            raise UserError(
                f"{self._list.path}: utterance {utterance} is not in it; give each a"
                f" line, `utterance word ...`{OR}"
            )
        return terms


def longest_matches(
    words: Sequence[str], terms: Container[tuple[str, ...]], longest: int
) -> Iterator[tuple[int, int]]:
    """Yield the places of terms in a text, the longest term at each place.

    Args:
        words: The words of the text.
        terms: Terms as tuples of words.
        longest: Number of words of the longest term.

    Yields:
        The first word of a term, and the word behind its last; terms do not overlap.
    """
    place = 0
    while place < len(words):
        end = _longest_match(words, place, terms, longest)
        if end is None:
            place += 1
        else:
            yield place, end
            place = end


def _longest_match(
    words: Sequence[str], place: int, terms: Container[tuple[str, ...]], longest: int
) -> int | None:
    """Return the end of the longest term that begins at a place; None without one."""
    for end in range(min(len(words), place + longest), place, -1):
        if tuple(words[place:end]) in terms:
            return end
    return None


def with_listed(
    lists: Iterable[NbestList], listed: WordList, words: Normaliser
) -> Iterator[NbestList]:
    """Yield lists with the column `listed`: the number of words that BWER counts as
    listed.

    Args:
        lists: The lists.
        listed: The list of words, which may have words by utterance.
        words: Cuts texts into words.

    Raises:
        UserError: Words are listed by utterance, but not for an utterance of the lists.
    """
    own = OwnTerms(listed, words)
    column = listed_column(listed, words)
    with_column = SharedChange(lambda header: header.with_records({LISTED: column}))
    for nbest in lists:
        terms = own.of(nbest.id)
        hypotheses = []
        for hypothesis in nbest.hypotheses:
            number = sum(terms.marks(words(hypothesis.text)))
            scores = hypothesis.scores | {LISTED: float(number)}
            hypotheses.append(replace(hypothesis, scores=scores))
        header = with_column(nbest.header)
        yield replace(nbest, hypotheses=hypotheses, header=header)


def listed_column(listed: WordList, words: Normaliser) -> Column:
    """Return the record of the column of listed words."""
    return Column("listed", "", counting(words, listed.digest), "", Role.COUNT)


def counting(words: Normaliser, digest: str) -> str:
    """Return the record of how a column of listed words was counted.

    Args:
        words: The normaliser. Switches that differ from the default are recorded.
        digest: The digest of the list of words.
    """
    return ",".join([f"words:{digest}", *_cutting(words)])


def _cutting(words: Normaliser) -> list[str]:
    """Return the switches of a normaliser that are on, with their values if they have
    values.
    """
    switches = []
    for name in FLAGS:
        value = getattr(words, name)
        if value is True:
            switches.append(name)
        elif value:
            switches.append(f"{name}={getattr(value, 'digest', value)}")
    return switches


def check_counting(sets: Iterable[Dataset], words: Normaliser) -> None:
    """Raise an error if listed words were counted in other words than the metric's.

    Args:
        sets: The sets; those without a column of listed words are not checked.
        words: The metric's normaliser.

    Raises:
        UserError: The column was counted with another normaliser.
    """
    for lists in sets:
        column = lists.header.records.get(LISTED)
        if column is not None and column.norm.split(",")[1:] != _cutting(words):
            raise UserError(
                f"column {LISTED} has other words than the metric counts; give --words"
                " FILE to count again"
            )


OR = "; if the lines are terms, write one of them as `term => term`"
"""The end of a message about a list that may be one by utterance."""


class ListedErrorRate(ErrorRate):
    """The word errors of the words in a list, in percent of these words in the
    references; or the same of all other words.

    A term of several words counts where the whole term stands, the longest term at each
    place. A substitution or deletion counts for the word of the reference, an insertion
    for the inserted word (Le et al. 2021). Each utterance has its own list if the file
    gives its words by utterance.
    """

    name = "BWER"
    unit = "listed word"
    inside = True
    """Whether the words of the list count; else all other words."""

    @dataclass(frozen=True, kw_only=True)
    class Options(NormalisedWords):
        words: WordList | None = read_file(
            None,
            "Your own words, such as names, one per line; or one line `utterance word"
            " word ...` per utterance. BWER is the error rate of these words, UWER of"
            " all other words. --boost adds a bonus for each of them, counted in the"
            " column listed; --respell keeps them and proposes them as replacements.",
            read=WordList.load,
        )

    # Which words count depends on the utterance, and pairs of texts have none.
    pair_losses = None  # type: ignore[assignment]
    least_losses = None  # type: ignore[assignment]

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
        """Return the metric for the references that it will see.

        Args:
            options: Options of the class `Options`.
            references: The references; empty if they are not known.

        Raises:
            UserError: No word of the references counts.
        """
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
        settings = super().settings | {"align": "sclite"}
        if self._list.by_utterance:
            settings["words-by"] = "utterance"
        return settings

    def statistics(
        self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return the counts of hypotheses beside the reference that WER takes: an error
        of WER is an error of listed or of other words.

        Args:
            hypotheses: The texts; with lists by utterance, pairs of utterance and text.
            references: One or more references for each hypothesis.

        Returns:
            Counts of shape (hypotheses, k).
        """
        closest = []
        for hypothesis, texts in zip(hypotheses, references, strict=True):
            text = hypothesis.text if self.reads else hypothesis
            closest.append([self.words.closest(texts, text)])
        return self._counts_of(hypotheses, closest)

    def _counts_of(
        self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return `statistics` of hypotheses with one reference each."""
        return super().statistics(hypotheses, references)

    def _count(self, references: list[str], hypotheses: list[Any]) -> Counts:
        """Return the errors and reference words of pairs, of the words that count."""
        words = cache(self.words)
        rows = []
        for reference, hypothesis in zip(references, hypotheses, strict=True):
            utterance, text = hypothesis if self.reads else ("", hypothesis)
            terms = self._terms.of(utterance)
            rows.append(self._errors(words(reference), words(text), terms))
        return np.array(rows, dtype=np.int64)

    def _errors(
        self, reference: Sequence[str], hypothesis: Sequence[str], terms: Terms
    ) -> list[int]:
        """Return the columns of `statistics` of one pair of texts."""
        said = self._counted(reference, terms)
        written = self._counted(hypothesis, terms)
        row = [0, 0, 0, sum(said)]
        if reference == hypothesis or not any([*said, *written]):
            return row
        of_reference = iter(said)
        of_hypothesis = iter(written)
        for expected, heard in align(reference, hypothesis):
            counts = False
            if heard is not None:
                counts = next(of_hypothesis)
            if expected is not None:  # the word of the reference decides
                counts = next(of_reference)
            if counts and expected != heard:
                row[_kind(expected, heard)] += 1
        return row

    def _counted(self, words: Sequence[str], terms: Terms) -> list[bool]:
        """Return for each word of a text whether the metric counts it."""
        return [mark == self.inside for mark in terms.marks(words)]

    def details(self, sums: Counts) -> dict[str, int | float]:
        words = "listed_words" if self.inside else "other_words"
        names = ("substitutions", "deletions", "insertions", words)
        return dict(zip(names, map(int, sums), strict=True))


def _kind(expected: str | None, heard: str | None) -> int:
    """Return the column of an error in statistics."""
    if expected is None:
        return INSERTIONS
    if heard is None:
        return DELETIONS
    return SUBSTITUTIONS


class OtherErrorRate(ListedErrorRate):
    """The word errors of all words outside the list."""

    name = "UWER"
    unit = "other word"
    inside = False
