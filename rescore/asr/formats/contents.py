"""What files with the words of recordings contain: the format of a file, the words of a
CTM, the cues of subtitles.

pysubs2 does not read the same words from subtitles: it takes notes and names of cues
for words, leaves entities, removes words in angle brackets such as `<laughs>`, skips
SubRip times without hours, and accepts a cue that ends before it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from rescore.errors import UserError
from rescore.formats.references import AS_LETTERS, is_stm
from rescore.formats.source import HEAD, Source
from rescore.formats.text import begin_with_ids, split_trn, undo_entities
from rescore.formats.times import Span

Times = tuple[float, float]
"""Start and end, in seconds."""

PAUSE, MOST_WORDS = 1.0, 200
"""In a CTM, a piece ends at a silence of this many seconds, or at this number of
words.
"""


class CtmWord(NamedTuple):
    """A line of a CTM."""

    cells: list[str]
    start: float
    end: float
    spoken: tuple[str, float] | None = None
    """The word, or alternatives such as `{ a / b c }`, and the middle of its time; None
    in the first alternative.
    """

    @property
    def word(self) -> str:
        return self.cells[4]

    @property
    def mark(self) -> str:
        """The bracket or slash that a line of alternatives stands for; empty for a
        word.
        """
        return {"<alt_begin>": "{", "<alt>": "/", "<alt_end>": "}"}.get(
            self.word.lower(), ""
        )

    def goes_on(self, end: float, words: int) -> bool:
        """Whether it belongs to the piece before it, which ends at `end` and has this
        number of words.
        """
        return self.start - end <= PAUSE and words < MOST_WORDS


def kind_of(source: Source) -> str:
    """The format of a file by its contents: json, srt (also VTT), ctm, stm, trn, kaldi
    or plain.

    A name such as `talk.ctm` decides only where the contents have no format, so that
    the reader names the wrong line.
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
    named = next(
        (part for part in source.path.name.lower().split(".")[1:] if part in _ENDINGS),
        "",
    )
    if named:
        return _ENDINGS[named]
    if lines and all(map(split_trn, lines)):
        return "trn"
    return "kaldi" if len(lines) > 1 and begin_with_ids(lines) else "plain"


FEW = 5
"""Lines that show that a file is CTM or STM; an error in a later line is reported."""
_ENDINGS = {"ctm": "ctm", "stm": "stm", "srt": "srt", "vtt": "srt"}
"""Formats by the endings of their files."""
_CTM = re.compile(
    r"\S+\s+\S+\s+(?:\d+(?:\.\d+)?\s+\d+(?:\.\d+)?\s+\S+(?:\s+-?[\d.]+)?(?:\s|$)|\*\s+\*\s+<alt)",
    re.IGNORECASE,
)


def ctm_word(line: str, place: str) -> CtmWord | None:
    """The word, or mark of alternatives, of a line of CTM; None for a comment or an
    empty line.
    """
    cells = line.split()
    if not cells or cells[0].startswith(";;"):
        return None
    if len(cells) < 5:
        raise UserError(
            f"{place}: not CTM: expected `recording channel start duration word"
            " [confidence]`"
        )
    if cells[2:4] == ["*", "*"] and CtmWord(cells, 0.0, 0.0).mark:
        return CtmWord(cells, 0.0, 0.0)
    return CtmWord(cells, *Span.read(cells[2], cells[3], place, duration=True))


def ctm_words(source: Source) -> Iterator[CtmWord]:
    """The words of a CTM. Of alternatives these are the first, behind an empty word at
    the time of the latest.
    """
    group: list[CtmWord] = []
    for place, line in source.filled():
        if (word := ctm_word(line, place)) is None:
            continue
        _check_order(group, word, place)
        group.append(word)
        if not group[0].mark or word.mark == "}":
            latest = max(group, key=lambda word: word.start + word.end)
            text = " ".join(
                word.mark or word.word.translate(AS_LETTERS) for word in group
            )
            cells = [*latest.cells[:4], "@"] if group[0].mark else latest.cells
            yield latest._replace(
                cells=cells, spoken=(text, round((latest.start + latest.end) / 2, 6))
            )
            yield from takewhile(lambda word: not word.mark, group[1:])
            group.clear()
    if group:
        raise UserError(
            f"{place}: <ALT_BEGIN> without <ALT_END> up to here; add <ALT_END> behind"
            " the last alternative"
        )


def _check_order(group: Sequence[CtmWord], word: CtmWord, place: str) -> None:
    """Check that a line can stand behind the lines of alternatives that are not closed,
    or behind other words.
    """
    marks = (
        {"", "{"}
        if not group
        else {"", "/"}
        if all(each.mark for each in group)
        else {"", "/", "}"}
    )
    if word.mark not in marks or word.cells[:2] != (group or [word])[0].cells[:2]:
        raise UserError(
            f"{place}: {' '.join(word.cells)} cannot stand here; write alternatives as"
            " lines of one channel: <ALT_BEGIN>, words, <ALT>, words, <ALT_END>"
        )


_CUE = re.compile(r"\s*((?:\d+:)?\d+:\d+[.,]\d+)\s+-->\s+((?:\d+:)?\d+:\d+[.,]\d+)")
_TAG = re.compile(
    r"</?(?:b|i|u|s|c|ruby|rt|v|lang|font)(?:\.[^\s<>]*)?>|<(?:v|lang|font)(?:\.[^\s<>]*)?\s[^<>]*>|<[\d:.]+>"
    r"|\{\\[^{}]*\}",
    re.IGNORECASE,
)
"""A tag of SubRip or WebVTT, a time within a cue, or a position; other text in angle
brackets is words.
"""


def cues(source: Source) -> Iterator[tuple[Times | None, list[str]]]:
    """The lines of subtitles: the lines of each cue with its time, and lines between
    cues one by one with None.
    """
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
        span = (
            Span.read(match[1], match[2], f"{source.name}: subtitle at {match[1]}")
            if match
            else None
        )
        yield None, [line]
    if span and waiting:
        yield span, waiting


def cue_words(lines: Sequence[str]) -> list[str]:
    """The words of a cue, without tags."""
    return undo_entities(_TAG.sub("", " ".join(lines))).split()
