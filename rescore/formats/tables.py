"""CSV and TSV: one hypothesis a line, in columns that the first line names."""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import IO, Any

from rescore.columns import FROM_FILE, RANK, SUM, Column, Role, reserved_columns
from rescore.errors import UserError, counted, listed
from rescore.files import opened
from rescore.formats.fields import TextOfUtterance, fields_of, holds_names
from rescore.formats.objects import COMMAS, TABS, Delimited, Object
from rescore.formats.records import GENERIC, RecordReader, text_of
from rescore.formats.roles import (
    ROLES,
    Fields,
    KeysOfRoles,
    Layout,
    Named,
    Roles,
    Signed,
)
from rescore.formats.rows import Row, RowFormat
from rescore.formats.shapes import records
from rescore.formats.source import (
    InputProblem,
    Place,
    ReadOptions,
    Source,
)
from rescore.formats.text import NOTHING, as_number
from rescore.formats.understood import WORDS
from rescore.formats.wide import numbered
from rescore.formats.writing import check_holds, line, unmarked
from rescore.nbest import Header, NbestList, ranked_by

log = logging.getLogger(__name__)

NUMBER = re.compile(
    r"\s*[-+]?(\d+\.?\d*(e[-+]?\d+)?|\.\d+(e[-+]?\d+)?|inf|infinity)\s*", re.IGNORECASE
)
"""A number in a cell; NaN is none."""
MEANS_SUM = "sum_of_mean"
"""The name in tables of the column `sum`, if the first-pass scores are means over
tokens. A column called `sum` says nothing of the other scores.
"""
MEAN = "avg_logprob"
"""The name in tables of first-pass scores that are means, without such a column."""
_HOLDS = frozenset({"reference", "source", "columns"})


class DelimitedTable(RowFormat):
    """Columns by name.

    Args:
        form: How the cells are parted.
    """

    Options = Fields
    place = Place.SHAPE
    holds_choice = True
    """Whether the combined score is written beside the first pass."""

    def __init__(self, form: Delimited) -> None:
        self._form = form

    def sniff(self, source: Source) -> bool:
        """Return whether a column has a name that hypotheses have."""
        names = self._form.names(source)
        lower = {name.lower() for name in names}
        return len(names) > 1 and not lower.isdisjoint(records()[GENERIC].text)

    # --- reading ---

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypothesis of each row; rows of one id stand together.

        Args:
            source: The table. Columns of numbers that have no role become columns of
                scores.
            options: The options of formats.

        Raises:
            UserError: A column is missing, or a line has another number of cells.
        """
        names = self._form.names(source)
        reading = _Cells(names, source, options)
        yield from reading.all_rows(self._form.objects(source))
        reading.tell_fields()

    def has_texts(self, source: Source, role: str, fields: KeysOfRoles) -> bool:
        """Return whether the first line names a column of ids and a column of
        references or source texts.

        Args:
            source: Any file.
            role: `ref` or `src`.
            fields: What --field says of the file.
        """
        layout = _layout(fields)
        names = dict.fromkeys(self._form.names(source), "")
        has_ids = layout.id_of(names) is not None
        return has_ids and layout.text_of_role(names, role) is not None

    def check_texts(self, source: Source, role: str, fields: KeysOfRoles) -> None:
        """Check that the first line does not name a column of ids alone, or a column of
        texts alone.

        Args:
            source: A file that may be a table.
            role: `ref` or `src`.
            fields: What --field says of the file.

        Raises:
            UserError: It names one of the two.
        """
        layout = _layout(fields)
        names = dict.fromkeys(self._form.names(source), "")
        has_ids = layout.id_of(names) is not None
        has_texts = layout.text_of_role(names, role) is not None
        if has_ids != has_texts and len(names) > 1:
            lacking = role if has_ids else "id"
            raise UserError(
                f"{source.name}: which column has the {WORDS[lacking]}? Say it with"
                f" --field {lacking}=NAME ({listed(names, room=100)})"
            )

    def texts(
        self, source: Source, role: str, fields: KeysOfRoles
    ) -> Iterator[TextOfUtterance]:
        """Yield the references or source texts of a table, which may have hypotheses,
        too. A text without hypotheses beside it has any role.

        Args:
            source: The table.
            role: `ref` or `src`.
            fields: What --field says of the table.

        Yields:
            The id of each line with such a text, the text, its place, and the cells of
            other columns.

        Raises:
            UserError: A line has another number of cells.
        """
        layout = _layout(fields)
        for record in self._form.objects(source):
            text = text_of(layout, record, role)
            if text is not None:
                yield text

    # --- writing ---

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """Write one hypothesis per line: id, text, score, further columns, and ref and
        src if the first list has them.

        Args:
            lists: The lists, which must have the columns of the first.
            path: The file; `-` is standard output.

        Raises:
            UserError: A list does not fit the columns, or the file cannot be written.
        """
        stream = check_holds(lists, _HOLDS, path)
        first = next(stream, None)
        if first is None:
            return
        columns = _columns_to_write(first, path)
        about = _about(first)
        with opened(path) as file:
            names = [line(name) for name in columns]
            score = "score"
            if first.header.scores_are_means and SUM in names:
                names[names.index(SUM)] = MEANS_SUM
            elif first.header.scores_are_means:
                score = MEAN
            head = ["id", "text", score, *names, *about]
            self.write_row(file, head, path)
            for nbest in chain([first], stream):
                _check_about(nbest, first, about, path)
                for row in _rows_to_write(nbest, first, columns, about, path):
                    self.write_row(file, row, path)

    def checked(self, lists: Iterable[NbestList], path: str) -> Iterator[NbestList]:
        """Yield lists, after it is seen of each that a table can hold it.

        Args:
            lists: The lists.
            path: The file, for messages.

        Raises:
            UserError: A list does not fit the columns, or has an id that a table cannot
                hold.
        """
        first = None
        columns: list[str] = []
        about: list[str] = []
        for nbest in lists:
            if first is None:
                first = nbest
                columns = _columns_to_write(first, path)
                about = _about(first)
            _check_about(nbest, first, about, path)
            for row in _rows_to_write(nbest, first, columns, about, path):
                self.write_row(io.StringIO(), row, path)
            yield nbest

    def write_row(self, file: IO[str], cells: Sequence[str], path: str) -> None:
        """Write a row.

        Args:
            file: The open file.
            cells: The id, and cells without tabs and line ends.
            path: The file, for the message.

        Raises:
            UserError: The table cannot hold the id.
        """
        delimiter = self._form.delimiters[0]
        writer = csv.writer(
            file, delimiter=delimiter, lineterminator="\n", **self._form.quoting
        )
        try:
            writer.writerow(cells)
        except csv.Error:
            raise UserError(
                f"{path}: a TSV cannot hold the id {cells[0]!r}; write .jsonl"
            ) from None


def _columns_to_write(first: NbestList, path: str) -> list[str]:
    """Return the columns of scores beside the first pass."""
    columns: dict[str, None] = {}
    for hypothesis in first.hypotheses:
        columns.update(dict.fromkeys(ranked_by(hypothesis)[1]))
    for name in columns:
        if line(name).lower() in {"", RANK, *ROLES}:
            raise UserError(
                f"{path}: the column {name!r} has another meaning in tables; write"
                " .jsonl"
            )
    return list(columns)


def _about(first: NbestList) -> list[str]:
    """Return the columns of texts about utterances."""
    about = []
    if first.references:
        about.append("ref")
    if first.source is not None:
        about.append("src")
    return about


def _check_about(
    nbest: NbestList, first: NbestList, about: Sequence[str], path: str
) -> None:
    """Check that a list has no reference and no source that have no column."""
    has_more_references = nbest.references and "ref" not in about
    has_more_source = nbest.source is not None and "src" not in about
    if has_more_references or has_more_source:
        raise UserError(
            f"{path}: utterance {nbest.id} has a reference or source,"
            f" {first.id} none; write .jsonl"
        )


def _rows_to_write(
    nbest: NbestList,
    first: NbestList,
    columns: Sequence[str],
    about: Sequence[str],
    path: str,
) -> Iterator[list[str]]:
    """Yield the cells of each hypothesis."""
    known = {"ref": next(iter(nbest.references), None), "src": nbest.source}
    about_cells = []
    for name in about:
        text = known[name]
        about_cells.append("" if text is None else unmarked(text) or NOTHING)
    for hypothesis in nbest.hypotheses:
        total, beside = ranked_by(hypothesis)
        more = beside.keys() - columns
        if more:
            raise UserError(
                f"{path}: utterance {nbest.id} has a column {min(more)},"
                f" {first.id} none; write .jsonl"
            )
        cells = [repr(total)]
        for name in columns:
            score = beside.get(name)
            cells.append("" if score is None else repr(score))
        yield [nbest.id, unmarked(hypothesis.text), *cells, *about_cells]


# --- cells ---------------------------------------------------------------------------


def _layout(fields: KeysOfRoles) -> Layout:
    """Return the names of columns: those that --field gives, else the usual ones."""
    return Layout(records()[GENERIC], records()[GENERIC], Named.of(fields))


_MEANINGS = {"text": "hypotheses", "ref": "references"}
"""What the columns of a role hold."""


def _two_meanings(role: str, columns: Sequence[str], read: str | None) -> InputProblem:
    """Return the problem of a table in which several columns may have a role.

    Args:
        role: The role.
        columns: The columns.
        read: The column that is read; None if none is.
    """
    others = [name for name in columns if name != read]
    is_read = f"{read} was read" if read else "it was not read"
    names = listed(columns, room=100, between=" or ")
    options = f"--field {role}={others[0]}"
    if role == "text":
        options += f", and --field ref={others[0]} if it is the reference"
    return InputProblem(
        f"may have its {_MEANINGS[role]} in {names}",
        f"may have their {_MEANINGS[role]} in {names}",
        f"; {is_read}; to choose, give --field {role}=NAME, such as {options}",
    )


class _Cells(RecordReader):
    """Reads the rows of a table as records.

    Args:
        names: The names of the columns.
        source: The table.
        options: The options of formats.

    Raises:
        UserError: A column that --field names is missing, or no column has the
            hypotheses.
    """

    def __init__(
        self, names: Sequence[str], source: Source, options: ReadOptions
    ) -> None:
        named = Named.of(options.of(Fields).fields, options.groups)
        super().__init__(GENERIC, named, source, options)
        self._name = source.name
        self._names = names
        self._roles = self.layout.roles(names)
        self._check()
        self._tell_alternatives()
        self._more = self._further()
        self._header = Header(
            records=_own_records(self._more), scores_are_means=MEANS_SUM in names
        )
        self._is_numeric: dict[str, bool] = {}
        """Whether a further column holds numbers: its first cell that is not empty
        decides. A number may be the name of a system, or of a group of utterances.
        """
        self._texts: list[str] = []
        """The further columns that hold no scores."""
        for name, (key, _) in self._more.items():
            is_name = holds_names(key, named.groups)
            if is_name and name not in named.columns:
                self._is_numeric[name] = False
                self._texts.append(key)

    def _check(self) -> None:
        """Check that each column that --field names is there, and a column of
        hypotheses.
        """
        named = self.named
        wanted = list(named.keys.items())
        wanted += [("text", key) for key in named.texts]
        wanted += [("score", signed.key) for signed in named.scores]
        wanted += [(name, signed.key) for name, signed in named.columns.items()]
        known = {name.lower().strip() for name in self._names}
        for role, key in wanted:
            matching = named.matching([key], self._names)
            if known.isdisjoint(match.name.lower().strip() for match in matching):
                raise UserError(
                    f"{self._name}: no column {key} (there are"
                    f" {', '.join(self._names)}); correct --field {role}=NAME"
                )
        if self._roles.text is None:
            raise UserError(
                f"{self._name}: which column has the hypotheses? Say it with"
                f" --field text=NAME ({', '.join(self._names)}){numbered(self._names)}"
            )

    def _tell_alternatives(self) -> None:
        """Warn of columns that may have a role as well as the column that is read, and
        of columns that may be the scores of several texts.
        """
        for role, columns in self.layout.alternatives(self._names):
            read = self._roles.text if role == "text" else self._roles.ref
            self._warnings.add("file", _two_meanings(role, columns, read), self._name)

    def _further(self) -> dict[str, Signed]:
        """Return the further columns by their names in lists: those that --field names,
        and those without a role.
        """
        more = dict(self.named.columns)
        roles = self._roles
        taken = {roles.text, roles.id, roles.ref, roles.src, roles.rank, RANK}
        taken.update(self.named.systems)
        taken.update(signed.key for signed in more.values())
        if roles.score is not None:
            taken.add(roles.score.key)
        for text, score in roles.wide:
            taken.add(text)
            if score is not None:
                taken.add(score.key)
        for name in self._names:
            if name.strip() and name not in taken:
                more[SUM if name == MEANS_SUM else name] = Signed(name, 1)
        return more

    def roles_of(self, value: Mapping[str, Any]) -> Roles:
        """Return the roles of the columns, which are the same for each row."""
        return self._roles

    def rows(self, record: Object) -> list[Row]:
        """Return the hypothesis of a row.

        Raises:
            UserError: A cell of a column of numbers is no number.
        """
        cells: dict[str, Any] = record.value
        roles = self._roles
        for name in (roles.id, roles.rank):
            if name is not None and not cells[name].strip():
                cells[name] = None
        for name in (roles.ref, roles.src):
            if name is not None:
                cells[name] = _text_of(cells[name])
        rows = super().rows(record)
        for row in rows:
            row.header = self._header
        return rows

    def _add_columns(
        self, row: Row, value: Mapping[str, Any], parts: Sequence[str]
    ) -> None:
        """Add the numbers of the further columns. In a row of several hypotheses, the
        numbers are facts of the utterance, but for those that --field names.
        """
        more = self.named.columns if self._roles.wide else self._more
        for name, (key, sign) in more.items():
            cell = value[key]
            if not cell.strip():
                continue
            is_numeric = self._is_numeric.get(name)
            if is_numeric is None:
                is_numeric = NUMBER.fullmatch(cell) is not None
                self._is_numeric[name] = is_numeric
                if not is_numeric:
                    self._texts.append(key)
            if is_numeric:
                what = f"column {key}, which has numbers above,"
                row.scores[name] = sign * as_number(cell, row.place, what)

    def _facts(
        self, value: Mapping[str, Any], rows: Sequence[Row]
    ) -> Mapping[str, str]:
        """Return the cells of the columns that are fields."""
        cells = {name: value[name] for name in self._fields}
        return fields_of(cells, ()) if cells else {}

    @property
    def _fields(self) -> Sequence[str]:
        """The columns that are facts of utterances: those that hold no scores; in a row
        of several hypotheses all further columns.
        """
        if not self._roles.wide:
            return self._texts
        further = self._more.keys() - self.named.columns.keys()
        return [self._more[name].key for name in sorted(further)]

    def tell_fields(self) -> None:
        """Log which columns are fields."""
        names = self._fields
        if names:
            as_what = "a field" if len(names) == 1 else "fields"
            log.info(
                "%s: %s read as %s of --by: %s",
                self._name,
                counted(len(names), "column"),
                as_what,
                listed(names),
            )


def _own_records(names: Iterable[str]) -> dict[str, Column]:
    """Return the records of the columns that commands of this package write, such as
    `tokens`: a table holds their numbers, but not their records.

    Args:
        names: The columns of scores.
    """
    reserved = reserved_columns()
    records = {}
    for name in names:
        if name in reserved and reserved[name].role is not Role.FIRST_PASS:
            records[name] = replace(FROM_FILE, role=reserved[name].role)
    return records


def _text_of(cell: str) -> str | None:
    """Return the reference or source of a cell; an empty cell is no text."""
    text = line(cell)
    if text == NOTHING:
        return ""
    return text or None


CSV = DelimitedTable(COMMAS)
TSV = DelimitedTable(TABS)
