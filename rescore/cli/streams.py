"""Standard streams: UTF-8 whatever the locale says; a closed one is an error to who uses it, and no other file's."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Closed(io.RawIOBase):
    """Where nothing can be written."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(errno.EBADF, "is closed", "<stdout>")


def prepare() -> None:
    """Make the streams what the commands take them for."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace" if stream is sys.stderr else "strict")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:  # the next file that is opened would get its number, and what is meant for it
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (as long as the program runs)


def forget_output() -> None:
    """What is still to be written to stdout has nowhere to go."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # it is closed, or no file
        sys.stdout = None


class ReaderGoneError(Exception):
    """Who reads the output (head, less) went away. It is no OSError: of such a one click makes exit status 1."""


@contextmanager
def reader_may_go() -> Iterator[None]:
    """
    Raises:
        ReaderGoneError: what is written within has no reader.
    """
    try:
        yield
    except BrokenPipeError:
        raise ReaderGoneError from None
