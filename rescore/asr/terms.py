"""Terms that a user lists, and the spans of a text that sound like them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from rescore.asr.sounds import joined, sounds, spoken
from rescore.errors import UserError
from rescore.metrics.listed import WordList
from rescore.metrics.normalise import UNSPACED

LONGEST_SPAN = 5
"""Words in a span, at most; of Chinese, Japanese and Thai it is as many characters as the longest term has."""
PER_SPAN = 4
"""Terms that are weighed for each span."""
CUTOFF, MOST_EDITS = 0.42, 6
"""Sounds in which a span may differ from a term: at most this share of the longer of both, and this number."""
_WORD = re.compile(
    rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})[^\W_])+(?:['\u2019&+.@/](?:(?!{UNSPACED.pattern})[^\W_])+)*[+#]*"
)
_POSSESSIVE = re.compile("['\u2019]s$", re.IGNORECASE)


@dataclass(frozen=True)
class Term:
    """A listed term."""

    text: str
    """As it is written into a text."""
    weight: float = 0.0
    """Added to the log-odds of each correction to this term, natural log."""
    heard: frozenset[str] = frozenset()
    """Forms, as `spoken` has them, that are always corrected to the term."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Its words, as `Word.key` has them."""
        return words_of(self.text)

    @cached_property
    def sound(self) -> str:
        return sounds(self.text)


class Word(NamedTuple):
    """A word of a text, without the punctuation around it."""

    start: int
    end: int
    """Its place in the text, in characters."""
    text: str
    key: str
    """In lower case without accents and apostrophes."""


Numbers = npt.NDArray[np.int64]
CELLS = 1 << 24
"""Distances computed at once: bounds memory, a byte each."""


class Span(NamedTuple):
    """Neighbouring words of a text that sound like a term."""

    first: int
    last: int
    """Numbers of its first word, and of the word behind its last."""
    term: int
    """The number of the term."""
    distance: int
    """Sounds in which both differ."""
    sound: str
    """Of the heard words."""
    possessive: bool
    """Whether the heard words end in 's and the term does not."""
    ordered: bool = False
    """Whether the list says that these words are always the term."""


def split(text: str) -> list[Word]:
    """The words of a text with their places; each character of Chinese, Japanese and Thai is a word."""
    return [Word(match.start(), match.end(), match[0], spoken(match[0])) for match in _WORD.finditer(text)]


def words_of(text: str) -> tuple[str, ...]:
    """The words of a term, as `Word.key` has them."""
    return tuple(spoken(match[0]) for match in _WORD.finditer(text))


def read_terms(words: WordList) -> tuple[list[Term], dict[str, frozenset[int]]]:
    """The terms of a word list, and the numbers of the terms of each utterance if the list is by utterance.

    A line is `term`, `heard => term`, or either of these with a tab and a weight. A line of a list by utterance is an
    utterance or a recording and its words, or its terms if tabs separate them.

    Raises:
        UserError: a weight is no number, or a side of `=>` has no word.
    """
    known: dict[str, int] = {}
    weights: dict[str, float] = {}
    heard: defaultdict[str, set[str]] = defaultdict(set)
    by_utterance = {}
    if words.by_utterance:
        for line in words.lines:
            name, _, rest = line.strip().partition("\t" if "\t" in line else " ")
            terms = [term.strip() for term in (rest.split("\t") if "\t" in line else rest.split())]
            by_utterance[name] = frozenset(known.setdefault(term, len(known)) for term in terms if words_of(term))
        return [Term(text) for text in known], by_utterance
    for line in words.lines:
        entry, _, weight = line.strip().partition("\t")
        left, arrow, right = entry.partition("=>")
        meant = (right if arrow else left).strip()
        if not words_of(meant) or (arrow and not words_of(left)):
            raise UserError(f"{words.path}: {line.strip()!r} has no word; expected `term` or `heard => term`")
        known.setdefault(meant, len(known))
        if arrow:
            heard[meant].add(spoken(left))
        if weight.strip():
            weights[meant] = _number(weight, words.path, line)
    return [Term(text, weights.get(text, 0.0), frozenset(heard[text])) for text in known], {}


def _number(text: str, path: str, line: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{path}: {line.strip()!r}: the weight {text.strip()!r} is not a number")
    return value


class TermIndex:
    """Finds the spans of texts that sound like terms.

    A span is compared with all terms whose sounds are about as many; 10,000 terms take milliseconds for an utterance.
    """

    def __init__(self, terms: Sequence[Term], numbers: Iterable[int] | None = None) -> None:
        """`numbers`: of the terms that are looked for; None for all."""
        self.terms = terms
        self._numbers = list(range(len(terms)) if numbers is None else sorted(numbers))
        own = [(number, terms[number]) for number in self._numbers]
        forms = {(term.sound, number) for number, term in own}
        forms |= {(sounds(form), number) for number, term in own for form in term.heard}
        pairs = sorted((form for form in forms if form[0]), key=lambda form: (len(form[0]), form))
        self._sounds = [sound for sound, _ in pairs]
        self._owners = np.array([number for _, number in pairs], dtype=np.int64)
        self._lengths = np.array([len(sound) for sound in self._sounds], dtype=np.int64)
        self._near: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.exact = {term.words: number for number, term in reversed(own)}
        self._longest_exact = max(map(len, self.exact), default=0)
        self.heard = {form: number for number, term in own for form in term.heard}

    @cached_property
    def longest_span(self) -> int:
        """Words in a span, at most."""
        unspaced = [
            len(self.terms[number].words) for number in self._numbers if UNSPACED.search(self.terms[number].text)
        ]
        return max([LONGEST_SPAN, *unspaced])

    def occurrences(self, words: Sequence[Word]) -> Iterator[tuple[int, int, int]]:
        """The terms that a text has as they are listed: first word, word behind the last, and number of the term; the
        longest first at each place, without overlap."""
        keys = [word.key for word in words]
        place = 0
        while place < len(keys):
            for end in range(min(len(keys), place + self._longest_exact), place, -1):
                number = self.exact.get(tuple(keys[place:end]))
                if number is not None:
                    yield place, end, number
                    place = end
                    break
            else:
                place += 1

    def spans(
        self, text: str, words: Sequence[Word], limit: Callable[[int, int, int], float] = lambda *span: CUTOFF
    ) -> Iterator[Span]:
        """The spans of a text that sound like terms, and are not written like them.

        Args:
            limit: the share of sounds in which a span may differ, from its first word, the word behind its last, and
                the number of its sounds; `CUTOFF` at most.
        """
        questions = self.questions(text, words, limit)
        self.look_up(questions)
        return self.matches(words, questions)

    def questions(
        self, text: str, words: Sequence[Word], limit: Callable[[int, int, int], float]
    ) -> list[tuple[int, int, bool, tuple[str, int]]]:
        """First word, word behind the last, whether 's is left out, and sounds with the percentage in which a term may
        differ, of all spans of a text."""
        heard: list[tuple[int, int, bool, tuple[str, int]]] = []
        parts = [sounds(word.key) for word in words]
        stops = {
            place for place in range(1, len(words)) if text[words[place - 1].end : words[place].start].strip(" -\t\n")
        }
        for first in range(len(words)):
            for last in range(first + 1, min(len(words), first + self.longest_span) + 1):
                ending = _POSSESSIVE.search(words[last - 1].text)
                stem = [sounds(words[last - 1].text[: ending.start()])] if ending else []
                for possessive, last_part in enumerate([parts[last - 1], *stem]):
                    sound = joined([*parts[first : last - 1], last_part])
                    percent = int(100 * min(CUTOFF, limit(first, last, len(sound))))
                    heard.append((first, last, bool(possessive), (sound, percent)))
                if last in stops:
                    break
        return heard

    def matches(
        self, words: Sequence[Word], questions: Iterable[tuple[int, int, bool, tuple[str, int]]]
    ) -> Iterator[Span]:
        """The spans of a text whose sounds were looked up."""
        for first, last, possessive, question in questions:
            keys = tuple(word.key for word in words[first:last])
            if self.heard and (number := self.heard.get(" ".join(keys))) is not None:
                if not possessive:
                    yield Span(first, last, number, 0, self.terms[number].sound, False, True)
                continue
            for number, distance in self._near[question]:
                listed = self.terms[number].words
                if possessive and (listed[-1].endswith("s") or (*keys[:-1], keys[-1][:-1]) == listed):
                    continue
                if keys != listed:
                    yield Span(first, last, number, distance, question[0], possessive)

    def look_up(self, questions: Iterable[tuple[int, int, bool, tuple[str, int]]]) -> None:
        """Find the nearest terms of all sounds that were not looked up before; many together cost less."""
        asked = dict.fromkeys(question for *_, question in questions)
        new = sorted((question for question in asked if question not in self._near), key=lambda item: len(item[0]))
        self._near |= {question: [] for question in new}
        for length, group in groupby(new, key=lambda item: len(item[0])):
            same = list(group)
            percents = np.array([percent for _, percent in same])
            edits = np.minimum(percents * length // (100 - percents), min(MOST_EDITS, max(1, length - 1)))
            most = int(edits.max())
            low, high = np.searchsorted(self._lengths, (length - most, length + most + 1)).tolist()
            if length < 2 or low == high:
                continue
            step = max(1, CELLS // (high - low))
            for start in range(0, len(same), step):
                part = slice(start, start + step)
                self._compare(same[part], percents[part], edits[part], low, high)

    def _compare(
        self, questions: Sequence[tuple[str, int]], percents: Numbers, edits: Numbers, low: int, high: int
    ) -> None:
        """Find the nearest of the terms from `low` to `high` for sounds of one length."""
        distances = process.cdist(
            [sound for sound, _ in questions],
            self._sounds[low:high],
            scorer=Levenshtein.distance,
            score_cutoff=int(edits.max()),
            dtype=np.uint8,
        )
        longer = np.maximum(self._lengths[low:high], len(questions[0][0]))
        rows, places = np.nonzero(distances <= edits[:, None])
        edited = distances[rows, places].astype(np.int64)
        within = np.flatnonzero(100 * edited <= percents[rows] * longer[places])
        order = within[np.lexsort((edited[within] / longer[places[within]], rows[within]))]
        for row, place, number in zip(rows[order], places[order], edited[order], strict=True):
            near = self._near[questions[row]]
            owner = int(self._owners[low + place])
            if len(near) < PER_SPAN and all(owner != other for other, _ in near):
                near.append((owner, int(number)))
