"""Where utterances stand in recordings: Kaldi's `segments`, and the stm of NIST."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rescore.errors import UserError, counted
from rescore.formats.source import Source
from rescore.formats.text import add_once, are_numbers
from rescore.nbest import NbestList


@dataclass(frozen=True, slots=True)
class RecordingSegment:
    """Where in a recording an utterance is, as a line of Kaldi's `segments` says it."""

    recording: str
    start: float
    end: float


def read_segments(path: str | Path) -> dict[str, RecordingSegment]:
    """Kaldi's `segments`: `utterance recording start end`, in seconds."""
    segments: dict[str, RecordingSegment] = {}
    for place, line in Source(path).filled():
        cells = line.split()
        try:
            name, recording, start, end = cells[0], cells[1], float(cells[2]), float(cells[3])
        except (IndexError, ValueError):
            raise UserError(f"{place}: expected `utterance recording start end`") from None
        add_once(segments, name, RecordingSegment(recording, start, end), place)
    return segments


def with_recordings(lists: Iterable[NbestList], path: Path) -> Iterator[NbestList]:
    """The lists with their recordings: of each line of a file, the first field is an utterance, and the second its
    recording.
    """
    recordings: dict[str, str] = {}
    for place, line in Source(path).filled():
        name, *more = line.split(maxsplit=2)
        if not more:
            raise UserError(f"{place}: no recording behind {name!r}; expected UTTERANCE RECORDING")
        if recordings.setdefault(name, more[0]) != more[0]:
            raise UserError(f"{place}: utterance {name} is duplicated; give each utterance one recording")
    for nbest in lists:
        if nbest.id not in recordings:
            raise UserError(f"{path}: utterance {nbest.id} is not in it")
        yield replace(nbest, recording=recordings[nbest.id])


_STM = re.compile(r"(\S+) (\S+) (\S+) (\d+(?:\.\d+)?) (\d+(?:\.\d+)?)(?: <[^>]*>)?(?: (.*))?")
_NOT_SCORED = "IGNORE_TIME_SEGMENT_IN_SCORING"


def _stm_line(line: str) -> re.Match[str] | None:
    return _STM.fullmatch(" ".join(line.split()))


def is_stm(lines: Sequence[str]) -> bool:
    filled = [line for line in lines if line.strip() and not line.startswith(";;")]
    return bool(filled) and all(_stm_line(line) for line in filled)


def stm_texts(lines: Sequence[str], path: str, ids: Sequence[str]) -> dict[str, str]:
    """Texts of the utterances: by file where each has one segment; by order for lists without ids."""
    spoken = [segment for segment in stm_segments(lines, path) if segment.text.upper() != _NOT_SCORED]
    by_file = {segment.file: segment.text for segment in spoken}
    if len(by_file) == len(spoken) and (by_file.keys() & set(ids) or not are_numbers(ids)):
        return by_file
    if are_numbers(ids):
        if len(spoken) != len(ids):
            raise UserError(
                f"{path}: {counted(len(spoken), 'segment')} for {counted(len(ids), 'utterance')}, "
                "and the files of the segments are not the ids of the utterances"
            )
        return dict(zip(ids, (segment.text for segment in spoken), strict=True))
    raise UserError(
        f"{path}: has several segments of a recording; give references with the ids of the lists (trn or Kaldi text), "
        "or measure whole recordings with: rescore eval --whole"
    )


@dataclass(frozen=True, slots=True)
class _StmSegment:
    file: str
    channel: str
    start: float
    end: float
    text: str


def stm_segments(lines: Sequence[str], path: str) -> Iterator[_StmSegment]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(";;"):
            continue
        match = _stm_line(line)
        if not match:
            raise UserError(f"{path}: line {number}: not stm: expected `file channel speaker start end text`")
        yield _StmSegment(match[1], match[2], float(match[4]), float(match[5]), (match[6] or "").strip())
