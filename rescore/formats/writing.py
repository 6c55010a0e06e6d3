"""Writing N-best lists: the native forms, and what writers of all formats need.

Files are renamed into place when they are complete, and contents that a format cannot
hold are reported.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter, deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from rescore.columns import FIRST_PASS, FIRST_PASS_ORIGIN, SUM, Column, forbidden_names
from rescore.errors import UserError, counted
from rescore.file_options import LISTS, check_form
from rescore.files import ending_of, put, resolved, temporary_path, unwritable
from rescore.files import opened as opened  # parts of other packages import it here
from rescore.formats.text import escaped, strip_markup
from rescore.formats.times import TIMED
from rescore.nbest import (
    NO_AUDIO,
    Hypothesis,
    NbestList,
    as_first_pass,
    ranked_by,
    tie_order,
)
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

BEST_ENDINGS = ("trn", *(ending.removeprefix(".") for ending in TIMED))
"""Endings of files with 1-best texts, which are no lists."""

# --- files and folders ---------------------------------------------------------------


def write(
    lists: Iterable[NbestList], path: str, format_name: str | None = None
) -> None:
    """Write N-best lists.

    A format that writes the combined score of reranked lists, and tells what it cannot
    hold, has a true attribute `holds_choice`. Any other format, such as one of another
    package, gets reranked lists whose first pass is the combined score, so that its
    files choose the same texts.

    Args:
        lists: The lists.
        path: A file, or a folder for formats that are folders; `-` is standard output.
        format_name: A key of `FORMATS`. With None, the ending decides: .csv, .tsv,
            .moses and so on; .json is one native JSON object, and any other ending is
            native JSON Lines.

    Raises:
        UserError: The format is read only or cannot hold the lists, or the path cannot
            be written.
    """
    able = written_formats()
    if format_name is None:
        format_name = _format_of(path)
    if FORMATS.check(format_name) not in able:
        raise UserError(
            f"{format_name} is read only; formats that can be written:"
            f" {', '.join(able)}"
        )
    part = FORMATS[format_name]
    if not getattr(part, "holds_choice", False):
        lists = map(as_first_pass, check_holds(lists, frozenset(), path))
    part.write(lists, path)


def write_references(lists: Iterable[NbestList], path: str) -> None:
    """Write all references that have words, each on a line.

    Args:
        lists: The lists.
        path: A file, or `-` for standard output.

    Raises:
        UserError: There is no such reference, or the file cannot be written.
    """
    texts = [line(text) for nbest in lists for text in nbest.references]
    texts = list(filter(None, texts))
    if not texts:
        raise UserError(
            f"{path}: the lists have no references to write; give --ref FILE"
        )
    with opened(path) as file:
        file.writelines(f"{text}\n" for text in texts)
    if path != "-":
        log.info("%s: %s", path, counted(len(texts), "reference"))


def _format_of(path: str) -> str:
    """Return the format of lists that the ending of a path names; else the native one.

    Raises:
        UserError: The ending is of 1-best texts.
    """
    check_output(path)
    ending = ending_of(path).removeprefix(".")
    return ending if ending in written_formats() else "native"


def checked_lists(
    lists: Iterable[NbestList], path: str, format_name: str | None = None
) -> Iterable[NbestList]:
    """Return lists, after it is seen that a format can hold them: before anything is
    computed for them.

    Args:
        lists: The lists. A stream is read as a whole only for a format that has to see
            all lists: that has a method `check(lists, path)`. A method `checked(lists,
            path)` yields the lists, and checks each.
        path: The file or folder to be written; `-` is stdout.
        format_name: As in `write`.

    Raises:
        UserError: The format cannot hold the lists.
    """
    part = FORMATS[format_name or _format_of(path)]
    if hasattr(part, "checked"):
        checked: Iterator[NbestList] = part.checked(lists, path)
        if not isinstance(lists, Sequence):
            return checked
        deque(checked, maxlen=0)
        return lists
    if not hasattr(part, "check"):
        return lists
    every = list(lists)
    part.check(every, path)
    return every


def check_output(path: str) -> None:
    """Check, before anything is computed, that a file for lists does not have an ending
    of 1-best texts, or of another form.

    Args:
        path: The file.

    Raises:
        UserError: The ending is in `BEST_ENDINGS`, or of no file of lists.
    """
    ending = ending_of(path).removeprefix(".")
    if ending in BEST_ENDINGS:
        raise UserError(
            f"{path}: a .{ending} file holds 1-best texts, not lists; write it with:"
            f" rescore rerank NBEST --best {path}"
        )
    if ending not in written_formats():
        check_form(path, LISTS)


def written_formats() -> list[str]:
    """Return the names of formats that can be written."""
    return [name for name, part in FORMATS.loaded() if hasattr(part, "write")]


def check_folder(path: str) -> None:
    """Check that a path can become a folder.

    Args:
        path: The folder.

    Raises:
        UserError: It is stdout or a file, or has files.
    """
    if path == "-":
        raise UserError("this format is a folder; give one with -o")
    target = Path(path)
    if target.is_dir() and any(target.iterdir()):
        raise UserError(
            f"{path}: holds files already; give a new folder, or remove this one first"
        )
    if target.is_file():
        raise UserError(f"{path}: is a file; this format needs a folder")


@contextmanager
def new_folder(path: str) -> Iterator[Path]:
    """Yield a temporary folder to write files to, which takes its place when the block
    ends and is removed on failure.

    Args:
        path: The folder, which does not exist or is empty.

    Raises:
        UserError: The folder has files, or cannot be written.
    """
    try:
        target = resolved(Path(path))
        check_folder(path)
        temporary = temporary_path(target)
        temporary.mkdir(parents=True)
        waits = False
        try:
            yield temporary
            waits = not put(temporary, target)
        finally:
            if not waits:
                shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise unwritable(path, error) from None


# --- contents that a format cannot hold ----------------------------------------------


def line(text: str) -> str:
    """Return a text as one line: all white space becomes blanks."""
    return " ".join(text.split())


def unmarked(text: str) -> str:
    """Return a text as one line, in which readers find no mark of a toolkit
    (`rescore.formats.text.escaped`).
    """
    return escaped(text, strip_markup)


def check_holds(
    lists: Iterable[NbestList], holds: frozenset[str], path: str
) -> Iterator[NbestList]:
    """Yield the lists without columns that a format cannot hold; at the end, all
    contents that it cannot hold are reported once.

    Args:
        lists: The lists to be written.
        holds: `reference` (one for each list), `source`, `translations` (that the lists
            are translations), `columns` (of reserved names, too), `components` (which
            columns are components), `alignment`.
        path: The file, for the message.
    """
    lost: Counter[str] = Counter()
    number = 0
    for nbest in lists:
        columns = _further_columns(nbest)
        dropped: set[str] = set()
        if "columns" not in holds:
            dropped = columns.intersection(forbidden_names())
        losses: dict[str, None] = {}
        for loss in LOSSES.values():
            losses |= dict.fromkeys(loss(nbest, holds))
        losses |= dict.fromkeys(_lost_columns(nbest, columns, dropped, holds))
        number += 1
        lost.update(losses.keys())
        yield _without_columns(nbest, dropped)
    if lost:
        log.warning(
            "%s: the format cannot hold all fields; not written: %s%s",
            path,
            ", ".join(_counted(loss, lost[loss], number) for loss in lost),
            _how_to_keep(lost),
        )
    if f"column {SUM}" in lost:
        log.warning(
            "%s: its first-pass scores are means over tokens; give --lm-norm mean"
            " with it",
            path,
        )


def _counted(loss: str, lists: int, every: int) -> str:
    """Return a loss with the number of lists that have it, unless all have it."""
    if lists == every:
        return loss
    return f"{loss} (of {lists:,} of {every:,} lists)"


def _further_columns(nbest: NbestList) -> set[str]:
    """Return the columns beside the first pass."""
    columns = set[str]()
    for hypothesis in nbest.hypotheses:
        columns.update(hypothesis.scores)
    return columns - {FIRST_PASS}


Loss = Callable[[NbestList, frozenset[str]], Iterator[str]]
"""Yields what a format that holds some contents loses of a field of a list."""


def _lost_references(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of references: formats hold one, or none."""
    if nbest.references and "reference" not in holds:
        yield "references"
    if len(nbest.references) > 1 and "reference" in holds:
        yield "references after the first"


def _lost_source(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of the source."""
    if nbest.source is not None and "source" not in holds:
        yield "sources"


def _lost_recording(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of the name of the recording."""
    if nbest.recording is not None:
        yield "recordings"


def _lost_audio(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of the place of the sound."""
    if nbest.audio is not None and nbest.audio != NO_AUDIO:
        yield "audio"


def _lost_fields(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of further fields, such as the accent."""
    for name in nbest.fields:
        yield f"field {name}"


def _lost_header(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of the fact that a set has translations."""
    if nbest.header.translates and "translations" not in holds:
        yield "that these are translations"


def _lost_times(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of times of words."""
    if any(hypothesis.times for hypothesis in nbest.hypotheses):
        yield "times of words"


def _lost_alignment(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of alignments with the source."""
    if "alignment" in holds:
        return
    if any(hypothesis.alignment for hypothesis in nbest.hypotheses):
        yield "alignments"


def _lost_origin(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of who proposed a hypothesis."""
    origins = {hypothesis.origin for hypothesis in nbest.hypotheses}
    if origins != {FIRST_PASS_ORIGIN}:
        yield "which hypotheses the toolkit did not give"


def _lost_rank(nbest: NbestList, holds: frozenset[str]) -> Iterator[str]:
    """Yield the loss of ranks where another hypothesis would be the first pass."""
    unranked = []
    for hypothesis in nbest.hypotheses:
        unranked.append(replace(hypothesis, rank=None, origin=FIRST_PASS_ORIGIN))
    ranked = []
    for hypothesis in nbest.hypotheses:
        ranked.append(replace(hypothesis, origin=FIRST_PASS_ORIGIN))
    as_file = tie_order(replace(nbest, hypotheses=unranked))
    if tie_order(replace(nbest, hypotheses=ranked)) != as_file:
        yield "ranks of equal first-pass scores"


LOSSES: Mapping[str, Loss] = {
    "references": _lost_references,
    "source": _lost_source,
    "recording": _lost_recording,
    "audio": _lost_audio,
    "fields": _lost_fields,
    "header": _lost_header,
    "times": _lost_times,
    "alignment": _lost_alignment,
    "origin": _lost_origin,
    "rank": _lost_rank,
}
"""What is lost of each field of `NbestList` and `Hypothesis` that a format may not
hold.
"""
HELD = frozenset({"id", "hypotheses", "text", "scores", "combined"})
"""The other fields: every format holds them. Columns of scores are told one by one."""


def _lost_columns(
    nbest: NbestList, columns: set[str], dropped: set[str], holds: frozenset[str]
) -> Iterator[str]:
    """Yield the columns that are dropped, and whether records are lost."""
    for name in sorted(dropped):
        yield f"column {name}"
    for name, column in nbest.header.records.items():
        if name not in columns - dropped:
            continue
        if not column.is_component:
            yield "which models made the columns"
        elif "components" not in holds:
            yield "which columns are components"


def _without_columns(nbest: NbestList, dropped: set[str]) -> NbestList:
    """Return the list without some columns, which may be none."""
    if not dropped:
        return nbest
    hypotheses = []
    for hypothesis in nbest.hypotheses:
        kept = dict(hypothesis.scores)
        for name in dropped:
            kept.pop(name, None)
        hypotheses.append(replace(hypothesis, scores=kept))
    return replace(nbest, hypotheses=hypotheses)


def _how_to_keep(lost: Collection[str]) -> str:
    """Return the end of the message about lost contents: how references and sources can
    be kept.
    """
    options = []
    if "references" in lost:
        options.append("--ref")
    if "sources" in lost:
        options.append("--src")
    if not options:
        return ""
    return (
        f"; convert to all.jsonl, too, and give {' and '.join(options)} all.jsonl"
        " beside this file"
    )


def checked_id(nbest: NbestList, path: str, forbidden: str = "") -> str:
    """Return the id of a list for a format with a blank between id and text.

    Args:
        nbest: The list.
        path: The file, for the message.
        forbidden: Characters that an id cannot have in this format.

    Raises:
        UserError: The id is empty, or has white space or such a character.
    """
    if not nbest.id or len(nbest.id.split()) != 1 or set(nbest.id) & set(forbidden):
        raise UserError(
            f"{path}: the id {nbest.id!r} cannot be written in this format; write .txt"
            " or .jsonl"
        )
    return nbest.id


def checked_number(nbest: NbestList, path: str) -> str:
    """Return the id of a list for a format that numbers its lists.

    Args:
        nbest: The list.
        path: The file, for the message.

    Raises:
        UserError: The id is no number, or has leading zeros.
    """
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


# --- the native forms ----------------------------------------------------------------


def as_json(nbest: NbestList) -> dict[str, Any]:
    """Return the list as a line of JSON Lines holds it, without the record of its
    columns.

    Args:
        nbest: The list.
    """
    return {
        "id": nbest.id,
        **_about(nbest),
        "hyps": [_entry(hypothesis) for hypothesis in nbest.hypotheses],
    }


def _entry(hypothesis: Hypothesis) -> dict[str, Any]:
    """Return a hypothesis as native lists hold it, without fields that are empty."""
    entry: dict[str, Any] = {}
    scores = dict(hypothesis.scores)
    if FIRST_PASS in scores:
        entry["score"], scores = ranked_by(hypothesis)
    entry["text"] = hypothesis.text
    if scores:
        entry["scores"] = scores
    if hypothesis.origin != FIRST_PASS_ORIGIN:
        entry["origin"] = hypothesis.origin
    if hypothesis.rank is not None:
        entry["rank"] = hypothesis.rank
    if hypothesis.times:
        entry["times"] = hypothesis.times
    if hypothesis.alignment:
        entry["alignment"] = hypothesis.alignment
    return entry


def _about(nbest: NbestList) -> dict[str, Any]:
    """Return the fields of a list beside its id and hypotheses."""
    about: dict[str, Any] = {}
    if len(nbest.references) == 1:
        about["ref"] = nbest.references[0]
    elif nbest.references:
        about["ref"] = list(nbest.references)
    if nbest.source is not None:
        about["src"] = nbest.source
    if nbest.recording is not None:
        about["recording"] = nbest.recording
    if nbest.audio is not None and nbest.audio != NO_AUDIO:
        # it loads numpy, and most lists have no audio
        from rescore.formats.audio import native_entry

        about["audio"] = native_entry(nbest.audio)
    if nbest.fields:
        about["fields"] = dict(nbest.fields)
    return about


def write_object(lists: Iterable[NbestList], file: IO[str]) -> None:
    """Write one JSON object, an utterance at a time.

    Args:
        lists: The lists.
        file: The open file.

    Raises:
        UserError: Lists have columns of one name from different models.
    """
    separator = "{\n"
    for nbest, record in _with_record(lists):
        entry = _about(nbest)
        for rank, hypothesis in enumerate(nbest.hypotheses, 1):
            entry[f"hyp_{rank}"] = _entry(hypothesis)
        value = json.dumps({**entry, **record}, ensure_ascii=False, indent=1)
        file.write(f"{separator}{json.dumps(nbest.id, ensure_ascii=False)}: {value}")
        separator = ",\n"
    is_empty = separator == "{\n"
    file.write("{}\n" if is_empty else "\n}\n")


def write_lines(lists: Iterable[NbestList], file: IO[str]) -> None:
    """Write JSON Lines.

    Args:
        lists: The lists.
        file: The open file.

    Raises:
        UserError: Lists have columns of one name from different models.
    """
    for nbest, record in _with_record(lists):
        file.write(json.dumps({**as_json(nbest), **record}, ensure_ascii=False) + "\n")


def _with_record(
    lists: Iterable[NbestList],
) -> Iterator[tuple[NbestList, dict[str, Any]]]:
    """Yield each list with the record of its columns, which all lists share."""
    first: Mapping[str, Column] | None = None
    record: dict[str, Any] = {}
    for nbest in lists:
        columns = nbest.header.records
        if first is None:
            first = columns
            record = _record(nbest)
        elif columns is not first and columns != first:
            raise UserError(
                f"utterance {nbest.id}: column {_difference(first, columns)} comes from"
                " another model than in the lists before; write them to separate files"
            )
        yield nbest, record


def _record(nbest: NbestList) -> dict[str, Any]:
    """Return the fields of a list that hold its header."""
    header = nbest.header
    record: dict[str, Any] = {}
    columns = {name: asdict(column) for name, column in header.records.items()}
    if columns:
        record["columns"] = columns
    if header.translates:
        record["translates"] = True
    has_sums = any(SUM in hypothesis.scores for hypothesis in nbest.hypotheses)
    if header.scores_are_means and not has_sums:
        record["means"] = True
    return record


def _difference(first: Mapping[str, Column], second: Mapping[str, Column]) -> str:
    """Return the first column that differs between records that are not equal."""
    names = (*first, *second)
    return next(name for name in names if first.get(name) != second.get(name))
