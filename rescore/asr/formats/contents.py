"""What files with the words of recordings contain: the format of a file, the words of a CTM, the cues of subtitles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rescore.errors import UserError
from rescore.formats.references import is_stm
from rescore.formats.source import HEAD, Source
from rescore.formats.text import begin_with_ids, split_trn, undo_entities
from rescore.formats.times import Span

Times = tuple[float, float]
"""Start and end, in seconds."""

PAUSE, MOST_WORDS = 1.0, 200
"""In a CTM, a piece ends at a silence of this many seconds, or at this number of words."""


class CtmWord(NamedTuple):
    """A line of a CTM."""

    cells: list[str]
    start: float
    end: float

    @property
    def word(self) -> str:
        return self.cells[4]

    def goes_on(self, end: float, words: int) -> bool:
        """Whether it belongs to the piece before it, which ends at `end` and has this number of words."""
        return self.start - end <= PAUSE and words < MOST_WORDS


def kind_of(source: Source) -> str:
    """The format of a file by its contents: json, srt (also VTT), ctm, stm, trn, kaldi or plain.

    A name such as `talk.ctm` decides only where the contents have no format, so that the reader names the wrong line.
    """
    if source.is_folder:
        raise UserError(f"{source.name}: is a folder; give a file with texts")
    if source.peek.root:
        return "json"
    lines = [line.strip() for line in source.head.split("\n")]
    if len(source.head) >= HEAD // 2 and len(lines) > 2:
        lines.pop()  # it may be cut
    lines = [line for line in lines if line and not line.startswith(";;")]
    if source.head.startswith("WEBVTT") or any(_CUE.match(line) for line in lines[:3]):
        return "srt"
    first = lines[:FEW]
    all_ctm, all_stm = bool(first) and all(map(_CTM.match, first)), is_stm(first)
    if all_ctm and all_stm:  # all words, or all speakers, are numbers
        return "ctm" if any("." in line.split()[2] for line in first) else "stm"
    if all_ctm or all_stm:
        return "ctm" if all_ctm else "stm"
    named = next((part for part in source.path.name.lower().split(".")[1:] if part in _ENDINGS), "")
    if named:
        return _ENDINGS[named]
    if lines and all(map(split_trn, lines)):
        return "trn"
    return "kaldi" if len(lines) > 1 and begin_with_ids(lines) else "plain"


FEW = 5
"""Lines that show that a file is CTM or STM; an error in a later line is reported."""
_ENDINGS = {"ctm": "ctm", "stm": "stm", "srt": "srt", "vtt": "srt"}
"""Formats by the endings of their files."""
_CTM = re.compile(r"\S+\s+\S+\s+\d+(?:\.\d+)?\s+\d+(?:\.\d+)?\s+\S+(?:\s+-?[\d.]+)?(?:\s|$)")


def ctm_word(line: str, place: str) -> CtmWord | None:
    """The word of a line of CTM; None for a comment or an empty line."""
    cells = line.split()
    if not cells or cells[0].startswith(";;"):
        return None
    if len(cells) < 5:
        raise UserError(f"{place}: not CTM: expected `recording channel start duration word [confidence]`")
    return CtmWord(cells, *Span.read(cells[2], cells[3], place, duration=True))


_CUE = re.compile(r"\s*((?:\d+:)?\d+:\d+[.,]\d+)\s+-->\s+((?:\d+:)?\d+:\d+[.,]\d+)")
_TAG = re.compile(
    r"</?(?:b|i|u|s|c|ruby|rt|v|lang|font)(?:\.[^\s<>]*)?>|<(?:v|lang|font)(?:\.[^\s<>]*)?\s[^<>]*>|<[\d:.]+>"
    r"|\{\\[^{}]*\}",
    re.IGNORECASE,
)
"""A tag of SubRip or WebVTT, a time within a cue, or a position; other text in angle brackets is words."""


def cues(source: Source) -> Iterator[tuple[Times | None, list[str]]]:
    """The lines of subtitles: the lines of each cue with its time, and lines between cues one by one with None."""
    span: Times | None = None
    waiting: list[str] = []
    for line in source.lines():
        if span and line.strip():
            waiting.append(line)
            continue
        if span and waiting:
            yield span, waiting
            waiting = []
        match = _CUE.match(line)
        span = Span.read(match[1], match[2], f"{source.name}: subtitle at {match[1]}") if match else None
        yield None, [line]
    if span and waiting:
        yield span, waiting


def cue_words(lines: Sequence[str]) -> list[str]:
    """The words of a cue, without tags."""
    return undo_entities(_TAG.sub("", " ".join(lines))).split()
