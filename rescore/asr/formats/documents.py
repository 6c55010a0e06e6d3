"""1-best texts that are read piece by piece and written back in their own format, with words replaced and times kept.

Formats: trn, Kaldi text, plain lines, CTM, and subtitles (SRT; VTT is written alike).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.formats.text import as_number, begin_with_ids, stem_of
from rescore.formats.times import Span, spread

KINDS = ("plain", "kaldi", "trn", "ctm", "srt")
"""Formats that can be read and written back."""
PAUSE, MOST_WORDS = 1.0, 200
"""In a CTM, a text ends at a silence of this many seconds, or at this number of words."""


class Replacement(NamedTuple):
    """Characters of a text, and what is written in their place."""

    start: int
    end: int
    new: str


class Text(NamedTuple):
    """A text that may be changed."""

    id: str
    """Of the utterance, or the number of the line or phrase from 1."""
    recording: str
    text: str
    repeated: bool = False
    """Whether its words are those of another text, as a further hypothesis of the same utterance."""


class Part(NamedTuple):
    """A stretch of a document: the text in it, if any, and a function that writes the stretch with replacements."""

    text: Text | None
    render: Callable[[Sequence[Replacement]], str]


def replaced(text: str, replacements: Iterable[Replacement]) -> str:
    """The text with replacements, which are in order and do not overlap."""
    pieces, last = [], 0
    for start, end, new in replacements:
        pieces += [text[last:start], new]
        last = end
    return "".join([*pieces, text[last:]])


def kind_of(source: Source) -> str:
    """The format of a document, from its beginning."""
    if source.is_folder:
        raise UserError(f"{source.name}: is a folder; give a file with texts")
    if source.peek.root:
        raise UserError(
            f"{source.name}: is JSON; correct its words as CTM: rescore rerank {source.name} --best words.ctm"
        )
    lines = [line for line in source.head.split("\n") if line.strip() and not line.startswith(";;")]
    if len(source.head) >= 1 << 15 and len(lines) > 1:
        lines.pop()  # it may be cut
    if source.head.startswith("WEBVTT") or any(_CUE.match(line) for line in lines[:3]):
        return "srt"
    if lines and all(_CTM.fullmatch(line.strip()) for line in lines):
        return "ctm"
    if lines and all(_TRN.search(line) for line in lines):
        return "trn"
    if begin_with_ids(lines) and (len(lines) > 1 or set(lines[0].split()[0]) & set("-_")):
        return "kaldi"
    return "plain"


_CUE = re.compile(r"\s*(?:\d+:)?\d\d:\d\d[.,]\d{3} --> ")
_CTM = re.compile(r"\S+\s+\S+\s+\d+(?:\.\d+)?\s+\d+(?:\.\d+)?\s+\S+(?:\s+-?[\d.]+)?(?:\s+\S+)*")
_TRN = re.compile(r"\(([^\s()]+)\)\s*$")
_ID = re.compile(r"\s*(\S+)\s*")


def parts(source: Source, kind: str) -> Iterator[Part]:
    """The parts of a document, which make up the document again when they are written."""
    if kind == "ctm":
        return _ctm_parts(source)
    if kind == "srt":
        return _subtitle_parts(source)
    return (_line_part(line, number, stem_of(source), kind) for number, line in enumerate(source.lines(), 1))


def _verbatim(text: str) -> Part:
    return Part(None, lambda changes: text)


def recording_of(utterance: str) -> str:
    """The recording of an utterance: its id without the last part."""
    return re.sub(r"[-_][^-_]*$", "", utterance)


def _line_part(line: str, number: int, stem: str, kind: str) -> Part:
    """A line of trn or Kaldi text, or a plain line."""
    if not line.strip() or (kind == "trn" and line.startswith(";;")):
        return _verbatim(f"{line}\n")
    name, recording, begin, end = str(number), stem, 0, len(line)
    match = {"trn": _TRN.search, "kaldi": _ID.match}[kind](line) if kind != "plain" else None
    if match:
        name, recording = match[1], recording_of(match[1])
        begin, end = (0, match.start()) if kind == "trn" else (match.end(), end)
    text = line[begin:end]
    return Part(Text(name, recording, text), lambda changes: f"{line[:begin]}{replaced(text, changes)}{line[end:]}\n")


def _subtitle_parts(source: Source) -> Iterator[Part]:
    """One part for each cue: its lines of text, as one text, up to the empty line."""
    waiting: list[str] = []
    number, inside = 0, False

    def cue() -> Part:
        text = "\n".join(waiting)
        return Part(Text(str(number), stem_of(source), text), lambda changes: replaced(text, changes) + "\n")

    for line in source.lines():
        if inside and line.strip():
            waiting.append(line)
            continue
        if waiting:
            yield cue()
            waiting = []
        inside = bool(_CUE.match(line))
        number += inside
        yield _verbatim(f"{line}\n")
    if waiting:
        yield cue()


def _places(words: Sequence[str], changes: Sequence[Replacement]) -> list[tuple[int, int, list[str]]]:
    """The replacements of the words' joined text as whole words: the first, the end, and the words in their place."""
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]
    text = " ".join(words)
    places = []
    for start, end, new in changes:
        first = max(number for number, begin in enumerate(starts) if begin <= start)
        last = min((number for number, begin in enumerate(starts) if begin >= end), default=len(words))
        ending = starts[last] - 1 if last < len(words) else len(text)
        places.append((first, last, (text[starts[first] : start] + new + text[end:ending]).split()))
    return places


def _ctm_parts(source: Source) -> Iterator[Part]:
    """One part for each stretch of words of a channel without a long silence; other lines stay as they are."""
    waiting: list[tuple[list[str], Span]] = []
    for number, line in enumerate(source.lines(), 1):
        fields = line.split()
        is_word = len(fields) >= 5 and not line.startswith(";;")
        place = f"{source.name}: line {number}"
        span = Span.read(fields[2], fields[3], place, duration=True) if is_word else Span(0.0, 0.0)
        if is_word and len(fields) > 5:
            as_number(fields[5], place, "confidence")
        last, end = waiting[-1] if waiting else ([], span)
        goes_on = is_word and last[:2] == fields[:2] and span.start - end.end <= PAUSE
        if waiting and not (goes_on and len(waiting) < MOST_WORDS):
            yield _ctm_part(waiting)
            waiting = []
        if is_word:
            waiting.append((fields, span))
        else:
            yield _verbatim(f"{line}\n")
    if waiting:
        yield _ctm_part(waiting)


def _ctm_part(timed: list[tuple[list[str], Span]]) -> Part:
    rows, times = [row for row, _ in timed], [span for _, span in timed]
    words = [row[4] for row in rows]

    def render(changes: Sequence[Replacement]) -> str:
        lines, done = [], 0
        for first, last, new in _places(words, changes):
            lines += rows[done:first]
            spans: Sequence[tuple[float, float]] = times[first:last]
            if len(spans) != len(new):  # the new words share the time by letters
                spans = spread(new, (spans[0][0], spans[-1][1]))
            confidence = min((row[5:6] for row in rows[first:last]), key=lambda cells: [*map(float, cells)])
            for word, (start, end) in zip(new, spans, strict=True):
                lines.append([*rows[first][:2], f"{start:.2f}", f"{end - start:.2f}", word, *confidence])
            done = last
        return "".join(" ".join(row) + "\n" for row in [*lines, *rows[done:]])

    recording = rows[0][0]
    return Part(Text(f"{recording}-{rows[0][2]}", recording, " ".join(words)), render)
