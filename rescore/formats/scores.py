"""Columns of scores from files beside the lists (`--scores FILE`): of COMET, a quality
estimation, a judge, or another toolkit's language model.

A file has a row for each hypothesis: an id, a rank or the text, and columns of numbers.
One number in each line has no id: the file has the order of the hypotheses in the file
of lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from rescore.columns import FIRST_PASS, WORDS, forbidden_names
from rescore.dataset import Dataset
from rescore.errors import UserError, counted, listed
from rescore.formats.first_pass import choose_first_pass
from rescore.formats.ids import LISTS, Side, paired, some
from rescore.formats.objects import COMMAS, Object, first_record, objects_of
from rescore.formats.records import GENERIC
from rescore.formats.roles import (
    NO_FIELDS,
    KeysOfRoles,
    Layout,
    Named,
    Roles,
    fields_of_scores,
)
from rescore.formats.shapes import records
from rescore.formats.source import InputWarnings, Source
from rescore.formats.tables import NUMBER
from rescore.formats.text import json_number, rank_of, strip_markup
from rescore.formats.understood import log
from rescore.ids import by_number, without_blanks
from rescore.nbest import NbestList, check_scores
from rescore.set_names import part_beside_set

NAMELESS = "numbers"
"""The column of a file that has one number in each line, if neither its first line nor
its name says more than the set.
"""


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """What a row of a file of scores says."""

    place: str
    rank: int | None
    """The rank of the hypothesis, from 1; None if the file has no ranks."""
    text: str | None
    numbers: Mapping[str, float]


class ScoreFile:
    """The rows of a file of scores.

    Args:
        source: CSV, TSV, JSON Lines or a JSON list.
        fields: The values of --field, of which the file takes the ids, the ranks and
            the columns that it has.

    Raises:
        UserError: The file is damaged, or lacks ids or numbers.
    """

    def __init__(self, source: Source, fields: KeysOfRoles = NO_FIELDS) -> None:
        self.path = source.name
        self.rows: dict[str, list[ScoredRow]] = {}
        """The rows of each utterance, in the order of the file."""
        self.without_ids: list[ScoredRow] = []
        """All rows of a file that has one number in each line."""
        column = _only_column(source)
        first = {column: ""} if column else first_record(source)
        self.named = fields_of_scores(fields, first)
        """What --field says of the file."""
        usual = records()[GENERIC]
        named = Named.of(self.named)
        self._layout = Layout(usual, usual, replace(named, columns={}))
        self._new_names = {}
        """The names that --field gives to columns, and their signs."""
        for name, signed in named.columns.items():
            self._new_names[signed.key.lower()] = (name, signed.sign)
        self._keys: dict[str, tuple[str, int]] = {}
        """The key of each column in the file, and its sign."""
        for record in _objects(source, column):
            self._add(record)
        if not self.rows and not self.without_ids:
            raise UserError(f"{self.path}: no row in it")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(self._keys)

    def _add(self, record: Object) -> None:
        """Add a row of the file."""
        value, place, _ = record
        if not isinstance(value, dict):
            raise UserError(f"{place}: is no object with an id and numbers")
        roles = self._layout.roles(tuple(value))
        if roles.id is None and len(value) > 1:
            raise self._no_ids(list(value), place)
        if not self._keys:
            self._keys = self._number_columns(value, roles, place)
        numbers = {}
        for name, (key, sign) in self._keys.items():
            numbers[name] = sign * json_number(_as_json(value.get(key)), place, key)
        rank = None
        if roles.rank is not None:
            rank = rank_of(_as_json(value[roles.rank]), place)
        text = None if roles.text is None else _plain(value[roles.text])
        row = ScoredRow(place, rank, text, numbers)
        if roles.id is None:
            self.without_ids.append(row)
            return
        name = without_blanks(str(value[roles.id]))
        self.rows.setdefault(name, []).append(row)

    def _no_ids(self, names: Sequence[str], place: str) -> UserError:
        """Return the error about rows of several columns without an id."""
        if any(map(NUMBER.fullmatch, names)):
            return UserError(
                f"{self.path}: line 1: has no names of columns ({listed(names)}); write"
                " a line of names above it, such as id,rank,qe"
            )
        return UserError(
            f"{place}: no column of ids; each row needs the id of its utterance:"
            f" --field id=NAME names the column ({listed(names)})"
        )

    def _number_columns(
        self, value: Mapping[str, object], roles: Roles, place: str
    ) -> dict[str, tuple[str, int]]:
        """Return the columns of the first row that hold numbers and have no role, with
        their keys and signs.

        Raises:
            UserError: There is none, or one has a name that is reserved.
        """
        taken = {roles.id, roles.rank, roles.text, roles.ref, roles.src}
        names = {}
        for key, number in value.items():
            if key not in taken and isinstance(_as_json(number), int | float):
                name, sign = self._new_names.get(key.lower(), (key, 1))
                names[name] = (key, sign)
        if not names:
            raise UserError(f"{place}: no column of numbers ({listed(list(value))})")
        for name in names:
            if name in forbidden_names() or name == WORDS:
                raise UserError(
                    f"{place}: the name of the column {name} is reserved; give the"
                    f" column another name, such as --field qe={name}"
                )
        return names


def _only_column(source: Source) -> str:
    """Return the name of the column of a file that has one number in each line: its
    first line, or without this line the last part of the file's name that names no set
    of a corpus, so that `test.qe.txt` and `dev_qe.txt` both have the column `qe`. Empty
    for other files.
    """
    if source.is_folder or source.peek.root:
        return ""
    first = source.head.lstrip().partition("\n")[0].strip()
    if NUMBER.fullmatch(first):
        name = "" if source.is_stdin else part_beside_set(str(source.path))
        return name or NAMELESS
    is_table = len(first.split()) > 1 or len(COMMAS.names(source)) > 1
    return "" if is_table else first


def _objects(source: Source, column: str) -> Iterator[Object]:
    """Yield the rows of a file of scores.

    Args:
        source: The file.
        column: The only column; empty for a file with ids.
    """
    if not column:
        yield from objects_of(source)
        return
    for number, (place, line) in enumerate(source.filled(), 1):
        if number > 1 or line.strip() != column:
            yield Object({column: line.strip()}, place, number)


def _as_json(cell: object) -> object:
    """Return the number that a cell of a table holds; any other value as it is."""
    if isinstance(cell, str) and NUMBER.fullmatch(cell):
        return float(cell)
    return cell


def _plain(text: object) -> str:
    """Return a text as texts of lists are compared."""
    return " ".join(strip_markup(str(text)).split())


def with_scores(
    lists: Sequence[NbestList],
    files: Sequence[ScoreFile],
    allow_missing: bool = False,
    s2s: str = FIRST_PASS,
    are_united: bool = False,
) -> Dataset:
    """Return copies of the lists with the columns of files.

    The rows of an utterance belong to its hypotheses by rank, else by text, else in
    their order.

    Args:
        lists: The lists.
        files: The files.
        allow_missing: Whether rows of utterances without a list are left out; otherwise
            they are an error.
        s2s: The column of a file that becomes the first pass; `s2s` for that of the
            lists.
        are_united: Whether lists of the file were united, so that their hypotheses have
            no longer the order of the file.

    Raises:
        UserError: A hypothesis has no row, a row no hypothesis, or a column has the
            name of another.
    """
    for file in files:
        if file.without_ids and are_united:
            raise UserError(
                f"{file.path}: has no ids, and --merge and --group-ids unite lists;"
                " write the united lists with rescore convert, and score these"
            )
        lists = _with_file(lists, file, allow_missing)
        number = counted(sum(len(nbest.hypotheses) for nbest in lists), "hypothesis")
        log.info("%s: columns %s of %s", file.path, listed(file.columns), number)
    if s2s != FIRST_PASS:
        warnings = InputWarnings()
        for nbest in lists:
            choose_first_pass(nbest, s2s, nbest.title, warnings)
    return Dataset.of(lists)


def _with_file(
    lists: Sequence[NbestList], file: ScoreFile, allow_missing: bool
) -> list[NbestList]:
    """Return copies of the lists with the columns of one file."""
    if file.without_ids:
        return _in_order_of_file(lists, file)
    ids = [nbest.id for nbest in lists]
    pairing = paired(Side(ids), Side(list(file.rows), file.path))
    pairing.check("scores")
    if pairing.left_out and not allow_missing:
        left = pairing.left_out
        raise UserError(
            f"{file.rows[left[0]][0].place}: no list for {len(left):,} of its"
            f" {counted(len(file.rows), 'utterance')} ({some(left)}) among {LISTS};"
            " give lists of the whole set, or --allow-missing"
        )
    pairing.tell()
    theirs = {ours: name for name, ours in pairing.renamed.items()}
    return [_scored(nbest, file.rows[theirs[nbest.id]], file) for nbest in lists]


def _in_order_of_file(lists: Sequence[NbestList], file: ScoreFile) -> list[NbestList]:
    """Return copies of the lists with the numbers of a file without ids. A reader may
    have sorted the lists: the numbers have the order of the file of lists.

    Raises:
        UserError: There are more or fewer numbers than hypotheses.
    """
    number = sum(len(nbest.hypotheses) for nbest in lists)
    if number != len(file.without_ids):
        raise UserError(
            f"{file.path}: {counted(len(file.without_ids), 'number')} for"
            f" {counted(number, 'hypothesis')} of {counted(len(lists), 'list')}; write"
            " a number for each hypothesis, or a table with the columns id and rank"
        )
    scored = {}
    rows = iter(file.without_ids)
    for nbest in _as_in_files(lists):
        own = list(islice(rows, len(nbest.hypotheses)))
        scored[nbest.id] = _scored(nbest, own, file)
    return [scored[nbest.id] for nbest in lists]


def _as_in_files(lists: Sequence[NbestList]) -> Iterator[NbestList]:
    """Yield lists in the order of their lines in each file. The files of a folder have
    the order of their names.
    """
    for _, of_input in groupby(lists, key=lambda nbest: nbest.header.name):
        for _, of_file in groupby(sorted(of_input, key=_file_of), key=_file_of):
            same = list(of_file)
            for index in by_number([nbest.place for nbest in same]):
                yield same[index]


def _file_of(nbest: NbestList) -> str:
    """Return the file of a list, without the line."""
    return nbest.place.rpartition(": ")[0] or nbest.place


def _scored(nbest: NbestList, rows: Sequence[ScoredRow], file: ScoreFile) -> NbestList:
    """Return a copy of a list with the numbers of its rows."""
    hypotheses = []
    for hypothesis, row in zip(nbest.hypotheses, _in_order(nbest, rows), strict=True):
        for name in file.columns:
            if name in hypothesis.scores:
                raise UserError(
                    f"{row.place}: {nbest.title} has a column {name} already; give the"
                    f" column of {file.path} another name"
                )
        scores = {**hypothesis.scores, **row.numbers}
        hypotheses.append(replace(hypothesis, scores=scores))
    scored = replace(nbest, hypotheses=hypotheses)
    check_scores(scored, f"{file.path}: utterance {nbest.id}")
    return scored


def _in_order(nbest: NbestList, rows: Sequence[ScoredRow]) -> list[ScoredRow]:
    """Return the row of each hypothesis.

    Raises:
        UserError: A hypothesis has no row, or a row no hypothesis.
    """
    known: dict[object, ScoredRow] = {}
    for number, row in enumerate(rows, 1):
        key = _key(row, number)
        first = known.setdefault(key, row)
        is_copy = row.rank is None and row.numbers == first.numbers
        if first is not row and not is_copy:
            what = "the rank" if row.rank is not None else "the text"
            raise UserError(
                f"{row.place}: utterance {nbest.id}: {what} {str(key)[:60]!r} has other"
                f" numbers than in {first.place}; give each hypothesis one row, with"
                " its rank"
            )
    chosen = []
    used = set()
    for number, hypothesis in enumerate(nbest.hypotheses, 1):
        key = number
        if rows[0].rank is None and rows[0].text is not None:
            key = _plain(hypothesis.text)
        found = known.get(key)
        if found is None and 0 in known:
            raise UserError(
                f"{known[0].place}: rank 0; ranks begin at 1, for the first hypothesis"
                " in the file of lists: add 1 to each"
            )
        if found is None:
            raise UserError(
                f"{rows[0].place}: no row for hypothesis {number} of {nbest.title}"
                f" ({hypothesis.text[:60]!r})"
            )
        used.add(key)
        chosen.append(found)
    for key, row in known.items():
        if key not in used:
            raise UserError(f"{row.place}: {nbest.title} has no such hypothesis")
    return chosen


def _key(row: ScoredRow, number: int) -> object:
    """Return what a row says of its hypothesis: the rank, the text, or its place."""
    if row.rank is not None:
        return row.rank
    return number if row.text is None else row.text
