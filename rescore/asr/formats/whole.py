"""Whole recordings as recognisers write them: CTM, STM, subtitles, plain text, or any format of N-best lists."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rescore import formats
from rescore.errors import UserError
from rescore.formats.source import InputWarnings, Source
from rescore.formats.text import stem_of, undo_entities
from rescore.formats.times import Span, spread
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList, ranking

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recording:
    """The words of one recording."""

    words: list[str] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    """Start and end of each word, in seconds; empty if the file has none."""

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def add(self, words: Sequence[str], times: Sequence[tuple[float, float]]) -> None:
        """Append words; from the first words without times on, the recording has none."""
        if len(self.times) == len(self.words) and len(times) == len(words):
            self.times += times
        else:
            self.times.clear()
        self.words += words


def read_recordings(path: str | Path, strict: bool = False) -> dict[str, Recording]:
    """The recordings of one system by name.

    A folder has one file per recording. CTM, STM and N-best lists say which recording a line belongs to; any other file
    is one recording, called after the file without its ending.
    """
    warnings = InputWarnings(strict)
    recordings: dict[str, Recording] = {}
    for file in Source(path, warnings).files():
        for name, recording in _read_file(file).items():
            if name in recordings:
                raise UserError(f"{file.name}: recording {name} is in another file, too; give each recording once")
            recordings[name] = recording
    warnings.report()
    if not recordings:
        raise UserError(f"{path}: no recording in it; give a file or a folder with CTM, STM, SRT, VTT, JSON or text")
    return recordings


def _read_file(source: Source) -> dict[str, Recording]:
    ending = Path(source.name.removesuffix(".gz")).suffix.lower()
    reader = {".ctm": _ctm, ".stm": _stm, ".srt": _subtitles, ".vtt": _subtitles}.get(ending)
    if reader is not None:
        return reader(source)
    if source.peek.root:
        return _lists(formats.iterate([source]))
    lines = [line for _, line in source.filled()]
    named: dict[str, Recording] = {}
    pieces = [_PIECE.match(line) for line in lines]
    for line, piece in zip(lines, pieces, strict=True):
        name, text = (piece[1], line[piece.end() :]) if piece and all(pieces) else (stem_of(source), line)
        named.setdefault(name, Recording()).add(text.split(), ())
    return named or {stem_of(source): Recording()}


_PIECE = re.compile(r"(\S+)-\d{5,9}(?=\s|$)")
"""The id of a piece of `rescore.asr.combine`, at the beginning of a line of Kaldi text."""


def measured_recordings(path: str, references: str, strict: bool = False) -> list[NbestList]:
    """Each recording of the references as a list with one hypothesis; empty, with a warning, if the output lacks it."""
    outputs, expected = read_recordings(path, strict), read_recordings(references, strict)
    if unknown := sorted(outputs.keys() - expected.keys()):
        raise UserError(f"{references}: no reference for recording {unknown[0]} of {path}")
    if absent := sorted(expected.keys() - outputs.keys()):
        log.warning(
            "%s: no output for recording %s (%d missing); its words are deletions", path, absent[0], len(absent)
        )
    texts = {name: outputs[name].text if name in outputs else "" for name in expected}
    return [
        NbestList(name, [Hypothesis(texts[name], {FIRST_PASS: 0.0})], (whole.text,), recording=name)
        for name, whole in expected.items()
    ]


def _ctm(source: Source) -> dict[str, Recording]:
    """`recording channel start duration word [confidence]`; two channels of a recording are two recordings."""
    channels: dict[tuple[str, str], Recording] = {}
    for place, line in source.filled():
        cells = line.split()
        if cells[0].startswith(";;"):
            continue
        if len(cells) not in (5, 6):
            raise UserError(f"{place}: not CTM: expected `recording channel start duration word [confidence]`")
        span = Span.read(cells[2], cells[3], place, duration=True)
        channels.setdefault((cells[0], cells[1]), Recording()).add([cells[4]], [span])
    number = Counter(name for name, _ in channels)
    return {name if number[name] == 1 else f"{name}-{channel}": words for (name, channel), words in channels.items()}


_STM = re.compile(r"(\S+) \S+ \S+ (\d+(?:\.\d+)?) (\d+(?:\.\d+)?)(?: <[^>]*>)?(?: (.*))?")


def _stm(source: Source) -> dict[str, Recording]:
    """The words of a segment share its time by letters; segments are sorted by their start."""
    segments: list[tuple[Span, str, list[str]]] = []
    for place, line in source.filled():
        if line.startswith(";;"):
            continue
        match = _STM.fullmatch(" ".join(line.split()))
        if match is None:
            raise UserError(f"{place}: not stm: expected `file channel speaker start end text`")
        segments.append((Span.read(match[2], match[3], place), match[1], (match[4] or "").split()))
    named: dict[str, Recording] = {}
    for span, name, words in sorted(segments, key=lambda segment: segment[0].start):
        named.setdefault(name, Recording()).add(words, spread(words, span))
    return named


_CUE = re.compile(r"((?:\d+:)?\d+:\d+[.,]\d+)\s+-->\s+((?:\d+:)?\d+:\d+[.,]\d+)")
_TAG = re.compile(r"<[^<>]*>")


def _subtitles(source: Source) -> dict[str, Recording]:
    """The words of a cue share its time by letters; tags are left out."""
    recording = Recording()
    span: Span | None = None
    for line in source.lines():
        if match := _CUE.match(line.strip()):
            span = Span.read(match[1], match[2], f"{source.name}: subtitle at {match[1]}")
        elif not line.strip():
            span = None
        elif span is not None:
            words = undo_entities(_TAG.sub("", line)).split()
            recording.add(words, spread(words, span))
    if not recording.words and "-->" not in source.head:
        raise UserError(f"{source.name}: no subtitle in it; expected lines `00:00:01.000 --> 00:00:02.500`")
    return {stem_of(source): recording}


def _lists(lists: Iterator[NbestList]) -> dict[str, Recording]:
    """The best hypothesis of each list, joined in the order of the file."""
    named: dict[str, Recording] = {}
    for nbest in lists:
        best = nbest.hypotheses[ranking(nbest, nbest.column(FIRST_PASS))[0]]
        named.setdefault(nbest.recording or nbest.id, Recording()).add(best.text.split(), best.times)
    return named
