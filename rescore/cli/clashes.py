"""What is refused before a command computes anything: lists that are not there, and an output that takes the place of
another output or of an input."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from rescore.errors import UserError
from rescore.files import resolved
from rescore.options import Option


class Given(NamedTuple):
    """A value of an option or an argument."""

    shown: str
    """The option as it is typed, or the argument as the help names it."""
    value: str
    about: Option


def check(given: Sequence[Given]) -> None:
    """Refuse two outputs to one file, an output to a file that is read, and an output that cannot be written; and lists
    that are not there, because a typing error is the most frequent error.

    Links count as what they lead to. What is no file, such as /dev/null, may be given as often as one likes.

    Raises:
        UsageError: there are such outputs.
        UserError: a path of lists leads nowhere, and is neither standard input nor a pattern.
    """
    written: dict[str, str] = {}
    for shown, value, about in given:
        if not about.writes:
            continue
        path = Path(value)
        if value != "-" and "FILE" in (about.metavar or ""):
            _check_place(shown, path)
        special = value != "-" and path.exists() and not (path.is_file() or path.is_dir())
        if special or (value == "-" and about.writes != "stdout"):
            continue
        place = "-" if value == "-" else _resolved(value)
        if place in written:
            where = "cannot both go to stdout" if value == "-" else f"both write to {value}"
            raise click.UsageError(f"{written[place]} and {shown} {where}; give each a file of its own")
        written[place] = shown
    for shown, value, about in given:
        is_path = value != "-" and not set(value) & set("*?[")
        if "NBEST" in (about.metavar or "") and is_path and not Path(value).exists():
            raise UserError(f"{value}: no such file or folder")
        # A language model's path stands behind its kind and options.
        names = (value, *(value[at + 1 :] for at, letter in enumerate(value) if letter == ":")) if about.reads else ()
        for name in names:
            read = _resolved(name)
            for place, writer in written.items():
                if "-" not in (place, name) and (place == read or _matches(place, name, read)):
                    raise click.UsageError(f"{writer} would write over {value}, which {shown} reads; give another file")


def _check_place(shown: str, path: Path) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise click.UsageError(f"{shown} {path}: there is no folder {path.parent} to write it in; make it first")
    if path.is_dir():
        raise click.UsageError(f"{shown} {path}: is a folder; give a file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise click.UsageError(f"{shown} {path}: cannot be written (permission denied)")


def _matches(place: str, name: str, read: str) -> bool:
    """Whether a pattern, which is not the name of a file itself, reads the file at `place`."""
    return not os.path.lexists(name) and fnmatch.fnmatch(place, read)


def _resolved(value: str) -> str:
    """Where a path leads; a pattern stays one."""
    try:
        return str(resolved(Path(value)))
    except (OSError, ValueError, RuntimeError):  # nothing that can be a file; whoever opens it says so
        return value
