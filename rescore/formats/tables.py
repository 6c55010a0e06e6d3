"""CSV and TSV: one hypothesis a line, in columns that the first line names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rescore.columns import FIRST_PASS, RANK
from rescore.errors import UserError, counted
from rescore.formats.records import GENERIC, ROLES, Fields, Records
from rescore.formats.source import Place, ReadOptions, Source
from rescore.formats.text import as_number, grouped, strip_markup
from rescore.formats.writing import check_holds, line, opened
from rescore.nbest import Hypothesis, NbestList

NUMBER = re.compile(
    r"\s*[-+]?(\d+\.?\d*(e[-+]?\d+)?|\.\d+(e[-+]?\d+)?|inf|infinity)\s*", re.IGNORECASE
)
_HOLDS = frozenset({"reference", "source", "columns"})


class DelimitedTable:
    """Columns by name. In CSV, quotation marks stand around cells, as RFC 4180 says;
    TSV has no quoting (IANA's text/tab-separated-values), so a text may begin with a
    quotation mark.
    """

    Options = Fields
    place = Place.SHAPE

    def __init__(self, delimiters: str, quoted: bool) -> None:
        self._delimiters = delimiters
        self._quoting: dict[str, Any] = (
            {"strict": True}
            if quoted
            else {"quoting": csv.QUOTE_NONE, "quotechar": None}
        )

    def sniff(self, source: Source) -> bool:
        names = self._names(source.head)
        return len(names) > 1 and bool(
            {name.lower() for name in names} & set(GENERIC.text)
        )

    def _names(self, head: str) -> list[str]:
        first = head.partition("\n")[0].rstrip("\r")
        delimiter = max(self._delimiters, key=first.count)
        try:
            return next(csv.reader([first], delimiter=delimiter, **self._quoting), [])
        except csv.Error:
            return []

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Lines of one id stand together. Columns of numbers that have no role become
        columns of scores.
        """
        yield from grouped(self._rows(source, options), source.name)

    def _rows(
        self, source: Source, options: ReadOptions
    ) -> Iterator[tuple[str | None, NbestList]]:
        names = self._names(source.head)
        layout, more = _roles(
            GENERIC.with_fields(options.of(Fields).fields), names, source.name
        )
        delimiter = max(self._delimiters, key=source.head.partition("\n")[0].count)
        lines = (f"{line}\n" for line in source.lines(crlf=True))
        reader = csv.DictReader(lines, names, delimiter=delimiter, **self._quoting)
        columns: dict[str, bool] = {}
        for number, row in enumerate(_as_user_errors(reader, source.name)):
            if number == 0:
                continue  # the names
            place = f"{source.name}: line {reader.line_num}"
            if None in row or None in row.values():
                raise UserError(
                    f"{place}: expected {counted(len(names), 'column')}, as in the"
                    " first line; quote fields that contain a comma"
                )
            scores: dict[str, float] = {}
            if layout.score:
                value = as_number(row[layout.score[0]], place, layout.score[0])
                scores[FIRST_PASS] = -value if layout.costs else value
            for name, (key, sign) in more.items():
                if row[key].strip() and columns.setdefault(
                    name, NUMBER.fullmatch(row[key]) is not None
                ):
                    scores[name] = sign * as_number(
                        row[key], place, f"column {key}, which has numbers above,"
                    )
            reference, said = (
                row[keys[0]].strip() if keys else ""
                for keys in (layout.ref, layout.src)
            )
            identity = row[layout.id[0]] if layout.id else None
            hypothesis = Hypothesis(strip_markup(row[layout.text[0]]), scores)
            # an empty cell is no reference
            references = (" ".join(reference.split()),) if reference else ()
            yield (
                identity,
                NbestList(
                    identity or str(number), [hypothesis], references, said or None
                ),
            )

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """One hypothesis per line: id, text, score, further columns, and ref and src if
        present.
        """
        stream = iter(check_holds(lists, _HOLDS, path))
        first = next(stream, None)
        if first is None:
            return
        columns = list(
            dict.fromkeys(
                name
                for hypothesis in first.hypotheses
                for name in hypothesis.scores
                if name != FIRST_PASS
            )
        )
        for name in columns:
            if line(name).lower() in {"", RANK, *ROLES}:
                raise UserError(
                    f"{path}: the column {name!r} has another meaning in tables; write"
                    " .jsonl"
                )
        about = [
            *(["ref"] if first.references else []),
            *(["src"] if first.source is not None else []),
        ]
        with opened(path) as file:
            writer = csv.writer(
                file,
                delimiter=self._delimiters[0],
                lineterminator="\n",
                **self._quoting,
            )
            writer.writerow(["id", "text", "score", *map(line, columns), *about])
            for nbest in (first, *stream):
                if (nbest.references and "ref" not in about) or (
                    nbest.source is not None and "src" not in about
                ):
                    raise UserError(
                        f"{path}: utterance {nbest.id} has a reference or source,"
                        f" {first.id} none; write .jsonl"
                    )
                known = {
                    "ref": nbest.references[0] if nbest.references else "",
                    "src": nbest.source or "",
                }
                for hypothesis in nbest.hypotheses:
                    if more := hypothesis.scores.keys() - {FIRST_PASS, *columns}:
                        raise UserError(
                            f"{path}: utterance {nbest.id} has a column {min(more)},"
                            f" {first.id} none; write .jsonl"
                        )
                    scores = [
                        hypothesis.scores.get(name) for name in (FIRST_PASS, *columns)
                    ]
                    cells = ["" if score is None else repr(score) for score in scores]
                    row = [
                        nbest.id,
                        line(hypothesis.text),
                        *cells,
                        *(line(known[name]) for name in about),
                    ]
                    try:
                        writer.writerow(row)
                    except (
                        csv.Error
                    ):  # only an id can have a tab or the end of a line here
                        raise UserError(
                            f"{path}: a TSV cannot hold the id {nbest.id!r}; write"
                            " .jsonl"
                        ) from None


def _as_user_errors(reader: csv.DictReader[str], path: str) -> Iterator[dict[str, str]]:
    """The rows; invalid CSV is an error that names its line."""
    try:
        yield from reader
    except csv.Error as error:
        raise UserError(
            f"{path}: line {reader.reader.line_num}: {error}; quote a text with"
            " quotation marks"
        ) from None


def _roles(
    layout: Records, names: list[str], path: str
) -> tuple[Records, dict[str, tuple[str, int]]]:
    """The layout with the one key of each role that the table has; and further columns
    with their keys and signs.
    """
    lower = {name.lower().strip(): name for name in names}
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise UserError(
            f"{path}: line 1: column {twice!r} is duplicated; give each a name of"
            " its own"
        )
    chosen: dict[str, Any] = {}
    for role in ROLES:
        keys: tuple[str, ...] = getattr(layout, role)
        chosen[role] = tuple(
            lower[key.lower()] for key in keys if key.lower() in lower
        )[:1]
        if not chosen[role] and keys and keys != getattr(GENERIC, role):
            raise UserError(
                f"{path}: no column {keys[0]} (there are {', '.join(names)}); correct"
                f" --field {role}=NAME"
            )
    if not chosen["text"]:
        raise UserError(
            f"{path}: which column has the hypotheses? Say it with --field text=NAME"
            f" ({', '.join(names)})"
        )
    taken = {key for keys in chosen.values() for key in keys}.union(layout.systems)
    columns = {key.removeprefix("-"): name for name, key in layout.columns.items()}
    for key in columns:
        if key not in names:
            raise UserError(
                f"{path}: no column {key} (there are {', '.join(names)}); correct"
                f" --field {columns[key]}={key}"
            )
    signs = {
        name: (key.removeprefix("-"), -1 if key.startswith("-") else 1)
        for name, key in layout.columns.items()
    }
    left = (
        key
        for key in names
        if key not in taken and key not in columns and key.strip() and key != RANK
    )
    more = signs | {key: (key, 1) for key in left}
    return replace(layout, **chosen), more


CSV = DelimitedTable(",;", quoted=True)
TSV = DelimitedTable("\t", quoted=False)
