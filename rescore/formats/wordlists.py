"""Lists of words as the files of others have them: hotwords with weights, and words of
each utterance behind its text.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Sequence
from typing import NamedTuple

from rescore.errors import UserError, counted
from rescore.formats.text import undo_bpe

# --- lines of terms ------------------------------------------------------------------


def form_and_term(line: str) -> tuple[str | None, str]:
    """Return the heard form and the term of a line of a word list.

    Args:
        line: `term`, or `heard => term`.

    Returns:
        The heard form, or None without an arrow; and the term.
    """
    form, arrow, term = line.rpartition("=>")
    return form.strip() if arrow else None, term.strip()


def has_arrow(line: str) -> bool:
    """Return whether a line of a word list is `heard => term`."""
    return form_and_term(line)[0] is not None


# --- words of each utterance ---------------------------------------------------------


class BiasedText(NamedTuple):
    """A line `utterance<TAB>text<TAB>["word", ...]`: a text with its own words."""

    id: str
    text: str
    words: tuple[str, ...]
    """The words of the first list."""
    has_distractors: bool
    """Whether a second list has distractors beside these words."""


def biased_texts(lines: Sequence[str], path: str) -> list[BiasedText] | None:
    """Return the texts of lines that end in lists of words, such as the reference files
    of fbai-speech.

    Args:
        lines: The lines of a file; empty lines do not count.
        path: The file, for messages.

    Returns:
        The texts; None if the first line does not end in a list.

    Raises:
        UserError: The first line ends in a list, and another line does not.
    """
    texts: list[BiasedText] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        text = _biased_text(line)
        if text is not None:
            texts.append(text)
        elif texts:
            raise UserError(
                f"{path}: line {number}: expected `utterance<TAB>text<TAB>list of"
                ' words`, such as ["anna"], as in the lines above'
            )
        else:
            return None
    return texts or None


def without_lists(lines: list[str], path: str) -> list[str]:
    """Return lines `utterance<TAB>text` without the lists of words behind the texts.

    Args:
        lines: The lines of a file of texts.
        path: The file, for messages.

    Raises:
        UserError: The first line ends in a list of words, and another line does not.
    """
    biased = biased_texts(lines, path)
    if biased is None:
        return lines
    return [f"{text.id}\t{text.text}" for text in biased]


def _biased_text(line: str) -> BiasedText | None:
    """Return what a line says; None if its third cell is no list of words."""
    cells = line.strip("\r\n").split("\t")
    if len(cells) < 3 or not cells[2].lstrip().startswith("["):
        return None
    try:
        words = ast.literal_eval(cells[2].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(words, list):
        return None
    if not all(isinstance(word, str) for word in words):
        return None
    name, text, _, *more = cells
    return BiasedText(name.strip(), text.strip(), tuple(words), any(more))


# --- hotwords with weights -----------------------------------------------------------

LARGEST_WEIGHT = 100
"""Weights of hotwords are at most this large in FunASR; a larger number is a word."""
_WEIGHTED = re.compile(r"(.*\S)\s+(?P<weight>\d{1,3}(?:\.\d{1,9})?)", re.DOTALL)
"""A hotword of FunASR: `term 20`."""
_SCORE = re.compile(r":-?\d{1,6}(?:\.\d{0,9})?|#\d{0,3}\.\d{1,9}")
"""The score (`:2.5`) or the threshold (`#0.25`) of a hotword of sherpa or icefall."""
_SCORED = re.compile(rf"\S\s+(?:{_SCORE.pattern})(?:\s|$)")
_NAMED = re.compile(r".*\S\s+@\S+")


class Hotwords(NamedTuple):
    """The terms of a file of hotwords, without what a decoder does with them."""

    terms: list[str]
    """The term of each line."""
    dropped: str
    """What was left out, for a message; empty if nothing was."""


def without_scores(lines: Sequence[str]) -> Hotwords:
    """Return the terms of a word list without the scores of sherpa and icefall.

    A score `:2.5` or threshold `#0.25` ends a line, perhaps with the name that the
    toolkit writes (`@NAME`).

    Args:
        lines: The lines of the list.
    """
    are_named = all(map(_NAMED.fullmatch, lines)) or any(map(_SCORED.search, lines))
    terms = [_without_score(line, are_named) for line in lines]
    number = sum(map(operator.ne, terms, lines))
    if not number:
        return Hotwords(terms, "")
    ends = "ends" if number == 1 else "end"
    return Hotwords(
        terms,
        f"{counted(number, 'line')} {ends} in a score such as `:2.5`, `#0.25` or"
        " `@NAME`",
    )


def without_weights(lines: Sequence[str]) -> Hotwords:
    """Return the terms of a word list without the weights of FunASR.

    These are plain numbers, and so may be the ends of terms (`boeing 747`): they are
    weights if all lines end in numbers up to `LARGEST_WEIGHT`, the lines differ without
    them, and no line has an arrow.

    Args:
        lines: The lines of the list.
    """
    terms = []
    for line in lines:
        match = _WEIGHTED.fullmatch(line)
        if match is None or has_arrow(line) or float(match["weight"]) > LARGEST_WEIGHT:
            return Hotwords([*lines], "")
        terms.append(match[1])
    if len(set(terms)) < len(terms):
        return Hotwords([*lines], "")
    return Hotwords(
        terms,
        "all lines end in a number, which is read as the weight of a hotword (if it"
        " belongs to a term, write one line as `term => term`)",
    )


def _without_score(line: str, are_named: bool) -> str:
    """Return a line without the scores of sherpa and icefall; a line without scores as
    it stands.

    Args:
        line: The line.
        are_named: Whether `@NAME` at its end is the name that the toolkit writes.
    """
    words = line.split()
    name = ""
    while len(words) > 1:
        if words[-1].startswith("@") and are_named and not name:
            name = words.pop()[1:]
        elif _SCORE.fullmatch(words[-1]):
            words.pop()
        else:
            break
    if len(words) == len(line.split()):
        return line
    if name:
        return name.replace("_", " ").strip()
    return undo_bpe(" ".join(words))
