"""One reader of bytes: a file, a folder, a pipe or standard input, unpacked, with a first look inside.

Oddities of a file that can be read are reported once for each kind, with their number and first place; with --strict
they are errors.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

from rescore.errors import UserError, counted
from rescore.options import OptionValues

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A reported problem of inputs. It never changes the set of utterances or hypotheses."""

    single: str
    """The verb and its object, if one line, file or list has the problem; `several` if more have it."""
    several: str
    consequence: str
    level: int = logging.WARNING


UTF8 = InputProblem("is not UTF-8", "are not UTF-8", "; undecodable bytes were read as \ufffd")
CRLF = InputProblem("ends in a carriage return", "end in a carriage return", ", a Windows line end, which was removed")
BOM = InputProblem("begins with a byte order mark", "begin with a byte order mark", ", which was removed")
NO_SCORES = InputProblem(
    "has no scores",
    "have no scores",
    "; the order of the hypotheses is the first pass (--s2s rank): minus the log of the rank",
)
TWICE = InputProblem("has a hypothesis twice", "have a hypothesis twice", "; both were kept", logging.DEBUG)
"""A decision by posteriors counts both, and warns; for the best score nothing follows."""


class InputWarnings:
    """The warnings about one command's inputs."""

    def __init__(self, strict: bool = False, refused: InputProblem | None = None) -> None:
        """`strict`: every problem is an error. `refused`: this problem is an error in any case."""
        self._strict, self._refused = strict, refused
        self._found: dict[tuple[str, InputProblem], tuple[int, str]] = {}

    def add(self, unit: str, problem: InputProblem, place: str) -> None:
        """Count a problem at a place (file and line); `unit` is line, file or list."""
        if problem == self._refused:
            raise UserError(f"{place}: {problem.single}; convert the file with iconv")
        if self._strict:
            raise UserError(f"{place}: {problem.single} (--strict)")
        number, first = self._found.get((unit, problem), (0, place))
        self._found[unit, problem] = number + 1, first

    def report(self) -> None:
        """Log the collected problems, one line per kind, and clear them."""
        for (unit, problem), (number, first) in self._found.items():
            verb = problem.single if number == 1 else problem.several
            log.log(problem.level, "%s %s%s (first: %s)", counted(number, unit), verb, problem.consequence, first)
        self._found.clear()


HEAD = 1 << 16
"""Number of bytes read to detect the format."""
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
UNPACKED_FREELY, LARGEST_RATIO = 1 << 20, 100
"""Beyond this many unpacked bytes, their ratio to the packed bytes is limited; for text, the ratio is 3 to 30."""


@contextmanager
def as_user_errors(name: str) -> Iterator[None]:
    """Turn errors of the file system and of packed data into user errors."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{name}: damaged gzip or xz file ({error})") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror or error})") from None


def unpacked_head(start: bytes) -> bytes:
    """The beginning of the text whose file begins with `start`."""
    if start.startswith(GZIP):
        return zlib.decompressobj(31).decompress(start, HEAD)
    if start.startswith(XZ):
        return lzma.LZMADecompressor().decompress(start, HEAD)
    return start


class _Bytes(io.RawIOBase):
    """A stream of bytes read ahead, then of another stream; counts the bytes that it gave."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest, self.given = head, rest, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        part, self._head = self._head[:size], self._head[size:]
        part = part or self._rest.read(size)
        buffer[: len(part)] = part
        self.given += len(part)
        return len(part)


class _Unpacked(io.RawIOBase):
    """The bytes of a packed stream. Too many for the packed bytes are an error, before they fill the memory."""

    def __init__(self, file: gzip.GzipFile | lzma.LZMAFile, packed: _Bytes, name: str) -> None:
        self._file, self._packed, self._name, self._given = file, packed, name, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        number = self._file.readinto(buffer)
        self._given += number
        if self._given > max(UNPACKED_FREELY, LARGEST_RATIO * self._packed.given):
            raise UserError(
                f"{self._name}: unpacks to more than {LARGEST_RATIO} times its size, unlike text; "
                "if the file is right, unpack it first"
            )
        return number


def unpacked(head: bytes, rest: IO[bytes], name: str) -> io.BufferedReader:
    """The bytes of `head` and `rest`, unpacked if they begin as gzip or xz; `name` is for errors."""
    raw = _Bytes(head, rest)
    stream: io.RawIOBase = raw
    if head.startswith(GZIP):
        stream = _Unpacked(gzip.GzipFile(fileobj=cast(IO[bytes], raw)), raw, name)
    elif head.startswith(XZ):
        stream = _Unpacked(lzma.LZMAFile(cast(IO[bytes], raw)), raw, name)  # noqa: SIM115 (its reader closes it)
    return io.BufferedReader(stream, HEAD)


_ESCAPED = re.compile("[\udc80-\udcff]+")
LONGEST_LINE = 1 << 26
LONGEST_FIRST_LINE = 1 << 22
LARGEST_DOCUMENT = 1 << 28
"""Limits in characters. Only damaged files, or files made to fill the memory, exceed them."""


_JSON = re.compile(r"""\{(?:\S|\s*(?:["}]|$))|\[\s*(?:["\[{\]\d-]|$)""")
"""The beginning of JSON, unlike texts of sclite with alternatives such as `{ uh / @ }` or a `[noise]`."""


@dataclass(frozen=True, slots=True)
class JsonPeek:
    """The first object of a JSON text."""

    root: str
    """`{` or `[`, the first character of the text; empty if it is not JSON."""
    keys: tuple[str, ...]
    """Of the root object, or of the first object in the root list."""
    inner: tuple[str, ...]
    """Of the first object within that object."""
    plain_lists: tuple[str, ...]
    """The keys whose value is a list that begins with a text or a list, not with an object."""
    lines: bool
    """Whether further documents follow, or the first is whole on the first line."""

    @classmethod
    def of(cls, head: str) -> JsonPeek:
        """The peek of the first 64 KiB or so of a text; the rest is not seen."""
        start = head.lstrip()
        if not _JSON.match(start):
            return cls("", (), (), (), False)
        root = start[0]
        keys, inner, plain_lists, end = _scan(start, root)
        first_line, newline, _ = start.partition("\n")
        if end is None:  # cut: a line that goes on beyond the head is one record, and not an indented document
            return cls(root, keys, inner, plain_lists, not newline and root == "{")
        return cls(root, keys, inner, plain_lists, end == len(first_line.rstrip()) and root == "{")


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:"]', re.DOTALL)
"""A string or a mark of JSON; a quotation mark alone is a string that is cut. No token is read twice."""


def _scan(text: str, root: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], int | None]:
    """Keys of the first object, of the first within it, of plain lists, and where the first document ends, if seen.

    Strict parsers would not do: the text may be cut, damaged, or hold `-Infinity`.
    """
    depth, level = 0, 1 if root == "{" else 2
    list_at: int = 0
    keys: list[str] = []
    inner: list[str] = []
    plain_lists: list[str] = []
    outer_open = inner_open = True
    last = ""
    for match in _TOKEN.finditer(text):
        token, before, last = match[0], last, match[0]
        if token == '"':
            break
        begins = before == "[" and not text[list_at : match.start()].strip()
        if begins and depth == level + 1 and outer_open and keys and token[0] in '"[':
            plain_lists.append(keys[-1])
        if token in ("{", "["):
            depth += 1
            list_at = match.end()
        elif token in ("}", "]"):
            outer_open &= token != "}" or depth != level
            inner_open &= token != "}" or depth != level + 1 or not inner
            depth -= 1
            if depth == 0:
                return tuple(keys), tuple(inner), tuple(plain_lists), match.end()
        elif token == ":" and before[:1] == '"' and outer_open:
            if depth == level:
                keys.append(_unquoted(before))
            elif depth == level + 1 and inner_open:
                inner.append(_unquoted(before))
    return tuple(keys), tuple(inner), tuple(plain_lists), None


def _unquoted(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token.strip('"')


class ReadOptions(OptionValues):
    """The options of formats that are set, such as `ReadOptions(size=10, fields={"text": "hyp"})`. Each reader takes
    those of its class `Options`."""


_ENDINGS = re.compile(
    r"(?:\.(?:wav|flac|mp3|ogg|m4a|opus|sph|mp4|webm))?"
    r"(?:\.(?:json|jsonl|txt|srt|vtt|nbest|score|out|slf|lat|htk|fst))*(?:\.gz|\.xz)?$",
    re.IGNORECASE,
)


def utterance_of(path: str) -> str:
    """The name of a file without folder and known endings, which may hold dots: what its utterance is called.

    Example:
        >>> utterance_of("calls/talk.2024-01-01.wav.json")
        'talk.2024-01-01'
    """
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return _ENDINGS.sub("", name) or name


class Source:
    """One path of the command line: the border of files. `-` is standard input.

    What comes from it is text, with oddities repaired and told; every failure to read is a `UserError`.
    Inputs that cannot be read twice (a pipe, standard input) are read once: the beginning is kept for detection.
    """

    def __init__(self, path: str | Path, warnings: InputWarnings | None = None) -> None:
        """`warnings` collects repairs; with None, they are reported at once."""
        self.warnings, self._alone = warnings or InputWarnings(), warnings is None
        self.path = Path(path)
        self.is_stdin = str(path) == "-"
        self.name = "<stdin>" if self.is_stdin else str(path)
        with as_user_errors(self.name):
            if not self.is_stdin and not self.path.exists():
                raise UserError(f"{self.name}: no such file or folder")

    @property
    def is_folder(self) -> bool:
        return not self.is_stdin and self.path.is_dir()

    def files(self, wanted: Callable[[Path], bool] = lambda path: True) -> list[Source]:
        """The source itself; of a folder its files in the order of their names, without hidden files."""
        if not self.is_folder:
            return [self]
        visible = (path for path in self.path.iterdir() if path.is_file() and not path.name.startswith("."))
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
            # A character may be cut at the end; invalid UTF-8 is reported when the whole is read.
            return unpacked_head(start).decode("utf-8-sig", errors="ignore")

    @cached_property
    def peek(self) -> JsonPeek:
        """The beginning of a JSON text; of a file, the first line is read if 64 KiB are not enough."""
        peek = JsonPeek.of(self.head)
        if peek.root == "{" and peek.lines and not peek.inner and len(self.head) >= HEAD // 4 and self.is_regular:
            with self._open(silent=True) as file:
                peek = JsonPeek.of(file.readline(LONGEST_FIRST_LINE).removeprefix("\ufeff"))
        return peek

    @property
    def stem(self) -> str:
        return "stdin" if self.is_stdin else utterance_of(self.path.name)

    @contextmanager
    def _open(self, silent: bool = False) -> Iterator[IO[str]]:
        """The text, decompressed and decoded; lines end where a newline is, nowhere else."""
        with as_user_errors(self.name), open(self.path, "rb") if self.is_regular else nullcontext() as file:
            head, rest = self._once if file is None else (file.read(len(XZ)), file)
            # Bytes that are no UTF-8 come as half surrogate pairs: `lines` and `read_all` see and replace them.
            stream = unpacked(head, rest, self.name)
            with io.TextIOWrapper(stream, "utf-8", errors="surrogateescape", newline="\n") as text:
                yield text
        if self._alone and not silent:
            self.warnings.report()

    def lines(self, crlf: bool = False) -> Iterator[str]:
        """The lines without their ends; with `crlf`, a carriage return before the end is part of the format."""
        with self._open() as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise UserError(f"{self.name}: line {number} has more than {LONGEST_LINE:,} characters")
                line = line.removesuffix("\n")
                yield self._repaired(line.removesuffix("\r") if crlf else line, number)

    def filled(self) -> Iterator[tuple[str, str]]:
        """The lines that are not empty, each with its place for errors: file and number."""
        for number, line in enumerate(self.lines(), 1):
            if line.strip():
                yield f"{self.name}: line {number}", line

    def read_all(self) -> str:
        """The whole text, of at most `LARGEST_DOCUMENT` characters."""
        with self._open() as file:
            text = file.read(LARGEST_DOCUMENT + 1)
        if len(text) > LARGEST_DOCUMENT:
            raise UserError(
                f"{self.name}: has more than {LARGEST_DOCUMENT:,} characters, which have to be in memory as a whole; "
                "write it as JSON Lines"
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
            unit, place = ("line", f"{self.name}: line {number}") if number else ("file", self.name)
            self.warnings.add(unit, UTF8, place)
            text = _ESCAPED.sub("\ufffd", text)
        return text


def read_lines(path: Path, empty: bool = False, warnings: InputWarnings | None = None) -> Iterator[str]:
    """The lines of a text for training or scoring, without blanks around them.

    Args:
        path: a file, plain, gzip or xz; `-` is standard input.
        empty: whether empty lines are wanted, too.
        warnings: collects repairs. With None, for training, a text that is not UTF-8 is an error: invalid characters
            must not be learnt.
    """
    for line in Source(path, warnings or InputWarnings(refused=UTF8)).lines():
        if (line := line.strip()) or empty:
            yield line
