"""Times of words: spans as files write them, the pieces of a text that have times of
their own, and spans that words share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from rescore.errors import UserError
from rescore.unspaced import MARKS, UNSPACED_LETTERS

TIMED = (".ctm", ".srt", ".vtt")
"""Endings of files that have times of words."""
_TIMED = re.compile(f"\\s*(?:[{UNSPACED_LETTERS}][{MARKS}]*|[^{UNSPACED_LETTERS}\\s]+)")
LATEST = 1e9
"""The latest time that is read, in seconds: 30 years."""
ROUNDING = 0.05
"""A negative duration of fewer seconds is read as 0; NIST's own CTM files have
durations of -0.01.
"""

# --- spans in files ------------------------------------------------------------------


class BackwardsError(UserError):
    """A time is negative, or an end is before its start."""


class Span(NamedTuple):
    """A part of a recording, in seconds: finite numbers, the end not before the
    start.
    """

    start: float
    end: float

    @classmethod
    def read(
        cls,
        start: object,
        end: object,
        place: str,
        duration: bool = False,
        unit: float = 1.0,
    ) -> Span:
        """Return the span that a file writes; no other function makes a number of a
        time.

        Args:
            start: A number, or a text such as `1.5`, `1.300s` and `00:01:02,500`.
            end: The same.
            place: The file and line, for messages.
            duration: Whether `end` is a duration.
            unit: The unit of both, in seconds.

        Raises:
            BackwardsError: The start is negative, or behind the end.
            UserError: A time is no number, not finite, or above `LATEST`.
        """
        first = _seconds(start, place) * unit
        last = _seconds(end, place) * unit
        if duration:
            last = first if -ROUNDING < last < 0 else first + last
        if not 0 <= first <= last:
            raise BackwardsError(
                f"{place}: from {first:g} s to {last:g} s; give a start of 0 or more"
                " before its end"
            )
        return cls(first, last)


def _seconds(time: object, place: str) -> float:
    """Return a time as a number: minutes have 60 seconds, hours 60 minutes."""
    seconds = 0.0
    try:
        for part in str(time).removesuffix("s").replace(",", ".").split(":"):
            seconds = 60 * seconds + float(part)
    except ValueError:
        raise UserError(
            f"{place}: time is {str(time)[:40]!r}, not a number of seconds"
        ) from None
    if not abs(seconds) <= LATEST:  # NaN is not, either
        raise UserError(
            f"{place}: time is {str(time)[:40]}; give a number of seconds up to"
            f" {LATEST:g}"
        )
    return seconds


# --- pieces of a text ----------------------------------------------------------------


def timed_pieces(text: str) -> list[str]:
    """Return the stretches of a text that have times of their own, with the blanks
    before them: words between blanks, and each letter of Chinese, Japanese and Thai.

    Args:
        text: The text.

    Example:
        >>> timed_pieces("a b 你好")
        ['a', ' b', ' 你', '好']
    """
    return _TIMED.findall(text.strip())


Times = tuple[float, float]
"""Start and end, in seconds."""
TimedWord = tuple[str, Times | None]
"""A word with its times; None if its times are not known."""
LETTER = 0.1
"""Seconds for a letter of a word without times at the beginning or the end of a
recording.
"""


def partly_timed(text: str, words: Sequence[TimedWord]) -> list[TimedWord]:
    """Return a text's `timed_pieces` with times, as far as its words have times. The
    letters of a word share its time evenly.

    Args:
        text: The text.
        words: The words as a toolkit cuts them.

    Returns:
        The pieces; an empty list if no word has times, or most pieces are not among the
        words.
    """
    pieces = [piece.strip() for piece in timed_pieces(text)]
    spans = _times_of_pieces(pieces, words)
    return list(zip(pieces, spans, strict=True)) if spans else []


def _times_of_pieces(
    pieces: Sequence[str], words: Sequence[TimedWord]
) -> list[Times | None]:
    """Return the times of pieces; an empty list if no word has times, or most pieces
    are not among the words.
    """
    if not any(span for _, span in words):
        return []
    if len(words) == len(pieces):
        return [span for _, span in words]
    spelled = ["".join(word.split()) for word, _ in words]
    theirs = "".join(spelled)
    ours = "".join(pieces)
    if len(theirs) == len(ours) and theirs.lower() == ours.lower():
        return _times_by_letters(pieces, spelled, [span for _, span in words])
    return _times_by_words(pieces, words)


def _times_by_letters(
    pieces: Sequence[str], spelled: Sequence[str], spans: Sequence[Times | None]
) -> list[Times | None]:
    """Return the times of pieces that have the letters of the words, cut elsewhere."""
    starts: list[float | None] = []
    ends: list[float | None] = []
    for word, span in zip(spelled, spans, strict=True):
        if span is None:
            starts += [None] * len(word)
            ends += [None] * len(word)
            continue
        start, end = span
        for letter in range(len(word)):
            starts.append(start + (end - start) * letter / len(word))
            ends.append(start + (end - start) * (letter + 1) / len(word))
    times: list[Times | None] = []
    first = 0
    for piece in pieces:
        last = first + len(piece) - 1
        start_of_piece = starts[first]
        end_of_piece = ends[last]
        if start_of_piece is None or end_of_piece is None:
            times.append(None)
        else:
            times.append((start_of_piece, end_of_piece))
        first = last + 1
    return times


def _times_by_words(
    pieces: Sequence[str], words: Sequence[TimedWord]
) -> list[Times | None]:
    """Return the times of the pieces that are among the words, in the same order."""
    known: list[TimedWord] = []
    for word, span in words:
        parts = [part.strip() for part in timed_pieces(word)]
        spans: Sequence[Times | None] = [None] * len(parts)
        if span is not None:
            spans = spread(parts, span)
        known += zip(parts, spans, strict=True)
    theirs = [_letters(word) for word, _ in known]
    ours = [_letters(piece) for piece in pieces]
    times: list[Times | None] = [None] * len(pieces)
    matched = 0
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    for first, begin, length in matcher.get_matching_blocks():
        matched += length
        for place in range(length):
            times[begin + place] = known[first + place][1]
    if 2 * matched < len(pieces) or not any(times):
        return []
    return times


def _letters(word: str) -> str:
    """Return the letters and digits of a word without case; a mark alone is itself."""
    return "".join(filter(str.isalnum, word.casefold())) or word


def filled(
    words: Sequence[TimedWord], start: float | None = None, stop: float | None = None
) -> list[tuple[str, Times]]:
    """Return the words with times: words without times share the time between their
    neighbours by letters.

    Args:
        words: The words, of which one has times unless there is a start or a stop.
        start: The time from which words at the beginning may share, in seconds.
        stop: The time up to which words at the end may share, in seconds.
    """
    result: list[tuple[str, Times]] = []
    for is_timeless, group in groupby(words, key=lambda word: word[1] is None):
        run = list(group)
        if not is_timeless:
            result += [(word, span) for word, span in run if span]
            continue
        texts = [word for word, _ in run]
        rest = words[len(result) + len(run) :]
        before = result[-1][1][1] if result else start
        after = rest[0][1][0] if rest and rest[0][1] else stop
        span = _gap(before, after, LETTER * sum(map(len, texts)))
        result += zip(texts, spread(texts, span), strict=True)
    return result


def _gap(before: float | None, after: float | None, length: float) -> Times:
    """Return the time between two neighbours; where one of them is missing, the gap has
    this length.
    """
    if before is None:
        before = max(0.0, (after or 0.0) - length)
    if after is None:
        after = before + length
    return min(before, after), after


def time_order(starts: Sequence[float]) -> list[int] | None:
    """Return the places of starts in the order of time; None if they are in order.

    Systems write words that overlap by less than `ROUNDING` in the order in which they
    heard them, so such starts are in order.

    Args:
        starts: Starts in seconds.
    """
    if all(start >= before - ROUNDING for before, start in pairwise(starts)):
        return None
    return sorted(range(len(starts)), key=starts.__getitem__)


def piece_times(text: str, words: Sequence[TimedWord]) -> tuple[Times, ...]:
    """Return the times of a text's `timed_pieces`; pieces without times share the time
    between their neighbours.

    Args:
        text: The text.
        words: The words as a toolkit cuts them.

    Returns:
        The start and the end of each piece, in seconds; empty if the text has other
        words, or no word has times.
    """
    pieces = partly_timed(text, words)
    return tuple(span for _, span in filled(pieces))


def part_times(parts: Sequence[str], words: Sequence[tuple[str, Times]]) -> list[Times]:
    """Return the times of parts that have the letters of words, cut elsewhere.

    Args:
        parts: The parts.
        words: The words with their times, at least one.
    """
    spans = _times_of_pieces(parts, words) or [None] * len(parts)
    timed = list(zip(parts, spans, strict=True))
    start, stop = words[0][1][0], words[-1][1][1]
    return [span for _, span in filled(timed, start, stop)]


def checked_times(
    text: str, times: Sequence[tuple[float, float]], place: str
) -> tuple[tuple[float, float], ...]:
    """Return the times of a text's `timed_pieces`, checked.

    Args:
        text: The text.
        times: The start and the end, in seconds, of each of these pieces, or of each
            word between blanks.
        place: The file and line, for messages.

    Raises:
        UserError: The number of times is another, or a time is wrong.
    """
    words = text.split()
    if len(words) != len(times):
        words = timed_pieces(text)
    if len(words) != len(times):
        raise UserError(
            f"{place}: times are not a start and an end, in seconds, for each word of"
            " the text"
        )
    timed = []
    for word, (start, end) in zip(words, times, strict=True):
        timed.append((word, Span.read(start, end, place)))
    return piece_times(text, timed)


def spread(
    words: Sequence[str], span: tuple[float, float]
) -> list[tuple[float, float]]:
    """Return the times of words that share a span by their letters.

    Args:
        words: The words.
        span: The start and the end of the span, in seconds.

    Returns:
        The start and the end of each word, in seconds.
    """
    per_letter = (span[1] - span[0]) / max(1, sum(map(len, words)))
    lengths = (per_letter * len(word) for word in words)
    return list(pairwise(accumulate(lengths, initial=span[0])))
