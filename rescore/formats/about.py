"""The id, the reference and the source of each result of a document, by the places of
its shape (`rescore.formats.shapes`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rescore.errors import UserError, counted
from rescore.formats import paths
from rescore.formats.shapes import NUMBER, Shape


@dataclass(frozen=True, slots=True)
class About:
    """What a document says of one result, beside its hypotheses."""

    id: str | None
    """The id that the result has for itself; None if it has none."""
    references: tuple[str, ...]
    source: str | None


def about_results(
    shape: Shape, document: Any, found: Sequence[Any], place: str
) -> list[About]:
    """Return the id, the references and the source of each result. A result without a
    reference or source of its own has the reference or source of the document.

    Args:
        shape: The shape of the document.
        document: A JSON value.
        found: The results of the document.
        place: The file and line, for messages.

    Raises:
        UserError: A value is no text, or the values of a list in the document are not
            as many as the results.
    """
    ids = _of_results(shape, "id", document, found, place)
    refs = _of_results(shape, "ref", document, found, place)
    sources = _of_results(shape, "src", document, found, place)
    whole_ref = _of_document(shape, "ref", document)
    whole_source = _of_document(shape, "src", document)
    every = []
    for name, ref, source in zip(ids, refs, sources, strict=True):
        own_ref = whole_ref if ref is None else ref
        own_source = whole_source if source is None else source
        about = About(
            _id_or_none(name, place),
            _references(own_ref, shape, place),
            _text_or_none(own_source, shape.src, place),
        )
        every.append(about)
    return every


def id_of_document(shape: Shape, document: Any, place: str) -> str | None:
    """Return the id that all results of a document share; None without one.

    Args:
        shape: The shape of the document.
        document: A JSON value.
        place: The file and line, for messages.

    Raises:
        UserError: The id is no text or number.
    """
    return _id_or_none(_of_document(shape, "id", document), place)


def label(result: Any, path: str, number: int) -> str | None:
    """Return the channel or the speaker of a result; None if it has none.

    Args:
        result: The result, a JSON value.
        path: The place of the channel or speaker; `#` for the place of the result.
        number: The place of the result, from 1.
    """
    if path == NUMBER:
        return str(number)
    if not path:
        return None
    found = paths.first(result, (path,))
    if found is None or isinstance(found, (dict, list)):
        return None
    return "".join(str(found).split())


def still_missing(
    places: Mapping[str, list[str]], document: Any
) -> dict[str, list[str]]:
    """Return the keys of a shape whose places a document lacks, too.

    Args:
        places: The places of each key that the documents before lack.
        document: A JSON value.
    """
    missing = {}
    for key, of_key in places.items():
        if all(paths.is_missing(document, path) for path in of_key):
            missing[key] = of_key
    return missing


def _of_results(
    shape: Shape, key: str, document: Any, found: Sequence[Any], place: str
) -> list[Any]:
    """Return a value for each result: of the place in the result; else, if the place
    and the results stand in lists, the n-th value for the n-th result. None stands for
    a result without a value.

    Args:
        shape: The shape of the document.
        key: `id`, `ref` or `src`.
        document: A JSON value.
        found: The results of the document.
        place: The file and line, for messages.

    Raises:
        UserError: The values of a list in the document are not as many as the results.
    """
    values: list[Any] = [None] * len(found)
    if not shape.results:
        return values
    for path in getattr(shape, key):
        in_result = path.removeprefix(f"{shape.results}.")
        of_path = [paths.first(result, (in_result,)) for result in found]
        is_outside = in_result == path and all(each is None for each in of_path)
        if is_outside and "[]" in path:
            of_path = _beside_results(shape, path, document, len(found), place)
        for number, value in enumerate(of_path):
            if values[number] is None:
                values[number] = value
    return values


def _of_document(shape: Shape, key: str, document: Any) -> Any:
    """Return the value of a document that all its results share; None without a value.

    Args:
        shape: The shape of the document.
        key: `id`, `ref` or `src`.
        document: A JSON value.
    """
    for path in getattr(shape, key):
        is_of_results = "[]" in shape.results and "[]" in path
        value = None if is_of_results else paths.first(document, (path,))
        if value is not None:
            return value
    return None


def _beside_results(
    shape: Shape, path: str, document: Any, number: int, place: str
) -> list[Any]:
    """Return the n-th value of a list of the document for the n-th result."""
    values = paths.entries(document, path, place) or []
    if "[]" not in shape.results or not values:
        return [None] * number
    if len(values) != number:
        raise UserError(
            f"{place}: {counted(len(values), 'value')} at {path[:60]} for"
            f" {counted(number, 'result')}; give a place in each result, such as"
            f" {shape.results[:60]}.KEY"
        )
    return values


def _id_or_none(value: Any, place: str) -> str | None:
    """Return a value as an id; None for None."""
    if isinstance(value, (dict, list)):
        raise UserError(f"{place}: the id is {json.dumps(value)[:40]}, not a text")
    return None if value is None else str(value)


def _text_or_none(text: Any, where: Sequence[str], place: str) -> str | None:
    """Return a value that is a text; None for None."""
    if text is not None and not isinstance(text, str):
        raise UserError(f"{place}: {where[0]} is {json.dumps(text)[:40]}, not a text")
    return text


def _references(value: Any, shape: Shape, place: str) -> tuple[str, ...]:
    """Return the references of a result: a text or a list of texts."""
    where = shape.ref
    if isinstance(value, list):
        where = ("ref",)
    texts = []
    for entry in value if isinstance(value, list) else [value]:
        text = _text_or_none(entry, where, place)
        if text is not None:
            texts.append(text)
    return tuple(texts)
