"""1-best texts that are read piece by piece and written back in their own format, with
words replaced and times kept.

Formats: trn, Kaldi text, plain lines, CTM, and subtitles (SRT; VTT is written alike).
pysubs2 would number cues again, drop styles and positions, and make words of notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from rescore.asr.formats import contents
from rescore.asr.formats.contents import CtmWord, ctm_word, cues
from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.formats.text import as_number, split_trn, stem_of
from rescore.formats.times import spread
from rescore.lms.neighbours import recording

KINDS = ("plain", "kaldi", "trn", "ctm", "srt")
"""Formats that can be read and written back."""


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
    """Whether its words are those of another text, as a further hypothesis of the same
    utterance.
    """


class Part(NamedTuple):
    """A stretch of a document: the text in it, if any, and a function that writes the
    stretch with replacements.
    """

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
    kind = contents.kind_of(source)
    if kind == "json":
        raise UserError(
            f"{source.name}: is JSON; correct its words as CTM: rescore rerank"
            f" {source.name} --best words.ctm"
        )
    return kind if kind in KINDS else "plain"


def parts(source: Source, kind: str) -> Iterator[Part]:
    """The parts of a document, which make up the document again when they are
    written.
    """
    if kind == "ctm":
        return _ctm_parts(source)
    if kind == "srt":
        return _subtitle_parts(source)
    return (
        _line_part(line, number, stem_of(source), kind)
        for number, line in enumerate(source.lines(), 1)
    )


def _verbatim(text: str) -> Part:
    return Part(None, lambda changes: text)


def _line_part(line: str, number: int, stem: str, kind: str) -> Part:
    """A line of trn or Kaldi text, or a plain line."""
    if not line.strip() or (kind == "trn" and line.startswith(";;")):
        return _verbatim(f"{line}\n")
    name, of, begin, end = str(number), stem, 0, len(line)
    if kind == "trn" and (found := split_trn(line)):
        name, of, end = found[1], recording(found[1]), len(found[0])
    elif kind == "kaldi" and (match := re.match(r"\s*(\S+)\s*", line)):
        name, of, begin = match[1], recording(match[1]), match.end()
    text = line[begin:end]
    return Part(
        Text(name, of, text),
        lambda changes: f"{line[:begin]}{replaced(text, changes)}{line[end:]}\n",
    )


def _subtitle_parts(source: Source) -> Iterator[Part]:
    """One part for each cue: its lines of text, as one text, up to the empty line."""
    number = 0
    for span, lines in cues(source):
        text = "\n".join(lines)
        number += span is not None
        yield (
            _cue_part(str(number), stem_of(source), text)
            if span
            else _verbatim(f"{text}\n")
        )


def _cue_part(name: str, recording: str, text: str) -> Part:
    return Part(
        Text(name, recording, text), lambda changes: replaced(text, changes) + "\n"
    )


def _places(
    words: Sequence[str], changes: Sequence[Replacement]
) -> list[tuple[int, int, list[str]]]:
    """The replacements of the words' joined text as whole words: the first, the end,
    and the words in their place.
    """
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]
    text = " ".join(words)
    places = []
    for start, end, new in changes:
        first = max(number for number, begin in enumerate(starts) if begin <= start)
        last = min(
            (number for number, begin in enumerate(starts) if begin >= end),
            default=len(words),
        )
        ending = starts[last] - 1 if last < len(words) else len(text)
        places.append(
            (
                first,
                last,
                (text[starts[first] : start] + new + text[end:ending]).split(),
            )
        )
    return places


def _ctm_parts(source: Source) -> Iterator[Part]:
    """One part for each stretch of words of a channel without a long silence; other
    lines stay as they are.
    """
    waiting: list[CtmWord] = []
    for number, line in enumerate(source.lines(), 1):
        place = f"{source.name}: line {number}"
        if (word := ctm_word(line, place)) and word.mark:
            word = None
        if word and len(word.cells) > 5:
            as_number(word.cells[5], place, "confidence")
        same = word and waiting and waiting[-1].cells[:2] == word.cells[:2]
        if waiting and not (
            word and same and word.goes_on(waiting[-1].end, len(waiting))
        ):
            yield _ctm_part(waiting)
            waiting = []
        if word:
            waiting.append(word)
        else:
            yield _verbatim(f"{line}\n")
    if waiting:
        yield _ctm_part(waiting)


def _ctm_part(words: list[CtmWord]) -> Part:
    rows = [word.cells for word in words]

    def render(changes: Sequence[Replacement]) -> str:
        lines, done = [], 0
        for first, last, new in _places([word.word for word in words], changes):
            lines += rows[done:first]
            spans = [(word.start, word.end) for word in words[first:last]]
            if len(spans) != len(new):  # the new words share the time by letters
                spans = spread(new, (spans[0][0], spans[-1][1]))
            confidence = min(
                (row[5:6] for row in rows[first:last]),
                key=lambda cells: [*map(float, cells)],
            )
            for written, (start, end) in zip(new, spans, strict=True):
                lines.append(
                    [
                        *rows[first][:2],
                        f"{start:.2f}",
                        f"{end - start:.2f}",
                        written,
                        *confidence,
                    ]
                )
            done = last
        return "".join(" ".join(row) + "\n" for row in [*lines, *rows[done:]])

    text = " ".join(word.word for word in words)
    return Part(Text(f"{rows[0][0]}-{rows[0][2]}", rows[0][0], text), render)
