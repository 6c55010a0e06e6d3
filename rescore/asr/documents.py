"""1-best texts that are read piece by piece and written back in their own format, with
words replaced and times kept.

Formats: trn, Kaldi text, plain lines, CTM, STM, and subtitles (SRT; VTT is written
alike). pysubs2 would number cues again, drop styles and positions, and make words of
notes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rescore.errors import UserError
from rescore.formats import segments
from rescore.formats.alignments import is_alignment
from rescore.formats.segments import JSON, READERS, Segment, goes_on
from rescore.formats.source import Source
from rescore.formats.text import as_number
from rescore.formats.times import spread
from rescore.formats.understood import tell_documents
from rescore.lms.neighbours import recording

KINDS = ("plain", "kaldi", "trn", "ctm", "stm", "srt")
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


class Passage(NamedTuple):
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
        UserError: The document is JSON, an alignment of a scorer, or a folder.
    """
    kind = segments.kind_of(source)
    if kind in (JSON, "seglst"):
        raise UserError(
            f"{source.name}: is JSON; correct its words as CTM: rescore rerank"
            f" {source.name} --best words.ctm"
        )
    if is_alignment(source):
        raise UserError(
            f"{source.name}: is an alignment of a scorer; correct its hypotheses:"
            f" rescore rerank {source.name} --best texts.trn"
        )
    return kind if kind in KINDS else "plain"


def passages(source: Source, kind: str) -> Iterator[Passage]:
    """Return the passages of a document, which make up the document again when they are
    written.

    Args:
        source: The document.
        kind: Its format, of `KINDS`.
    """
    if kind == "ctm":
        return _ctm_passages(source)
    return _passages(source, kind)


def _passages(source: Source, kind: str) -> Iterator[Passage]:
    """Yield one passage for each line or cue. Empty lines count as lines of a text, and
    not as cues.
    """
    number = 0
    for place in READERS[kind](source):
        if kind != "srt" or isinstance(place, Segment):
            number += 1
        if isinstance(place, Segment):
            yield _passage(place, number)
        else:
            yield _verbatim(place)


def _verbatim(line: str) -> Passage:
    """Return a line that stays as it is."""
    return Passage(None, lambda changes: f"{line}\n")


def _passage(segment: Segment, number: int) -> Passage:
    """Return the text of a line or cue.

    Args:
        segment: The line or cue.
        number: Its number.
    """
    name = str(number)
    own = segment.recording
    if segment.id is not None:
        name = segment.id
        own = recording(name)
    text, before, behind = segment.text, segment.before, segment.behind
    return Passage(
        Text(name, own, text),
        lambda changes: f"{before}{replaced(text, changes)}{behind}\n",
    )


class Documents:
    """What was read from documents, for users."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._kinds: dict[str, None] = {}
        self._texts = 0

    def counted(
        self, document: Iterable[Passage], name: str, kind: str
    ) -> Iterator[Passage]:
        """Yield the passages of a document, whose texts are counted.

        Args:
            document: The passages.
            name: The name of the document.
            kind: Its format, of `KINDS`.
        """
        self._names.append(name)
        self._kinds[kind] = None
        for passage in document:
            self._texts += passage.text is not None
            yield passage

    def tell(self) -> None:
        """Log the line, when all is read."""
        tell_documents(self._names, self._texts, self._kinds)


# --- CTM -----------------------------------------------------------------------------


def _ctm_passages(source: Source) -> Iterator[Passage]:
    """Yield one passage for each stretch of words of a channel without a long silence;
    other lines, and marks of alternatives, stay as they are.
    """
    waiting: list[Segment] = []
    for place in READERS["ctm"](source):
        word = None
        if isinstance(place, Segment) and not place.mark:
            word = place
            _check_confidence(word)
        if waiting and not (word and goes_on(word, waiting[-1], len(waiting))):
            yield _ctm_passage(waiting)
            waiting = []
        if word:
            waiting.append(word)
        else:
            yield _verbatim(place.line if isinstance(place, Segment) else place)
    if waiting:
        yield _ctm_passage(waiting)


def _check_confidence(word: Segment) -> None:
    """Check that the confidence of a word, if it has one, is a number."""
    for confidence in _confidence(word):
        as_number(confidence, word.place, "confidence")


def _confidence(word: Segment) -> list[str]:
    """Return the cell with the confidence of a word; no cell if the word has none."""
    return word.behind.split()[:1]


def _ctm_passage(words: Sequence[Segment]) -> Passage:
    """Return a stretch of words as one text, called after its recording and start."""
    name, _, start = words[0].line.split()[:3]
    text = " ".join(word.text for word in words)
    return Passage(
        Text(f"{name}-{start}", name, text),
        lambda changes: _ctm_lines(words, changes),
    )


def _ctm_lines(words: Sequence[Segment], changes: Sequence[Replacement]) -> str:
    """Return the lines of words after replacements in their joined text."""
    lines = []
    done = 0
    for first, last, new in _places([word.text for word in words], changes):
        lines += [word.line for word in words[done:first]]
        lines += _new_lines(words[first:last], new)
        done = last
    lines += [word.line for word in words[done:]]
    return "".join(f"{line}\n" for line in lines)


def _new_lines(old: Sequence[Segment], new: Sequence[str]) -> list[str]:
    """Return the lines of new words in place of old words, whose times and least
    confidence they have.
    """
    spans = [tuple(word.span) for word in old if word.span]
    if len(spans) != len(new):  # the new words share the time by letters
        spans = list(spread(new, (spans[0][0], spans[-1][1])))
    # a cell, or no cell if an old word has none
    confidence = min(map(_confidence, old), key=lambda cells: [*map(float, cells)])
    lines = []
    for word, (start, end) in zip(new, spans, strict=True):
        times = [f"{start:.2f}", f"{end - start:.2f}"]
        cells = [old[0].recording, old[0].channel, *times, word, *confidence]
        lines.append(" ".join(cells))
    return lines


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
