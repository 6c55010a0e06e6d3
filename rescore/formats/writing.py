"""Helpers of writers: files that are renamed into place, folders, and warnings about
contents that a format cannot hold.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from rescore.columns import FIRST_PASS, SUM, TOOLKIT, Column, reserved_names
from rescore.errors import UserError
from rescore.files import replacing, resolved, temporary_path
from rescore.formats.text import strip_markup
from rescore.formats.times import TIMED
from rescore.nbest import NO_AUDIO, Hypothesis, NbestList
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

BEST_ENDINGS = ("trn", *(ending[1:] for ending in TIMED))
"""Endings of files with 1-best texts, which are no lists."""


def write(
    lists: Iterable[NbestList], path: str, format_name: str | None = None
) -> None:
    """Write N-best lists.

    Args:
        path: a file, or a folder for formats that are folders; `-` is standard output.
        format_name: a key of `FORMATS`; with None, the ending decides: .csv, .tsv,
            .moses and so on, .json is one native JSON object, all else is native JSON
            Lines.
    """
    able = written_formats()
    if format_name is None:
        check_output(path)
        ending = _ending(path)
        format_name = ending if ending in able else "native"
    if FORMATS.check(format_name) not in able:
        raise UserError(
            f"{format_name} is read only; formats that can be written:"
            f" {', '.join(able)}"
        )
    FORMATS[format_name].write(lists, path)


def check_output(path: str) -> None:
    """Check, before anything is computed, that the ending of a file for lists is not an
    ending of 1-best texts.
    """
    if (ending := _ending(path)) in BEST_ENDINGS:
        raise UserError(
            f"{path}: a .{ending} file holds 1-best texts, not lists; write it with:"
            f" rescore rerank NBEST --best {path}"
        )


def _ending(path: str) -> str:
    return path.removesuffix(".gz").rpartition(".")[2] if "." in path else ""


def written_formats() -> list[str]:
    """The names of formats that can be written."""
    return [name for name, part in FORMATS.loaded() if hasattr(part, "write")]


@contextmanager
def opened(path: str) -> Iterator[IO[str]]:
    """A text file to write, gzipped where the name ends in .gz, renamed into place when
    done; `-` is stdout.
    """
    if path == "-":
        yield sys.stdout
        return
    try:
        with replacing(Path(path)) as temporary, open(temporary, "wb") as raw:
            if path.endswith(".gz"):
                with (
                    gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
                    _text(packed) as file,
                ):
                    yield file
            else:
                with _text(raw) as file:
                    yield file
    except BrokenPipeError:  # the reader of a pipe went away
        raise
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror or error})"
        ) from None


def _text(stream: IO[bytes] | gzip.GzipFile) -> io.TextIOWrapper:
    """Characters to write; bytes of file names that are not UTF-8 are written as
    question marks.
    """
    return io.TextIOWrapper(stream, "utf-8", errors="replace")


@contextmanager
def new_folder(path: str) -> Iterator[Path]:
    """A folder to write files to: a temporary folder, which takes its place when all is
    written and is removed on failure.
    """
    if path == "-":
        raise UserError("this format is a folder; give one with -o")
    try:
        target = resolved(Path(path))
        if target.is_dir() and any(target.iterdir()):
            raise UserError(
                f"{path}: holds files already; give a new folder, or remove this one"
                " first"
            )
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
        raise UserError(
            f"{path}: cannot be written ({error.strerror or error})"
        ) from None


def check_holds(
    lists: Iterable[NbestList],
    holds: frozenset[str],
    path: str,
    written: Callable[[str], str] | None = None,
) -> Iterator[NbestList]:
    """The same stream; at its end, contents that the format cannot hold are reported
    once.

    Args:
        holds: `reference` (one for each list), `source`, `columns`; or `components`,
            columns without reserved names.
        written: a text's form in the file, as one line by default; it is read back with
            `strip_markup`.
    """
    written = written or line
    lost: dict[str, bool] = {}
    for nbest in lists:
        columns = {
            name
            for hypothesis in nbest.hypotheses
            for name in hypothesis.scores
            if name != FIRST_PASS
        }
        dropped = (
            set() if "columns" in holds else columns.intersection(reserved_names())
        )
        forms = [
            (hypothesis.text, written(hypothesis.text))
            for hypothesis in nbest.hypotheses
        ]
        forms += [(text, line(text)) for text in nbest.references]
        absent = {
            "references": bool(nbest.references) and "reference" not in holds,
            "references after the first": (
                len(nbest.references) > 1 and "reference" in holds
            ),
            "sources": nbest.source is not None and "source" not in holds,
            "recordings": nbest.recording is not None,
            "times of words": any(hypothesis.times for hypothesis in nbest.hypotheses),
            **{f"column {name}": True for name in sorted(dropped)},
            "which models made the columns": any(
                not column.is_component
                for name, column in nbest.header.columns.items()
                if name in columns - dropped
            ),
            "which hypotheses the toolkit did not give": any(
                hypothesis.origin != TOOLKIT for hypothesis in nbest.hypotheses
            ),
            "toolkit marks in texts": any(
                strip_markup(form) != line(text) for text, form in forms
            ),
        }
        lost |= {what: True for what, is_lost in absent.items() if is_lost}
        if dropped:
            kept = columns - dropped | {FIRST_PASS}
            hypotheses = [
                replace(
                    each,
                    scores={
                        name: score
                        for name, score in each.scores.items()
                        if name in kept
                    },
                )
                for each in nbest.hypotheses
            ]
            nbest = replace(nbest, hypotheses=hypotheses)
        yield nbest
    if lost:
        keep = [
            option
            for what, option in (("references", "--ref"), ("sources", "--src"))
            if what in lost
        ]
        how = (
            f"; convert to all.jsonl, too, and give {' and '.join(keep)} all.jsonl"
            " beside this file"
            if keep
            else ""
        )
        log.warning(
            "%s: the format cannot hold all fields; not written: %s%s",
            path,
            ", ".join(lost),
            how,
        )
    if f"column {SUM}" in lost:
        log.warning(
            "%s: its first-pass scores are means over tokens; give --lm-norm mean"
            " with it",
            path,
        )


def checked_id(nbest: NbestList, path: str, forbidden: str = "") -> str:
    """The id of a list for a format with a blank between id and text."""
    if not nbest.id or len(nbest.id.split()) != 1 or set(nbest.id) & set(forbidden):
        raise UserError(
            f"{path}: the id {nbest.id!r} cannot be written in this format; write .txt"
            " or .jsonl"
        )
    return nbest.id


def checked_number(nbest: NbestList, path: str) -> str:
    """The id of a list for a format that numbers its lists."""
    if not (nbest.id.isascii() and nbest.id.isdecimal()):
        raise UserError(
            f"{path}: this format numbers its lists, and {nbest.id!r} is not a number;"
            " write .jsonl"
        )
    if nbest.id != str(int(nbest.id)):
        raise UserError(
            f"{path}: this format numbers its lists, and {nbest.id!r} has leading"
            " zeros; write .jsonl"
        )
    return nbest.id


def line(text: str) -> str:
    """A text as one line: all white space becomes blanks."""
    return " ".join(text.split())


def as_json(nbest: NbestList) -> dict[str, Any]:
    """The list as a line of JSON Lines holds it, without the record of its columns."""
    return {
        "id": nbest.id,
        **_about(nbest),
        "hyps": [_entry(hypothesis) for hypothesis in nbest.hypotheses],
    }


def _entry(hypothesis: Hypothesis) -> dict[str, Any]:
    entry: dict[str, Any] = {"text": hypothesis.text}
    more = dict(hypothesis.scores)
    if FIRST_PASS in more:
        entry = {"score": more.pop(FIRST_PASS), **entry}
    if more:
        entry["scores"] = more
    if hypothesis.origin != TOOLKIT:
        entry["origin"] = hypothesis.origin
    if hypothesis.rank is not None:
        entry["rank"] = hypothesis.rank
    if hypothesis.times:
        entry["times"] = hypothesis.times
    return entry


def _about(nbest: NbestList) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if nbest.references:
        about["ref"] = (
            nbest.references[0]
            if len(nbest.references) == 1
            else list(nbest.references)
        )
    if nbest.source is not None:
        about["src"] = nbest.source
    if nbest.recording is not None:
        about["recording"] = nbest.recording
    if nbest.audio is not None and nbest.audio != NO_AUDIO:
        from rescore.formats.audio import native_entry

        about["audio"] = native_entry(nbest.audio)
    return about


def write_object(lists: Iterable[NbestList], file: IO[str]) -> None:
    """Write one JSON object, an utterance at a time."""
    separator = "{\n"
    for nbest, record in _with_record(lists):
        hypotheses = {
            f"hyp_{rank}": _entry(hypothesis)
            for rank, hypothesis in enumerate(nbest.hypotheses, 1)
        }
        value = json.dumps(
            {**_about(nbest), **hypotheses, **record}, ensure_ascii=False, indent=1
        )
        file.write(f"{separator}{json.dumps(nbest.id, ensure_ascii=False)}: {value}")
        separator = ",\n"
    file.write("\n}\n" if separator != "{\n" else "{}\n")


def write_lines(lists: Iterable[NbestList], file: IO[str]) -> None:
    """Write JSON Lines."""
    for nbest, record in _with_record(lists):
        file.write(json.dumps({**as_json(nbest), **record}, ensure_ascii=False) + "\n")


def _with_record(
    lists: Iterable[NbestList],
) -> Iterator[tuple[NbestList, dict[str, Any]]]:
    """Each list, and the record of its columns."""
    first: Mapping[str, Column] | None = None
    record: dict[str, Any] = {}
    for nbest in lists:
        columns = nbest.header.columns
        if first is None:
            first = columns
            known = {name: asdict(column) for name, column in columns.items()}
            record = {"columns": known} if known else {}
            if nbest.header.translates:
                record["translates"] = True
        elif columns is not first and columns != first:
            name = next(
                name
                for name in (*first, *columns)
                if first.get(name) != columns.get(name)
            )
            raise UserError(
                f"utterance {nbest.id}: column {name} comes from another model than in"
                " the lists before; write them to separate files"
            )
        yield nbest, record
