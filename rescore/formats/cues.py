"""Subtitles of a stream of words with times: where a cue and its lines end."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rescore.formats.segments import PAUSE
from rescore.formats.times import timed_pieces

LINE = 42
"""Letters of a line, at most; a Chinese, Japanese or Korean letter counts as two."""
SHORTEST = 1.0
"""Seconds of a cue, at least, where the next cue leaves as many."""
LONGEST = 7.0
"""Seconds of a cue, at most."""
_SENTENCE = re.compile(r"[.?!\u2026\u3002\uff01\uff1f]['\"\u2019\u201d)]*$")
"""The end of a sentence."""


class Said(NamedTuple):
    """A word, or a letter of a text without blanks, with its time."""

    text: str
    """With the blank before it, if there is one."""
    start: float
    """In seconds."""
    end: float
    speaker: str = ""


class Cue(NamedTuple):
    """A subtitle."""

    lines: list[str]
    start: float
    """In seconds."""
    end: float


def cues(words: Iterable[Said]) -> list[Cue]:
    """Return words as subtitles of up to two lines. No subtitle goes across a pause or
    to another speaker, and none overlaps with the next.

    Args:
        words: The words in their order.
    """
    groups = list(_groups(_in_order(words)))
    starts = [*(group[0].start for group in groups), math.inf]
    result = []
    for number, group in enumerate(groups):
        start = group[0].start
        last = max(word.end for word in group)
        end = min(max(last, start + SHORTEST), start + LONGEST, starts[number + 1])
        result.append(Cue(_lines(group) or [_text(group)], start, end))
    return result


def _in_order(words: Iterable[Said]) -> Iterator[Said]:
    """Yield words, none of which begins before the word before it; a mark without a
    blank before it belongs to the word that it follows.
    """
    last: Said | None = None
    for word in words:
        if last is None:
            last = word
            continue
        start = max(word.start, last.start)
        word = word._replace(start=start, end=max(start, word.end))
        if _is_glued_mark(word.text):
            last = last._replace(text=last.text + word.text, end=word.end)
            continue
        yield last
        last = word
    if last is not None:
        yield last


def _is_glued_mark(text: str) -> bool:
    """Return whether a text is a mark without a blank before it."""
    return not text[:1].isspace() and not any(map(str.isalnum, text))


def _groups(words: Iterable[Said]) -> Iterator[list[Said]]:
    """Yield the words of each cue."""
    group: list[Said] = []
    for word in words:
        if group and _is_full(group, word):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _is_full(group: Sequence[Said], word: Said) -> bool:
    """Return whether a word begins another cue."""
    last = group[-1]
    if word.speaker != last.speaker or word.start - last.end > PAUSE:
        return True
    if word.end - group[0].start > LONGEST or _lines([*group, word]) is None:
        return True
    is_long = last.end - group[0].start >= SHORTEST and 2 * _width(group) >= LINE
    return is_long and _SENTENCE.search(last.text) is not None


def _lines(group: Sequence[Said]) -> list[str] | None:
    """Return the words in one line or in two lines that are as equal as possible; None
    if they do not fit.
    """
    if _width(group) <= LINE:
        return [_text(group)]
    widths = {}
    for place in range(1, len(group)):
        widths[place] = max(_width(group[:place]), _width(group[place:]))
    best = min(widths, key=widths.__getitem__, default=0)
    if not best or widths[best] > LINE:
        return None
    return [_text(group[:best]), _text(group[best:])]


def _text(group: Sequence[Said]) -> str:
    """Return the text of words."""
    return "".join(word.text for word in group).strip()


def _width(group: Sequence[Said]) -> int:
    """Return the width of a line, in letters."""
    width = 0
    for letter in _text(group):
        if unicodedata.combining(letter):
            continue
        width += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
    return width


def blank_between(before: str, text: str) -> str:
    """Return what stands between two texts of a recording: nothing if both have
    letters of a script without blanks there, else a blank.

    Args:
        before: The first text; if it is empty, nothing stands behind it.
        text: The second text.

    Example:
        >>> blank_between("a", "b"), blank_between("\u4eca\u3002", "\u5f88")
        (' ', '')
    """
    if not before:
        return ""
    last = next(filter(str.isalnum, reversed(before)), before[-1])
    both = (last, text[:1])
    return "" if all(len(timed_pieces(2 * letter)) == 2 for letter in both) else " "
