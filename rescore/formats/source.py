"""One reader of bytes: a file, a folder, a pipe or standard input, unpacked, with a
first look inside.

Oddities of a file that can be read are reported once for each kind, with their number
and first place; with --strict they are errors.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, TypeVar, cast

from rescore.errors import UserError, counted
from rescore.files import absent, shown
from rescore.options import OptionValues
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

Item = TypeVar("Item")


class InputProblem(NamedTuple):
    """A reported problem of inputs. It never changes the set of utterances or
    hypotheses.
    """

    single: str
    """The verb and its object, if one line, file or list has the problem; `several` if
    more have it.
    """
    several: str
    consequence: str
    level: int = logging.WARNING


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
RANKED = (
    "; their order is the first pass (--s2s rank): minus the log of the rank; --scale 0"
    " (for samples) ignores it"
)
NO_SCORES = InputProblem("has no scores", "have no scores", RANKED)
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
    """The warnings about one command's inputs."""

    def __init__(
        self, strict: bool = False, refused: InputProblem | None = None
    ) -> None:
        """`strict`: every problem is an error. `refused`: this problem is an error in
        any case.
        """
        self._strict, self._refused = strict, refused
        self._found: dict[tuple[str, InputProblem], tuple[int, str]] = {}
        """The number and the first place of each problem."""

    def add(self, unit: str, problem: InputProblem, place: str) -> None:
        """Count a problem at a place (file and line); `unit` is line, file or list."""
        if self._strict or problem == self._refused:
            hint = (
                "; convert the file with iconv"
                if problem == self._refused
                else " (--strict)"
            )
            raise UserError(f"{place}: {problem.single}{hint}")
        number, first = self._found.get((unit, problem), (0, place))
        self._found[unit, problem] = number + 1, first

    def report(self) -> None:
        """Log the collected problems, one line per kind, and clear them."""
        for (unit, problem), (number, first) in self._found.items():
            verb = problem.single if number == 1 else problem.several
            log.log(
                problem.level,
                "%s %s%s (first: %s)",
                counted(number, unit),
                verb,
                problem.consequence,
                first,
            )
        self._found.clear()


HEAD = 1 << 16
"""Number of bytes read to detect the format."""
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"


@contextmanager
def as_user_errors(name: str) -> Iterator[None]:
    """Turn errors of the file system and of packed data into user errors."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{name}: damaged gzip or xz file ({error})") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror or error})") from None


class _Rejoined(io.RawIOBase):
    """The bytes that were read ahead of a stream, then the stream."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def _unpacked(start: bytes, stream: IO[bytes]) -> IO[bytes]:
    """A stream that begins with `start`, unpacked if these bytes are of gzip or xz."""
    if start.startswith(GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    return lzma.LZMAFile(stream) if start.startswith(XZ) else stream


_ESCAPED = re.compile("[\udc80-\udcff]+")
LONGEST_LINE = 1 << 26
LONGEST_FIRST_LINE = 1 << 22
LARGEST_DOCUMENT = 1 << 28
"""Limits in characters, of packed files, too. Only damaged files, or files made to fill
the memory, exceed them.
"""
SLOW = 4.0
"""Megabytes of a file from which on its reading may take seconds."""


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
    """The root object, or the first object in the root list; empty if it is damaged."""
    lines: bool = False
    """Whether further documents follow, or the first is whole on the first line."""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.first)

    @property
    def inner(self) -> tuple[str, ...]:
        """The keys of the first object within the first object."""
        return tuple(
            next(
                (value for value in self.first.values() if isinstance(value, dict)), {}
            )
        )

    @classmethod
    def of(cls, head: str) -> JsonPeek:
        """The peek of the beginning of a text. A document that is cut there is closed
        behind its last whole value.

        A parser of streams such as ijson gives events up to the cut, from which the
        value would have to be built.
        """
        text = head.lstrip()
        if not _JSON.match(text):
            return cls()
        open_brackets: list[str] = []
        end = 0
        for token in _TOKEN.finditer(text):
            # a string that is cut: an empty one, where it is a value
            if token[0] == '"':
                if text[: token.start()].rstrip().endswith(":"):
                    text = text[: token.start()] + '""'
                    end = len(text)
                break
            if token[0] in ("{", "["):
                open_brackets.append("}" if token[0] == "{" else "]")
            elif token[0] in ("}", "]"):
                open_brackets.pop()
            if len(token[0]) == 1:
                end = token.start() if token[0] == "," else token.end()
            if not open_brackets:
                break
        try:
            value = json.loads(text[:end] + "".join(reversed(open_brackets)))
        except (ValueError, RecursionError):
            value = {}
        first = next(iter(value), {}) if isinstance(value, list) else value
        first_line, newline, _ = text.partition("\n")
        on_one_line = not newline if open_brackets else end == len(first_line.rstrip())
        return cls(
            text[0],
            first if isinstance(first, dict) else {},
            on_one_line and text[0] == "{",
        )


class ReadOptions(OptionValues):
    """The options of formats that are set, such as `ReadOptions(size=10,
    fields={"text": "hyp"})`. Each reader takes those of its class `Options`.
    """


class Source:
    """One path of the command line: the border of files. `-` is standard input.

    What comes from it is text, with oddities repaired and told; every failure to read
    is a `UserError`. Inputs that cannot be read twice (a pipe, standard input) are read
    once: the beginning is kept for detection.
    """

    def __init__(self, path: str | Path, warnings: InputWarnings | None = None) -> None:
        """`warnings` collects repairs; with None, they are reported at once."""
        self.warnings, self._alone = warnings or InputWarnings(), warnings is None
        self.path = Path(path)
        self._file: IO[bytes] = io.BytesIO()
        self.is_stdin = str(path) == "-"
        self.name = "<stdin>" if self.is_stdin else str(path)
        with as_user_errors(self.name):
            if not self.is_stdin and not self.path.exists():
                raise UserError(absent(self.path))

    @property
    def is_folder(self) -> bool:
        return not self.is_stdin and self.path.is_dir()

    def files(self, wanted: Callable[[Path], bool] = lambda path: True) -> list[Source]:
        """The source itself; of a folder its files in the order of their names, without
        hidden files.
        """
        if not self.is_folder:
            return [self]
        visible = (
            path
            for path in self.path.iterdir()
            if path.is_file() and not path.name.startswith(".")
        )
        return [Source(path, self.warnings) for path in sorted(visible) if wanted(path)]

    @property
    def is_regular(self) -> bool:
        """Whether it can be read twice."""
        return not self.is_stdin and self.path.is_file()

    @cached_property
    def _once(self) -> tuple[bytes, IO[bytes]]:
        """The beginning of an input that can be read only once, and the rest."""
        if self.is_stdin and (sys.stdin is None or sys.stdin.closed):
            raise UserError("<stdin>: is closed; give a file")
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
            if start.startswith(GZIP):
                start = zlib.decompressobj(31).decompress(start, HEAD)
            elif start.startswith(XZ):
                start = lzma.LZMADecompressor().decompress(start, HEAD)
        # A character may be cut at the end; invalid UTF-8 is reported when the whole is
        # read.
        return start.decode("utf-8-sig", errors="ignore")

    @cached_property
    def peek(self) -> JsonPeek:
        """The beginning of a JSON text; of a file, the first line is read if 64 KiB are
        not enough.
        """
        peek = JsonPeek.of(self.head)
        if (
            peek.lines
            and not peek.inner
            and len(self.head) >= HEAD // 4
            and self.is_regular
        ):
            with self._open() as file:
                peek = JsonPeek.of(
                    file.readline(LONGEST_FIRST_LINE).removeprefix("\ufeff")
                )
        return peek

    @contextmanager
    def _open(self) -> Iterator[IO[str]]:
        """The text, decompressed and decoded; lines end where a newline is, nowhere
        else.
        """
        with (
            as_user_errors(self.name),
            open(self.path, "rb") if self.is_regular else nullcontext() as file,
        ):
            if file is None:
                start, rest = self._once
                stream = _unpacked(
                    start,
                    cast(IO[bytes], io.BufferedReader(_Rejoined(start, rest), HEAD)),
                )
            else:
                start = file.read(len(XZ))
                file.seek(0)
                self._file = file
                stream = _unpacked(start, file)
            # Bytes that are no UTF-8 come as half surrogate pairs: `lines` and
            # `read_all` see and replace them.
            with io.TextIOWrapper(
                stream, "utf-8", errors="surrogateescape", newline="\n"
            ) as text:
                yield text
        if self._alone:
            self.warnings.report()

    def timed(self, items: Iterable[Item]) -> Iterator[Item]:
        """What is read from it, one after another; a long reading of one file is
        logged.
        """
        if not self.is_regular or (size := self.path.stat().st_size / 1e6) < SLOW:
            return iter(items)
        from rescore.pace import paced_by  # here: most files are read in a moment

        done = (
            (0.0 if self._file.closed else self._file.tell() / 1e6, item)
            for item in items
        )
        return paced_by(done, f"read %.0f of %.0f MB of {shown(self.name)}", size)

    def lines(self, crlf: bool = False) -> Iterator[str]:
        """The lines without their ends; with `crlf`, a carriage return before the end
        is part of the format.
        """
        with self._open() as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise UserError(
                        f"{self.name}: line {number} has more than {LONGEST_LINE:,}"
                        " characters"
                    )
                line = line.removesuffix("\n")
                yield self._repaired(line.removesuffix("\r") if crlf else line, number)

    def filled(self) -> Iterator[tuple[str, str]]:
        """The lines that are not empty, each with its place for errors: file and
        number.
        """
        for number, line in enumerate(self.lines(), 1):
            if line.strip():
                yield f"{self.name}: line {number}", line

    def read_all(self) -> str:
        """The whole text, of at most `LARGEST_DOCUMENT` characters."""
        with self._open() as file:
            text = file.read(LARGEST_DOCUMENT + 1)
        if len(text) > LARGEST_DOCUMENT:
            raise UserError(
                f"{self.name}: has more than {LARGEST_DOCUMENT:,} characters, which"
                " have to be in memory as a whole; write it as JSON Lines"
            )
        return self._repaired(text, 0)

    def _repaired(self, text: str, number: int) -> str:
        """The line with this number (0 for the whole text), with oddities repaired."""
        if number <= 1 and text.startswith("\ufeff"):
            text = text[1:]
            self.warnings.add("file", BOM, self.name)
        if number and text.endswith("\r"):
            text = text.rstrip("\r")
            self.warnings.add("line", CRLF, f"{self.name}: line {number}")
        if not text.isascii() and _ESCAPED.search(text):
            unit, place = (
                ("line", f"{self.name}: line {number}")
                if number
                else ("file", self.name)
            )
            self.warnings.add(unit, UTF8, place)
            text = _ESCAPED.sub("\ufffd", text)
        return text


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
    """
    later = []
    for name in FORMATS.shipped:
        reader = FORMATS[name]
        if _place(reader) > Place.OWN_MARK:
            later.append((name, reader))
        elif reader.sniff(source):
            return name
    outside = [pair for pair in FORMATS.loaded() if pair[0] not in FORMATS.shipped]
    for name, reader in sorted([*outside, *later], key=lambda pair: _place(pair[1])):
        if reader.sniff(source):
            return name
    return None


def _place(reader: Any) -> Place:
    return getattr(reader, "place", Place.OWN_MARK)
