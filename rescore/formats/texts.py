"""References and source texts from files with fields: lists, tables and records, by one
reader for both roles. And what references say of a file of lines beside them: whether
the lines are texts, or lists in a format that cannot be told without references.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from rescore.errors import UserError, listed
from rescore.files import ending_of
from rescore.formats.fields import Fields, TextOfUtterance
from rescore.formats.ids import Words
from rescore.formats.objects import first_record
from rescore.formats.roles import FIELDS, KeysOfRoles
from rescore.formats.segments import form_of_recordings
from rescore.formats.source import ReadOptions, Source, sniff
from rescore.formats.text import are_rows, duplicated
from rescore.formats.understood import TEXT, WORDS
from rescore.formats.wordlists import biased_texts
from rescore.option_readers import reads
from rescore.parts import FORMATS


def kind_of_texts(source: Source, role: str, fields: KeysOfRoles) -> str | None:
    """Return the format of a file with references or source texts; None for lines of
    text.

    Args:
        source: The file.
        role: `ref` or `src`.
        fields: What --field says of the file.
    """
    if source.peek.root and fields:
        return RECORDS
    for name in TABLES:
        if not source.peek.root and FORMATS[name].has_texts(source, role, fields):
            return name
    if fields or is_called_table(source.path):
        for name in TABLES:
            FORMATS[name].check_texts(source, role, fields)
    kind = sniff(source)
    if kind not in (None, *TABLES):
        return kind
    if is_table(source):
        columns = listed(first_record(source), room=100)
        raise UserError(
            f"{source.name}: which columns have the ids and the {WORDS[role]}? Say it"
            f" with --field id=NAME --field {role}=NAME ({columns})"
        )
    return None


TABLES = ("tsv", "csv")
"""Formats of tables, whose first line names the columns."""
RECORDS = "json"
"""The format of records whose keys --field names."""


def is_called_table(path: str | Path) -> bool:
    """Return whether the name of a file, which may be packed, is that of a table.

    Args:
        path: The file.
    """
    return ending_of(Path(path).name).removeprefix(".") in TABLES


def is_table(source: Source) -> bool:
    """Return whether lines are surely the rows of a table: by the name of the file, by
    the names of columns in the first line, or since this line has commas and no blank.

    Lines `id<TAB>text` under such a name are texts, if the first text has a blank, as
    names of columns have not, or the ids have the look of ids.

    Args:
        source: A file of lines without another form.
    """
    first, *others = source.head.split("\n")
    lines = [first, *others[:-1]]  # the head may end within the last line
    if source.is_folder or source.peek.root or len(first_record(source)) < 2:
        return False
    if is_called_table(source.path):
        if "\t" in first:
            return not _are_texts(lines, source.name)
        return not _is_prose(lines)
    if not are_rows(lines):
        return False
    is_head = "," in first and len(first.split()) == 1
    return is_head or any(FORMATS[name].sniff(source) for name in TABLES)


def _is_prose(lines: Sequence[str]) -> bool:
    """Return whether the commas of lines part clauses, not cells: a blank follows each
    comma of the first line, and other lines have another number of commas.
    """
    first = lines[0]
    numbers = {line.count(",") for line in lines if line.strip()}
    has_clauses = "," in first and first.count(",") == first.count(", ")
    return has_clauses and (len(lines) == 1 or len(numbers) > 1)


def _are_texts(lines: Sequence[str], name: str) -> bool:
    """Return whether lines with tabs are texts behind ids, perhaps with lists of words
    behind them.
    """
    if len(lines[0].split()) > lines[0].count("\t") + 1:
        return True
    return Words(lines, name).have_look or biased_texts(lines[:1], name) is not None


def texts_by_id(
    source: Source, kind: str, sources: bool, fields: KeysOfRoles
) -> tuple[dict[str, tuple[str, ...]], dict[str, Fields]]:
    """Return the references or source texts of lists, of a table, or of records, and
    the fields beside them.

    Args:
        source: The file.
        kind: Its format.
        sources: Whether source texts are read, not references.
        fields: What --field says of the file.

    Returns:
        The texts by id, in the order of the file; and the fields by id.

    Raises:
        UserError: An id has two different texts.
    """
    texts: dict[str, tuple[str, ...]] = {}
    facts: dict[str, Fields] = {}
    places: dict[str, str] = {}
    for own in _texts_with_ids(source, FORMATS[kind], sources, fields):
        if texts.setdefault(own.id, own.texts) != own.texts:
            raise duplicated(own.id, own.place, places[own.id])
        places.setdefault(own.id, own.place)
        facts.setdefault(own.id, own.fields)
    return texts, facts


def _texts_with_ids(
    source: Source, reader: Any, sources: bool, fields: KeysOfRoles
) -> Iterator[TextOfUtterance]:
    """Yield the references or the source text of each list or row that has these."""
    role = "src" if sources else "ref"
    if hasattr(reader, "texts") and reads(reader, FIELDS):
        yield from reader.texts(source, role, fields)
        return
    if hasattr(reader, "texts"):
        yield from reader.texts(source, role)
        return
    # some formats need a size to read hypotheses
    for number, nbest in enumerate(reader.read(source, ReadOptions(size=1)), 1):
        place = nbest.place or f"{source.name}: list {number}"
        texts = nbest.references
        if sources:
            texts = () if nbest.source is None else (nbest.source,)
        if texts:
            yield TextOfUtterance(nbest.id, texts, place, nbest.fields)


# --- lines that may be texts or lists ------------------------------------------------


def format_beside(
    paths: Sequence[str | Path | Source], ids: Collection[str]
) -> str | None:
    """Return the format that files of lines have because of the references beside them,
    as `are_lists_of` of a format says: this format if lines are hypotheses of the
    utterances with references, `text` if each line is such an utterance.

    Args:
        paths: Files, folders and streams.
        ids: The utterances with references.

    Returns:
        The name of the format; None if the files say themselves what they are.
    """
    names = set()
    for path in paths:
        source = path if isinstance(path, Source) else Source(path)
        names.add(_beside(source, ids))
    return names.pop() if len(names) == 1 else None


def _beside(source: Source, ids: Collection[str]) -> str | None:
    """Return the format that a file has because of its references; None if it says
    itself what it is.
    """
    if source.is_folder:
        return None
    for name, reader in FORMATS.loaded():
        if not hasattr(reader, "are_lists_of"):
            continue
        are_lists = reader.are_lists_of(source, ids)
        if are_lists is None or sniff(source) not in (None, name):
            continue
        if are_lists:
            return name
        return None if form_of_recordings(source) else TEXT
    return None


def if_lists(source: Source) -> str:
    """Return the end of a message about lines that are read as texts, if a format may
    take them for hypotheses; else an empty text.

    Args:
        source: The file.
    """
    for name, reader in FORMATS.loaded():
        if hasattr(reader, "may_be_lists") and reader.may_be_lists(source):
            return f"; if these are N-best lists: --format {name}"
    return ""
