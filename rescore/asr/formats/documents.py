"""1-best texts that are read piece by piece and written back in their own format, with
words replaced and times kept.

Formats: trn, Kaldi text, plain lines, CTM, and subtitles (SRT; VTT is written alike).
pysubs2 would number cues again, drop styles and positions, and make words of notes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """Return the text with replacements.

    Args:
        text: The text.
        replacements: In order, without overlap.
    """
    pieces = []
    last = 0
    for start, end, new in replacements:
        pieces += [text[last:start], new]
        last = end
    pieces.append(text[last:])
    return "".join(pieces)


def kind_of(source: Source) -> str:
    """Return the format of a document, from its beginning.

    Raises:
        UserError: The document is JSON, or a folder.
    """
    kind = contents.kind_of(source)
    if kind == "json":
        raise UserError(
            f"{source.name}: is JSON; correct its words as CTM: rescore rerank"
            f" {source.name} --best words.ctm"
        )
    return kind if kind in KINDS else "plain"


def parts(source: Source, kind: str) -> Iterator[Part]:
    """Return the parts of a document, which make up the document again when they are
    written.

    Args:
        source: The document.
        kind: Its format, of `KINDS`.
    """
    if kind == "ctm":
        return _ctm_parts(source)
    if kind == "srt":
        return _subtitle_parts(source)
    return _line_parts(source, kind)


def _verbatim(line: str) -> Part:
    """Return a line that stays as it is."""
    return Part(None, lambda changes: f"{line}\n")


# --- lines ---------------------------------------------------------------------------


def _line_parts(source: Source, kind: str) -> Iterator[Part]:
    """Yield one part for each line."""
    stem = stem_of(source)
    for number, line in enumerate(source.lines(), 1):
        yield _line_part(line, number, stem, kind)


def _line_part(line: str, number: int, stem: str, kind: str) -> Part:
    """Return a line of trn or Kaldi text, or a plain line."""
    if not line.strip() or (kind == "trn" and line.startswith(";;")):
        return _verbatim(line)
    name = str(number)
    of = stem
    begin = 0
    end = len(line)
    if kind == "trn":
        split = split_trn(line)
        if split:
            end = len(split[0])
            name = split[1]
            of = recording(name)
    elif kind == "kaldi":
        match = re.match(r"\s*(\S+)\s*", line)
        if match:
            begin = match.end()
            name = match[1]
            of = recording(name)
    text = line[begin:end]
    return Part(
        Text(name, of, text),
        lambda changes: f"{line[:begin]}{replaced(text, changes)}{line[end:]}\n",
    )


# --- subtitles -----------------------------------------------------------------------


def _subtitle_parts(source: Source) -> Iterator[Part]:
    """Yield one part for each cue: its lines of text, as one text, up to the empty
    line.
    """
    number = 0
    for span, lines in cues(source):
        text = "\n".join(lines)
        if span:
            number += 1
            yield _cue_part(Text(str(number), stem_of(source), text))
        else:
            yield _verbatim(text)


def _cue_part(text: Text) -> Part:
    """Return the text of a cue."""
    return Part(text, lambda changes: replaced(text.text, changes) + "\n")


# --- CTM -----------------------------------------------------------------------------


def _ctm_parts(source: Source) -> Iterator[Part]:
    """Yield one part for each stretch of words of a channel without a long silence;
    other lines stay as they are.
    """
    waiting: list[CtmWord] = []
    for number, line in enumerate(source.lines(), 1):
        place = f"{source.name}: line {number}"
        word = ctm_word(line, place)
        if word and word.mark:
            word = None
        if word and len(word.cells) > 5:
            as_number(word.cells[5], place, "confidence")
        if waiting and not (word and _goes_on(waiting, word)):
            yield _ctm_part(waiting)
            waiting = []
        if word:
            waiting.append(word)
        else:
            yield _verbatim(line)
    if waiting:
        yield _ctm_part(waiting)


def _goes_on(stretch: Sequence[CtmWord], word: CtmWord) -> bool:
    """Return whether a word belongs to the stretch of words before it."""
    before = stretch[-1]
    same_channel = before.cells[:2] == word.cells[:2]
    return same_channel and word.goes_on(before.end, len(stretch))


def _ctm_part(words: Sequence[CtmWord]) -> Part:
    """Return a stretch of words as one text, called after its recording and start."""
    name, _, start = words[0].cells[:3]
    text = " ".join(word.word for word in words)
    return Part(
        Text(f"{name}-{start}", name, text),
        lambda changes: _ctm_lines(words, changes),
    )


def _ctm_lines(words: Sequence[CtmWord], changes: Sequence[Replacement]) -> str:
    """Return the lines of words after replacements in their joined text."""
    rows = []
    done = 0
    for first, last, new in _places([word.word for word in words], changes):
        rows += [word.cells for word in words[done:first]]
        rows += _new_rows(words[first:last], new)
        done = last
    rows += [word.cells for word in words[done:]]
    return "".join(" ".join(row) + "\n" for row in rows)


def _new_rows(old: Sequence[CtmWord], new: Sequence[str]) -> list[list[str]]:
    """Return the cells of new words in place of old words, whose times and least
    confidence they have.
    """
    spans = [(word.start, word.end) for word in old]
    if len(spans) != len(new):  # the new words share the time by letters
        spans = spread(new, (spans[0][0], spans[-1][1]))
    # a cell, or no cell if an old word has none
    confidences = [word.cells[5:6] for word in old]
    confidence = min(confidences, key=lambda cells: [*map(float, cells)])
    rows = []
    for word, (start, end) in zip(new, spans, strict=True):
        times = [f"{start:.2f}", f"{end - start:.2f}"]
        rows.append([*old[0].cells[:2], *times, word, *confidence])
    return rows


def _places(
    words: Sequence[str], changes: Sequence[Replacement]
) -> list[tuple[int, int, list[str]]]:
    """Return the replacements of the words' joined text as whole words: the first, the
    word behind the last, and the words in their place.
    """
    text = " ".join(words)
    starts = [0]
    for word in words[:-1]:
        starts.append(starts[-1] + len(word) + 1)
    places = []
    for start, end, new in changes:
        first = bisect_right(starts, start) - 1
        last = bisect_left(starts, end)
        ending = starts[last] - 1 if last < len(words) else len(text)
        whole = text[starts[first] : start] + new + text[end:ending]
        places.append((first, last, whole.split()))
    return places
