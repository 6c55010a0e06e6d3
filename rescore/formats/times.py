"""Times of words: the stretches of a text that have times of their own, and how words share a stretch of time."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from rescore.nbest import UNSPACED_LETTERS

_THAI_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
_TIMED = re.compile(f"\\s*(?:[{UNSPACED_LETTERS}][{_THAI_MARKS}]*|[^{UNSPACED_LETTERS}\\s]+)")


def timed_pieces(text: str) -> list[str]:
    """The stretches of a text that have times of their own, with the blanks before them: words between blanks, and
    each letter of Chinese, Japanese and Thai.

    Example:
        >>> timed_pieces("a b 你好")
        ['a', ' b', ' 你', '好']
    """
    return _TIMED.findall(text.strip())


def piece_times(text: str, words: Sequence[tuple[str, float, float]]) -> tuple[tuple[float, float], ...]:
    """Start and end of each of a text's `timed_pieces`, given those of its words as a toolkit cuts them.

    Empty if the text has other words, or a word ends before it starts. The letters of a word share its
    time evenly.
    """
    pieces = [piece.strip() for piece in timed_pieces(text)]
    if not all(0 <= start <= end < math.inf for _, start, end in words):
        return ()
    if len(words) == len(pieces):
        return tuple((start, end) for _, start, end in words)
    spelled = ["".join(word.split()) for word, _, _ in words]
    if "".join(spelled).lower() != "".join(pieces).lower() or len("".join(spelled)) != len("".join(pieces)):
        return ()
    letters = [
        (start + (end - start) * at / len(word), start + (end - start) * (at + 1) / len(word))
        for word, (_, start, end) in zip(spelled, words, strict=True)
        for at in range(len(word))
    ]
    ends = list(accumulate(map(len, pieces)))
    return tuple((letters[to - len(piece)][0], letters[to - 1][1]) for piece, to in zip(pieces, ends, strict=True))


def spread(words: Sequence[str], span: tuple[float, float]) -> list[tuple[float, float]]:
    """The times of words that share a stretch of time by letters."""
    per_letter = (span[1] - span[0]) / max(1, sum(map(len, words)))
    return list(pairwise(accumulate((per_letter * len(word) for word in words), initial=span[0])))


TIMED = (".ctm", ".srt", ".vtt")
"""Endings of files that have times of words."""
