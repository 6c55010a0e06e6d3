"""Terms that a user lists, how words sound, roughly, and the spans of a text that sound
like terms.

English letters stand for classes of sounds, Chinese characters for pinyin.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from rescore.errors import UserError
from rescore.formats.times import THAI_MARKS
from rescore.metrics.listed import OR, WordList, form_and_term, longest_matches
from rescore.metrics.normalise import UNSPACED

RULES = (
    ("^[kgp]n", "n"),
    ("^wr", "r"),
    ("^wh(?=o)", "h"),
    ("^ps(?=[aeiouy])", "s"),
    ("^x", "z"),
    ("^mc(?=[^aeiouy])", "mek"),
    ("^aoi", "i"),
    ("^sio(?=[bn])", "So"),
    ("bh", "v"),
    ("tch", "C"),
    ("chr", "kr"),
    ("sch(?=[lmnrw])", "S"),
    ("sch", "sk"),
    ("ch(?=s)", "k"),
    ("ch|cz", "C"),
    ("sh", "S"),
    ("[tsc]i(?=o[nu]|a[ln]?$)", "S"),
    ("ph", "f"),
    ("th", "0"),
    ("gh(?=[aeiouy])", "g"),
    ("gh", ""),
    ("dg(?=[eiy])", "J"),
    ("ck", "k"),
    ("qu", "kw"),
    ("q", "k"),
    ("sc(?=[eiy])", "s"),
    ("cc(?=[eiy])", "ks"),
    ("c(?=[eiy])", "s"),
    ("c", "k"),
    ("gg", "g"),
    ("g(?=[eiy])", "J"),
    ("j", "J"),
    ("x", "ks"),
    ("tz", "ts"),
    ("(?<=m)b$", ""),
    ("(?<=[aeiou])[ow]?w(?![aeiouy])", "o"),
    ("y(?=[aeiou])", "y"),
    ("(?<=[^aeiouy])e$", ""),
    ("(?<=[aeiouy][^aeiouy])ed$", "d"),
    ("ee|ea|ie|ei|ey|[iy]", "i"),
    ("au", "o"),
    ("a[iy]?", "a"),
    ("eu|ew|oo|ou|u", "u"),
    ("oa|oe|ow|o", "o"),
    ("e", "e"),
    ("h(?=[aeiouy])", "h"),
    ("h", ""),
)
"""Patterns of letters, and the class of sounds of each; the first pattern that matches
counts, and other letters stand for themselves.
"""
_RULES = re.compile(
    "|".join(f"({pattern})" for pattern, _ in RULES) + "|(.)", re.DOTALL
)
_DIGITS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
)
_SIGNS = {"&": " and ", "+": " plus ", "#": " sharp ", "@": " at "}


def sounds(text: str) -> str:
    """The sounds of one or more words, without blanks; a letter that no rule knows
    stands for itself.

    Raises:
        UserError: the text has Chinese characters, and pypinyin is not installed.

    Example:
        >>> sounds("gold man sacks") == sounds("Goldman Sachs"), sounds("kubectl")
        (True, 'kubektl')
    """
    return joined(_of_spoken(word) for word in spoken(text).split())


def joined(words: Iterable[str]) -> str:
    """The sounds of words in a row, of those of each: a sound that ends a word and
    begins the next is said once.
    """
    row = ""
    for word in words:
        row += word[1:] if row[-1:] == word[:1] else word
    return row


@lru_cache(maxsize=1 << 16)
def _of_spoken(word: str) -> str:
    parts = _pinyin(word).split() if _CHINESE.search(word) else [word]
    return joined(
        _RUNS.sub(r"\1", "".join(map(_of_match, _RULES.finditer(part))))
        for part in parts
    )


def _of_match(match: re.Match[str]) -> str:
    number = match.lastindex or 0
    return str(match[number]) if number > len(RULES) else RULES[number - 1][1]


_RUNS = re.compile(r"(.)\1+", re.DOTALL)
_CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


@lru_cache(maxsize=1 << 16)
def spoken(text: str) -> str:
    """A text in lower case without accents and punctuation, digits and signs as English
    words.

    Example:
        >>> spoken("A&T 3M Škoda's")
        'a and t three m skodas'
    """
    letters = []
    for letter in unicodedata.normalize("NFKD", text.casefold()):
        category = unicodedata.category(letter)
        if letter in _SIGNS:
            letters.append(_SIGNS[letter])
        elif letter.isascii() and letter.isdecimal():
            letters.append(f" {_DIGITS[int(letter)]} ")
        elif category[0] in "LN" or (
            category[0] == "M" and UNSPACED.match(letter)
        ):  # Thai vowels, voiced kana
            letters.append(letter)
        elif category[0] != "M" and letter not in "'\u2019.":
            letters.append(" ")
    return " ".join("".join(letters).split())


def _pinyin(text: str) -> str:
    """A text with pinyin, without tones, in place of Chinese characters."""
    try:
        from pypinyin import lazy_pinyin
    except ImportError:
        raise UserError(
            "Chinese terms need the package pypinyin; pip install 'rescore[terms]'"
        ) from None
    return " ".join(lazy_pinyin(text))


LONGEST_SPAN = 5
"""Words in a span, at most; of Chinese, Japanese and Thai it is as many characters as
the longest term has.
"""
PER_SPAN = 4
"""Terms that are weighed for each span."""
CUTOFF, MOST_EDITS = 0.42, 6
"""Sounds in which a span may differ from a term: at most this share of the longer of
both, and this number.
"""
_MARKS = f"[{THAI_MARKS}\u3099\u309a\uff9e\uff9f]"
"""Thai and Japanese marks that belong to the letter before them."""
_WORD = re.compile(
    rf"{UNSPACED.pattern}{_MARKS}*|(?:(?!{UNSPACED.pattern})[^\W_])+(?:['\u2019&+.@/](?:(?!{UNSPACED.pattern})[^\W_])+)*[+#]*"
)
_POSSESSIVE = re.compile("['\u2019]s$", re.IGNORECASE)


@dataclass(frozen=True)
class Term:
    """A listed term."""

    text: str
    """As it is written into a text."""
    heard: frozenset[str] = frozenset()
    """Forms, in lower case, that are always corrected to the term."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Its words, as `Word.key` has them."""
        return tuple(word.key for word in split(self.text))

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


TOGETHER = 1_000
"""Spans that are compared with all terms at once: bounds memory."""


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
    form: Form | None = None
    """The form of the list that these words are; they are always the term."""


class Form(NamedTuple):
    """A heard form of a term."""

    term: int
    """The number of the term."""
    head: str
    tail: str
    """The punctuation before its first word and behind its last."""
    inner: frozenset[str]
    """The punctuation marks between its words."""


def split(text: str) -> list[Word]:
    """The words of a text with their places; each character of Chinese, Japanese and
    Thai is a word.
    """
    words = (
        Word(match.start(), match.end(), match[0], spoken(match[0]))
        for match in _WORD.finditer(text)
    )
    return [word for word in words if word.key]


def key_of(words: Iterable[Word]) -> str:
    """Words as they are compared; "401k" and "401 k" have the same key."""
    return " ".join(word.key for word in words)


def _stops(text: str, words: Sequence[Word]) -> list[str]:
    """The punctuation between each word of a text and the next."""
    return [
        "".join(text[word.end : after.start].replace("-", " ").split())
        for word, after in pairwise(words)
    ]


def read_terms(words: WordList) -> list[Term]:
    """The terms of a word list.

    Raises:
        UserError: a line is not valid, two lines have the same heard form for different
        terms, or words are listed by utterance.
    """
    if words.by_utterance:
        raise UserError(
            f"{words.path}: lines begin with utterances; terms need one list for all"
            f" utterances{OR}"
        )
    heard: defaultdict[str, set[str]] = defaultdict(set)
    orders: dict[str, tuple[str, str]] = {}
    for line in words.lines:
        form, term = form_and_term(line)
        if not split(term) or (form is not None and not split(form)):
            raise UserError(
                f"{words.path}: {line.strip()!r} has no word; expected `term` or `heard"
                " => term`"
            )
        if "=>" in (form or "") or "\t" in line:
            what = "a tab" if "\t" in line else "two arrows"
            raise UserError(
                f"{words.path}: {line.strip()!r} has {what}; expected `term` or `heard"
                " => term`"
            )
        heard[term] |= {form.casefold()} if form else set()
        if form:
            other, first = orders.setdefault(key_of(split(form)), (term, line))
            if other != term:
                raise UserError(
                    f"{words.path}: {first.strip()!r} and {line.strip()!r} have the"
                    " same words on the left; keep one of these lines"
                )
    return [Term(text, frozenset(forms)) for text, forms in sorted(heard.items())]


class TermIndex:
    """Finds the spans of texts that sound like terms.

    A span is compared with all terms whose sounds are about as many; 10,000 terms take
    milliseconds for an utterance.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        own = list(enumerate(terms))
        forms = {
            (sound, number)
            for number, term in own
            for sound in (term.sound, *map(sounds, term.heard))
            if sound
        }
        pairs = sorted(forms, key=lambda form: (len(form[0]), form))
        self._sounds = [sound for sound, _ in pairs]
        self._owners = [number for _, number in pairs]
        self._lengths = np.array([len(sound) for sound in self._sounds], dtype=np.int64)
        self._near: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.exact = {term.words: number for number, term in reversed(own)}
        self._longest_exact = max(map(len, self.exact), default=0)
        self.heard = {
            key_of(words): Form(
                number,
                form[: words[0].start],
                form[words[-1].end :],
                frozenset("".join(_stops(form, words))),
            )
            for number, term in own
            for form in sorted(term.heard)
            for words in [split(form)]
        }
        self._longest_heard = max((len(key.split()) for key in self.heard), default=0)
        unspaced = (len(term.words) for term in terms if UNSPACED.search(term.text))
        self._longest_span = max([LONGEST_SPAN, *unspaced])

    def occurrences(self, words: Sequence[Word]) -> Iterator[tuple[int, int, int]]:
        """The terms that a text has as they are listed: first word, word behind the
        last, and number of the term; the longest first at each place, without overlap.
        """
        keys = [word.key for word in words]
        for first, last in longest_matches(keys, self.exact, self._longest_exact):
            yield first, last, self.exact[tuple(keys[first:last])]

    def ordered(self, text: str, words: Sequence[Word]) -> Iterator[Span]:
        """The heard forms of the list in a text; the longest first at each place,
        without overlap. A form may end in 's in the text, and has all punctuation that
        the text has between its words.
        """
        place = 0
        while place < len(words):
            ends = range(min(len(words), place + self._longest_heard), place, -1)
            span = next(
                (
                    span
                    for end in ends
                    if (span := self._ordered(text, words, place, end))
                ),
                None,
            )
            if span:
                yield span
            place = span.last if span else place + 1

    def _ordered(
        self, text: str, words: Sequence[Word], first: int, last: int
    ) -> Span | None:
        """The heard form that words of a text are, if they are one."""
        own = words[first:last]
        stem = own[-1].text[: -len("'s")] if _POSSESSIVE.search(own[-1].text) else ""
        for possessive, keys in enumerate(
            [key_of(own), f"{key_of(own[:-1])} {spoken(stem)}".strip() if stem else ""]
        ):
            form = self.heard.get(keys)
            if form and form.inner.issuperset("".join(_stops(text, own))):
                return Span(
                    first,
                    last,
                    form.term,
                    0,
                    self.terms[form.term].sound,
                    bool(possessive),
                    form,
                )
        return None

    def spans(
        self,
        text: str,
        words: Sequence[Word],
        limit: Callable[[int, int, int], float] = lambda *span: CUTOFF,
    ) -> Iterator[Span]:
        """The spans of a text that sound like terms, and are not written like them.

        Args:
            limit: the share of sounds in which a span may differ, from its first word,
                the word behind its last, and the number of its sounds; `CUTOFF` at
                most.
        """
        questions = self.questions(text, words, limit)
        self.look_up(questions)
        for first, last, possessive, question in questions:
            keys = tuple(word.key for word in words[first:last])
            for number, distance in self._near[question]:
                listed = self.terms[number].words
                if possessive and (
                    listed[-1].endswith("s") or (*keys[:-1], keys[-1][:-1]) == listed
                ):
                    continue
                if keys != listed:
                    yield Span(first, last, number, distance, question[0], possessive)

    def questions(
        self, text: str, words: Sequence[Word], limit: Callable[[int, int, int], float]
    ) -> list[tuple[int, int, bool, tuple[str, int]]]:
        """First word, word behind the last, whether 's is left out, and sounds with the
        percentage in which a term may differ, of all spans of a text.
        """
        heard: list[tuple[int, int, bool, tuple[str, int]]] = []
        parts = [sounds(word.key) for word in words]
        stops = {place for place, stop in enumerate(_stops(text, words), 1) if stop}
        for first in range(len(words)):
            for last in range(
                first + 1, min(len(words), first + self._longest_span) + 1
            ):
                ending = _POSSESSIVE.search(words[last - 1].text)
                stem = (
                    [sounds(words[last - 1].text[: ending.start()])] if ending else []
                )
                for possessive, last_part in enumerate([parts[last - 1], *stem]):
                    sound = joined([*parts[first : last - 1], last_part])
                    percent = int(100 * min(CUTOFF, limit(first, last, len(sound))))
                    heard.append((first, last, bool(possessive), (sound, percent)))
                if last in stops:
                    break
        return heard

    def look_up(
        self, questions: Iterable[tuple[int, int, bool, tuple[str, int]]]
    ) -> None:
        """Find the nearest terms of all sounds that were not looked up before; many
        together cost less.
        """
        new = {question for *_, question in questions if question not in self._near}
        self._near |= {question: [] for question in new}
        for length, group in groupby(
            sorted(new, key=lambda item: len(item[0])), key=lambda item: len(item[0])
        ):
            same = list(group)
            for start in range(0, len(same) if length > 1 else 0, TOGETHER):
                self._compare(same[start : start + TOGETHER], length)

    def _compare(self, questions: Sequence[tuple[str, int]], length: int) -> None:
        """Find the nearest terms of sounds of one length."""
        percents = np.array([percent for _, percent in questions])
        edits = np.minimum(
            percents * length // (100 - percents), min(MOST_EDITS, length - 1)
        )
        most = int(edits.max())
        low, high = np.searchsorted(
            self._lengths, (length - most, length + most + 1)
        ).tolist()
        distances = process.cdist(
            [sound for sound, _ in questions],
            self._sounds[low:high],
            scorer=Levenshtein.distance,
            score_cutoff=most,
            dtype=np.uint8,
        )
        longer = np.maximum(self._lengths[low:high], length)
        rows, places = np.nonzero(distances <= edits[:, None])
        edited = distances[rows, places].astype(np.int64)
        within = np.flatnonzero(100 * edited <= percents[rows] * longer[places])
        order = within[
            np.lexsort((edited[within] / longer[places[within]], rows[within]))
        ]
        for row, place, number in zip(
            rows[order], places[order], edited[order].tolist(), strict=True
        ):
            near = self._near[questions[row]]
            owner = self._owners[low + place]
            if len(near) < PER_SPAN and all(owner != other for other, _ in near):
                near.append((owner, number))
