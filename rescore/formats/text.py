"""From a toolkit's tokens to the text it meant a person to read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from rescore.errors import UserError

# Escapes of the Moses tokeniser; the ampersand last, or `&amp;lt;` would be unescaped twice.
_ENTITIES = {
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",
}
_SENTENCE_MARKS = re.compile(r"<(?:s|/s|eos|sos|sos/eos|blank|pad)>")


UNSPACED_LETTERS = (
    "\u0e00-\u0e7f"  # Thai
    "\u3040-\u30ff\uff66-\uff9f"  # Hiragana and Katakana
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""Ranges of the letters of Chinese, Japanese and Thai, which put no blanks between words."""
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


WORD_LISTS = ("words", "Words", "result")
"""Keys of lists of words in the JSON of recognisers."""
TIMES = (("start", "end"), ("startTime", "endTime"), ("startOffset", "endOffset"))
"""Keys of a word's start and end, in seconds."""


def undo_bpe(text: str) -> str:
    """Join subwords: `@@ ` of subword-nmt, `▁` of SentencePiece."""
    if "@@" in text:
        text = re.sub(r"@@(?: |$)", "", text)
    if "▁" in text:
        text = text.replace(" ", "").replace("▁", " ")  # a blank parts two pieces; ▁ is the blank that was read
    return " ".join(text.split())


def has_entities(text: str) -> bool:
    """Whether a text has escapes of the Moses tokeniser."""
    return "&" in text and any(entity in text for entity in _ENTITIES)


def undo_entities(text: str) -> str:
    """Undo the escapes of the Moses tokeniser: `&apos;` is an apostrophe again."""
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
    return text


def undo_marks(text: str) -> str:
    """Remove `<eos>` and its like, turn `<space>` into a blank."""
    if "<" in text:
        text = _SENTENCE_MARKS.sub("", text.replace("<space>", " "))
    return " ".join(text.split())


def strip_markup(text: str) -> str:
    """All of it: marks, subwords, entities."""
    return undo_entities(undo_bpe(undo_marks(text)))


def detokeniser(language: str) -> Callable[[str], str]:
    """Undoes the Moses tokeniser, by sacremoses.

    Raises:
        UserError: the package is not installed.
    """
    try:
        from sacremoses import MosesDetokenizer
    except ImportError:
        raise UserError("--detokenize needs sacremoses; install it with: pip install 'rescore[mt]'") from None
    tool = MosesDetokenizer(lang=language)
    return lambda text: str(tool.detokenize(text.split(), unescape=True))


MOST_READINGS = 1024
DEEPEST = 20


def readings(text: str, place: str) -> tuple[str, ...]:
    """All texts that a reference of sclite such as `the { cat / cats } sat { @ / down }` stands for; @ is no word.

    Brackets that are not closed are words.

    Raises:
        UserError: there are more than `MOST_READINGS`; the message begins with `place`.

    Example:
        >>> readings("a { b / @ } c", "ref.trn")
        ('a b c', 'a c')
    """
    words = text.split()
    depths = list(accumulate((word == "{") - (word == "}") for word in words))
    if "{" not in words or min(depths) < 0 or depths[-1] or max(depths) > DEEPEST:
        return (text,)
    sequences, _ = _sequence(words, 0, place, 0)
    return tuple(dict.fromkeys(" ".join(words) for words in sequences))


def _sequence(words: list[str], at: int, place: str, depth: int) -> tuple[list[tuple[str, ...]], int]:
    """The texts of the words from `at` on, until a closing slash or bracket; and its place."""
    sequences: list[tuple[str, ...]] = [()]
    while at < len(words) and not (depth and words[at] in ("}", "/")):
        new: list[tuple[str, ...]] = [() if depth and words[at] == "@" else (words[at],)]
        if words[at] == "{":
            new = []
            while words[at] != "}":
                more, at = _sequence(words, at + 1, place, depth + 1)
                new += more
        at += 1
        if len(sequences) * len(new) > MOST_READINGS:
            raise UserError(f"{place}: its alternatives make more than {MOST_READINGS:,} readings; leave some out")
        sequences = [sequence + more for sequence in sequences for more in new]
    return sequences, at
