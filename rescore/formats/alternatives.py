"""Alternatives in texts of sclite, such as `the { cat / cats } sat { @ / down }`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rescore.columns import FIRST_PASS
from rescore.formats.text import undo_entities
from rescore.nbest import Hypothesis
from rescore.readings import EMPTY, Readings, Text, closest_reading, readings_of

_ALTERNATIVES = re.compile(r"(?<![^\s{/])\{\s*([^{}\s][^{}]*)\}")
"""Alternatives without further alternatives in them. As in sclite, only the opening
bracket needs a blank before it.
"""
AS_LETTERS = str.maketrans("{}/@", "\ufdd0\ufdd1\ufdd2\ufdd3")
"""Characters that no text has, for brackets, slashes and @ that are no marks of
alternatives, as in words of a CTM; `readings` turns them into these letters again.
"""
FROM_LETTERS = str.maketrans("\ufdd0\ufdd1\ufdd2\ufdd3", "{}/@")
"""The letters of `AS_LETTERS` again."""
_MARK = "\ufdd4"
"""Stands before the number of alternatives that were read already."""


def unescaped(text: str) -> str:
    """Return a text of sclite without escapes; escaped brackets and @ are letters that
    `readings` takes for no marks (`AS_LETTERS`).

    Args:
        text: A text, with or without alternatives.
    """
    for mark, letter in AS_LETTERS.items():
        text = text.replace(f"&#{mark};", chr(letter))
    return undo_entities(text)


def as_text(text: str, escaped: bool = False) -> Text:
    """Return a text of sclite, such as `the { cat / cats } sat {@/down}`, as its parts.

    Brackets that are not closed are words.

    Args:
        text: A text, with or without alternatives.
        escaped: Whether XML entities of the Moses tokeniser are undone.
    """
    blocks: list[tuple[Text, ...]] = []
    while (match := _ALTERNATIVES.search(text)) is not None:
        alternatives = match[1].split("/")
        blocks.append(tuple(_parts(each, blocks, escaped) for each in alternatives))
        mark = f"{_MARK}{len(blocks) - 1}"
        text = f"{text[: match.start()]} {mark} {text[match.end() :]}"
    return _parts(text, blocks, escaped)


def _parts(text: str, blocks: list[tuple[Text, ...]], escaped: bool) -> Text:
    """Return the parts of a text whose alternatives were read already."""
    parts: list[str | tuple[Text, ...]] = []
    words: list[str] = []
    for word in [*text.split(), EMPTY]:
        is_word = word not in ("@", EMPTY) and word[0] != _MARK
        if is_word:
            words.append(word)
            continue
        if words:
            parts.append(_plain(words, escaped))
            words = []
        if word == "@":
            parts.append(EMPTY)
        elif word:
            parts.append(blocks[int(word[1:])])
    return tuple(parts) or (EMPTY,)


def _plain(words: list[str], escaped: bool) -> str:
    """Return words as a text without escapes."""
    text = " ".join(words).translate(FROM_LETTERS)
    return undo_entities(text) if escaped else text


def _has_alternatives(text: Text) -> bool:
    """Return whether a part of a text is alternatives."""
    return any(isinstance(part, tuple) for part in text)


def readings(text: str, place: str, escaped: bool = False) -> tuple[str, ...]:
    """Return all texts that a text of sclite stands for, such as `the { cat / cats }
    sat {@/down}`; @ is no word.

    The texts with the fewest @ come first, since sclite prefers them to others that are
    as close.

    Args:
        text: A text, with or without alternatives.
        place: The file and utterance, for the message.
        escaped: Whether XML entities of the Moses tokeniser are undone.

    Returns:
        The texts; `Readings` of a text with alternatives.

    Raises:
        UserError: The text has more than `MOST_READINGS` readings.

    Example:
        >>> readings("a { b /@ } c", "ref.trn")
        ('a b c', 'a c')
    """
    parts = as_text(text, escaped)
    every = readings_of(parts, place)
    return Readings(every, [parts]) if _has_alternatives(parts) else every


def first_reading(text: str) -> str:
    """Return the reading with the first of all alternatives, even if that is @: the
    choice where nothing else decides.

    Args:
        text: A text, with or without alternatives.
    """
    parts = as_text(text)
    while _has_alternatives(parts):
        first: list[str | tuple[Text, ...]] = []
        for part in parts:
            first += [part] if isinstance(part, str) else part[0]
        parts = tuple(first)
    return " ".join(filter(None, parts))


def best_of(text: str, references: Sequence[str], escaped: bool = False) -> Hypothesis:
    """Return the only hypothesis of an output. Of alternatives its text has those that
    sclite aligns with a reference.

    Args:
        text: The output, with or without alternatives.
        references: The references of the utterance.
        escaped: Whether XML entities of the Moses tokeniser are undone.

    Raises:
        UserError: The output has more than `rescore.readings.MOST_READINGS` readings.
    """
    parts = as_text(text, escaped)
    best = Hypothesis("", {FIRST_PASS: 0.0})
    if _has_alternatives(parts):
        best.alternatives = parts
        best.text = closest_reading(references, parts, _folded_words)
    else:
        best.text = " ".join(filter(None, parts))
    return best


def _folded_words(text: str) -> list[str]:
    """Return the words of a text as sclite compares them by default."""
    return text.lower().split()
