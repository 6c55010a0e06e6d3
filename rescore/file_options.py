"""Files among the options of a command: lists are there, no output takes the place of
another file, and its ending names no other form. All is seen before anything is
computed.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rescore.errors import OptionError, UserError
from rescore.files import absent, ending_of, identity
from rescore.options import Option

FORMS = frozenset(
    (
        *(".json", ".jsonl", ".csv", ".tsv", ".md", ".tex", ".html", ".svg"),
        *(".trn", ".ctm", ".srt", ".vtt"),
    )
)
"""Endings that name the form of an output. An output with any other ending, or none,
may have any form.
"""
LISTS = (".jsonl", ".json", ".csv", ".tsv")
"""Endings of files of lists, for messages; a format that is written has its own."""


def check_form(path: str, endings: Collection[str]) -> None:
    """Check that the ending of an output names no form that the output does not have.

    Args:
        path: The output.
        endings: The endings of its forms.

    Raises:
        UserError: The ending is in `FORMS`, and is not one of these.
    """
    ending = ending_of(path)
    if ending in FORMS.difference(endings):
        raise UserError(
            f"{path}: cannot be written as {ending}; give {' or '.join(endings)}"
        )


def of_form(*endings: str) -> Callable[[str], None]:
    """Return `check_form` for an option (`Option.may_write`).

    Args:
        endings: The endings of the forms that the option writes.
    """
    return partial(check_form, endings=endings)


@dataclass(frozen=True, slots=True)
class Typed:
    """An option or argument as it is typed, with one value."""

    flag: str
    value: str
    about: Option


def check_files(typed: Sequence[Typed]) -> None:
    """See, before anything is computed, that lists are there and that no output takes
    the place of another file.

    Links count as the files that they lead to. A path that is no file, such as
    /dev/null, may be given twice.

    Args:
        typed: Each value of the options and arguments of a command.

    Raises:
        UserError: A path of lists leads nowhere, and is neither standard input nor a
            pattern; or the ending of an output is of another kind of file.
        OptionError: Two outputs go to one file, or an output takes the place of a file
            that is read.
    """
    for one in typed:
        if one.about.lists:
            _check_present(one.value)
    written: dict[str, str] = {}
    for one in typed:
        if _is_output(one):
            _check_output(one, written)
    for one in typed:
        if one.about.reads:
            _check_not_overwritten(one, written)
    for one in typed:
        if _is_output(one) and one.about.may_write is not None:
            one.about.may_write(one.value)


def _check_present(value: str) -> None:
    """See that lists are there: a typing error is the most frequent error.

    Raises:
        UserError: They are not.
    """
    is_pattern = bool(set(value) & set("*?["))
    if value != "-" and not is_pattern and not Path(value).exists():
        raise UserError(absent(Path(value)))


def _is_output(one: Typed) -> bool:
    """Return whether a value is a file, a folder or stdout that is written."""
    if not one.about.writes:
        return False
    if one.value == "-":
        return one.about.writes == "stdout"
    path = Path(one.value)
    return not path.exists() or path.is_file() or path.is_dir()


def _check_output(one: Typed, written: dict[str, str]) -> None:
    """Add an output to the outputs that are known, by place.

    Raises:
        OptionError: Another output has its place, or it cannot be a file there.
    """
    place = one.value
    if one.value != "-":
        place = os.path.realpath(one.value)
    if place in written:
        where = f"both write to {one.value}"
        if one.value == "-":
            where = "cannot both go to stdout"
        both = f"{written[place]} and {one.flag}"
        if one.flag == written[place]:
            both = f"two {one.flag}"
        raise OptionError(f"{both} {where}; give each a file of its own")
    path = Path(one.value)
    if one.about.metavar == "FILE" and path.is_dir():
        raise OptionError(f"{one.flag} {path}: is a folder; give a file")
    if one.about.metavar == "FILE" and not path.parent.is_dir():
        raise OptionError(
            f"{one.flag} {path}: there is no folder {path.parent} to write it in; make"
            " it first"
        )
    written[place] = one.flag


def _check_not_overwritten(one: Typed, written: Mapping[str, str]) -> None:
    """See that no output takes the place of a path that is typed. The files to which a
    folder leads are compared where they are read (`rescore.files.note_read`).

    Raises:
        OptionError: There is such an output.
    """
    for name in _paths_in(one.value):
        for place, writer in written.items():
            if _leads_to(name, place):
                raise OptionError(
                    f"{writer} would write over {one.value}, which {one.flag} reads;"
                    " give another file"
                )


def _leads_to(name: str, place: str) -> bool:
    """Return whether a path or pattern that is read leads to an output.

    Args:
        name: The path or pattern.
        place: The path of the output, without links.
    """
    read = os.path.realpath(name)
    if place == read:
        return True
    if not os.path.lexists(name):
        return fnmatch.fnmatch(place, read)
    file = identity(name)
    return file is not None and file == identity(place)


def _paths_in(value: str) -> Iterable[str]:
    """Return the paths that a value may name: the path of a language model stands
    behind its kind and options.
    """
    return {value, value.rpartition(":")[2]} - {"-"}
