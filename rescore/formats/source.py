"""The text of one path: a file, a folder, a pipe or standard input, also packed.

A `Source` shows the beginning of its text, by which `sniff` detects the format, and
yields its lines. Oddities of a file that can be read are reported once for each kind,
with their number and first place; with --strict they are errors.
"""

from __future__ import annotations

import io
import json
import logging
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, TypeVar, cast
from weakref import WeakSet

from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted
from rescore.files import (
    GZIP,
    XZ,
    absent,
    as_user_errors,
    note_read,
    shown,
    unpacked,
)
from rescore.options import OptionValues
from rescore.pace import paced_by
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

Item = TypeVar("Item")

NATIVE = "native"
"""The format of native lists."""

# --- problems of inputs --------------------------------------------------------------


class InputProblem(NamedTuple):
    """A reported problem of inputs. It never changes the set of utterances or
    hypotheses.
    """

    single: str
    """The verb and its object, if a single line, file or list has the problem."""
    several: str
    """The verb and its object in the plural."""
    consequence: str
    """The end of the message: what the reader did about the problem."""
    level: int = logging.WARNING
    """The level of the log message."""


UTF8 = InputProblem(
    "is not UTF-8", "are not UTF-8", "; undecodable bytes were read as \ufffd"
)
CRLF = InputProblem(
    "ends in a carriage return",
    "end in a carriage return",
    ", a Windows line end, which was removed",
)
BOM = InputProblem(
    "begins with a byte order mark",
    "begin with a byte order mark",
    ", which was removed",
)
NULL = InputProblem(
    "is null instead of a text",
    "are null instead of a text",
    "; it was read as an empty text",
)
UNTIMED = InputProblem(
    "has no times, or times that run backwards",
    "have no times, or times that run backwards",
    "; such a word shares the time between its neighbours",
)
OF_SEGMENTS = InputProblem(
    "has no times of words",
    "have no times of words",
    "; the words of a segment share its time by letters",
)
UNORDERED = InputProblem(
    "is not in the order of its times",
    "are not in the order of their times",
    "; sorted by time",
)
TAGS = InputProblem(
    "has tags such as <|en|>",
    "have tags such as <|en|>",
    "; the tags were dropped",
)
SAME_ID = InputProblem(
    "has the id of a row above and neither a score nor a rank",
    "have the id of a row above and neither a score nor a rank",
    "; such rows are different utterances, called ID#2, ID#3, ...; give --s2s rank if"
    " they are one list",
)
REPEATED = InputProblem(
    "stands in the file twice, word for word",
    "stand in the file twice, word for word",
    "; read once",
)
UNREAD = InputProblem(
    "was not read to its end", "were not read to their ends", ", by their reader"
)
RANKED = (
    "; the order in the file ranks them: the first pass is minus the log of the rank"
)
NO_SCORES = InputProblem("has no scores", "have no scores", RANKED)
SAMPLES = InputProblem(
    "has samples without scores",
    "have samples without scores",
    "; each sample has the score 0, so all count alike",
)
TWICE = InputProblem(
    "has a hypothesis twice",
    "have a hypothesis twice",
    "; both were kept",
    logging.DEBUG,
)
"""A decision by posteriors counts both, and warns; for the best score nothing
follows.
"""


class InputWarnings:
    """The warnings about the inputs of one command.

    Args:
        strict: Every problem is an error.
        refused: This problem is an error in any case.
    """

    def __init__(
        self, strict: bool = False, refused: InputProblem | None = None
    ) -> None:
        self._strict = strict
        self._refused = refused
        self._places: dict[tuple[str, InputProblem], tuple[int, str]] = {}
        """The number of places with each problem, and the first place."""

    def add(self, unit: str, problem: InputProblem, place: str) -> None:
        """Count a problem.

        Args:
            unit: The noun that has the problem: line, file or list.
            problem: The problem.
            place: The file and line, for the message.

        Raises:
            UserError: The problem is an error.
        """
        if problem == self._refused:
            raise UserError(f"{place}: {problem.single}; convert the file with iconv")
        if self._strict:
            raise UserError(f"{place}: {problem.single} (--strict)")
        number, first = self._places.get((unit, problem), (0, place))
        self._places[unit, problem] = (number + 1, first)

    def report(self) -> None:
        """Log the collected problems, one line per kind, and clear them."""
        for (unit, problem), (number, first) in self._places.items():
            verb = problem.single if number == 1 else problem.several
            log.log(
                problem.level,
                "%s %s%s (first: %s)",
                counted(number, unit),
                verb,
                problem.consequence,
                first,
            )
        self._places.clear()

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Return a context at whose end the problems are logged, also before an error
        of the user: a problem often explains the error.

        Raises:
            UserError: The error of the block.
        """
        try:
            yield
        except UserError:
            self.report()
            raise
        self.report()


# --- bytes ---------------------------------------------------------------------------

HEAD = 1 << 16
"""Number of bytes read to detect the format."""


UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""The first bytes of a text in UTF-16."""


def _check_encoding(start: bytes, name: str) -> None:
    """Check that a file is not UTF-16, as spreadsheets on Windows write it.

    Args:
        start: The first bytes.
        name: The file, for the message.

    Raises:
        UserError: The file is UTF-16.
    """
    if start.startswith(UTF16):
        raise UserError(
            f"{name}: is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
        )


class _Rejoined(io.RawIOBase):
    """The bytes that were read ahead of a stream, then the stream."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return the number of bytes; 0 at the end."""
        part = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(part) :]
        buffer[: len(part)] = part
        return len(part)


# --- a first look at JSON ------------------------------------------------------------

_JSON = re.compile(r"""\{\s*(?:["}]|$)|\[\s*(?:["\[{\]\d-]|$)""")
"""The beginning of JSON, unlike texts of sclite with alternatives such as `{uh / @}` or
a `[noise]`.
"""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],"]', re.DOTALL)
"""A string or a mark of JSON; a quotation mark alone is a string that is cut."""


class JsonPeek(NamedTuple):
    """The beginning of a JSON text: what its first 64 KiB or so show."""

    root: str = ""
    """`{` or `[`, the first character of the text; empty if it is not JSON."""
    first: Mapping[str, Any] = MappingProxyType({})
    """The root object, or the first object in the root list; empty if it is damaged. An
    object without values, such as `{"text": ""}` of a silence, says nothing of the
    form: the next object that has values stands for it.
    """
    lines: bool = False
    """Whether further documents follow, or the first is whole on the first line."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the first object."""
        return tuple(self.first)

    @property
    def inner(self) -> tuple[str, ...]:
        """Return the keys of the first object within the first object."""
        for value in self.first.values():
            if isinstance(value, dict):
                return tuple(value)
        return ()

    @classmethod
    def of(cls, head: str) -> JsonPeek:
        """Return what the beginning of a text shows.

        A document that is cut at the end of `head` is closed behind its last whole
        value. A parser of streams such as ijson gives events up to the cut, from which
        the value would have to be built.

        Args:
            head: The beginning of a text, JSON or not.
        """
        text = head.lstrip()
        if not _JSON.match(text):
            return cls()
        text, end, closing = _first_document(text)
        try:
            value = json.loads(text[:end] + closing)
        except (ValueError, RecursionError):
            value = {}
        first_line, newline, rest = text.partition("\n")
        if isinstance(value, list):
            first = _telling(value)
        else:
            first = _telling(chain([value], _lines_of_json(rest)))
        is_cut = bool(closing)
        on_one_line = not newline if is_cut else end == len(first_line.rstrip())
        return cls(text[0], first, on_one_line and text[0] == "{")


def _telling(values: Iterable[Any]) -> Mapping[str, Any]:
    """Return the first object that has a value; the first object if none has."""
    before: Mapping[str, Any] = {}
    for value in values:
        if not isinstance(value, dict):
            break
        if any(own or own == 0 for own in value.values()):
            return value
        before = before or value
    return before


def _lines_of_json(text: str) -> Iterator[Any]:
    """Yield the values of lines up to the first that is no JSON, or is cut."""
    for line in text.split("\n"):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            return


def _first_document(text: str) -> tuple[str, int, str]:
    """Return where the first document of a JSON text ends, or where it can be closed.

    Returns:
        The text, in which a string that is cut is replaced by an empty string; the
        position behind the last whole value; and the brackets that close it there,
        empty for a document that is whole.
    """
    open_brackets: list[str] = []
    end = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == '"':
            # the string is cut: as a value it becomes empty, as a key it is left out
            before = text[: match.start()]
            if before.rstrip().endswith(":"):
                text = before + '""'
                end = len(text)
            break
        if token == "{":
            open_brackets.append("}")
        elif token == "[":
            open_brackets.append("]")
        elif token in ("}", "]"):
            open_brackets.pop()
        if token == ",":
            end = match.start()
        elif len(token) == 1:
            end = match.end()
        if not open_brackets:
            break
    return text, end, "".join(reversed(open_brackets))


# --- sources -------------------------------------------------------------------------

LONGEST_LINE = 1 << 26
"""Characters of a line, at most. Only damaged files, or files made to fill the memory,
exceed this limit and the next ones, which hold for packed files, too.
"""
LONGEST_FIRST_LINE = 1 << 22
"""Characters of the first line that are read to detect the format, at most."""
LARGEST_DOCUMENT = 1 << 28
"""Characters of a text that has to be in memory as a whole, at most."""
SLOW = 4.0
"""Megabytes of a file from which on its reading may take seconds."""
_ESCAPED = re.compile("[\udc80-\udcff]+")
"""Bytes that are not UTF-8, as the decoder's `surrogateescape` writes them."""


class ReadOptions(OptionValues):
    """The options of formats that are set, such as `ReadOptions(size=10,
    fields={"text": "hyp"})`. Each reader takes the options of its class `Options`.
    """

    in_python = False
    """Whether messages name options as Python does."""
    first_pass: str = FIRST_PASS
    """The column that becomes the first pass (--s2s); a column, or `rank`, says that
    neighbours with one id are one list.
    """
    segment_times = False
    """Whether words without times share the times of their segments, for subtitles and
    CTM.
    """
    system: str | None = None
    """The system whose rows are read, of a table in which a column names the system of
    each row.
    """
    several: bool = False
    """Whether several inputs are read together: ids may need the names of files."""
    group_ids: str | None = None
    """The expression whose first group is the part of ids that the samples of a list
    share (`rescore.formats.merging.grouped`).
    """
    groups: Sequence[str] = ()
    """Fields that name speakers or other groups in this call (--by, --speaker): numbers
    in such a column of a table are names, not scores.
    """
    scores_beside: Sequence[str] = ()
    """The columns of files of scores beside the lists, for messages."""
    beside: Sequence[str] = ()
    """Further inputs that are read with these options: an option that their readers
    take has a meaning in this call.
    """


_STREAMS_READ: WeakSet[Any] = WeakSet()
"""The standard inputs that a source has read."""


class Source:
    """One path of the command line: the border of files. `-` is standard input.

    It gives text, with oddities repaired and reported; every failure to read is a
    `UserError`. Inputs that cannot be read twice (a pipe, standard input) are read
    once: their beginning is kept for detection.

    Args:
        path: The path.
        warnings: Collects repairs; with None, the source reports them itself.

    Raises:
        UserError: The path does not exist.
    """

    def __init__(self, path: str | Path, warnings: InputWarnings | None = None) -> None:
        self.warnings = warnings or InputWarnings()
        self._reports = warnings is None
        self.path = Path(path)
        self.has_rest = False
        """Whether a reader has left lines unread."""
        self.score = ""
        """The key or column of the first-pass scores, as far as rows are read."""
        self.line = 0
        """The number of the line that was read last; 0 before the first."""
        self.roles: dict[str, str] = {}
        """The column or key of each role that a reader found, if its name is not the
        name of the role; for the line that says what was read.
        """
        self._file: IO[bytes] = io.BytesIO()
        """The file that is being read, for its position."""
        self.is_stdin = str(path) == "-"
        self.name = "<stdin>" if self.is_stdin else str(path)
        with as_user_errors(self.name):
            if not self.is_stdin and not self.path.exists():
                raise UserError(absent(self.path))

    @property
    def is_folder(self) -> bool:
        """Return whether the path is a folder."""
        return not self.is_stdin and self.path.is_dir()

    def files(self, wanted: Callable[[Path], bool] = lambda path: True) -> list[Source]:
        """Return the files of a folder in the order of their names; of a file, itself.

        Args:
            wanted: Whether a file of a folder is returned. Hidden files never are.
        """
        if not self.is_folder:
            return [self]
        sources = []
        for path in sorted(self.path.iterdir()):
            is_visible = path.is_file() and not path.name.startswith(".")
            if is_visible and wanted(path):
                sources.append(Source(path, self.warnings))
        return sources

    @property
    def is_regular(self) -> bool:
        """Return whether the input can be read twice."""
        return not self.is_stdin and self.path.is_file()

    @cached_property
    def _once(self) -> tuple[bytes, IO[bytes]]:
        """The beginning of an input that can be read only once, and the rest."""
        if self.is_stdin and (sys.stdin is None or sys.stdin.closed):
            raise UserError("<stdin>: is closed; give a file")
        if self.is_stdin and sys.stdin in _STREAMS_READ:
            raise UserError(
                "<stdin>: - is given twice, and standard input can be read once; give a"
                " file for one of the two"
            )
        if self.is_stdin:
            _STREAMS_READ.add(sys.stdin)
        raw = sys.stdin.buffer if self.is_stdin else self.path.open("rb")
        return raw.read(HEAD), raw

    @cached_property
    def head(self) -> str:
        """The beginning of the text, of at most 64 KiB; empty for a folder."""
        if self.is_folder:
            return ""
        with as_user_errors(self.name):
            if self.is_regular:
                with open(self.path, "rb") as file:
                    start = file.read(HEAD)
            else:
                start = self._once[0]
            _check_encoding(start, self.name)
            if start.startswith(GZIP):
                start = zlib.decompressobj(31).decompress(start, HEAD)
            elif start.startswith(XZ):
                start = lzma.LZMADecompressor().decompress(start, HEAD)
        # A character may be cut at the end; invalid UTF-8 is reported when the whole is
        # read.
        return start.decode("utf-8-sig", errors="ignore")

    @cached_property
    def peek(self) -> JsonPeek:
        """The beginning of a JSON text.

        If 64 KiB are not enough, the first line of a file is read.
        """
        peek = JsonPeek.of(self.head)
        shows_enough = peek.inner or len(self.head) < HEAD // 4
        if shows_enough or not peek.lines or not self.is_regular:
            return peek
        with self._open() as file:
            first_line = file.readline(LONGEST_FIRST_LINE)
            peek = JsonPeek.of(first_line.removeprefix("\ufeff"))
        return peek

    @contextmanager
    def _open(self) -> Iterator[IO[str]]:
        """Yield the text as a file; its lines end at newlines only."""
        # Bytes that are no UTF-8 come as half surrogate pairs: `lines` and `read_all`
        # see and replace them.
        with (
            as_user_errors(self.name),
            self._unpacked() as stream,
            io.TextIOWrapper(
                stream, "utf-8", errors="surrogateescape", newline="\n"
            ) as text,
        ):
            yield text
        if self._reports:
            self.warnings.report()

    @contextmanager
    def _unpacked(self) -> Iterator[IO[bytes]]:
        """Yield the unpacked bytes."""
        if not self.is_regular:
            start, rest = self._once
            whole = io.BufferedReader(_Rejoined(start, rest), HEAD)
            yield unpacked(start, cast(IO[bytes], whole))
            return
        with open(self.path, "rb") as file:
            start = file.read(len(XZ))
            _check_encoding(start, self.name)
            file.seek(0)
            self._file = file
            yield unpacked(start, file)

    def timed(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items that are read from the source, and log the progress of a long
        reading of one file.

        Args:
            items: The items, such as the lists of a file.
        """
        if not self.is_regular:
            return iter(items)
        size = self.path.stat().st_size / 1e6
        if size < SLOW:
            return iter(items)
        message = f"read %.0f of %.0f MB of {shown(self.name)}"
        return paced_by(self._with_position(items), message, size)

    def _with_position(self, items: Iterable[Item]) -> Iterator[tuple[float, Item]]:
        """Yield each item with the number of megabytes read before it."""
        for item in items:
            position = 0.0 if self._file.closed else self._file.tell() / 1e6
            yield position, item

    def lines(self, crlf: bool = False) -> Iterator[str]:
        """Yield the lines without their ends.

        Args:
            crlf: Whether a carriage return before the newline is part of the format;
                otherwise it is removed and reported.

        Raises:
            UserError: A line has more than `LONGEST_LINE` characters, or an output of
                the running command takes the place of the file.
        """
        note_read(self.path)
        with self._open() as file:
            number = 0
            self.has_rest = True
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                self.line = number
                if len(line) > LONGEST_LINE:
                    raise UserError(
                        f"{self.name}: line {number} has more than {LONGEST_LINE:,}"
                        " characters"
                    )
                line = line.removesuffix("\n")
                if crlf:
                    line = line.removesuffix("\r")
                yield self._repaired(line, number)
            self.has_rest = False

    def filled(self) -> Iterator[tuple[str, str]]:
        """Yield the lines that are not empty, as pairs of the place (file and number of
        the line, for messages) and the line.
        """
        for number, line in enumerate(self.lines(), 1):
            if line.strip():
                yield f"{self.name}: line {number}", line

    def read_all(self) -> str:
        """Return the whole text.

        Raises:
            UserError: The text has more than `LARGEST_DOCUMENT` characters, or an
                output of the running command takes the place of the file.
        """
        note_read(self.path)
        with self._open() as file:
            text = file.read(LARGEST_DOCUMENT + 1)
        if len(text) > LARGEST_DOCUMENT:
            raise UserError(
                f"{self.name}: has more than {LARGEST_DOCUMENT:,} characters, which"
                " have to be in memory as a whole; write it as JSON Lines"
            )
        return self._repaired(text, 0)

    def _repaired(self, text: str, number: int) -> str:
        """Return the line with this number (0 for the whole text) without oddities."""
        if number <= 1 and text.startswith("\ufeff"):
            text = text[1:]
            self.warnings.add("file", BOM, self.name)
        if number and text.endswith("\r"):
            text = text.rstrip("\r")
            self.warnings.add("line", CRLF, f"{self.name}: line {number}")
        if not text.isascii() and _ESCAPED.search(text):
            if number:
                self.warnings.add("line", UTF8, f"{self.name}: line {number}")
            else:
                self.warnings.add("file", UTF8, self.name)
            text = _ESCAPED.sub("\ufffd", text)
        return text


def read_once(
    path: str | Path | Source, warnings: InputWarnings
) -> str | Path | Source:
    """Return a path; a stream, which can be opened once, as its source.

    Args:
        path: A file, a folder or a stream.
        warnings: Collects repairs of the stream.
    """
    if isinstance(path, Source) or Path(path).is_file() or Path(path).is_dir():
        return path
    return Source(path, warnings)


# --- formats -------------------------------------------------------------------------


class Place(IntEnum):
    """Where a format stands in the order of detection: its attribute `place`."""

    OWN_MARK = 0
    """The format is told by a mark that no other format has; the default."""
    SHAPE = 1
    """The format is told by its shape, such as columns with known names."""
    ANYTHING = 2
    """The format takes what no other format takes."""


def sniff(source: Source) -> str | None:
    """Return the name of a path's format; None if no format fits.

    Shipped formats with a mark of their own come first, in the order of the table.
    Formats of other packages are looked up only if none of these fits; in each place
    they come before the shipped formats.

    Args:
        source: The path.
    """
    later = []
    for name in FORMATS.shipped:
        reader = FORMATS[name]
        if _place(reader) > Place.OWN_MARK:
            later.append((name, reader))
        elif reader.sniff(source):
            return name
    outside = [pair for pair in FORMATS.loaded() if pair[0] not in FORMATS.shipped]
    in_order = sorted([*outside, *later], key=lambda pair: _place(pair[1]))
    for name, reader in in_order:
        if reader.sniff(source):
            return name
    return None


def _place(reader: Any) -> Place:
    """Return where a format stands in the order of detection."""
    return getattr(reader, "place", Place.OWN_MARK)
