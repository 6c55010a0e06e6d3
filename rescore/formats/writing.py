"""Helpers of writers: files that are renamed into place, folders, and warnings about contents that a format cannot
hold."""

from __future__ import annotations

import gzip
import io
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.files import replacing, resolved, temporary_path
from rescore.formats.text import strip_markup
from rescore.formats.times import TIMED
from rescore.nbest import FIRST_PASS, RESERVED, NbestList, Origin
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

BEST_ENDINGS = ("trn", *(ending[1:] for ending in TIMED))
"""Endings of files with 1-best texts, which are no lists."""


def write(lists: Iterable[NbestList], path: str, format_name: str | None = None) -> None:
    """Write N-best lists.

    Args:
        path: a file, or a folder for formats that are folders; `-` is standard output.
        format_name: a key of `FORMATS`; with None, the ending decides: .json is one native JSON object, .csv and .tsv
            are tables, all else is native JSON Lines.
    """
    if format_name is None:
        check_output(path)
        ending = _ending(path)
        format_name = ending if ending in ("csv", "tsv") else "native"
    able = written_formats()
    if FORMATS.check(format_name) not in able:
        raise UserError(f"{format_name} is read only; formats that can be written: {', '.join(able)}")
    FORMATS[format_name].write(lists, path)


def check_output(path: str) -> None:
    """Check, before anything is computed, that the ending of a file for lists is not an ending of 1-best texts."""
    if (ending := _ending(path)) in BEST_ENDINGS:
        raise UserError(
            f"{path}: a .{ending} file holds 1-best texts, not lists; write it with: rescore rerank NBEST --best {path}"
        )


def _ending(path: str) -> str:
    return path.removesuffix(".gz").rpartition(".")[2] if "." in path else ""


def written_formats() -> list[str]:
    """The names of formats that can be written."""
    return [name for name in FORMATS.names if hasattr(FORMATS[name], "write")]


@contextmanager
def opened(path: str) -> Iterator[IO[str]]:
    """A text file to write, gzipped where the name ends in .gz, renamed into place when done; `-` is stdout."""
    if path == "-":
        yield sys.stdout
        return
    try:
        with replacing(Path(path)) as temporary, open(temporary, "wb") as raw:
            if path.endswith(".gz"):
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed, _text(packed) as file:
                    yield file
            else:
                with _text(raw) as file:
                    yield file
    except BrokenPipeError:  # the reader of a pipe went away
        raise
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None


def _text(stream: IO[bytes] | gzip.GzipFile) -> io.TextIOWrapper:
    """Characters to write; bytes of file names that are not UTF-8 are written as question marks."""
    return io.TextIOWrapper(stream, "utf-8", errors="replace")


@contextmanager
def new_folder(path: str) -> Iterator[Path]:
    """A folder to write files to: a temporary folder, which takes its place when all is written and is removed on
    failure.
    """
    if path == "-":
        raise UserError("this format is a folder; give one with -o")
    try:
        target = resolved(Path(path))
        if target.is_dir() and any(target.iterdir()):
            raise UserError(f"{path}: holds files already; give a new folder, or remove this one first")
        if target.is_file():
            raise UserError(f"{path}: is a file; this format needs a folder")
        temporary = temporary_path(target)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            temporary.replace(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None


def check_holds(
    lists: Iterable[NbestList], holds: frozenset[str], path: str, written: Callable[[str], str] | None = None
) -> Iterator[NbestList]:
    """The same stream; at its end, contents that the format cannot hold are reported once.

    Args:
        holds: `reference` (one for each list), `source`, `columns`; or `components`, columns without reserved names.
        written: a text's form in the file, as one line by default; it is read back with `strip_markup`.
    """
    written = written or line
    lost: dict[str, bool] = {}
    for nbest in lists:
        columns = {name for hypothesis in nbest.hypotheses for name in hypothesis.scores if name != FIRST_PASS}
        dropped = set() if "columns" in holds else columns & RESERVED
        texts = [*(hypothesis.text for hypothesis in nbest.hypotheses), *nbest.references]
        absent = {
            "references": bool(nbest.references) and "reference" not in holds,
            "references after the first": len(nbest.references) > 1 and "reference" in holds,
            "sources": nbest.source is not None and "source" not in holds,
            "recordings": nbest.recording is not None,
            "times of words": any(hypothesis.times for hypothesis in nbest.hypotheses),
            **{f"column {name}": True for name in sorted(dropped)},
            "which models made the columns": any(
                not column.is_component for name, column in nbest.provenance.items() if name in columns - dropped
            ),
            "which hypotheses the toolkit did not give": any(
                hypothesis.origin is not Origin.FIRST_PASS for hypothesis in nbest.hypotheses
            ),
            "toolkit marks in texts": any(strip_markup(written(text)) != line(text) for text in texts),
        }
        lost |= {what: True for what, is_lost in absent.items() if is_lost}
        if dropped:
            kept = columns - dropped | {FIRST_PASS}
            hypotheses = [
                replace(each, scores={name: score for name, score in each.scores.items() if name in kept})
                for each in nbest.hypotheses
            ]
            nbest = replace(nbest, hypotheses=hypotheses)
        yield nbest
    if lost:
        log.warning("%s: the format cannot hold all fields; not written: %s", path, ", ".join(lost))


def checked_id(nbest: NbestList, path: str, forbidden: str = "") -> str:
    """The id of a list for a format with a blank between id and text."""
    if not nbest.id or len(nbest.id.split()) != 1 or set(nbest.id) & set(forbidden):
        raise UserError(f"{path}: the id {nbest.id!r} cannot be written in this format; write .txt or .jsonl")
    return nbest.id


def checked_number(nbest: NbestList, path: str) -> str:
    """The id of a list for a format that numbers its lists."""
    if not (nbest.id.isascii() and nbest.id.isdecimal()):
        raise UserError(f"{path}: this format numbers its lists, and {nbest.id!r} is not a number; write .jsonl")
    if nbest.id != str(int(nbest.id)):
        raise UserError(f"{path}: this format numbers its lists, and {nbest.id!r} has leading zeros; write .jsonl")
    return nbest.id


def line(text: str) -> str:
    """A text as one line: all white space becomes blanks."""
    return " ".join(text.split())
