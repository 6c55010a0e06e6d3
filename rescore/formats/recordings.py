"""Where utterances stand in recordings: Kaldi's `segments`, and the stm of NIST, whose texts belong to times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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


def stm_texts(lines: Sequence[str], path: str, ids: Sequence[str], segments: str | None) -> dict[str, str]:
    """Texts of the utterances: by file where each has one segment, else by time; by order for lists without ids."""
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
    # A file of recordings may be Kaldi's `segments`, or its utt2spk without times.
    known = segments is not None and any(len(line.split()) >= 4 for _, line in Source(segments).filled())
    for spans in [read_segments(str(segments))] if known else [_times_in(ids, unit) for unit in (1.0, 0.01, 0.001)]:
        if (texts := _by_time({name: spans[name] for name in ids if name in spans}, spoken)) is not None:
            return texts
    why = f"the times in {segments} do not match" if known else f"ids such as {ids[0]} contain no times"
    raise UserError(
        f"{path}: has several segments of a recording, but {why}; give Kaldi's segments with --recordings FILE, or "
        "references with ids"
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


_TIMED_ID = re.compile(r"(.+)[-_](\d{1,9}(?:\.\d{1,6})?)[-_](\d{1,9}(?:\.\d{1,6})?)")


def _times_in(ids: Sequence[str], unit: float) -> dict[str, RecordingSegment]:
    """Recording, start and end as ids such as `talk-0001234-0001567` say them, in units of this many seconds."""
    matches = ((name, match) for name in ids if (match := _TIMED_ID.fullmatch(name)))
    return {name: RecordingSegment(match[1], unit * float(match[2]), unit * float(match[3])) for name, match in matches}


def _by_time(spans: Mapping[str, RecordingSegment], spoken: Sequence[_StmSegment]) -> dict[str, str] | None:
    """The text of the stm's segment at the same time, for each utterance; None for utterances without times."""
    channels: dict[str, set[str]] = {}
    for segment in spoken:
        channels.setdefault(segment.file, set()).add(segment.channel)
    recordings: dict[str, list[_StmSegment]] = {}
    for segment in spoken:
        several = len(channels[segment.file]) > 1
        for name in [f"{segment.file}{mark}{segment.channel}" for mark in "-_"] if several else [segment.file]:
            recordings.setdefault(name, []).append(segment)
    texts, taken = {}, set()
    for utterance, span in spans.items():
        # An id may have the speaker behind the recording.
        name = max((name for name in recordings if span.recording.startswith(name)), key=len, default="")
        nearest = max(recordings.get(name, ()), key=partial(_shared, span), default=None)
        if nearest is None or nearest in taken or _shared(span, nearest) <= 0.5:
            return None
        taken.add(nearest)
        texts[utterance] = nearest.text
    return texts or None


def _shared(span: RecordingSegment, segment: _StmSegment) -> float:
    """The time that both have, as a part of the time that either has."""
    both = min(span.end, segment.end) - max(span.start, segment.start)
    either = max(span.end, segment.end) - min(span.start, segment.start)
    return both / either if either > 0 else 0.0
