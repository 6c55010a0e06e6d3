"""Files with the words of recordings: their format, the words of CTM, subtitle cues.

pysubs2 does not read the same words from subtitles: it takes notes and names of cues
for words, leaves entities, removes words in angle brackets such as `<laughs>`, skips
SubRip times without hours, and accepts a cue that ends before it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from rescore.errors import UserError
from rescore.formats.alternatives import AS_LETTERS
from rescore.formats.ids import begin_with_ids
from rescore.formats.references import STM, is_stm
from rescore.formats.source import HEAD, Source, sniff
from rescore.formats.text import split_trn, undo_entities
from rescore.formats.times import Span, Times

# --- formats -------------------------------------------------------------------------

FEW = 5
"""Lines that show that a file is CTM or STM; an error in a later line is reported."""
_ENDINGS = {"ctm": "ctm", "stm": "stm", "srt": "srt", "vtt": "srt"}
"""Formats by the endings of their files."""
_CTM = re.compile(
    r"\S+\s+\S+\s+"  # recording and channel
    r"(?:\d+(?:\.\d+)?\s+\d+(?:\.\d+)?\s+\S+(?:\s+-?[\d.]+)?(?:\s|$)|\*\s+\*\s+<alt)",
    re.IGNORECASE,
)
"""The beginning of a line of CTM: times and a word, or a mark of alternatives."""


def kind_of(source: Source) -> str:
    """Return the format of a file by its contents.

    A name such as `talk.ctm` decides only where the contents have no format, so that
    the reader names the wrong line.

    Args:
        source: A file, which is only peeked into.

    Returns:
        json, srt (also for VTT), ctm, stm, trn, kaldi or plain.

    Raises:
        UserError: The source is a folder.
    """
    if source.is_folder:
        raise UserError(f"{source.name}: is a folder; give a file with texts")
    if source.peek.root:
        return "json"
    lines = _lines_of(source.head)
    if source.head.startswith("WEBVTT") or any(map(_CUE.match, lines[:3])):
        return "srt"
    kind = _timed_kind(lines[:FEW])
    if kind:
        return kind
    for ending in source.path.name.lower().split(".")[1:]:
        if ending in _ENDINGS:
            return _ENDINGS[ending]
    if lines and all(map(split_trn, lines)):
        return "trn"
    if len(lines) > 1 and begin_with_ids(lines):
        return "kaldi"
    return "plain"


def _lines_of(head: str) -> list[str]:
    """Return the whole lines at the beginning of a file, without empty ones and
    comments.
    """
    lines = [line.strip() for line in head.split("\n")]
    if len(head) >= HEAD // 2 and len(lines) > 2:
        lines.pop()  # it may be cut
    return [line for line in lines if line and not line.startswith(";;")]


def _timed_kind(lines: Sequence[str]) -> str:
    """Return ctm or stm if all lines have this format, or an empty string."""
    are_ctm = bool(lines) and all(map(_CTM.match, lines))
    are_stm = is_stm(lines)
    if are_ctm and are_stm:  # all words, or all speakers, are numbers
        starts = [line.split()[2] for line in lines]
        return "ctm" if any("." in start for start in starts) else "stm"
    if are_ctm:
        return "ctm"
    return "stm" if are_stm else ""


# --- CTM -----------------------------------------------------------------------------

PAUSE = 1.0
"""Seconds of silence that end a piece of a CTM."""
MOST_WORDS = 200
"""Words of a piece of a CTM, at most."""
_MARKS = {"<alt_begin>": "{", "<alt>": "/", "<alt_end>": "}"}
"""Lines of alternatives, and the brackets and slash of sclite that they stand for."""


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
        """The word as it is written."""
        return self.cells[4]

    @property
    def mark(self) -> str:
        """The bracket or slash of a line of alternatives; empty for a word."""
        return _MARKS.get(self.word.lower(), "")

    @property
    def middle(self) -> float:
        """The middle of the time of the word, in seconds."""
        return round((self.start + self.end) / 2, 6)

    @property
    def letters(self) -> str:
        """The word, in which brackets and slashes are letters; `@` is no word."""
        if self.word == "@":
            return self.word
        return self.word.translate(AS_LETTERS)

    def goes_on(self, end: float, words: int) -> bool:
        """Return whether the word belongs to the piece before it.

        Args:
            end: The end of the piece, in seconds.
            words: The number of words in the piece.
        """
        return self.start - end <= PAUSE and words < MOST_WORDS


def ctm_word(line: str, place: str) -> CtmWord | None:
    """Return the word, or mark of alternatives, of a line of CTM.

    Args:
        line: The line.
        place: The file and the line, for errors.

    Returns:
        The word; None for a comment or an empty line.

    Raises:
        UserError: The line is not CTM.
    """
    cells = line.split()
    if not cells or cells[0].startswith(";;"):
        return None
    if len(cells) < 5:
        raise UserError(
            f"{place}: not CTM: expected `recording channel start duration word"
            " [confidence]`"
        )
    mark = CtmWord(cells, 0.0, 0.0)
    if cells[2:4] == ["*", "*"] and mark.mark:
        return mark
    return CtmWord(cells, *Span.read(cells[2], cells[3], place, duration=True))


class StmLine(NamedTuple):
    """A segment of an STM."""

    recording: str
    channel: str
    speaker: str
    span: Span
    text: str


def stm_lines(source: Source) -> Iterator[StmLine]:
    """Yield the segments of an STM, in the order of the file.

    Raises:
        UserError: A line is not STM, or its times are no span.
    """
    for place, line in source.filled():
        if line.startswith(";;"):
            continue
        match = STM.fullmatch(line)
        if match is None:
            raise UserError(
                f"{place}: not stm: expected `file channel speaker start end text`"
            )
        recording, channel, speaker, start, end, text = match.groups()
        yield StmLine(recording, channel, speaker, Span.read(start, end, place), text)


def ctm_words(source: Source) -> Iterator[CtmWord]:
    """Yield the words of a CTM.

    Of alternatives these are the words of the first, behind an empty word (`@`) at the
    time of the latest word of all.

    Raises:
        UserError: A line is not CTM, or alternatives are not closed.
    """
    alternatives: list[CtmWord] = []
    for place, line in source.filled():
        word = ctm_word(line, place)
        if word is None:
            continue
        _check_order(alternatives, word, place)
        if not alternatives and not word.mark:
            yield word._replace(spoken=(word.letters, word.middle))
            continue
        alternatives.append(word)
        if word.mark == "}":
            yield _empty_word(alternatives)
            yield from takewhile(lambda word: not word.mark, alternatives[1:])
            alternatives = []
    if alternatives:
        raise UserError(
            f"{place}: <ALT_BEGIN> without <ALT_END> up to here; add <ALT_END> behind"
            " the last alternative"
        )


def _empty_word(alternatives: Sequence[CtmWord]) -> CtmWord:
    """Return the empty word that says which alternatives were spoken, and when."""
    latest = max(alternatives, key=lambda word: word.start + word.end)
    text = " ".join(word.mark or word.letters for word in alternatives)
    return latest._replace(cells=[*latest.cells[:4], "@"], spoken=(text, latest.middle))


def _check_order(alternatives: Sequence[CtmWord], word: CtmWord, place: str) -> None:
    """Check that a line can stand where it stands.

    Args:
        alternatives: The lines of alternatives before it that are not closed.
        word: The line.
        place: The file and the line, for errors.
    """
    first = word
    allowed = {"", "{"}
    if alternatives:
        first = alternatives[0]
        allowed = {"", "/"}
        if not all(line.mark for line in alternatives):
            allowed.add("}")
    if word.mark not in allowed or word.cells[:2] != first.cells[:2]:
        raise UserError(
            f"{place}: {' '.join(word.cells)} cannot stand here; write alternatives as"
            " lines of one channel: <ALT_BEGIN>, words, <ALT>, words, <ALT_END>"
        )


# --- subtitles -----------------------------------------------------------------------

_CLOCK = r"(?:\d+:)?\d+:\d+(?:[.,]\d+)?"
_CUE = re.compile(rf"\s*({_CLOCK})\s+-->\s+({_CLOCK})(?:\s|$)")
_NO_CUE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
"""The beginning of a block of WebVTT that is no cue."""
_TAG = re.compile(
    r"</?(?:b|i|u|s|c|ruby|rt|v|lang|font)(?:\.[^\s<>]*)?>"
    r"|<(?:v|lang|font)(?:\.[^\s<>]*)?\s[^<>]*>"
    r"|<[\d:.]+>"
    r"|\{\\[^{}]*\}",
    re.IGNORECASE,
)
"""A tag of SubRip or WebVTT, a time within a cue, or a position; other text in angle
brackets is words.
"""


def cues(source: Source) -> Iterator[tuple[Times | None, list[str]]]:
    """Yield the lines of subtitles with their times.

    Yields:
        The lines of each cue together, with its start and end in seconds; lines between
        cues one by one, with None.

    Raises:
        UserError: A time is wrong.
    """
    lines = list(source.lines())
    span: Times | None = None
    waiting: list[str] = []
    for number, line in enumerate(lines):
        is_time = _CUE.match(line) is not None
        if span and not (is_time or _is_heading(lines, number)):
            waiting.append(line)
            continue
        yield from _cue(span, waiting)
        waiting = []
        span = None
        match = _CUE.match(line)
        if match:
            place = f"{source.name}: subtitle at {match[1]}"
            span = Span.read(match[1], match[2], place)
        yield None, [line]
    yield from _cue(span, waiting)


def _is_heading(lines: Sequence[str], number: int) -> bool:
    """Return whether a line ends the cue before it: the number or the name of the next
    cue, or the beginning of a note. An empty line alone ends no cue: programs write
    texts with empty lines.
    """
    line = lines[number]
    is_first = not lines[number - 1].strip()
    if is_first and _NO_CUE.match(line):
        return True
    if not line.strip() or number + 1 == len(lines):
        return False
    # only WebVTT has cues with names
    has_names = lines[0].startswith("WEBVTT")
    is_name = (is_first and has_names) or line.strip().isdecimal()
    return is_name and _CUE.match(lines[number + 1]) is not None


def _cue(
    span: Times | None, lines: list[str]
) -> Iterator[tuple[Times | None, list[str]]]:
    """Yield the lines of a cue; the empty lines around them one by one, with None."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    first = filled[0] if filled else len(lines)
    last = filled[-1] + 1 if filled else len(lines)
    for line in lines[:first]:
        yield None, [line]
    if filled:
        yield span, lines[first:last]
    for line in lines[last:]:
        yield None, [line]


def cue_words(lines: Sequence[str]) -> list[str]:
    """Return the words of a cue, without tags."""
    return undo_entities(_TAG.sub("", " ".join(lines))).split()


# --- whole recordings ---

DOCUMENTS = ("whisper", "speech", "parakeet")
"""Formats whose files are each of one recording."""


def are_whole(paths: Sequence[str | Path]) -> bool:
    """Return whether outputs are of whole recordings.

    They are if one has times, or is a folder or document of recordings; or if all are
    plain texts with different numbers of lines.

    Args:
        paths: The output of each system.
    """
    kinds = set()
    lengths = set()
    for source in map(Source, paths):
        if not source.is_folder and not source.is_regular:
            continue  # it cannot be read twice
        kind = _format_of(source)
        if kind in ("ctm", "stm", "srt", "folder", *DOCUMENTS):
            return True
        kinds.add(kind)
        if kind == "plain":
            lengths.add(sum(1 for _ in source.filled()))
    return kinds == {"plain"} and len(lengths) > 1


def _format_of(source: Source) -> str:
    """Return the format of an output: of lists, else of texts, or "folder"."""
    if source.is_folder:
        return sniff(source) or "folder"
    kind = kind_of(source)
    if kind in ("json", "plain"):
        return sniff(source) or kind
    return kind
