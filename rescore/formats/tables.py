"""CSV and TSV: one hypothesis a line, in columns that the first line names."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

from rescore.columns import FIRST_PASS, RANK, SUM
from rescore.errors import UserError, counted
from rescore.files import opened
from rescore.formats.fields import TextOfUtterance, fields_of, keys_with_roles
from rescore.formats.objects import COMMAS, TABS, Delimited
from rescore.formats.records import (
    GENERIC,
    ROLES,
    Fields,
    Records,
    are_listed,
    keys_of_role,
    signed,
)
from rescore.formats.source import Place, ReadOptions, Source
from rescore.formats.text import (
    NOTHING,
    Part,
    apart,
    as_number,
    grouped,
    rank_of,
    strip_markup,
)
from rescore.formats.writing import check_holds, line, unmarked
from rescore.ids import without_blanks
from rescore.nbest import Header, Hypothesis, NbestList, as_ranked, ranked_by

log = logging.getLogger(__name__)

NUMBER = re.compile(
    r"\s*[-+]?(\d+\.?\d*(e[-+]?\d+)?|\.\d+(e[-+]?\d+)?|inf|infinity)\s*", re.IGNORECASE
)
"""A number in a cell; NaN is none."""
MEANS_SUM = "sum_of_mean"
"""The name in tables of the column `sum`, if the first-pass scores are means over
tokens. A column called `sum` says nothing of the other scores.
"""
_HOLDS = frozenset({"reference", "source", "columns"})


class DelimitedTable:
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
        return len(names) > 1 and not lower.isdisjoint(GENERIC.text)

    # --- reading ---

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield the lists of a table, in which lines of one id stand together.

        Args:
            source: The table. Columns of numbers that have no role become columns of
                scores.
            options: The options of formats.

        Raises:
            UserError: A column is missing, or a line has another number of cells.
        """
        yield from grouped(apart(self._rows(source, options), source.warnings))

    def has_texts(self, source: Source, role: str) -> bool:
        """Return whether the first line names a column of ids and a column of
        references or source texts.

        Args:
            source: Any file.
            role: `ref` or `src`.
        """
        names = self._form.names(source)
        lower = {name.lower().strip() for name in names}
        has_ids = not lower.isdisjoint(GENERIC.id)
        return has_ids and _text_column(names, role) is not None

    def texts(self, source: Source, role: str) -> Iterator[TextOfUtterance]:
        """Yield the references or source texts of a table, which may have hypotheses,
        too. A text without hypotheses beside it has any role.

        Args:
            source: The table.
            role: `ref` or `src`.

        Yields:
            The id of each line with such a text, the text, its place, and the cells of
            other columns.

        Raises:
            UserError: A line has another number of cells.
        """
        names = self._form.names(source)
        id_column = _column(GENERIC, "id", names, source.name)
        column = _text_column(names, role)
        if column is None:
            return
        known = {column, *keys_with_roles(GENERIC)}
        if id_column is not None:
            known.add(id_column)
        for row, place, number in self._form.objects(source):
            identity = without_blanks(_cell(row, id_column)) or str(number)
            fields = fields_of(row, known)
            yield TextOfUtterance(identity, (line(row[column]),), place, fields)

    def _rows(self, source: Source, options: ReadOptions) -> Iterator[Part]:
        """Yield the contents of each line, with the id of its list."""
        names = self._form.names(source)
        fields = options.of(Fields).fields
        layout = _Layout.of(GENERIC.with_fields(fields), names, source.name)
        is_numeric: dict[str, bool] = {}
        header = Header(scores_are_means=MEANS_SUM in names)
        for row, place, number in self._form.objects(source):
            text = strip_markup(row[layout.text])
            hypothesis = Hypothesis(text, **layout.scored(row, is_numeric, place))
            if row.get(RANK, "").strip():
                hypothesis.rank = rank_of(row[RANK], place)
            reference = _text_of(_cell(row, layout.ref))
            identity = without_blanks(row[layout.id]) if layout.id else None
            nbest = NbestList(
                identity or str(number),
                [hypothesis],
                references=() if reference is None else (reference,),
                source=_text_of(_cell(row, layout.src)),
                header=header,
            )
            nbest.fields = fields_of(layout.without_numbers(row, is_numeric), ())
            is_listed = options.first_pass != FIRST_PASS or are_listed(nbest)
            yield Part(identity, nbest, place, is_listed)
        texts = [layout.more[name][0] for name, of in is_numeric.items() if not of]
        if texts:
            log.info(
                "%s: %s without numbers read as fields of --by: %s",
                source.name,
                counted(len(texts), "column"),
                ", ".join(texts)[:200],
            )

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
        about = []
        if first.references:
            about.append("ref")
        if first.source is not None:
            about.append("src")
        with opened(path) as file:
            names = [line(name) for name in columns]
            if first.header.scores_are_means and SUM in names:
                names[names.index(SUM)] = MEANS_SUM
            head = ["id", "text", "score", *names, *about]
            self.write_row(file, head, path)
            for nbest in chain([first], stream):
                _check_about(nbest, first, about, path)
                for row in _rows_to_write(nbest, first, columns, about, path):
                    self.write_row(file, row, path)

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


def _cell(row: Mapping[str, str], column: str | None) -> str:
    """Return the cell of a column; empty for a role without a column."""
    if column is None:
        return ""
    return row[column]


def _text_of(cell: str) -> str | None:
    """Return the reference or source of a cell; an empty cell is no text."""
    text = line(cell)
    if text == NOTHING:
        return ""
    return text or None


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
        about_cells.append("" if text is None else line(text) or NOTHING)
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


# --- roles of columns ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The names of a table's columns by their roles; None for a role without a
    column.
    """

    text: str
    score: str | None
    costs: bool
    """Whether lower scores are better."""
    id: str | None
    ref: str | None
    src: str | None
    more: Mapping[str, tuple[str, int]]
    """The name of each further column of scores in the table, and its sign."""

    @classmethod
    def of(cls, records: Records, names: list[str], path: str) -> _Layout:
        """Return the layout of a table.

        Args:
            records: The names that columns of each role may have.
            names: The names of the columns.
            path: The table, for messages.
        """
        chosen = {role: _column(records, role, names, path) for role in ROLES}
        text = chosen["text"]
        if text is None:
            raise UserError(
                f"{path}: which column has the hypotheses? Say it with --field"
                f" text=NAME ({', '.join(names)})"
            )
        taken = {*chosen.values(), *records.systems}
        return cls(
            text=text,
            score=chosen["score"],
            costs=records.costs,
            id=chosen["id"],
            ref=chosen["ref"],
            src=chosen["src"],
            more=_more_columns(records, names, taken, path),
        )

    def scored(
        self, row: Mapping[str, str], is_numeric: dict[str, bool], place: str
    ) -> dict[str, Any]:
        """Return the fields `scores` and `combined` of a line; higher is better.

        Args:
            row: The cells by the names of their columns.
            is_numeric: Whether further columns hold numbers: the first cell of a column
                that is not empty decides, and is recorded here.
            place: The file and line, for messages.
        """
        scores: dict[str, float] = {}
        for name, (key, sign) in self.more.items():
            cell = row[key]
            if not cell.strip():
                continue
            if name not in is_numeric:
                is_numeric[name] = NUMBER.fullmatch(cell) is not None
            if is_numeric[name]:
                what = f"column {key}, which has numbers above,"
                scores[name] = sign * as_number(cell, place, what)
        if not self.score:
            return {"scores": scores}
        total = as_number(row[self.score], place, self.score)
        return as_ranked(-total if self.costs else total, scores)

    def without_numbers(
        self, row: Mapping[str, str], is_numeric: Mapping[str, bool]
    ) -> dict[str, str]:
        """Return the cells of the further columns that do not hold numbers.

        Args:
            row: The cells by the names of their columns.
            is_numeric: What `scored` recorded.
        """
        cells = {}
        for name, numeric in is_numeric.items():
            if not numeric:
                key, _ = self.more[name]
                cells[key] = row[key]
        return cells


def _column(records: Records, role: str, names: list[str], path: str) -> str | None:
    """Return the column of a role; None if the table has none."""
    lower = {name.lower().strip(): name for name in names}
    keys: tuple[str, ...] = getattr(records, role)
    for key in keys:
        if key.lower() in lower:
            return lower[key.lower()]
    is_named = keys != getattr(GENERIC, role)
    if keys and is_named:
        raise UserError(
            f"{path}: no column {keys[0]} (there are {', '.join(names)}); correct"
            f" --field {role}=NAME"
        )
    return None


def _text_column(names: list[str], role: str) -> str | None:
    """Return the column of references or source texts: the column of this role, or else
    the only column with a text.
    """
    lower = {name.lower().strip(): name for name in names}
    for key in keys_of_role(lower, role):
        if key in lower:
            return lower[key]
    return None


def _more_columns(
    records: Records, names: list[str], taken: set[str | None], path: str
) -> dict[str, tuple[str, int]]:
    """Return the further columns, and the signs of those that --field names."""
    more = {}
    named = set()
    for name, column in records.columns.items():
        key, sign = signed(column)
        if key not in names:
            raise UserError(
                f"{path}: no column {key} (there are {', '.join(names)}); correct"
                f" --field {name}={key}"
            )
        more[name] = (key, sign)
        named.add(key)
    for key in names:
        if key.strip() and key != RANK and key not in taken and key not in named:
            more[SUM if key == MEANS_SUM else key] = (key, 1)
    return more


CSV = DelimitedTable(COMMAS)
TSV = DelimitedTable(TABS)
