"""The pieces of whole recordings: segments, cues, lines, lists, or stretches of a CTM
without a long silence.

A piece names its recording, or has the id of an utterance; `rescore.asr.whole` learns
from the other systems which recording that is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.alternatives import AS_LETTERS, unescaped
from rescore.formats.ids import Words, are_numbers, begin_with_ids, check_ids
from rescore.formats.reading import lists_in
from rescore.formats.said import said
from rescore.formats.segments import (
    JSON,
    Segment,
    as_kaldi,
    first_alternative,
    goes_on,
    is_comment,
    kind_of,
    trn_lines,
    with_alternatives,
)
from rescore.formats.source import UNORDERED, ReadOptions, Source
from rescore.formats.subtitles import cue_words
from rescore.formats.text import Marks, stem_of, strip_markup
from rescore.formats.texts import is_called_table, is_table
from rescore.formats.times import Span, Times, time_order, timed_pieces
from rescore.nbest import as_first_pass, ranking


class Piece(NamedTuple):
    """Words of a recording that stand together in a file."""

    name: str
    """The recording, or the id of an utterance."""
    words: list[str]
    times: Sequence[Times] = ()
    channel: str = ""
    is_id: bool = False
    segments: Sequence[tuple[str, Span, str]] = ()
    """Speaker, time and text of a segment of an STM."""
    spoken: Sequence[tuple[str, float]] = ()
    """The words of a CTM, or alternatives, with the middle of their time."""
    letters: Mapping[int, Sequence[Times]] = {}
    """The times of the `timed_pieces` of a word that has several, by its place."""


class Look(Enum):
    """What the first words of the lines of a text look like; in trn, the brackets at
    their ends.
    """

    IDS = "ids"
    NUMBERS = "numbers"
    """As the numbers of the lines (`1.`): they are ids only if other systems name such
    recordings.
    """
    WORDS = "words"
    """They are ids only if another system names most of them for certain, or has the
    same ids (`File.shares_ids`).
    """


class File(NamedTuple):
    """A file of a system."""

    place: str
    """The name of the file, for errors."""
    stem: str
    """The name of the recording, if the file has one recording."""
    pieces: list[Piece]
    """The pieces; none in an empty file of a form that names its recordings."""
    by_id: Sequence[Piece] = ()
    """The pieces of a text, if the first words of its lines are ids. Other systems tell
    whether they are.
    """
    first: Words | None = None
    """The lines of a text without ids at their ends."""
    look: Look = Look.WORDS
    in_folder: bool = False
    """Whether the system is a folder, in which a file is usually a recording."""
    is_named: bool = False
    """Whether the form of the file names its recordings, as CTM does."""

    def shares_ids(self, other: File) -> bool:
        """Return whether lines that begin with words have the same ids as those of a
        file of another system: the same brackets at their ends, the same first words in
        another order, or first words that stand nowhere else and have a hyphen or
        underscore.

        Recordings that begin with the same word have no id in common.

        Args:
            other: The file of the other system.
        """
        names = {piece.name for piece in self.by_id}
        theirs = {piece.name for piece in other.by_id}
        if self.in_folder or other.in_folder or not names:
            return False
        if self.first is None or other.first is None:
            return names == theirs and self.first is other.first
        if 2 * len(names & theirs) <= len(names):
            return False
        if self.first.is_reordered(other.first):
            return True
        return begin_with_ids(self.first.lines, other.first.lines)

    @property
    def is_unnamed(self) -> bool:
        """Whether nothing but the name of the file names its recording."""
        if self.is_named or self.in_folder:
            return False
        return all(piece.name == self.stem for piece in self.pieces)

    @property
    def is_plain(self) -> bool:
        """Whether the file has lines without ids, and no form tells what they are."""
        return self.first is not None and self.is_unnamed

    def with_ids_once(self) -> File:
        """Return the file; first words that begin several lines are no ids."""
        if len({piece.name for piece in self.by_id}) < len(self.by_id):
            return self._replace(by_id=())
        return self

    @property
    def is_numbered(self) -> bool:
        """Whether the ids of the pieces are their numbers: the file has no ids."""
        names = [piece.name for piece in self.pieces]
        is_by_id = all(piece.is_id for piece in self.pieces)
        return is_by_id and names[:1] == ["1"] and are_numbers(names)

    def as_recording(self) -> list[Piece]:
        """Return the pieces with the name of the file as their recording."""
        # times of utterances may count from the start of the utterance
        is_id = len(self.pieces) > 1
        named = [piece._replace(name=self.stem, is_id=is_id) for piece in self.pieces]
        return named or [Piece(self.stem, [])]


def is_json(source: Source) -> bool:
    """Return whether a file is read as lists.

    Args:
        source: The file.
    """
    return kind_of(source) == JSON


def read_file(source: Source, options: ReadOptions, strict: bool) -> File:
    """Return the pieces of a file of any format, without tags such as `<|en|>`.

    Args:
        source: The file.
        options: The options of formats, for JSON.
        strict: Whether oddities of lists are errors.

    Raises:
        UserError: The file is damaged.
    """
    kind = kind_of(source)
    stem = stem_of(source)
    if kind == JSON:
        return File(source.name, stem, list(_lists(source, options, strict)))
    if kind in _READERS:
        is_named = kind != "srt"
        pieces = list(_READERS[kind](source))
        return File(source.name, stem, pieces, is_named=is_named)
    _check_no_table(source)
    return _lines(source, kind)


def _check_no_table(source: Source) -> None:
    """Check that lines of text are not the rows of a table.

    Raises:
        UserError: They are.
    """
    if is_called_table(source.path) or is_table(source):
        raise UserError(
            f"{source.name}: is a table, not the words of a recording; give its texts:"
            f" rescore rerank {source.name} --best texts.trn"
        )


def _letters(text: str) -> list[str]:
    """Return the words of a text without alternatives, for `Recording.markup`."""
    return [word.translate(AS_LETTERS) for word in text.split()]


# --- lines of text -------------------------------------------------------------------


def _lines(source: Source, kind: str) -> File:
    """Return the pieces of a trn, a Kaldi text, or plain lines.

    Args:
        source: The file.
        kind: Its form.
    """
    stem = stem_of(source)
    lines = list(said(source, "plain"))
    if ".trn" in source.path.name:
        _check_trn(lines)
    if kind == "plain":
        check_ids([(line.place, line.text) for line in lines])
    if kind == "trn":
        lines = [line for line in lines if not is_comment(line.text)]
    texts = [Piece(stem, _words(line.text)) for line in lines] or [Piece(stem, [])]
    if kind != "trn":
        pieces = [_with_id(as_kaldi(line)) for line in lines]
        first = Words([line.text for line in lines], source.name)
        look = Look.WORDS
        if len(lines) > 1 and first.have_look:
            may_count = any(map(_NUMBER.fullmatch, first.first))
            look = Look.NUMBERS if may_count else Look.IDS
        return File(source.name, stem, texts, pieces, first, look)
    with_ids = trn_lines(lines)
    by_id = [_with_id(line) for line in with_ids or ()]
    has_name = len(lines) > 1 or ".trn" in source.path.name
    if with_ids is not None and has_name:
        return File(source.name, stem, by_id, by_id, look=Look.IDS)
    return File(source.name, stem, texts, by_id)


def _check_trn(lines: Sequence[Segment]) -> None:
    """Check that all lines of a file called trn have ids, or none has.

    Args:
        lines: The lines.

    Raises:
        UserError: A line has no id, and another has one.
    """
    texts = [line for line in lines if not is_comment(line.text)]
    without = [line.place for line in texts if trn_lines([line]) is None]
    if without and len(without) < len(texts):
        raise UserError(
            f"{without[0]}: does not end in an id in brackets, as other lines of the"
            " file do; add the id, or name the file .txt if it is one recording"
        )


def _words(text: str) -> list[str]:
    """Return the words of a line of text, without marks and escapes."""
    return unescaped(strip_markup(text, Marks.ENTITIES)).split()


def _with_id(line: Segment) -> Piece:
    """Return a line that begins or ends with an id as a piece."""
    return Piece(line.id or "", _words(line.text), is_id=True)


_NUMBER = re.compile(r"\d+\W?")
"""A word that may number a line, such as `1.`"""

# --- words with times ----------------------------------------------------------------


class _Word(NamedTuple):
    """A word of a CTM or RTTM."""

    segment: Segment
    span: Span
    spoken: tuple[str, float] | None
    """The word, or alternatives such as `{ a / b c }`, and the middle of its time; None
    in the first alternative.
    """

    @classmethod
    def of(cls, segment: Segment) -> _Word:
        """Return a word that stands alone."""
        span = _span(segment)
        return cls(segment, span, (_as_letters(segment), _middle(span)))

    @property
    def is_empty(self) -> bool:
        """Whether the word is `@`."""
        return self.segment.text == "@"


def _span(word: Segment) -> Span:
    """Return the time of a word of a form in which all words have times."""
    assert word.span is not None
    return word.span


def _middle(span: Span) -> float:
    """Return the middle of a span, in seconds."""
    return round((span.start + span.end) / 2, 6)


def _as_letters(word: Segment) -> str:
    """Return a word, in which brackets and slashes are letters; `@` is no word."""
    if word.text == "@":
        return word.text
    return word.text.translate(AS_LETTERS)


def _with_empty_words(every: Iterable[Segment]) -> Iterator[_Word]:
    """Yield the words of a CTM.

    Of alternatives these are the words of the first, behind an empty word (`@`) at the
    time of the latest word of all, which says which alternatives were spoken.
    """
    for block in with_alternatives(every):
        if not block[0].mark:
            yield _Word.of(block[0])
            continue
        words = [line for line in block if not line.mark]
        latest = max(words, key=lambda word: sum(_span(word)))
        text = " ".join(line.mark or _as_letters(line) for line in block)
        span = _span(latest)
        yield _Word(latest._replace(text="@"), span, (text, _middle(span)))
        for word in first_alternative(block):
            yield _Word(word, _span(word), None)


def _timed_words(source: Source) -> Iterator[Piece]:
    """Yield the pieces of a CTM or RTTM: the words of a channel up to a long
    silence.
    """
    pieces: dict[tuple[str, str], list[_Word]] = {}
    words = list(_with_empty_words(said(source)))
    for word in _in_order_of_time(words, source):
        segment = word.segment
        waiting = pieces.setdefault((segment.recording, segment.channel), [])
        if waiting and not goes_on(segment, waiting[-1].segment, len(waiting)):
            yield _stretch(waiting)
            waiting.clear()
        waiting.append(word)
    yield from map(_stretch, pieces.values())


def _in_order_of_time(words: list[_Word], source: Source) -> list[_Word]:
    """Return words, in which the words of each channel are in the order of their
    starts.

    A CTM with alternatives stays as it is: their lines belong together.
    """
    channels: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, word in enumerate(words):
        if word.spoken is None or word.is_empty:
            return words
        channels[word.segment.recording, word.segment.channel].append(place)
    ordered = list(words)
    for (name, channel), places in channels.items():
        order = time_order([words[place].span.start for place in places])
        if order is None:
            continue
        what = f"{source.name}: recording {name}, channel {channel}"
        source.warnings.add("recording", UNORDERED, what)
        for place, number in zip(places, order, strict=True):
            ordered[place] = words[places[number]]
    return ordered


def _stretch(words: Sequence[_Word]) -> Piece:
    """Return words of a channel as a piece; the empty word `@` is none of its words."""
    first = words[0].segment
    said = [word for word in words if not word.is_empty]
    letters = [_as_letters(word.segment) for word in said]
    times = [word.span for word in said]
    spoken = [word.spoken for word in words if word.spoken]
    channel = first.channel.upper()
    return Piece(first.recording, letters, times, channel, spoken=spoken)


# --- segments and cues ---------------------------------------------------------------


def _segments(source: Source) -> list[Piece]:
    """Return the segments of an STM, sorted by their start, or of a SegLST, or the cues
    of subtitles; the words of a segment share its time by letters.
    """
    kind = kind_of(source)
    every = list(said(source, kind))
    if kind == "stm":
        every.sort(key=lambda segment: _span(segment).start)
    pieces = []
    for segment in every:
        words = _letters(segment.text)
        own = []
        if kind == "srt":
            words = _letters(" ".join(cue_words(segment.text)))
        elif kind == "stm":  # the only form with alternatives in its texts
            words = unescaped(segment.text).split()
            own = [(segment.speaker, _span(segment), " ".join(words))]
        times = segment.share_time(words)
        channel = segment.channel.upper()
        pieces.append(Piece(segment.recording, words, times, channel, segments=own))
    if kind == "srt" and not pieces:
        return [Piece(stem_of(source), [])]
    return pieces


_READERS: Mapping[str, Callable[[Source], Iterable[Piece]]] = {
    "ctm": _timed_words,
    "rttm": _timed_words,
    "stm": _segments,
    "seglst": _segments,
    "srt": _segments,
}
"""Readers of the forms that have times, by the form."""

# --- lists ---------------------------------------------------------------------------


def _lists(source: Source, options: ReadOptions, strict: bool) -> Iterator[Piece]:
    """Yield the best hypothesis of each list, in the order of the file."""
    stem = stem_of(source)
    for nbest in lists_in(source, options, source.warnings, strict=strict):
        nbest = as_first_pass(nbest)
        best = nbest.hypotheses[ranking(nbest, nbest.column(FIRST_PASS))[0]]
        name = nbest.recording or nbest.id
        is_id = nbest.recording is None and nbest.id != stem
        of_words = _of_words(best.text, best.times)
        times = [(spans[0][0], spans[-1][1]) for spans in of_words]
        letters = {}
        for place, spans in enumerate(of_words):
            if len(spans) > 1:
                letters[place] = spans
        words = _letters(best.text)
        yield Piece(name, words, times, is_id=is_id, letters=letters)


def _of_words(text: str, times: Sequence[Times]) -> list[list[Times]]:
    """Return the times of each word between blanks, of a text whose `timed_pieces` have
    times: letters of Chinese, Japanese and Thai have times of their own.
    """
    if not times:
        return []
    spans: list[list[Times]] = []
    for piece, span in zip(timed_pieces(text), times, strict=True):
        if spans and not piece[:1].isspace():
            spans[-1].append(span)
        else:
            spans.append([span])
    return spans
