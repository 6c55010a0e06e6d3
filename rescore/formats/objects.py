"""The objects of a file, one after another: lines of JSON Lines, entries of a JSON
list, one JSON value, or the rows of a table by the names of its columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rescore.errors import UserError, counted
from rescore.files import loads
from rescore.formats.source import Source


class Object(NamedTuple):
    """An object of a file."""

    value: Any
    """The JSON value; of a table, the cells of a row by the names of the columns."""
    place: str
    """The file and the line or entry, for messages."""
    number: int
    """The number of the object in the file, from 1."""


def objects_of(source: Source) -> Iterator[Object]:
    """Yield the objects of a file of JSON, CSV or TSV. JSON Lines and tables are read
    as a stream.

    Args:
        source: JSON Lines, one JSON list, one JSON value, or a table whose first line
            names the columns. A table with a tab in its first line is a TSV.

    Raises:
        UserError: The file is damaged.
    """
    if source.peek.root:
        yield from json_objects(source)
    elif "\t" in source.head.partition("\n")[0]:
        yield from TABS.objects(source)
    else:
        yield from COMMAS.objects(source)


def first_record(source: Source) -> Mapping[str, Any]:
    """Return the first object of a file of JSON, or the columns of a table with empty
    cells, as the beginning of the file shows them; of any other file, nothing that has
    a usual key.

    Args:
        source: Any input.
    """
    if source.is_folder:
        return {}
    if source.peek.root:
        return source.peek.first
    for form in (TABS, COMMAS):
        names = form.names(source)
        if len(names) > 1:
            return dict.fromkeys(names, "")
    return {}


def json_objects(source: Source) -> Iterator[Object]:
    """Yield the objects of a JSON file.

    Args:
        source: JSON Lines, one JSON list or one JSON value.

    Raises:
        UserError: The file is not JSON.
    """
    if source.peek.lines:
        for number, (place, line) in enumerate(source.filled(), 1):
            yield Object(loads(line, place, line=True), place, number)
        return
    document = loads(source.read_all(), source.name)
    if not isinstance(document, list):
        yield Object(document, source.name, 1)
        return
    for number, value in enumerate(document, 1):
        yield Object(value, f"{source.name}: entry {number}", number)


# --- tables --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delimited:
    """Tables whose first line names the columns. In CSV, quotation marks stand around
    cells, as RFC 4180 says; TSV has no quoting (IANA's text/tab-separated-values), so a
    text may begin with a quotation mark.
    """

    delimiters: str
    """The characters that may part cells; the first is written."""
    is_quoted: bool
    """Whether cells may have quotation marks around them."""

    @property
    def quoting(self) -> dict[str, Any]:
        """Return the arguments of `csv.reader` and `csv.writer` about quotation."""
        if self.is_quoted:
            return {"strict": True}
        return {"quoting": csv.QUOTE_NONE, "quotechar": None}

    def names(self, source: Source) -> list[str]:
        """Return the names of the columns; none if the first line is no row of a table.

        Args:
            source: Any file.
        """
        first = source.head.partition("\n")[0].rstrip("\r")
        reader = csv.reader([first], delimiter=self._delimiter(first), **self.quoting)
        try:
            return next(reader, [])
        except csv.Error:
            return []

    def _delimiter(self, first_line: str) -> str:
        """Return the delimiter that a line has most of."""
        return max(self.delimiters, key=first_line.count)

    def objects(self, source: Source) -> Iterator[Object]:
        """Yield the cells of each row but the first by the names of their columns.

        Args:
            source: A table.

        Raises:
            UserError: Two columns have one name, a row has another number of cells, or
                a quotation mark is missing.
        """
        names = self.names(source)
        for index, name in enumerate(names):
            if name.strip() and name in names[:index]:
                raise UserError(
                    f"{source.name}: line 1: column {name!r} is duplicated; give each a"
                    " name of its own"
                )
        for number, (cells, place) in enumerate(self._rows(source), 1):
            if len(cells) != len(names):
                raise UserError(
                    f"{place}: expected {counted(len(names), 'column')}, as in the"
                    " first line; quote fields that contain a comma"
                )
            yield Object(dict(zip(names, cells, strict=True)), place, number)

    def _rows(self, source: Source) -> Iterator[tuple[list[str], str]]:
        """Yield the cells of each row but the first, with the file and line."""
        delimiter = self._delimiter(source.head.partition("\n")[0])
        lines = (f"{line}\n" for line in source.lines(crlf=True))
        reader = csv.reader(lines, delimiter=delimiter, **self.quoting)
        try:
            next(reader, None)  # the names
            for cells in reader:
                if cells:
                    yield cells, f"{source.name}: line {reader.line_num}"
        except csv.Error as error:
            raise UserError(
                f"{source.name}: line {reader.line_num}: {error}; quote a text with"
                " quotation marks"
            ) from None


COMMAS = Delimited(",;", is_quoted=True)
TABS = Delimited("\t", is_quoted=False)


def keys_in(value: Any) -> set[str]:
    """Return the keys of a record, and of the objects in its lists.

    Args:
        value: A record, as JSON has it.
    """
    keys: set[str] = set()
    if not isinstance(value, dict):
        return keys
    keys.update(value)
    for inner in value.values():
        if are_objects(inner):
            keys.update(*inner)
    return keys


def are_objects(value: Any) -> bool:
    """Return whether a value is a list of objects.

    Args:
        value: Any JSON value.
    """
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(entry, dict) for entry in value)


_SCORE = re.compile(r"[-+]\d.*|\d+\.\d+.*|nan|inf", re.IGNORECASE)
"""A text that is a score, unlike a token that is a number."""


def are_tokens(entries: Sequence[Any], has_scores: bool) -> bool:
    """Return whether hypotheses are lists of tokens, not pairs of a text and a score.

    Args:
        entries: The hypotheses.
        has_scores: Whether scores stand beside them.
    """
    if not entries:
        return False
    are_pairs = True
    for entry in entries:
        if not isinstance(entry, list):
            return False
        for token in entry:
            if not isinstance(token, str) or len(token.split()) > 1:
                return False
        is_pair = len(entry) == 2 and _SCORE.fullmatch(entry[1]) is not None
        are_pairs = are_pairs and is_pair
    return has_scores or not are_pairs
