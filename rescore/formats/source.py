"""Where N-best lists come from: a file (plain or gzip), a folder, or standard input, with a first look inside."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

from rescore.errors import UserError

HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader may be told; each takes what it knows."""

    lenpen: float = 1.0
    """fairseq's length penalty, with which H scores were normalised."""


class Source:
    """One path of the command line. `-` is standard input."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.is_stdin = str(path) == "-"
        self.name = "<stdin>" if self.is_stdin else str(path)
        if not self.is_stdin and not self.path.exists():
            raise UserError(f"{self.name}: no such file or folder")

    @property
    def is_folder(self) -> bool:
        return not self.is_stdin and self.path.is_dir()

    @cached_property
    def _stdin(self) -> tuple[bytes, IO[bytes]]:
        return sys.stdin.buffer.read(HEAD), sys.stdin.buffer

    @cached_property
    def head(self) -> str:
        """The first 64 KiB of text; empty for a folder."""
        if self.is_folder:
            return ""
        with self.open() as file:
            return file.read(HEAD)

    @contextmanager
    def open(self) -> Iterator[IO[str]]:
        """The text, decompressed and decoded.

        Raises:
            UserError: the file cannot be read, is damaged, or is not UTF-8.
        """
        try:
            with cast(IO[bytes], _Joined(*self._stdin)) if self.is_stdin else open(self.path, "rb") as raw:
                buffered = io.BufferedReader(cast(io.RawIOBase, raw), HEAD)
                packed = buffered.peek(2)[:2] == b"\x1f\x8b"
                stream = gzip.GzipFile(fileobj=buffered) if packed else buffered
                with io.TextIOWrapper(cast(IO[bytes], stream), encoding="utf-8-sig") as text:
                    yield text
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise UserError(f"{self.name}: not UTF-8 (byte 0x{byte:02x}); convert the file with iconv") from None
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise UserError(f"{self.name}: damaged gzip file ({error})") from None
        except OSError as error:
            raise UserError(f"{self.name}: cannot be read ({error.strerror or error})") from None


class _Joined(io.RawIOBase):
    """What was read ahead, then the rest; can be opened again as long as only the read-ahead part was used."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._head:
            part, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            part = self._rest.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)
