"""A normaliser for all scripts, by Unicode's categories: vowels that are marks stay.

Whisper's normaliser for other languages removes combining marks, which are the vowels
of Devanagari, Tamil, Thai, Khmer and other scripts. This normaliser removes punctuation
and symbols alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

APOSTROPHES = "'\u2019"
"""Apostrophes belong to a word where letters surround them."""


def normaliser(name: str, switch: bool) -> Callable[[str], str]:
    """Return the normaliser.

    Args:
        name: The switch, `unicode_basic`.
        switch: The value of the switch, which is on.
    """
    return _without_punctuation


def version_of(name: str, switch: bool) -> str:
    """Return the version of Unicode, whose categories decide.

    Args:
        name: The switch, `unicode_basic`.
        switch: The value of the switch, which is on.
    """
    return unicodedata.unidata_version


def _without_punctuation(text: str) -> str:
    """Return a text in the form NFC, with blanks for punctuation and symbols.

    Characters without width, such as the joiners of Indian scripts, are removed: they
    say how letters are drawn. Marks, letters and digits stay.
    """
    text = unicodedata.normalize("NFC", text)
    kept: list[str] = []
    for place, letter in enumerate(text):
        category = unicodedata.category(letter)
        if category == "Cf":
            continue
        if letter in APOSTROPHES and _is_within_word(text, place):
            kept.append(APOSTROPHES[0])
        elif category[0] in "PS":
            kept.append(" ")
        else:
            kept.append(letter)
    # Letters that a joiner had parted may have a composed form.
    return unicodedata.normalize("NFC", "".join(kept))


def _is_within_word(text: str, place: int) -> bool:
    """Return whether the characters on both sides of a place are letters or marks."""
    around = text[max(0, place - 1) : place] + text[place + 1 : place + 2]
    categories = [unicodedata.category(letter)[0] for letter in around]
    return len(categories) == 2 and set(categories) <= {"L", "M"}
