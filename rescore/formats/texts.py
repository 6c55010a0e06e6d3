"""References and source texts from files with fields: lists, tables and records, by one
reader for both roles.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rescore.formats.fields import Fields, TextOfUtterance
from rescore.formats.source import ReadOptions, Source, sniff
from rescore.formats.text import are_rows, duplicated
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


def is_called_table(path: str | Path) -> bool:
    """Return whether the name of a file, which may be packed, is that of a table.

    Args:
        path: The file.
    """
    name = Path(path).name.removesuffix(".gz").removesuffix(".xz")
    return Path(name).suffix.removeprefix(".") in TABLES


def is_table(source: Source) -> bool:
    """Return whether lines are rows of a table with hypotheses, by the name of the file
    or by the first line.

    Args:
        source: A file of lines without another form.
    """
    if is_called_table(source.path):
        return True
    if not are_rows(source.head.splitlines()[:-1]):  # the last line may be cut
        return False
    return any(FORMATS[name].sniff(source) for name in TABLES)


def texts_by_id(
    source: Source, kind: str, sources: bool
) -> tuple[dict[str, tuple[str, ...]], dict[str, Fields]]:
    """Return the references or source texts of lists, of a table, or of records, and
    the fields beside them.

    Args:
        source: The file.
        kind: Its format.
        sources: Whether source texts are read, not references.

    Returns:
        The texts by id, in the order of the file; and the fields by id.

    Raises:
        UserError: An id has two different texts.
    """
    texts: dict[str, tuple[str, ...]] = {}
    fields: dict[str, Fields] = {}
    places: dict[str, str] = {}
    for own in _texts_with_ids(source, FORMATS[kind], sources):
        if texts.setdefault(own.id, own.texts) != own.texts:
            raise duplicated(own.id, own.place, places[own.id])
        places.setdefault(own.id, own.place)
        fields.setdefault(own.id, own.fields)
    return texts, fields


def _texts_with_ids(
    source: Source, reader: Any, sources: bool
) -> Iterator[TextOfUtterance]:
    """Yield the references or the source text of each list or row that has these."""
    if hasattr(reader, "texts"):
        yield from reader.texts(source, "src" if sources else "ref")
        return
    # some formats need a size to read hypotheses
    for number, nbest in enumerate(reader.read(source, ReadOptions(size=1)), 1):
        place = nbest.place or f"{source.name}: list {number}"
        texts = nbest.references
        if sources:
            texts = () if nbest.source is None else (nbest.source,)
        if texts:
            yield TextOfUtterance(nbest.id, texts, place, nbest.fields)
