"""What formats of lines share: ids before texts, numbers, and lists made of the lines that belong together."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.formats.input_warnings import InputWarnings
from rescore.formats.source import Source
from rescore.nbest import Hypothesis, NbestList


def grouped(
    found: Iterable[tuple[str | None, NbestList]], name: str, more_references: bool = False
) -> Iterator[NbestList]:
    """Join neighbours of one id, as a stream.

    Args:
        found: an id and a list of what one line says of it (a hypothesis, a reference, a source); or None and a list
            that is whole.
        name: of the file.
        more_references: whether another reference is a further one; else two that differ are an error.

    Raises:
        UserError: the lines of one list have different references or sources.
    """
    current: NbestList | None = None
    for identity, nbest in found:
        if identity is not None and current is not None and current.id == identity:
            _join(current, nbest, name, more_references)
            continue
        if current is not None:
            yield current
        current = nbest if identity is not None else None
        if identity is None:
            yield nbest
    if current is not None:
        yield current


def _join(current: NbestList, nbest: NbestList, name: str, more_references: bool) -> None:
    current.hypotheses += nbest.hypotheses
    new = tuple(text for text in nbest.references if text not in current.references)
    if new and current.references and not more_references:
        raise UserError(
            f"{name}: utterance {current.id}: its lines have different references "
            f"({current.references[0][:40]!r}, {new[0][:40]!r}); give each utterance one"
        )
    current.references += new
    if nbest.source is not None and nbest.source != current.source:
        if current.source is not None:
            raise UserError(f"{name}: utterance {current.id}: its lines have different sources; give each one")
        current.source = nbest.source


def portions(hypotheses: Iterable[Hypothesis], size: int, name: str) -> Iterator[NbestList]:
    """Lists of `size` hypotheses each, numbered from 1: for files that do not say where a list ends.

    Raises:
        UserError: the last one has fewer.
    """
    nbest, number = NbestList("1", []), 0
    for number, hypothesis in enumerate(hypotheses, 1):
        nbest.hypotheses.append(hypothesis)
        if number % size == 0:
            yield nbest
            nbest = NbestList(str(number // size + 1), [])
    if nbest.hypotheses:
        raise UserError(f"{name}: {number} lines is not a multiple of {size}; give the right --nbest-size")


def split_id(line: str) -> tuple[str, str]:
    """`utterance text` of a Kaldi-style line; only blanks and tabs part the two, and the text may be empty."""
    name, _, text = line.strip(" \t").replace("\t", " ").partition(" ")
    return name, text.strip(" ")


def table(path: Path, warnings: InputWarnings | None = None) -> dict[str, str]:
    """The lines `utterance value` of a Kaldi-style file.

    Raises:
        UserError: the file cannot be read, or an utterance is duplicated with other values.
    """
    found: dict[str, str] = {}
    for place, line in Source(path, warnings).filled():
        name, value = split_id(line)
        if found.setdefault(name, value) != value:
            raise UserError(f"{place}: utterance {name} is duplicated; give each utterance once")
    return found


def as_number(text: str, place: str, what: str = "score") -> float:
    """A number as a file has it.

    Args:
        what: what it is, for the message.

    Raises:
        UserError: it is none; the message begins with `place`.
    """
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{place}: {what} is {text!r}, not a number") from None


def json_number(value: Any, place: str, what: str = "score") -> float:
    """A number as JSON has it, or a text that is one.

    Raises:
        UserError: it is none, or too large for one; the message begins with `place`.
    """
    try:
        if isinstance(value, (bool, list, dict)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise UserError(f"{place}: {what} is {json.dumps(value)[:40]}, not a number") from None
    except OverflowError:
        raise UserError(f"{place}: {what} has {len(str(value))} digits; no score has") from None


def literal_words(text: str, place: str) -> str:
    """The words of a list as Python prints it, `['A', 'B']`; or of a text.

    Raises:
        UserError: it is none; the message begins with `place`.
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = None
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)) or any(not isinstance(word, str) for word in value):
        raise UserError(f"{place}: expected a list of words such as ['A', 'B'], found {text.strip()[:40]}")
    return " ".join(value)
