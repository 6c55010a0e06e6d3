"""A list of one's own words, and the error rates of these words and of all others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rescore.errors import UserError
from rescore.formats.text import begin_with_ids, first_words, read_lines
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import DELETIONS, INSERTIONS, REFERENCE, SUBSTITUTIONS, ErrorRate
from rescore.nbest import LISTED, Column, NbestList, Role
from rescore.options import Declared, option


@dataclass(frozen=True, slots=True)
class WordList:
    """The words of a file: one or more per line, or Kaldi's form, an utterance and its words per line."""

    lines: tuple[str, ...]
    path: str
    by_utterance: bool = False
    """Whether each line begins with an utterance, for which its words are listed."""

    @classmethod
    def load(cls, path: str | Path) -> WordList:
        """Read a file of words.

        If all lines begin with different ids that contain a digit, some ids are followed by words, and no line has an
        arrow, each utterance has its own list.

        Raises:
            UserError: the file cannot be read, is not UTF-8, or has no word; or most lines begin with ids, but not all
                with different ids.
        """
        numbers = {line: number for number, line in enumerate(read_lines(Path(path), empty=True), 1) if line}
        lines = tuple(sorted(numbers))
        if not lines:
            raise UserError(f"{path}: no word in it; expected one per line")
        several = [line for line in lines if len(line.split()) > 1]
        arrows = any("=>" in line for line in lines)
        by_utterance = bool(several) and not arrows and begin_with_ids(lines)
        with_ids = [line for line in several if set(line.split()[0]) & set("0123456789")]
        if not by_utterance and not arrows and 2 * len(with_ids) > len(lines):
            raise UserError(
                f"{path}: most lines begin with an utterance; give each line another utterance, or none{OR}"
            )
        if not by_utterance and (line := next((line for line in lines if "\t" in line), None)):
            raise UserError(f"{path}: line {numbers[line]}: has a tab; expected `term` or `heard => term`")
        return cls(lines, str(path), by_utterance)

    @property
    def digest(self) -> str:
        """Of the words, in any order."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:12]

    @property
    def names(self) -> frozenset[str]:
        """The first words of the lines, if they can be ids."""
        return frozenset(first_words(self.lines)) if begin_with_ids(self.lines) else frozenset()

    @property
    def reads(self) -> str:
        """What a metric with this list reads beside a text (`Metric.reads`)."""
        return "utterance" if self.by_utterance else ""

    @property
    def lists(self) -> dict[str, str]:
        """The words of each utterance, as they are written; empty if all utterances share a list."""
        parts = (line.split(maxsplit=1) for line in self.lines if self.by_utterance)
        return {name: " ".join(words) for name, *words in parts}

    @property
    def entries(self) -> list[str]:
        """The words of all lines, without utterances."""
        return list(self.lists.values()) if self.by_utterance else [form_and_term(line)[1] for line in self.lines]

    @property
    def lower(self) -> dict[str, frozenset[str]]:
        """The words of each utterance in lower case; empty if all utterances share a list."""
        return {name: frozenset(own.lower().split()) for name, own in self.lists.items()}

    def words(self, normaliser: Normaliser) -> frozenset[str]:
        """As the words of references are compared."""
        return frozenset(word for entry in self.entries for word in normaliser(entry))


def with_listed(lists: Iterable[NbestList], words: WordList) -> Iterator[NbestList]:
    """The lists with one more column: how many words of each hypothesis the user listed, for the utterance if words are
    listed by utterance. Case does not count."""
    by_utterance = words.lower
    every = frozenset(word for entry in words.entries for word in entry.lower().split())
    column = Column("listed", "", f"words:{words.digest}", "", Role.COUNT)
    before, columns = None, {}
    for nbest in lists:
        if nbest.provenance is not before:
            before, columns = nbest.provenance, {**nbest.provenance, LISTED: column}
        own = by_utterance.get(nbest.id, frozenset()) if words.by_utterance else every
        hypotheses = [
            replace(one, scores=one.scores | {LISTED: float(sum(word in own for word in one.text.lower().split()))})
            for one in nbest.hypotheses
        ]
        yield replace(nbest, hypotheses=hypotheses, provenance=columns)


OR = "; if the lines are terms, write one of them as `term => term`"
"""The end of a message about a list that may be one by utterance."""


def form_and_term(line: str) -> tuple[str | None, str]:
    """The heard form, if the line has an arrow, and the term of a line of a word list: `term`, or `heard => term`."""
    form, arrow, term = line.rpartition("=>")
    return form.strip() if arrow else None, term.strip()


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
        self._list, self.reads = listed, listed.reads
        self._words = listed.words(self.words)
        self._of_utterance = {name: frozenset(self.words(words)) for name, words in listed.lists.items()}

    @classmethod
    def choose(cls, options: ErrorRate.Options, references: Sequence[str]) -> ListedErrorRate:
        assert isinstance(options, ListedErrorRate.Options)
        if options.words is None:
            raise UserError("--metric bwer and uwer need --words FILE")
        metric = cls(options.words, options.normaliser)
        spoken = {word for text in references for word in metric.words(text)}
        # A word that one utterance lists is another word in the others.
        counting = spoken & metric._words if cls.inside else spoken if metric.reads else spoken - metric._words
        if references and not counting:
            which = "is a word of" if cls.inside else "is outside"
            raise UserError(f"{options.words.path}: no word of the references {which} this list")
        return metric

    @property
    def settings(self) -> dict[str, str]:
        form = {"words-by": "utterance"} if self._list.by_utterance else {}
        return super().settings | {"align": "sclite", "words": self._list.digest} | form

    @property
    def options(self) -> Declared:
        return ListedErrorRate.Options(normaliser=self.words, words=self._list)

    def _count(self, references: list[str], hypotheses: list[Any]) -> Counts:
        """Only words that count.

        Raises:
            UserError: the file does not name an utterance.
        """
        words = cache(self.words)
        rows = []
        for reference, hypothesis in zip(references, hypotheses, strict=True):
            utterance, text = hypothesis if self.reads else (None, hypothesis)
            listed = self._words if utterance is None else self._of_utterance.get(utterance)
            if listed is None:
                raise UserError(
                    f"{self._list.path}: utterance {utterance} is not in it; give each a line, `utterance word ...`"
                )
            rows.append(self._errors(words(reference), words(text), listed))
        return np.array(rows, dtype=np.int64)

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
