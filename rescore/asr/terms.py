"""Terms that a user lists, the rough sounds of words, and the spans of a text that
sound like terms.

English letters stand for classes of sounds, Chinese characters for pinyin.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from rescore.errors import UserError, installed_by
from rescore.formats.wordlists import form_and_term
from rescore.metrics.listed import OR, WordList, longest_matches
from rescore.metrics.normalise import UNSPACED
from rescore.unspaced import MARKS

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
_RUNS = re.compile(r"(.)\1+", re.DOTALL)
_CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
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


# --- sounds --------------------------------------------------------------------------


def sounds(text: str) -> str:
    """Return the sounds of one or more words, without blanks.

    A letter that no rule knows stands for itself.

    Args:
        text: The words, in any case.

    Example:
        >>> sounds("gold man sacks") == sounds("Goldman Sachs"), sounds("kubectl")
        (True, 'kubektl')
    """
    return joined(_of_spoken(word) for word in spoken(text).split())


def joined(words: Iterable[str]) -> str:
    """Return the sounds of words in a row: a sound that ends a word and begins the next
    is said once.

    Args:
        words: The sounds of each word.
    """
    row = ""
    for word in words:
        row += word[1:] if row[-1:] == word[:1] else word
    return row


@lru_cache(maxsize=1 << 16)
def _of_spoken(word: str) -> str:
    """Return the sounds of a word in lower case."""
    parts = [word]
    if _CHINESE.search(word):
        parts = _pinyin(word).split()
    by_part = []
    for part in parts:
        classes = "".join(map(_of_match, _RULES.finditer(part)))
        by_part.append(_RUNS.sub(r"\1", classes))
    return joined(by_part)


def _of_match(match: re.Match[str]) -> str:
    """Return the class of sounds of some letters."""
    number = match.lastindex or 0
    return str(match[number]) if number > len(RULES) else RULES[number - 1][1]


@lru_cache(maxsize=1 << 16)
def spoken(text: str) -> str:
    """Return a text in lower case without accents and punctuation, digits and signs as
    English words.

    Args:
        text: The text.

    Example:
        >>> spoken("A&T 3M Škoda's")
        'a and t three m skodas'
    """
    letters = []
    for letter in unicodedata.normalize("NFKD", text.casefold()):
        category = unicodedata.category(letter)[0]
        if letter in _SIGNS:
            letters.append(_SIGNS[letter])
        elif letter.isascii() and letter.isdecimal():
            letters.append(f" {_DIGITS[int(letter)]} ")
        elif category in "LN":
            letters.append(letter)
        elif category == "M":
            if UNSPACED.match(letter):  # Thai vowels, voiced kana
                letters.append(letter)
        elif letter not in "'\u2019.":
            letters.append(" ")
    return " ".join("".join(letters).split())


def _pinyin(text: str) -> str:
    """Return a text with pinyin, without tones, in place of Chinese characters; the
    text itself if pypinyin is not installed.
    """
    try:
        from pypinyin import lazy_pinyin
    except ImportError:  # no term is Chinese (`_check_pinyin`)
        return text
    return " ".join(lazy_pinyin(text))


# --- words and terms -----------------------------------------------------------------

LONGEST_SPAN = 5
"""Words in a span, at most; of Chinese, Japanese and Thai it is as many characters as
the longest term has.
"""
PER_SPAN = 4
"""Terms that are weighed for each span."""
CUTOFF = 0.42
"""Share of sounds of the longer of both in which a span may differ from a term, at
most.
"""
MOST_EDITS = 6
"""Sounds in which a span may differ from a term, at most."""
TOGETHER = 1_000
"""Spans that are compared with all terms at once: bounds memory."""
_MARKS = f"[{MARKS}\u3099\u309a\uff9e\uff9f]"
"""Thai, Burmese, Japanese and other marks that belong to the letter before them."""
_LETTERS = rf"(?:(?!{UNSPACED.pattern})[^\W_])+"
_WORD = re.compile(
    rf"{UNSPACED.pattern}{_MARKS}*|{_LETTERS}(?:['\u2019&+.@/]{_LETTERS})*[+#]*"
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
        """The words of the term, as `TermWord.key` has them."""
        return tuple(word.key for word in split(self.text))

    @cached_property
    def sound(self) -> str:
        """The sounds of the term."""
        return sounds(self.text)


class TermWord(NamedTuple):
    """A word of a text, without the punctuation around it."""

    start: int
    end: int
    """Its place in the text, in characters."""
    text: str
    key: str
    """In lower case without accents and apostrophes."""


class Occurrence(NamedTuple):
    """A term that a text has as it is listed."""

    first: int
    last: int
    """Numbers of its first word, and of the word behind its last."""
    term: int
    """The number of the term."""


class TermSpan(NamedTuple):
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
    """The heard form of the list, whose words are always corrected to the term."""


class Form(NamedTuple):
    """A heard form of a term."""

    term: int
    """The number of the term."""
    head: str
    tail: str
    """The punctuation before its first word and behind its last."""
    inner: frozenset[str]
    """The punctuation marks between its words."""


Lookup = tuple[str, int]
"""Sounds of a span, and the percentage in which a term may differ."""
Question = tuple[int, int, bool, Lookup]
"""A span of a text whose terms are looked up: its first word, the word behind its last,
and whether 's at its end is left out. A plain tuple, since a text has many spans.
"""


def split(text: str) -> list[TermWord]:
    """Return the words of a text with their places; each character of Chinese,
    Japanese and Thai is a word.

    Args:
        text: The text.
    """
    words = []
    for match in _WORD.finditer(text):
        key = spoken(match[0])
        if key:
            words.append(TermWord(match.start(), match.end(), match[0], key))
    return words


def key_of(words: Iterable[TermWord]) -> str:
    """Return words as they are compared; "401k" and "401 k" have the same key."""
    return " ".join(word.key for word in words)


def _stops(text: str, words: Sequence[TermWord]) -> list[str]:
    """Return the punctuation between each word of a text and the next."""
    stops = []
    for word, after in pairwise(words):
        between = text[word.end : after.start].replace("-", " ")
        stops.append("".join(between.split()))
    return stops


def _without_possessive(word: TermWord) -> str:
    """Return the written word without 's, or an empty string if it has none."""
    ending = _POSSESSIVE.search(word.text)
    return word.text[: ending.start()] if ending else ""


def _check_pinyin(words: WordList) -> None:
    """Raise an error if a term is Chinese, and pypinyin is not installed."""
    for line in words.lines:
        if _CHINESE.search(line) and find_spec("pypinyin") is None:
            raise UserError(
                f"{words.path}: the term {line.strip()!r} needs the package pypinyin;"
                f" {installed_by('terms')}"
            )


def read_terms(words: WordList) -> list[Term]:
    """Return the terms of a word list, in the order of their letters.

    Args:
        words: The list.

    Raises:
        UserError: A line is not valid, two lines have the same heard form for different
            terms, words are listed by utterance, or a Chinese term needs pypinyin.
    """
    if words.by_utterance:
        raise UserError(
            f"{words.path}: lines begin with utterances; terms need one list for all"
            f" utterances{OR}"
        )
    _check_pinyin(words)
    heard: defaultdict[str, set[str]] = defaultdict(set)
    orders: dict[str, tuple[str, str]] = {}
    for line in words.lines:
        form, term = form_and_term(line)
        problem = ""
        if not split(term) or (form is not None and not split(form)):
            problem = "no word"
        elif "\t" in line:
            problem = "a tab"
        elif form and "=>" in form:
            problem = "two arrows"
        if problem:
            raise UserError(
                f"{words.path}: {line.strip()!r} has {problem}; expected `term` or"
                " `heard => term`"
            )
        forms = heard[term]
        if form:
            forms.add(form.casefold())
            other, first = orders.setdefault(key_of(split(form)), (term, line))
            if other != term:
                raise UserError(
                    f"{words.path}: {first.strip()!r} and {line.strip()!r} have the"
                    " same words on the left; keep one of these lines"
                )
    return [Term(text, frozenset(forms)) for text, forms in sorted(heard.items())]


# --- index ---------------------------------------------------------------------------


class TermIndex:
    """Finds the spans of texts that sound like terms.

    A span is compared with all terms whose sounds are about as many; 10,000 terms take
    milliseconds for an utterance.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.exact: dict[tuple[str, ...], int] = {}
        self.heard: dict[str, Form] = {}
        forms: set[tuple[str, int]] = set()
        self._longest_span = LONGEST_SPAN
        for number, term in enumerate(terms):
            self.exact.setdefault(term.words, number)
            for sound in (term.sound, *map(sounds, term.heard)):
                if sound:
                    forms.add((sound, number))
            for form in sorted(term.heard):
                words = split(form)
                head = form[: words[0].start]
                tail = form[words[-1].end :]
                inner = frozenset("".join(_stops(form, words)))
                self.heard[key_of(words)] = Form(number, head, tail, inner)
            if UNSPACED.search(term.text):
                self._longest_span = max(self._longest_span, len(term.words))
        self._longest_exact = max(map(len, self.exact), default=0)
        self._longest_heard = max((len(key.split()) for key in self.heard), default=0)
        # by length, so that terms of about as many sounds are neighbours
        pairs = sorted(forms, key=lambda form: (len(form[0]), form))
        self._sounds = [sound for sound, _ in pairs]
        self._owners = [number for _, number in pairs]
        self._lengths = np.array([len(sound) for sound in self._sounds], dtype=np.int64)
        self._near: dict[Lookup, list[tuple[int, int]]] = {}
        """The nearest terms of each lookup, with the number of sounds that differ."""

    def occurrences(self, words: Sequence[TermWord]) -> Iterator[Occurrence]:
        """Yield the terms that a text has as they are listed; the longest first at each
        place, without overlap.

        Args:
            words: The words of the text.
        """
        keys = [word.key for word in words]
        for first, last in longest_matches(keys, self.exact, self._longest_exact):
            yield Occurrence(first, last, self.exact[tuple(keys[first:last])])

    def ordered(self, text: str, words: Sequence[TermWord]) -> Iterator[TermSpan]:
        """Yield the heard forms of the list in a text; the longest first at each place,
        without overlap.

        A form may end in 's in the text, and has all punctuation that the text has
        between its words.

        Args:
            text: The text.
            words: Its words.
        """
        place = 0
        while place < len(words):
            span = self._longest_form(text, words, place)
            place += 1
            if span:
                yield span
                place = span.last

    def _longest_form(
        self, text: str, words: Sequence[TermWord], first: int
    ) -> TermSpan | None:
        """Return the longest heard form that begins with a word of a text, if any."""
        for last in range(min(len(words), first + self._longest_heard), first, -1):
            own = words[first:last]
            keys = key_of(own)
            form = self._form(keys, text, own)
            possessive = False
            stem = _without_possessive(own[-1])
            if not form and stem:
                keys = f"{key_of(own[:-1])} {spoken(stem)}".strip()
                form = self._form(keys, text, own)
                possessive = True
            if form:
                sound = self.terms[form.term].sound
                return TermSpan(first, last, form.term, 0, sound, possessive, form)
        return None

    def _form(self, keys: str, text: str, words: Sequence[TermWord]) -> Form | None:
        """Return the heard form of some keys, if it has the punctuation that the text
        has between the words.
        """
        form = self.heard.get(keys)
        if form and form.inner.issuperset("".join(_stops(text, words))):
            return form
        return None

    def spans(
        self,
        text: str,
        words: Sequence[TermWord],
        limit: Callable[[int, int, int], float] = lambda *span: CUTOFF,
    ) -> Iterator[TermSpan]:
        """Yield the spans of a text that sound like terms, and are not written like
        them.

        Args:
            text: The text.
            words: Its words.
            limit: The share of sounds in which a span may differ, from its first word,
                the word behind its last, and the number of its sounds; `CUTOFF` at
                most.
        """
        questions = self.questions(text, words, limit)
        self.look_up(questions)
        every_key = [word.key for word in words]
        for first, last, possessive, lookup in questions:
            near = self._near[lookup]
            if not near:
                continue
            keys = tuple(every_key[first:last])
            without_s = (*keys[:-1], keys[-1][:-1])
            for number, distance in near:
                listed = self.terms[number].words
                if keys == listed:
                    continue
                if possessive and (listed[-1].endswith("s") or without_s == listed):
                    continue
                yield TermSpan(first, last, number, distance, lookup[0], possessive)

    def questions(
        self,
        text: str,
        words: Sequence[TermWord],
        limit: Callable[[int, int, int], float],
    ) -> list[Question]:
        """Return all spans of a text, with the sounds that are looked up.

        Args:
            text: The text.
            words: Its words.
            limit: As in `spans`.
        """
        questions: list[Question] = []
        parts = [sounds(word.key) for word in words]
        endings = []
        for word, part in zip(words, parts, strict=True):
            endings.append([(False, part)])
            stem = _without_possessive(word)
            if stem:
                endings[-1].append((True, sounds(stem)))
        stops = [*_stops(text, words), ""]
        for first in range(len(words)):
            for end in range(first, min(len(words), first + self._longest_span)):
                for possessive, ending in endings[end]:
                    sound = joined([*parts[first:end], ending])
                    share = min(CUTOFF, limit(first, end + 1, len(sound)))
                    lookup = (sound, int(100 * share))
                    questions.append((first, end + 1, possessive, lookup))
                if stops[end]:
                    break
        return questions

    def look_up(self, questions: Iterable[Question]) -> None:
        """Find the nearest terms of all sounds that were not looked up before; many
        together cost less.

        Args:
            questions: The spans.
        """
        new = set()
        for _, _, _, lookup in questions:
            if lookup not in self._near:
                self._near[lookup] = []
                new.add(lookup)
        by_length = sorted(new, key=lambda lookup: len(lookup[0]))
        for length, group in groupby(by_length, key=lambda lookup: len(lookup[0])):
            if length > 1:
                same = list(group)
                for start in range(0, len(same), TOGETHER):
                    self._compare(same[start : start + TOGETHER], length)

    def _compare(self, lookups: Sequence[Lookup], length: int) -> None:
        """Find the nearest terms of sounds of one length."""
        percents = np.array([percent for _, percent in lookups])
        # the most edits that the percentage allows: each makes the term longer
        edits = np.minimum(
            percents * length // (100 - percents), min(MOST_EDITS, length - 1)
        )
        most = int(edits.max())
        limits = (length - most, length + most + 1)
        low, high = np.searchsorted(self._lengths, limits).tolist()
        distances = process.cdist(
            [sound for sound, _ in lookups],
            self._sounds[low:high],
            scorer=Levenshtein.distance,
            score_cutoff=most,
            dtype=np.uint8,
        )
        longer = np.maximum(self._lengths[low:high], length)
        rows, places = np.nonzero(distances <= edits[:, None])
        edited = distances[rows, places].astype(np.int64)
        within = np.flatnonzero(100 * edited <= percents[rows] * longer[places])
        shares = edited[within] / longer[places[within]]
        order = within[np.lexsort((shares, rows[within]))]
        for row, place, distance in zip(
            rows[order], places[order], edited[order].tolist(), strict=True
        ):
            near = self._near[lookups[row]]
            owner = self._owners[low + place]
            if len(near) < PER_SPAN and all(owner != other for other, _ in near):
                near.append((owner, distance))
