"""Whole recordings as recognisers write them: CTM, STM, subtitles, trn, Kaldi text,
plain text, or N-best lists.

A recording is made of pieces: segments, cues, lines, lists, or stretches of a CTM
without a long silence. A piece names its recording, or has the id of an utterance; the
names of the recordings in the other systems then tell the recording.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from rescore import formats
from rescore.asr.formats.contents import (
    CtmWord,
    ctm_words,
    cue_words,
    cues,
    kind_of,
    stm_lines,
)
from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.alternatives import AS_LETTERS, FROM_LETTERS, unescaped
from rescore.formats.ids import check_ids
from rescore.formats.shaped import ShapeOptions
from rescore.formats.source import (
    TAGS,
    UNORDERED,
    UNTIMED,
    InputWarnings,
    ReadOptions,
    Source,
)
from rescore.formats.text import (
    TAG,
    split_id,
    split_trn,
    stem_of,
    undo_marks,
)
from rescore.formats.times import (
    Span,
    TimedWord,
    Times,
    filled,
    spread,
    time_order,
    timed_pieces,
)
from rescore.nbest import as_first_pass, ranking

log = logging.getLogger(__name__)


# --- recordings ----------------------------------------------------------------------


@dataclass(slots=True)
class Recording:
    """The words of one recording."""

    words: list[str] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    """Start and end of each word, in seconds; empty if the file has none."""
    ends: list[int] = field(default_factory=list)
    """Number of words up to the end of each piece."""
    unscored: list[Times] = field(default_factory=list)
    """Segments of a reference that are not measured."""
    segments: list[tuple[str, Span, str]] = field(default_factory=list)
    """Speaker, time and text of each segment of an STM."""
    spoken: list[tuple[str, float]] = field(default_factory=list)
    """The words of a CTM, or alternatives, with the middle of their time."""
    markup: list[str] = field(default_factory=list)
    """The words as `readings` takes them: brackets, slashes and @ that are no marks of
    alternatives are letters (`AS_LETTERS`).
    """

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The first and the last word (exclusive) of each piece."""
        limits = pairwise([0, *self.ends, len(self.words)])
        return [(first, last) for first, last in limits if first < last]

    @property
    def text(self) -> str:
        """The words; each piece is a line, which is normalised by itself."""
        lines = [" ".join(self.words[first:last]) for first, last in self.pieces]
        # With a blank before the line end, sacreBLEU does not join a hyphen there with
        # the next line.
        return " \n".join(lines)

    def add(self, words: Sequence[str], times: Sequence[Times]) -> None:
        """Append a piece.

        From the first words without times on, the recording has no times.

        Args:
            words: The words of the piece, as `markup` has them.
            times: Start and end of each word, in seconds, or nothing.
        """
        if len(self.times) == len(self.words) and len(times) == len(words):
            self.times += times
        else:
            self.times.clear()
        self.markup += words
        self.words += [word.translate(FROM_LETTERS) for word in words]
        self.ends.append(len(self.words))

    def marked(self) -> Recording:
        """Return a CTM with its alternatives (`{ a / b }`) in place of the first;
        other recordings as they are.
        """
        if not any("{" in text for text, _ in self.spoken):
            return self
        result = Recording()
        for text, _ in self.spoken:
            result.add(text.split(), [])
        return result

    def without(self, spans: Sequence[Times]) -> Recording:
        """Return the recording without the words in some stretches of time.

        Args:
            spans: Start and end of each stretch, in seconds.
        """
        rest = Recording()
        for first, last in self.pieces:
            words = []
            times = []
            for place in range(first, last):
                if not _is_within(self.times[place], spans):
                    words.append(self.markup[place])
                    times.append(self.times[place])
            rest.add(words, times)
        return rest


def _is_within(time: Times, spans: Sequence[Times]) -> bool:
    """Return whether the middle of a word is in one of the stretches of time."""
    middle = (time[0] + time[1]) / 2
    return any(first <= middle < last for first, last in spans)


class _Piece(NamedTuple):
    """Words of a recording that stand together in a file."""

    name: str
    """The recording, or the id of an utterance."""
    words: list[str]
    times: Sequence[Times] = ()
    channel: str = ""
    is_id: bool = False
    segments: Sequence[tuple[str, Span, str]] = ()
    spoken: Sequence[tuple[str, float]] = ()


class _File(NamedTuple):
    """A file of a system."""

    place: str
    """The name of the file, for errors."""
    stem: str
    """The name of the recording, if the file has one recording."""
    pieces: list[_Piece]
    by_id: Sequence[_Piece] = ()
    """The pieces of a text, if the first words of its lines are ids. Other systems tell
    whether they are.
    """
    has_ids: bool = False
    """Whether these words look like ids."""
    is_json: bool = False
    """Whether the file is read as lists."""

    def with_ids_once(self) -> _File:
        """Return the file; first words that begin several lines are no ids."""
        if len({piece.name for piece in self.by_id}) < len(self.by_id):
            return self._replace(by_id=())
        return self


# --- systems -------------------------------------------------------------------------


def read_systems(
    paths: Sequence[str | Path],
    strict: bool = False,
    references: Sequence[str | Path] = (),
    options: ReadOptions | None = None,
) -> list[dict[str, Recording]]:
    """Return the recordings of each system by name.

    A folder has one file per recording. CTM, STM and N-best lists name the recording of
    a line; trn and Kaldi text have ids; any other file is one recording, called after
    the file without its ending. If any system has two channels of a recording, each
    channel is a recording in all systems.

    Args:
        paths: The output of each system.
        strict: Whether warnings about the input are errors.
        references: Further files or folders, which follow in the result.
        options: The options of formats, for the JSON of systems; None for the defaults.

    Raises:
        UserError: A file is damaged, or a system has no recording, or has a recording
            in two files.
    """
    warnings = InputWarnings(strict)
    systems = []
    for path in paths:
        sources = Source(path, warnings).files()
        systems.append([_read_file(source, options) for source in sources])
    has_shape = options is not None and options.of(ShapeOptions).shape is not None
    if has_shape and not any(file.is_json for files in systems for file in files):
        raise UserError("--shape describes JSON, and no output is JSON; leave it out")
    for path in references:
        systems.append([_read_file(file) for file in Source(path, warnings).files()])
    paths = [*paths, *references]
    systems = _identified(systems)
    names: set[str] = set()
    for files in systems:
        names |= {piece.name for piece in _pieces_of(files) if not piece.is_id}
    known = _Names(names)
    split = _with_channels(systems)
    every = [_joined(files, known, split, warnings) for files in systems]
    warnings.report()
    for path, files, recordings in zip(paths, systems, every, strict=True):
        if files and not recordings and any(every):
            log.warning("%s: no words in it", path)  # a CTM of a silent recording
        elif not recordings:
            raise UserError(
                f"{path}: no recording in it; give a file or a folder with CTM, STM,"
                " SRT, VTT, JSON, trn or text"
            )
    return every


def _pieces_of(files: Iterable[_File]) -> Iterator[_Piece]:
    """Yield the pieces of all files of a system."""
    for file in files:
        yield from file.pieces


class _Names:
    """The recordings that systems name."""

    def __init__(self, names: Set[str]) -> None:
        self._names = names
        self._lengths = sorted(set(map(len, names)), reverse=True)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def named_by(self, utterance: str) -> str:
        """Return the recording of an utterance: the longest known beginning of its id,
        up to a hyphen or underscore; or the whole id.
        """
        for length in self._lengths:
            mark = utterance[length : length + 1]  # behind the whole id stands nothing
            if mark in ("-", "_", "") and utterance[:length] in self._names:
                return utterance[:length]
        return utterance


def _identified(systems: Sequence[Sequence[_File]]) -> list[list[_File]]:
    """Return the systems, in which the pieces of a text have ids if the other systems
    know the first words of its lines as ids.
    """
    _check_repeated(systems)
    systems = [[file.with_ids_once() for file in files] for files in systems]
    names = []
    for files in systems:
        own = {piece.name for piece in _pieces_of(files)}
        for file in files:
            own |= {piece.name for piece in file.by_id}
        names.append(own)
    identified = []
    for rank, files in enumerate(systems):
        others = _Names(set().union(*names[:rank], *names[rank + 1 :]))
        identified.append(
            [file._replace(pieces=_pieces(file, others)) for file in files]
        )
    return identified


def _check_repeated(systems: Sequence[Sequence[_File]]) -> None:
    """Check that no line of a text has the id of another line, if other systems name
    most of its ids.

    A word may begin several lines of a recording, so only the names of the other
    systems tell ids from words.

    Raises:
        UserError: An id is repeated.
    """
    named: list[set[str]] = []
    for files in systems:
        named.append({piece.name for piece in _pieces_of(files)})
    for rank, files in enumerate(systems):
        others = set().union(*named[:rank], *named[rank + 1 :])
        for file in files:
            numbers = Counter(piece.name for piece in file.by_id)
            known = sum(name in others for name in numbers)
            name, number = max(
                numbers.items(), key=lambda item: item[1], default=("", 0)
            )
            if number > 1 and 2 * known > len(numbers):
                raise UserError(
                    f"{file.place}: {number} lines have the id {name}, which other"
                    " outputs name, too; give each utterance once"
                )


def _pieces(file: _File, others: _Names) -> list[_Piece]:
    """Return the pieces of a file, by their ids if other systems know most ids, or if
    `rescore combine` wrote them.
    """
    ids = [piece.name for piece in file.by_id]
    known = sum(others.named_by(name) in others for name in ids)
    if 2 * known > len(ids) and (file.has_ids or file.stem not in others):
        return list(file.by_id)
    if len(ids) < 2:
        return file.pieces
    numbers: Counter[str] = Counter()
    pieces = []
    for piece in file.by_id:
        name, _, number = piece.name.rpartition("-")
        numbers[name] += 1
        if not name or number != f"{numbers[name]:05}":
            return file.pieces
        pieces.append(piece._replace(name=name, is_id=False))
    return pieces


def _with_channels(systems: Iterable[Sequence[_File]]) -> set[str]:
    """Return the recordings of which a system has several channels."""
    split: set[str] = set()
    for files in systems:
        channels: defaultdict[str, set[str]] = defaultdict(set)
        for piece in _pieces_of(files):
            if piece.channel:
                channels[piece.name].add(piece.channel)
        split |= {name for name, own in channels.items() if len(own) > 1}
    return split


def _joined(
    files: Sequence[_File], known: _Names, split: Set[str], warnings: InputWarnings
) -> dict[str, Recording]:
    """Return the recordings of a system.

    Args:
        files: The files of the system.
        known: The recordings of all systems.
        split: The recordings whose channels are recordings.
        warnings: Collects repairs.
    """
    where: dict[str, str] = {}
    pieces: dict[str, list[_Piece]] = {}
    for file in files:
        for piece in file.pieces:
            name = known.named_by(piece.name) if piece.is_id else piece.name
            of_channel = f"{name}-{piece.channel}"
            if piece.channel and (name in split or of_channel in known):
                name = of_channel
            if where.setdefault(name, file.place) != file.place:
                raise UserError(
                    f"{file.place}: recording {name} is in another file, too; give each"
                    " recording once"
                )
            pieces.setdefault(name, []).append(piece)
    recordings = {}
    for name, own in pieces.items():
        place = f"{where[name]}: recording {name}"
        recordings[name] = _recording(_timed(own, place, warnings))
    return recordings


def _recording(pieces: Sequence[_Piece]) -> Recording:
    """Return the pieces of a recording together."""
    recording = Recording()
    for piece in pieces:
        recording.segments += piece.segments
        recording.spoken += piece.spoken
        if is_unscored(" ".join(piece.words)):
            recording.unscored += piece.times
        else:
            recording.add(piece.words, piece.times)
    return recording


def _timed(
    pieces: Sequence[_Piece], place: str, warnings: InputWarnings
) -> Sequence[_Piece]:
    """Return the pieces of a recording in the order of their times; words without times
    share the time between their neighbours.

    Pieces with the id of an utterance stay as they are: their times may count from the
    start of the utterance.
    """
    if any(piece.is_id for piece in pieces):
        return pieces
    if not any(piece.times for piece in pieces):
        return pieces
    starts: list[float] = []
    for piece in pieces:
        last = starts[-1] if starts else 0.0
        starts.append(piece.times[0][0] if piece.times else last)
    order = time_order(starts)
    if order is not None:
        warnings.add("recording", UNORDERED, place)
        pieces = [pieces[number] for number in order]
    if all(len(piece.times) == len(piece.words) for piece in pieces):
        return pieces
    words: list[TimedWord] = []
    for piece in pieces:
        spans: Sequence[Times | None] = piece.times
        if len(piece.times) != len(piece.words):
            spans = [None] * len(piece.words)
            for word in piece.words:
                warnings.add("word", UNTIMED, f"{place}: {word[:40]}")
        words += zip(piece.words, spans, strict=True)
    times = iter(span for _, span in filled(words))
    return [
        piece._replace(times=list(islice(times, len(piece.words)))) for piece in pieces
    ]


_UNSCORED = ("ignore_time_segment_in_scoring", "ignoretimesegmentinscoring")
"""Marks of a segment of STM that sclite does not measure."""


def is_unscored(text: str) -> bool:
    """Return whether a text has the mark of a segment that is not measured, also beside
    words, as in sclite.

    Args:
        text: The text of a segment.
    """
    return any(mark in text.lower() for mark in _UNSCORED)


# --- files ---------------------------------------------------------------------------


def _read_file(source: Source, options: ReadOptions | None = None) -> _File:
    """Return the pieces of a file of any format, without tags such as `<|en|>`.

    Args:
        source: The file.
        options: The options of formats, for JSON; None for the defaults.
    """
    file = _read_pieces(source, options)
    pieces = [_without_tags(piece, source) for piece in file.pieces]
    by_id = [_without_tags(piece, None) for piece in file.by_id]
    return file._replace(pieces=pieces, by_id=by_id)


def _without_tags(piece: _Piece, source: Source | None) -> _Piece:
    """Return a piece without tags in its words.

    Args:
        piece: The piece.
        source: The file, which tells a repair; None if another piece with these words
            has told it.
    """
    if not any(TAG.search(word) for word in piece.words):
        return piece
    if source is not None:
        source.warnings.add("text", TAGS, f"{source.name}: {piece.name}")
    words = []
    times = []
    has_times = len(piece.times) == len(piece.words)
    for place, word in enumerate(piece.words):
        rest = TAG.sub("", word)
        if rest:
            words.append(rest)
        if rest and has_times:
            times.append(piece.times[place])
    spoken = [(TAG.sub("", text), middle) for text, middle in piece.spoken]
    spoken = [(text, middle) for text, middle in spoken if text]
    return piece._replace(words=words, times=times, spoken=spoken)


def _read_pieces(source: Source, options: ReadOptions | None) -> _File:
    """Return the pieces of a file of any format, with tags."""
    kind = kind_of(source)
    stem = stem_of(source)
    if kind == "json":
        pieces = list(_lists(source, options))
        return _File(source.name, stem, pieces, is_json=True)
    if kind in _READERS:
        return _File(source.name, stem, list(_READERS[kind](source)))
    placed = list(source.filled())
    lines = [line for _, line in placed]
    if kind == "trn":
        lines = [line for line in lines if not line.startswith(";;")]
    if ".trn" in source.path.name:
        _check_trn(placed)
    texts = [_Piece(stem, _words(line)) for line in lines] or [_Piece(stem, [])]
    if kind == "plain":
        check_ids(placed)
    if kind != "trn":
        return _File(
            source.name, stem, texts, _with_first_words(lines), kind == "kaldi"
        )
    by_id = []
    for line in lines:
        split = split_trn(line)
        if split:
            by_id.append(_Piece(split[1], _words(split[0]), is_id=True))
    has_name = len(lines) > 1 or ".trn" in source.path.name
    is_trn = len(lines) == len(by_id) and has_name
    return _File(source.name, stem, by_id if is_trn else texts, by_id, is_trn)


def _check_trn(placed: Sequence[tuple[str, str]]) -> None:
    """Check that all lines of a file called trn have ids, or none has.

    Args:
        placed: The places of the lines, and the lines.

    Raises:
        UserError: A line has no id, and another has one.
    """
    texts = [(place, line) for place, line in placed if not line.startswith(";;")]
    without = [place for place, line in texts if split_trn(line) is None]
    if without and len(without) < len(texts):
        raise UserError(
            f"{without[0]}: does not end in an id in brackets, as other lines of the"
            " file do; add the id, or name the file .txt if it is one recording"
        )


def _words(text: str) -> list[str]:
    """Return the words of a line of text, without marks and escapes."""
    return unescaped(undo_marks(text)).split()


def _with_first_words(lines: Iterable[str]) -> list[_Piece]:
    """Return lines as pieces whose ids are their first words; nothing if these words
    number the lines.
    """
    pieces = []
    for line in lines:
        name, text = split_id(line)
        if re.fullmatch(r"\d+\W?", name):
            return []
        pieces.append(_Piece(name, _words(text), is_id=True))
    return pieces


def _ctm(source: Source) -> Iterator[_Piece]:
    """Yield the pieces of a CTM: the words of a channel up to a long silence."""
    pieces: dict[tuple[str, str], list[CtmWord]] = {}
    for word in _in_order_of_time(list(ctm_words(source)), source):
        waiting = pieces.setdefault((word.cells[0], word.cells[1]), [])
        if waiting and not word.goes_on(waiting[-1].end, len(waiting)):
            yield _ctm_piece(waiting)
            waiting.clear()
        waiting.append(word)
    yield from map(_ctm_piece, pieces.values())


def _in_order_of_time(words: list[CtmWord], source: Source) -> list[CtmWord]:
    """Return the words of a CTM, in which the words of each channel are in the order of
    their starts.

    A CTM with alternatives stays as it is: their lines belong together.
    """
    channels: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, word in enumerate(words):
        if word.spoken is None or word.word == "@":
            return words
        channels[word.cells[0], word.cells[1]].append(place)
    ordered = list(words)
    for (name, channel), places in channels.items():
        order = time_order([words[place].start for place in places])
        if order is None:
            continue
        what = f"{source.name}: recording {name}, channel {channel}"
        source.warnings.add("recording", UNORDERED, what)
        for place, number in zip(places, order, strict=True):
            ordered[place] = words[places[number]]
    return ordered


def _ctm_piece(words: Sequence[CtmWord]) -> _Piece:
    """Return words of a channel as a piece; the empty word `@` is none of its words."""
    name, channel = words[0].cells[:2]
    said = [word for word in words if word.word != "@"]
    letters = [word.letters for word in said]
    times = [(word.start, word.end) for word in said]
    spoken = [word.spoken for word in words if word.spoken]
    return _Piece(name, letters, times, channel.upper(), spoken=spoken)


def _stm(source: Source) -> list[_Piece]:
    """Return the segments of an STM, sorted by their start; the words of a segment
    share its time by letters.
    """
    segments: list[tuple[float, _Piece]] = []
    for line in stm_lines(source):
        words = line.text.split()
        segment = [(line.speaker, line.span, " ".join(words))]
        times = spread(words, line.span)
        channel = line.channel.upper()
        piece = _Piece(line.recording, words, times, channel, segments=segment)
        segments.append((line.span.start, piece))
    segments.sort(key=lambda segment: segment[0])
    return [piece for _, piece in segments]


def _subtitles(source: Source) -> list[_Piece]:
    """Return the cues of subtitles; the words of a cue share its time by letters."""
    stem = stem_of(source)
    pieces = []
    for span, lines in cues(source):
        if span:
            words = _as_letters(cue_words(lines))
            pieces.append(_Piece(stem, words, spread(words, span)))
    if not pieces and "-->" not in source.head:
        raise UserError(
            f"{source.name}: no subtitle in it; expected lines `00:00:01.000 -->"
            " 00:00:02.500`"
        )
    return pieces or [_Piece(stem, [])]


def _lists(source: Source, options: ReadOptions | None) -> Iterator[_Piece]:
    """Yield the best hypothesis of each list, in the order of the file."""
    stem = stem_of(source)
    for nbest in formats.iterate([source], options=options):
        nbest = as_first_pass(nbest)
        best = nbest.hypotheses[ranking(nbest, nbest.column(FIRST_PASS))[0]]
        name = nbest.recording or nbest.id
        is_id = nbest.recording is None and nbest.id != stem
        times = _word_times(best.text, best.times)
        yield _Piece(name, _as_letters(best.text.split()), times, is_id=is_id)


def _as_letters(words: Iterable[str]) -> list[str]:
    """Return the words of a file without alternatives, for `Recording.markup`."""
    return [word.translate(AS_LETTERS) for word in words]


def _word_times(text: str, times: Sequence[Times]) -> list[Times]:
    """Return the times of the words between blanks, of a text whose `timed_pieces` have
    times: letters of Chinese, Japanese and Thai have times of their own.
    """
    if not times:
        return []
    spans: list[Times] = []
    pieces = timed_pieces(text)
    for piece, (start, end) in zip(pieces, times, strict=True):
        if spans and not piece[:1].isspace():
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


_READERS: Mapping[str, Callable[[Source], Iterable[_Piece]]] = {
    "ctm": _ctm,
    "stm": _stm,
    "srt": _subtitles,
}
"""Readers of the files that name their recordings, by the format."""
