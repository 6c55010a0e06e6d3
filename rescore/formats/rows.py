"""What a file of N-best lists says, row by row, and the lists that rows make.

A reader knows where a format has its hypotheses, scores and references, and yields a
`Row` for each. It knows nothing of lists: `lists_of` is the only function that makes
lists of rows. It alone decides which rows are one list, and it alone treats ranks,
marks of toolkits, the record of columns, times of words, and rows that contradict each
other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from rescore.columns import FIRST_PASS, FIRST_PASS_ORIGIN, Column
from rescore.errors import UserError, counted
from rescore.formats.fields import other_system
from rescore.formats.source import (
    SAME_ID,
    UNTIMED,
    InputProblem,
    InputWarnings,
    ReadOptions,
    Source,
)
from rescore.formats.text import TAG, strip_markup, without_marks, without_tags
from rescore.formats.times import TimedWord, filled, partly_timed, timed_pieces
from rescore.nbest import Audio, Header, Hypothesis, NbestList, as_ranked
from rescore.options import Declared, option

# --- rows ----------------------------------------------------------------------------


class Joins(Enum):
    """Whether a row joins the list of the row before it."""

    SAME_ID = "same id"
    """The row joins a list of the same id: the format writes a list as neighbours."""
    IF_SCORED = "if scored"
    """The row joins a list of the same id if the row has a score or a rank; else it is
    another utterance. Tables hold both lists and single utterances.
    """
    NEVER = "never"
    """The row begins a list, whatever its id."""


NO_FIELDS: Mapping[str, str] = MappingProxyType({})
"""The fields of most rows: one object, since toolkits that write lines out of order
have all their rows in memory.
"""


@dataclass(slots=True)
class Row:
    """What one place of a file says of an utterance: a line, a row of a table, or a
    value of JSON.
    """

    id: str
    """The utterance, or the number of the list in a file without ids."""
    place: str
    """The file and line, for messages."""
    text: str | None = None
    """A hypothesis; empty for a hypothesis without words, None for a row without a
    hypothesis, such as a reference or the head of a list.
    """
    scores: dict[str, float] = field(default_factory=dict)
    """Scores in natural log, higher is better, by column."""
    total: float | None = None
    """The score by which the file ranks its hypotheses, in natural log; it becomes the
    column `s2s`. None in a file without scores, or where `scores` have the `s2s`. With
    both, as in reranked lists, it is the combined score.
    """
    references: tuple[str, ...] = ()
    """References that this row adds to its list."""
    source: str | None = None
    """The source text of a translation."""
    joins: Joins = Joins.SAME_ID
    ends: bool = False
    """Whether the row is certainly the last of its list, which a stream then yields
    without waiting for the next row.
    """
    rank: int | None = None
    """The rank that the file gives to the hypothesis. It orders hypotheses without
    scores, and equal scores.
    """
    words: Sequence[TimedWord] = ()
    """The words of the hypothesis as the toolkit cuts them, with their times."""
    times: tuple[tuple[float, float], ...] = ()
    """The times of the `timed_pieces` of the text, where the file has exactly these;
    else they follow from `words`.
    """
    fields: Mapping[str, str] = field(default_factory=lambda: NO_FIELDS)
    """Further facts about the utterance, such as its speaker: what `--by` groups
    figures by. Give them to each row of the list: facts in which rows with hypotheses
    differ are dropped.
    """
    recording: str | None = None
    """The recording that the utterance is a part of, if its id does not name it."""
    audio: Audio | None = None
    """The sound of the utterance, if the file names it."""
    origin: str = FIRST_PASS_ORIGIN
    """Who proposed the hypothesis: the toolkit, or an expansion."""
    alignment: str = ""
    """Cells of Moses behind the total, which are kept as they are."""
    is_plain: bool = False
    """Whether the texts are as people read them: hypothesis, references and source.
    Else `lists_of` removes `<s>`, `</s>` and the like, joins subwords, and undoes
    entities (`strip_markup`); a reader removes any other mark of its toolkit.
    """
    own: Collection[str] = ()
    """Columns that the user names: they are no parts of the toolkit's score."""
    header: Header | None = None
    """What the row itself says of its list, as native lists do; None for the header of
    the format.
    """


class Rules(Protocol):
    """What a format says of all its lists (`RowFormat`)."""

    adds_references: bool
    """Whether different references of an id are alternatives, not a contradiction."""

    def toolkit(self) -> str:
        """Return the toolkit of whose score the columns are parts; empty for columns of
        the user.
        """
        ...


# --- lists ---------------------------------------------------------------------------


def lists_of(
    rows: Iterable[Row], rules: Rules, warnings: InputWarnings
) -> Iterator[NbestList]:
    """Yield the lists that rows make, one after another.

    Neighbouring rows of one id are one list, as their `joins` says. Rows of a table
    that have neither a score nor a rank are utterances of their own; where corpora give
    one id to several of them (FLEURS: a sentence that several speakers read), from the
    second on, they are called ID#2, ID#3, ...

    Args:
        rows: The rows of a file.
        rules: What the format says of all lists.
        warnings: Collects repairs.

    Raises:
        UserError: Rows of a list have different references or sources, two hypotheses
            have the same rank, or rows without references share an id.
    """
    building = _Building(rules, warnings)
    repeated = _Repeated(warnings)
    current: NbestList | None = None
    for row in rows:
        if not row.is_plain:
            row.references = tuple(map(without_marks, row.references))
            row.source = None if row.source is None else without_marks(row.source)
        if row.joins is Joins.IF_SCORED and not is_scored(row):
            repeated.rename(row)
        if current is not None and current.id == row.id and _joins(row):
            building.add(current, row)
        else:
            if current is not None:
                yield _in_order_of_ranks(current)
            current = building.begin(row)
        if row.ends:
            yield _in_order_of_ranks(current)
            current = None
    if current is not None:
        yield _in_order_of_ranks(current)


def is_scored(row: Row) -> bool:
    """Return whether a row of a table is one of several hypotheses: it has a score or a
    rank. Numbers beside a reference may be anything, such as a duration.

    Args:
        row: The row.
    """
    if row.rank is not None or row.total is not None or FIRST_PASS in row.scores:
        return True
    return bool(row.scores) and not row.references


def _joins(row: Row) -> bool:
    """Return whether a row joins a list of its id that stands before it."""
    if row.joins is Joins.IF_SCORED:
        return is_scored(row)
    return row.joins is Joins.SAME_ID


class _Repeated:
    """The rows that are utterances of their own, and how often each id stood there."""

    def __init__(self, warnings: InputWarnings) -> None:
        self._warnings = warnings
        self._numbers: dict[str, int] = {}
        self._first: dict[str, Row] = {}

    def rename(self, row: Row) -> None:
        """Count a row, and give it a name of its own from the second of its id on.

        Raises:
            UserError: The row has no reference, or another one than the first.
        """
        number = self._numbers.get(row.id, 0) + 1
        self._numbers[row.id] = number
        if number == 1:
            self._first[row.id] = row
            return
        first = self._first[row.id]
        system = other_system(row.fields, first.fields)
        if not row.references:
            of_systems = ""
            if system:
                of_systems = (
                    f", or eval or combine with --field system={system} if the rows of"
                    f" each {system} are an output"
                )
            raise UserError(
                f"{row.place}: utterance {row.id[-80:]} is duplicated (first:"
                f" {first.place[-80:]}); give each utterance its own id, or --s2s rank"
                f" if rows with one id are one list, best first{of_systems}"
            )
        _check_same_references(row, first.references)
        problem = _other_rows(system) if system else SAME_ID
        self._warnings.add("row", problem, row.place)
        row.id = f"{row.id}#{number}"


def _other_rows(system: str) -> InputProblem:
    """Return the problem of rows that are utterances of their own, although a column
    names their system.
    """
    return InputProblem(
        f"has the id of a row above and another {system}",
        f"have the id of a row above and another {system}",
        "; such rows are different utterances, called ID#2, ID#3, ...; if the rows of"
        f" each {system} are an output: eval or combine with --field system={system};"
        " if rows of one id are one list: --s2s rank",
    )


def _of_systems(system: str) -> InputProblem:
    """Return the problem of lists with the rows of several systems."""
    return InputProblem(
        f"has rows with different values of {system}",
        f"have rows with different values of {system}",
        f"; they are one list; if the rows of each {system} are an output: eval or"
        f" combine with --field system={system}",
    )


class _Building:
    """Makes lists of rows, with one header for all lists of a file."""

    def __init__(self, rules: Rules, warnings: InputWarnings) -> None:
        self._rules = rules
        self._toolkit = rules.toolkit()
        self._warnings = warnings
        self._columns: dict[str, Column] = {}
        self._header = Header(records=self._columns)

    def begin(self, row: Row) -> NbestList:
        """Return a new list with what a row says."""
        nbest = NbestList(
            row.id,
            self._hypotheses(row),
            row.references,
            row.source,
            header=row.header or self._header,
            recording=row.recording,
            audio=row.audio,
            place=row.place,
            fields=row.fields or {},
        )
        return nbest

    def add(self, nbest: NbestList, row: Row) -> None:
        """Add what a row says to its list.

        Raises:
            UserError: The row contradicts the rows before it.
        """
        if not nbest.hypotheses:  # the rows before spoke of the utterance alone
            nbest.fields = {**row.fields, **nbest.fields}
        elif row.text is not None and nbest.fields != row.fields:
            system = other_system(row.fields, nbest.fields)
            if system:
                self._warnings.add("list", _of_systems(system), row.place)
            # what differs between hypotheses says nothing of the utterance
            nbest.fields = dict(nbest.fields.items() & row.fields.items())
        nbest.hypotheses += self._hypotheses(row)
        if row.references != nbest.references:
            self._add_references(nbest, row)
        if row.source is None or row.source == nbest.source:
            return
        if nbest.source is not None:
            raise UserError(
                f"{row.place}: utterance {row.id}: its lines have different sources;"
                " give a single source"
            )
        nbest.source = row.source

    def _add_references(self, nbest: NbestList, row: Row) -> None:
        """Add the references of a row that its list does not have."""
        if not self._rules.adds_references:
            _check_same_references(row, nbest.references)
        known = nbest.references
        nbest.references += tuple(text for text in row.references if text not in known)

    def _hypotheses(self, row: Row) -> list[Hypothesis]:
        """Return the hypothesis of a row in a list; nothing for a row without one."""
        if row.text is None:
            return []
        if self._toolkit:
            for name in row.scores:
                is_part = name != FIRST_PASS and name not in row.own
                if is_part and name not in self._columns:
                    self._columns[name] = Column.component(self._toolkit)
        text = row.text if row.is_plain else strip_markup(row.text)
        scores, combined = row.scores, None
        if row.total is not None:
            ranked = as_ranked(row.total, scores)
            scores, combined = ranked["scores"], ranked["combined"]
        times = row.times or timed(text, row.words, row.place, self._warnings)
        return [
            Hypothesis(
                text, scores, row.origin, times, row.rank, row.alignment, combined
            )
        ]


def timed(
    text: str, words: Sequence[TimedWord], place: str, warnings: InputWarnings
) -> tuple[tuple[float, float], ...]:
    """Return the times of the `timed_pieces` of a text, and count the pieces without
    times.

    Args:
        text: The text.
        words: Its words as the toolkit cuts them.
        place: The file and line, for messages.
        warnings: Collects repairs.
    """
    if not words:
        return ()
    pieces = partly_timed(text, words)
    for piece, span in pieces:
        if span is None and without_tags(piece):
            warnings.add("word", UNTIMED, f"{place}: {piece[:40]}")
    return tuple(span for _, span in filled(pieces))


def _check_same_references(row: Row, known: Sequence[str]) -> None:
    """Check that a row has no other reference than the rows before it.

    Raises:
        UserError: It has another reference.
    """
    new = [text for text in row.references if text not in known]
    if new and known:
        raise UserError(
            f"{row.place}: utterance {row.id}: its lines have different references"
            f" ({known[0][:40]!r}, {new[0][:40]!r}); give a single reference, or each"
            " utterance an id of its own"
        )


def _in_order_of_ranks(nbest: NbestList) -> NbestList:
    """Return a list whose hypotheses have the ranks of the file. Without scores, the
    ranks are the order; beside scores that all differ, they say nothing.

    Raises:
        UserError: Two hypotheses have the same rank.
    """
    ranks = [one.rank for one in nbest.hypotheses if one.rank is not None]
    if not ranks:
        return nbest
    if len(set(ranks)) < len(ranks):
        raise UserError(
            f"{nbest.place}: utterance {nbest.id}: two hypotheses have the rank"
            f" {max(ranks, key=ranks.count)}; give each a rank of its own, or each"
            " utterance an id of its own"
        )
    scores = [one.scores.get(FIRST_PASS) for one in nbest.hypotheses]
    has_no_scores = not any(one.scores for one in nbest.hypotheses)
    if has_no_scores and len(ranks) == len(nbest.hypotheses):
        nbest.hypotheses.sort(key=lambda one: one.rank or 0)
    if has_no_scores or len(set(scores)) == len(scores):
        for one in nbest.hypotheses:
            one.rank = None
    return nbest


def as_list(rows: Iterable[Row]) -> list[Row]:
    """Return rows that are one whole list, whatever stands before and behind them.

    Args:
        rows: The rows of one utterance, which are changed.
    """
    whole = list(rows)
    if whole:
        whole[0].joins = Joins.NEVER
        whole[-1].ends = True
    return whole


# --- tags ---------------------------------------------------------------------------


def drop_tags(nbest: NbestList) -> bool:
    """Remove tags from the texts of a list, with the times of words that are tags; from
    its references and its source, too.

    Args:
        nbest: The list, which is changed.

    Returns:
        Whether a text had a tag.
    """
    references = tuple(map(without_tags, nbest.references))
    source = None if nbest.source is None else without_tags(nbest.source)
    has_tags = (references, source) != (nbest.references, nbest.source)
    nbest.references = references
    nbest.source = source
    for hypothesis in nbest.hypotheses:
        text = without_tags(hypothesis.text)
        if text == hypothesis.text:
            continue
        has_tags = True
        if hypothesis.times:
            _drop_timed_tags(hypothesis)
        else:
            hypothesis.text = text
    return has_tags


def _drop_timed_tags(hypothesis: Hypothesis) -> None:
    """Remove tags from a text whose pieces have times."""
    pieces = []
    times = []
    for piece, span in zip(
        timed_pieces(hypothesis.text), hypothesis.times, strict=True
    ):
        rest = TAG.sub("", piece)
        if rest.strip():
            pieces.append(rest)
            times.append(span)
    hypothesis.text = "".join(pieces).strip()
    hypothesis.times = tuple(times)


# --- lists of equal size -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ListSize(Declared):
    """The option of formats whose files do not mark the end of a list."""

    size: int | None = option(
        None,
        "Hypotheses per list, if the file does not mark the end of a list (NeMo beams,"
        " OpenNMT). For lattices and pages of OCR: number of different texts to read,"
        " 100 by default.",
        "--nbest-size",
        low=1,
    )


def in_portions(rows: Iterable[Row], size: int, name: str) -> Iterator[Row]:
    """Yield the rows of lists of equal size, numbered from 1: for files that do not
    mark the end of a list.

    Args:
        rows: The hypotheses of all lists, which are changed: the number of the list
            becomes the id.
        size: The number of hypotheses of each list.
        name: The file, for messages.

    Raises:
        UserError: The last list has fewer hypotheses.
    """
    number = 0
    for number, row in enumerate(rows, 1):
        row.id = str((number - 1) // size + 1)
        row.ends = number % size == 0
        yield row
    if number % size:
        raise UserError(
            f"{name}: {counted(number, 'line')} is not a multiple of {size}; give the"
            " right --nbest-size"
        )


# --- formats of rows -----------------------------------------------------------------


class RowFormat(ABC):
    """The base of formats whose reader yields rows: a subclass has `sniff` and `rows`.

    A subclass sets the attributes below where its format differs from the default. It
    may have what `rescore.formats.reading.Format` names: `Options`, `place`, `write`,
    `texts`.
    """

    components = ""
    """The toolkit of whose score the columns are parts, such as its acoustic score;
    empty for columns of the user.
    """
    adds_references = False
    """Whether different references of an id are alternatives, not a contradiction."""
    has_references = False
    """Whether lists have references that `--ref` reads from such a file. JSON needs no
    attribute: it is never taken for lines of text.
    """
    translates = False
    """Whether a toolkit of translation writes such files."""
    parts: tuple[str, ...] = ()
    """Patterns of the names of files that stand in a folder as the parts of one set and
    are read one after another; nothing if the format has no such folders.
    """
    are_samples = False
    """Whether hypotheses are samples of a model, which have no order without scores."""
    has_means = False
    """Whether lists may have the column `sum` beside means
    (`rescore.nbest.are_means`).
    """

    def toolkit(self) -> str:
        """Return `components`; a format may ask for its toolkit later, when a list is
        made.
        """
        return self.components

    @abstractmethod
    def sniff(self, source: Source) -> bool:
        """Return whether a source has this format, judged by its head or its files.

        Args:
            source: A file, a folder or a stream.
        """
        ...

    @abstractmethod
    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield what each place of a source says, in its order.

        Args:
            source: A file, a folder or a stream of this format.
            options: The options of all formats that are set.

        Raises:
            UserError: The source is damaged.
        """
        ...

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield the lists of a source.

        Args:
            source: A file, a folder or a stream of this format.
            options: The options of all formats that are set.

        Raises:
            UserError: The source is damaged, or its rows contradict each other.
        """
        return lists_of(self.rows(source, options), self, source.warnings)
