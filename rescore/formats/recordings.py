"""Which recording, or speaker, each utterance belongs to, and where in it: Kaldi's utt2spk and segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.nbest import NbestList


def read_recordings(path: Path) -> dict[str, str]:
    """Of each line the first field, an utterance, and the second, its recording; others are ignored.

    Raises:
        UserError: a line has one field only, an utterance is duplicated, or the file cannot be read.
    """
    found: dict[str, str] = {}
    for place, line in Source(path).filled():
        fields = line.split(maxsplit=2)
        if len(fields) == 1:
            raise UserError(f"{place}: no recording behind {fields[0]!r}; expected UTTERANCE RECORDING")
        if found.setdefault(fields[0], fields[1]) != fields[1]:
            raise UserError(f"{place}: utterance {fields[0]} is duplicated; give each utterance one recording")
    return found


def with_recordings(lists: Iterable[NbestList], path: Path) -> Iterator[NbestList]:
    """The lists with their recordings.

    Raises:
        UserError: the file does not name an utterance.
    """
    found = read_recordings(path)
    for nbest in lists:
        if nbest.id not in found:
            raise UserError(f"{path}: utterance {nbest.id} is not in it")
        yield replace(nbest, recording=found[nbest.id])


@dataclass(frozen=True, slots=True)
class RecordingSegment:
    """Where in a recording an utterance is, as a line of Kaldi's `segments` says it."""

    recording: str
    start: float
    end: float


def read_segments(path: str | Path) -> dict[str, RecordingSegment]:
    """Kaldi's `segments`: `utterance recording start end`, in seconds.

    Raises:
        UserError: a line is not of this form, or an utterance is duplicated.
    """
    found: dict[str, RecordingSegment] = {}
    for place, line in Source(path).filled():
        cells = line.split()
        try:
            name, recording, start, end = cells[0], cells[1], float(cells[2]), float(cells[3])
        except (IndexError, ValueError):
            raise UserError(f"{place}: expected `utterance recording start end`") from None
        if name in found:
            raise UserError(f"{place}: utterance {name} is duplicated")
        found[name] = RecordingSegment(recording, start, end)
    return found
