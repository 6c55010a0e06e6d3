"""Alternatives in texts of sclite, such as `the { cat / cats } sat { @ / down }`: all
texts that they stand for, and the text that counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from rescore.errors import UserError
from rescore.formats.text import undo_entities

MOST_READINGS = 1024
"""Readings of a text, at most."""
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


def unescaped(text: str) -> str:
    """Return a text of sclite without escapes; escaped brackets and @ are letters that
    `readings` takes for no marks (`AS_LETTERS`).

    Args:
        text: A text, with or without alternatives.
    """
    for mark, letter in AS_LETTERS.items():
        text = text.replace(f"&#{mark};", chr(letter))
    return undo_entities(text)


def readings(text: str, place: str) -> tuple[str, ...]:
    """Return all texts that a text of sclite stands for, such as `the { cat / cats }
    sat {@/down}`; @ is no word.

    Brackets that are not closed are words. The texts with the fewest @ come first,
    since sclite prefers them to others that are as close.

    Args:
        text: A text, with or without alternatives.
        place: The file and utterance, for the message.

    Raises:
        UserError: The text has more than `MOST_READINGS` readings.

    Example:
        >>> readings("a { b /@ } c", "ref.trn")
        ('a b c', 'a c')
    """
    texts = [text]
    while any(map(_ALTERNATIVES.search, texts)):
        texts = list(dict.fromkeys(chain.from_iterable(map(_opened, texts))))
        if len(texts) > MOST_READINGS:
            raise UserError(
                f"{place}: its alternatives make more than {MOST_READINGS:,} readings;"
                " leave some out"
            )
    sentences = sorted(map(str.split, texts), key=lambda words: words.count("@"))
    unique = dict.fromkeys(map(_joined, sentences))
    return tuple(reading.translate(FROM_LETTERS) for reading in unique)


def first_reading(text: str) -> str:
    """Return the reading with the first of all alternatives, even if that is @: the
    choice where nothing else decides.

    Args:
        text: A text, with or without alternatives.
    """
    while _ALTERNATIVES.search(text):
        text = next(_opened(text))
    return _joined(text.split())


def _opened(text: str) -> Iterator[str]:
    """Yield the text with each of the alternatives in place of a first innermost
    bracket; a text without alternatives as it is.
    """
    match = _ALTERNATIVES.search(text)
    if match is None:
        yield text
        return
    before = text[: match.start()].split()
    after = text[match.end() :].split()
    for alternative in match[1].split("/"):
        yield " ".join([*before, *alternative.split(), *after])


def _joined(words: Sequence[str]) -> str:
    """Return the words of a reading as a text, without @."""
    return " ".join(word for word in words if word != "@")


def cheapest(text: str, references: Sequence[str], place: str) -> str:
    """Return the reading of an output that sclite aligns with a reference at the least
    cost; the first of equals.

    Args:
        text: The output, with or without alternatives.
        references: The references of the utterance.
        place: The file and utterance, for the message.

    Raises:
        UserError: The output has more than `MOST_READINGS` readings.
    """
    choices = readings(text, place)
    if len(choices) == 1:
        return choices[0]
    # rapidfuzz loads numpy, and few outputs have alternatives
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    costs = cdist(
        [reference.lower().split() for reference in references],
        [undo_entities(choice).lower().split() for choice in choices],
        scorer=Levenshtein.distance,
        scorer_kwargs={"weights": (3, 3, 4)},
    )
    return choices[int(costs.argmin()) % len(choices)]
