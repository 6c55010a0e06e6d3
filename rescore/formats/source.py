"""Where N-best lists and texts come from: a file, a folder, or standard input, with a first look inside."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.formats.input_warnings import BOM, CRLF, UTF8, InputWarnings
from rescore.formats.json_peek import JsonPeek
from rescore.formats.stream import HEAD, as_user_errors, joined, open_once, unpacked, unpacked_head

_ESCAPED = re.compile("[\udc80-\udcff]+")
LONGEST_LINE = 1 << 26
LONGEST_FIRST_LINE = 1 << 22
LARGEST_DOCUMENT = 1 << 28
"""Characters. Nobody meets these but with a damaged file, or one that was made to fill the memory."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of readers; each takes what it knows."""

    lenpen: float = 1.0
    """fairseq's length penalty, with which H scores were normalised."""
    size: int | None = None
    """Hypotheses per list, for files that do not say where a list ends."""
    acoustic_scale: float | None = None
    """The first pass is this times the acoustic score plus the score of the language model, where a file has both."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Which key or column of a file has what: `text`, `score`, `id`, `ref`, `src`, or a column of that name. A minus
    before a key says that it is a cost."""
    symbols: str | None = None
    """The symbol table of lattices whose words are numbers."""
    skip: bool = False
    """Report a line that cannot be read, and go on (JSON Lines)."""


class Source:
    """One path of the command line. `-` is standard input.

    What cannot be read twice (a pipe, standard input) is read once: its beginning is kept for those who look inside.
    """

    def __init__(self, path: str | Path, warnings: InputWarnings | None = None) -> None:
        """`warnings`: what collects repairs; None: they are reported at once."""
        self.warnings, self._alone = warnings or InputWarnings(), warnings is None
        self.path = Path(path)
        self.is_stdin = str(path) == "-"
        self.is_remote = "://" in str(path)
        self.name = "<stdin>" if self.is_stdin else str(path)
        with as_user_errors(self.name):
            if not self.is_stdin and not self.is_remote and not self.path.exists():
                raise UserError(f"{self.name}: no such file or folder")

    @property
    def is_folder(self) -> bool:
        return not self.is_stdin and self.path.is_dir()

    @property
    def is_regular(self) -> bool:
        """Whether it can be read twice."""
        return not self.is_stdin and self.path.is_file()

    @cached_property
    def _once(self) -> tuple[bytes, IO[bytes]]:
        """The beginning of what can be read once only, and the rest."""
        raw = open_once(self.path, self.name)
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
            # A character may be cut at the end; what is no UTF-8 is reported when the whole is read.
            return unpacked_head(start).decode("utf-8-sig", errors="ignore")

    @cached_property
    def peek(self) -> JsonPeek:
        """What a JSON text begins with; of a file, its first line is looked at where 64 KiB say nothing."""
        found = JsonPeek.of(self.head)
        if found.root == "{" and found.lines and not found.inner and len(self.head) >= HEAD // 4 and self.is_regular:
            with self._open(silent=True) as file:
                found = JsonPeek.of(file.readline(LONGEST_FIRST_LINE))
        return found

    @property
    def stem(self) -> str:
        """The file's name without folder and endings."""
        return "stdin" if self.is_stdin else self.path.name.partition(".")[0]

    @contextmanager
    def _open(self, silent: bool = False) -> Iterator[IO[str]]:
        """The text, decompressed and decoded; lines end where a newline is, nowhere else."""
        with as_user_errors(self.name), open(self.path, "rb") if self.is_regular else joined(*self._once) as raw:
            # Bytes that are no UTF-8 come as half surrogate pairs: `lines` and `read_all` see and replace them.
            stream = unpacked(raw, self.name)
            with io.TextIOWrapper(stream, "utf-8", errors="surrogateescape", newline="\n") as text:
                yield text
        if self._alone and not silent:
            self.warnings.report()

    def lines(self) -> Iterator[str]:
        """The lines without their ends.

        Raises:
            UserError: the file cannot be read, is damaged, or has a line of more than `LONGEST_LINE` characters; or has
                a warning where these are errors.
        """
        with self._open() as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise UserError(f"{self.name}: line {number} has more than {LONGEST_LINE:,} characters")
                yield self._repaired(line.removesuffix("\n"), number)

    def filled(self) -> Iterator[tuple[str, str]]:
        """The lines that are not empty, each with its place for errors: file and number."""
        for number, line in enumerate(self.lines(), 1):
            if line.strip():
                yield f"{self.name}: line {number}", line

    def read_all(self) -> str:
        """The whole text.

        Raises:
            UserError: as `lines`; or there are more than `LARGEST_DOCUMENT` characters.
        """
        with self._open() as file:
            text = file.read(LARGEST_DOCUMENT + 1)
        if len(text) > LARGEST_DOCUMENT:
            raise UserError(
                f"{self.name}: has more than {LARGEST_DOCUMENT:,} characters, which have to be in memory as a whole; "
                "write it as JSON Lines"
            )
        return self._repaired(text, 0)

    def _repaired(self, text: str, number: int) -> str:
        """A line of that number, or (0) the whole text, without what is odd."""
        if number <= 1 and text.startswith("\ufeff"):
            text = text[1:]
            self.warnings.add("files", BOM, self.name)
        if number and text.endswith("\r"):
            text = text.rstrip("\r")
            self.warnings.add("lines", CRLF, f"{self.name}: line {number}")
        if not text.isascii() and _ESCAPED.search(text):
            unit, place = ("lines", f"{self.name}: line {number}") if number else ("files", self.name)
            self.warnings.add(unit, UTF8, place)
            text = _ESCAPED.sub("\ufffd", text)
        return text


def read_lines(path: Path, empty: bool = False, warnings: InputWarnings | None = None) -> Iterator[str]:
    """The lines of a text, without blanks around them: what language models are trained on, or score.

    Args:
        path: a file, plain, gzip or xz; `-` is standard input.
        empty: whether empty lines are wanted, too.
        warnings: what collects repairs; None for nothing, as training reads a text again and again.

    Raises:
        UserError: the file cannot be read, or (with None) is not UTF-8: what is no character is not to be learnt.
    """
    for line in Source(path, warnings or InputWarnings(refused=UTF8)).lines():
        if (line := line.strip()) or empty:
            yield line
