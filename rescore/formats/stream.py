"""The bytes of what a user names: a file, a pipe, standard input or an address; unpacked where they are gzip or xz."""

from __future__ import annotations

import gzip
import io
import lzma
import select
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from rescore.errors import UserError

HEAD = 1 << 16
"""Bytes that are looked at to find out what they are."""
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
UNPACKED_FREELY, LARGEST_RATIO = 1 << 20, 100
"""From so many bytes on, what was unpacked may be so many times the packed bytes: text is 3 to 30 times."""


@contextmanager
def as_user_errors(name: str) -> Iterator[None]:
    """Errors of reading, as errors of the user's.

    Raises:
        UserError: what happens within is an error of the file system or of packed data.
    """
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{name}: damaged gzip or xz file ({error})") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror or error})") from None


def standard_input() -> IO[bytes]:
    """
    Raises:
        UserError: it is closed.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise UserError("<stdin>: is closed; give a file")
    return sys.stdin.buffer


def open_remote(address: str) -> IO[bytes]:
    """A file that is elsewhere (s3://, gs://, hdfs://, file://), by pyarrow's file systems; to read once.

    Raises:
        UserError: pyarrow is not installed, does not know such addresses, or there is no such file.
    """
    try:
        from pyarrow import ArrowException, fs
    except ImportError:
        raise UserError(f"{address}: reading it needs pyarrow; install it with: pip install 'rescore[ray]'") from None
    try:
        system, path = fs.FileSystem.from_uri(address)
        stream: IO[bytes] = system.open_input_stream(path, compression=None)
        return stream
    except (ArrowException, OSError) as error:
        raise UserError(f"{address}: cannot be read ({str(error).splitlines()[0]})") from None


def open_once(path: Path, name: str) -> IO[bytes]:
    """What can be read once only: standard input (`-`), an address, a pipe."""
    global _live
    if "://" in name:
        return open_remote(name)
    _live = LiveInput(standard_input() if str(path) == "-" else open(path, "rb"))  # noqa: SIM115 (its reader closes it)
    return cast(IO[bytes], _live)


def input_waits() -> bool:
    """Whether what is read from a pipe, or from standard input, has no further line yet; never of other files."""
    return _live is not None and _live.waits()


def head_of_lines(raw: IO[bytes]) -> bytes:
    """The beginning of what can be read once only: 64 KiB, or less where a whole JSON object stands on the first line.

    So a list is answered when it has come, and not when 64 KiB have.
    """
    head = b""
    while len(head) < HEAD and (part := _available(raw, HEAD - len(head))):
        head += part
        first_line, newline, _ = head.partition(b"\n")
        if newline and first_line.startswith(b"{") and first_line.rstrip().endswith(b"}"):
            break
    return head


def _available(raw: IO[bytes], size: int) -> bytes:
    """At most `size` bytes: those that have come, where the stream can tell."""
    read: Callable[[int], bytes] = getattr(raw, "read1", raw.read)
    return read(size)


def unpacked_head(start: bytes) -> bytes:
    """The beginning of the text whose file begins with `start`."""
    if start.startswith(GZIP):
        return zlib.decompressobj(31).decompress(start, HEAD)
    if start.startswith(XZ):
        return lzma.LZMADecompressor().decompress(start, HEAD)
    return start


def unpacked(raw: IO[bytes], name: str) -> IO[bytes]:
    """A stream of bytes, unpacked where its first bytes say that it is packed; `name` is for errors."""
    start = raw.read(len(XZ))
    counted = _Counted(joined(start, raw))
    if start.startswith(GZIP):
        packed: Any = gzip.GzipFile(fileobj=cast(IO[bytes], counted))
    elif start.startswith(XZ):
        packed = lzma.LZMAFile(cast(IO[bytes], counted))  # noqa: SIM115 (the stream below reads it)
    else:
        return joined(start, raw)
    return io.BufferedReader(_Bounded(packed, counted, name), HEAD)


def joined(head: bytes, rest: IO[bytes]) -> IO[bytes]:
    """What was read ahead, then the rest."""
    return cast(IO[bytes], io.BufferedReader(_Joined(head, rest), HEAD))


class _Raw(io.RawIOBase):
    """Bytes of another stream."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._next(len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def _next(self, size: int) -> bytes:
        raise NotImplementedError


class LiveInput(_Raw):
    """Bytes of a pipe, as they come; knows whether a line that has come is still to be taken."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._lines = self._taken = 0

    def _next(self, size: int) -> bytes:
        part = _available(self._raw, size)
        self._lines += part.count(b"\n")
        return part

    def read1(self, size: int) -> bytes:
        return self._next(size)

    def take_line(self) -> None:
        """Say that one more line was taken."""
        self._taken += 1

    def waits(self) -> bool:
        """Whether all lines that have come were taken, and nothing more is there yet."""
        if self._taken < self._lines:
            return False
        try:
            return not select.select([self._raw.fileno()], [], [], 0)[0]
        except (OSError, ValueError):  # no file of the system's
            return False


_live: LiveInput | None = None
"""The last that was opened."""


class _Joined(_Raw):
    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest

    def _next(self, size: int) -> bytes:
        if not self._head:
            return _available(self._rest, size)
        part, self._head = self._head[:size], self._head[size:]
        return part


class _Counted(_Raw):
    """Packed bytes; knows how many were read, and reads few at a time so that this is nearly what was unpacked."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.number = 0

    def _next(self, size: int) -> bytes:
        part = self._raw.read(min(size, io.DEFAULT_BUFFER_SIZE))
        self.number += len(part)
        return part


class _Bounded(_Raw):
    """Unpacked bytes; too many of them for the packed ones are an error, before they fill the memory."""

    def __init__(self, packed: IO[bytes], counted: _Counted, name: str) -> None:
        self._packed, self._counted, self._name = packed, counted, name
        self._number = 0

    def _next(self, size: int) -> bytes:
        part = self._packed.read(size)
        self._number += len(part)
        if self._number > max(UNPACKED_FREELY, LARGEST_RATIO * self._counted.number):
            raise UserError(
                f"{self._name}: unpacks to more than {LARGEST_RATIO} times its size, as no text does; "
                "unpack it first if it is as it should be"
            )
        return part
