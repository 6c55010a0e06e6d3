"""References and source texts from files with fields: lists, tables and records, by one
reader for both roles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rescore.formats.source import ReadOptions, Source, sniff
from rescore.formats.text import duplicated
from rescore.parts import FORMATS


def kind_of_texts(source: Source, role: str) -> str | None:
    """Return the format of a file with references or source texts; None for lines of
    text.

    Args:
        source: The file.
        role: `ref` or `src`.
    """
    for name in TABLES:
        if not source.peek.root and FORMATS[name].has_texts(source, role):
            return name
    kind = sniff(source)
    return None if kind in TABLES else kind


TABLES = ("tsv", "csv")
"""Formats of tables, whose first line names the columns."""


def texts_by_id(source: Source, kind: str, sources: bool) -> dict[str, tuple[str, ...]]:
    """Return the references or source texts of lists, of a table, or of records.

    Args:
        source: The file.
        kind: Its format.
        sources: Whether source texts are read, not references.

    Returns:
        The texts by id, in the order of the file.

    Raises:
        UserError: An id has two different texts.
    """
    texts: dict[str, tuple[str, ...]] = {}
    places: dict[str, str] = {}
    for name, own, place in _texts_with_ids(source, FORMATS[kind], sources):
        if texts.setdefault(name, own) != own:
            raise duplicated(name, place, places[name])
        places.setdefault(name, place)
    return texts


def _texts_with_ids(
    source: Source, reader: Any, sources: bool
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield the id, the references or the source text, and the place of each list or
    row that has these.
    """
    if hasattr(reader, "texts"):
        yield from reader.texts(source, "src" if sources else "ref")
        return
    # some formats need a size to read hypotheses
    for number, nbest in enumerate(reader.read(source, ReadOptions(size=1)), 1):
        place = nbest.place or f"{source.name}: list {number}"
        if sources and nbest.source is not None:
            yield nbest.id, (nbest.source,), place
        elif nbest.references and not sources:
            yield nbest.id, nbest.references, place
