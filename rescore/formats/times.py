"""Times: spans as files write them, the pieces of a text that have times of their own,
and how words share a span.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from rescore.errors import UserError
from rescore.nbest import UNSPACED_LETTERS

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
        """The span that a file writes; no other function makes a number of a time.

        Args:
            start, end: numbers; or texts such as `1.5`, `1.300s` and `00:01:02,500`.
            place: for the message.
            duration: whether `end` is a duration.
            unit: in seconds.

        Raises:
            BackwardsError: the start is negative, or behind the end.
            UserError: a time is no number, not finite, or above `LATEST`.
        """
        first, last = _seconds(start, place) * unit, _seconds(end, place) * unit
        if duration:
            last = first if -ROUNDING < last < 0 else first + last
        if not 0 <= first <= last:
            raise BackwardsError(
                f"{place}: from {first:g} s to {last:g} s; give a start of 0 or more"
                " before its end"
            )
        return cls(first, last)


def _seconds(time: object, place: str) -> float:
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


def timed_pieces(text: str) -> list[str]:
    """The stretches of a text that have times of their own, with the blanks before
    them: words between blanks, and each letter of Chinese, Japanese and Thai.

    Example:
        >>> timed_pieces("a b 你好")
        ['a', ' b', ' 你', '好']
    """
    return _TIMED.findall(text.strip())


def piece_times(
    text: str, words: Sequence[tuple[str, float, float]]
) -> tuple[tuple[float, float], ...]:
    """Start and end of each of a text's `timed_pieces`, given those of its words as a
    toolkit cuts them.

    Empty if the text has other words. The letters of a word share its time evenly.
    """
    pieces = [piece.strip() for piece in timed_pieces(text)]
    if len(words) == len(pieces):
        return tuple((start, end) for _, start, end in words)
    spelled = ["".join(word.split()) for word, _, _ in words]
    if "".join(spelled).lower() != "".join(pieces).lower() or len(
        "".join(spelled)
    ) != len("".join(pieces)):
        return ()
    letters = [
        (
            start + (end - start) * at / len(word),
            start + (end - start) * (at + 1) / len(word),
        )
        for word, (_, start, end) in zip(spelled, words, strict=True)
        for at in range(len(word))
    ]
    ends = list(accumulate(map(len, pieces)))
    return tuple(
        (letters[to - len(piece)][0], letters[to - 1][1])
        for piece, to in zip(pieces, ends, strict=True)
    )


def checked_times(
    text: str, times: Sequence[tuple[float, float]], place: str
) -> tuple[tuple[float, float], ...]:
    """The times of a text's `timed_pieces`, as a native list has them for these pieces
    or for words between blanks.
    """
    words = text.split()
    whole = words if len(times) == len(words) else timed_pieces(text)
    if len(whole) != len(times):
        raise UserError(
            f"{place}: times are not a start and an end, in seconds, for each word of"
            " the text"
        )
    return piece_times(
        text,
        [
            (word, *Span.read(*time, place))
            for word, time in zip(whole, times, strict=True)
        ],
    )


def spread(
    words: Sequence[str], span: tuple[float, float]
) -> list[tuple[float, float]]:
    """The times of words that share a stretch of time by letters."""
    per_letter = (span[1] - span[0]) / max(1, sum(map(len, words)))
    return list(
        pairwise(
            accumulate((per_letter * len(word) for word in words), initial=span[0])
        )
    )


TIMED = (".ctm", ".srt", ".vtt")
"""Endings of files that have times of words."""
