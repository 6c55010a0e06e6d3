"""Times of words: spans as files write them, the pieces of a text that have times of
their own, and spans that words share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from rescore.errors import UserError
from rescore.nbest import UNSPACED_LETTERS

TIMED = (".ctm", ".srt", ".vtt")
"""Endings of files that have times of words."""
THAI_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
"""Ranges of the Thai vowels and tone marks that belong to the letter before them."""
_TIMED = re.compile(
    f"\\s*(?:[{UNSPACED_LETTERS}][{THAI_MARKS}]*|[^{UNSPACED_LETTERS}\\s]+)"
)
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


def piece_times(
    text: str, words: Sequence[tuple[str, float, float]]
) -> tuple[tuple[float, float], ...]:
    """Return the times of a text's `timed_pieces`. The letters of a word share its time
    evenly.

    Args:
        text: The text.
        words: The words as a toolkit cuts them, with start and end in seconds.

    Returns:
        The start and the end of each piece, in seconds; empty if the text has other
        words.
    """
    pieces = [piece.strip() for piece in timed_pieces(text)]
    if len(words) == len(pieces):
        return tuple((start, end) for _, start, end in words)
    spelled = ["".join(word.split()) for word, _, _ in words]
    theirs = "".join(spelled)
    ours = "".join(pieces)
    if len(theirs) != len(ours) or theirs.lower() != ours.lower():
        return ()
    starts = []
    ends = []
    for word, (_, start, end) in zip(spelled, words, strict=True):
        for letter in range(len(word)):
            starts.append(start + (end - start) * letter / len(word))
            ends.append(start + (end - start) * (letter + 1) / len(word))
    times = []
    first = 0
    for piece in pieces:
        last = first + len(piece) - 1
        times.append((starts[first], ends[last]))
        first = last + 1
    return tuple(times)


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
        timed.append((word, *Span.read(start, end, place)))
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
