"""Whole recordings as recognisers write them: CTM, STM, subtitles, trn, Kaldi text,
plain text, or N-best lists.

A recording is made of pieces: segments, cues, lines, lists, or stretches of a CTM
without a long silence. A piece names its recording, or has the id of an utterance; the
names of the recordings in the other systems then tell the recording.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from rescore import formats
from rescore.asr.formats.contents import (
    CtmWord,
    Times,
    ctm_words,
    cue_words,
    cues,
    kind_of,
)
from rescore.errors import UserError
from rescore.formats.references import STM, cheapest, readings
from rescore.formats.source import InputWarnings, Source, sniff
from rescore.formats.text import split_id, split_trn, stem_of
from rescore.formats.times import Span, spread
from rescore.metrics.normalise import Normaliser
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList, ranking

log = logging.getLogger(__name__)


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

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The first and the last word (exclusive) of each piece."""
        return [
            (first, last)
            for first, last in pairwise([0, *self.ends, len(self.words)])
            if first < last
        ]

    @property
    def text(self) -> str:
        """The words; each piece is a line, which is normalised by itself."""
        # With a blank before the line end, sacreBLEU does not join a hyphen there with
        # the next line.
        return " \n".join(" ".join(self.words[slice(*piece)]) for piece in self.pieces)

    def add(self, words: Sequence[str], times: Sequence[Times]) -> None:
        """Append a piece; from the first words without times on, the recording has
        none.
        """
        if len(self.times) == len(self.words) and len(times) == len(words):
            self.times += times
        else:
            self.times.clear()
        self.words += words
        self.ends.append(len(self.words))

    def marked(self) -> Recording:
        """A CTM with its alternatives (`{ a / b }`) in place of the first; other
        recordings as they are.
        """
        if not any("{" in text for text, _ in self.spoken):
            return self
        result = Recording()
        for text, _ in self.spoken:
            result.add(text.split(), [])
        return result

    def without(self, spans: Sequence[Times]) -> Recording:
        """The recording without the words in some stretches of time."""
        rest = Recording()
        keep = [
            not any(first <= (start + end) / 2 < last for first, last in spans)
            for start, end in self.times
        ]
        for first, last in self.pieces:
            kept = [place for place in range(first, last) if keep[place]]
            rest.add(
                [self.words[place] for place in kept],
                [self.times[place] for place in kept],
            )
        return rest


class _Piece(NamedTuple):
    name: str
    """The recording, or the id of an utterance."""
    words: list[str]
    times: Sequence[Times] = ()
    channel: str = ""
    is_id: bool = False
    segments: Sequence[tuple[str, Span, str]] = ()
    spoken: Sequence[tuple[str, float]] = ()


class _File(NamedTuple):
    place: str
    stem: str
    pieces: list[_Piece]
    by_id: Sequence[_Piece] = ()
    """The pieces of a text, if the first words of its lines are ids. Other systems tell
    whether they are.
    """
    has_ids: bool = False
    """Whether these words look like ids."""


DOCUMENTS = ("whisper", "speech", "parakeet")
"""Formats whose files are each of one recording."""


def are_whole(paths: Sequence[str | Path]) -> bool:
    """Whether outputs are of whole recordings: one has times, or is a folder or
    document of recordings; or all are plain texts with different numbers of lines.
    """
    kinds, lengths = set(), set()
    for source in map(Source, paths):
        if not source.is_folder and not source.is_regular:
            continue  # it cannot be read twice
        kind = "json" if source.is_folder else kind_of(source)
        if kind in ("json", "plain"):
            kind = sniff(source) or ("folder" if source.is_folder else kind)
        if kind in ("ctm", "stm", "srt", "folder", *DOCUMENTS):
            return True
        kinds.add(kind)
        if kind == "plain":
            lengths.add(sum(1 for _ in source.filled()))
    return kinds == {"plain"} and len(lengths) > 1


def read_systems(
    paths: Sequence[str | Path], strict: bool = False
) -> list[dict[str, Recording]]:
    """The recordings of each system by name.

    A folder has one file per recording. CTM, STM and N-best lists name the recording of
    a line; trn and Kaldi text have ids; any other file is one recording, called after
    the file without its ending. If any system has two channels of a recording, each
    channel is a recording in all systems.
    """
    warnings = InputWarnings(strict)
    systems = [
        [_read_file(file) for file in Source(path, warnings).files()] for path in paths
    ]
    warnings.report()
    names = [
        {piece.name for file in files for piece in (*file.pieces, *file.by_id)}
        for files in systems
    ]
    others = [
        set().union(*names[:rank], *names[rank + 1 :]) for rank in range(len(names))
    ]
    systems = [
        [file._replace(pieces=_pieces(file, known)) for file in files]
        for files, known in zip(systems, map(_Names, others), strict=True)
    ]
    every = [[piece for file in files for piece in file.pieces] for files in systems]
    known = _Names(
        {piece.name for pieces in every for piece in pieces if not piece.is_id}
    )
    channels = [
        {(piece.name, piece.channel) for piece in pieces if piece.channel}
        for pieces in every
    ]
    split = {
        name
        for pairs in channels
        for name, number in Counter(name for name, _ in pairs).items()
        if number > 1
    }
    found = [_joined(files, known, split) for files in systems]
    if empty := [
        path for path, recordings in zip(paths, found, strict=True) if not recordings
    ]:
        raise UserError(
            f"{empty[0]}: no recording in it; give a file or a folder with CTM, STM,"
            " SRT, VTT, JSON, trn or text"
        )
    return found


class _Names:
    """The recordings that systems name."""

    def __init__(self, names: Set[str]) -> None:
        self._names = names
        self._lengths = sorted(set(map(len, names)), reverse=True)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def named_by(self, utterance: str) -> str:
        """The recording of an utterance: the longest known beginning of its id, up to a
        hyphen or underscore.
        """
        marks = ("-", "_", "")  # behind the whole id stands nothing
        beginnings = (
            utterance[:length]
            for length in self._lengths
            if utterance[length : length + 1] in marks
        )
        return next(
            (beginning for beginning in beginnings if beginning in self._names),
            utterance,
        )


def _pieces(file: _File, others: _Names) -> list[_Piece]:
    """The pieces of a file, by their ids if most ids are known by other systems, or if
    `rescore combine` wrote them.
    """
    ids = [piece.name for piece in file.by_id]
    known = sum(others.named_by(name) in others for name in ids)
    if 2 * known > len(ids) and (file.has_ids or file.stem not in others):
        return list(file.by_id)
    numbers: Counter[str] = Counter()
    for name, _, number in (name.rpartition("-") for name in ids):
        numbers[name] += 1
        if not name or number != f"{numbers[name]:05}":
            return file.pieces
    if len(ids) < 2:
        return file.pieces
    return [
        piece._replace(name=piece.name.rpartition("-")[0], is_id=False)
        for piece in file.by_id
    ]


def _joined(
    files: Sequence[_File], known: _Names, split: Set[str]
) -> dict[str, Recording]:
    """The recordings of a system. `known`: those of any system. `split`: those whose
    channels are recordings.
    """
    where: dict[str, str] = {}
    recordings: dict[str, Recording] = {}
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
            recording = recordings.setdefault(name, Recording())
            recording.segments += piece.segments
            recording.spoken += piece.spoken
            if [word.lower() for word in piece.words] == [_UNSCORED]:
                recording.unscored += piece.times
            else:
                recording.add(piece.words, piece.times)
    return recordings


_UNSCORED = "ignore_time_segment_in_scoring"
"""The text of a segment of STM that sclite does not measure."""


def _read_file(source: Source) -> _File:
    kind, stem = kind_of(source), stem_of(source)
    if kind in _READERS:
        return _File(source.name, stem, list(_READERS[kind](source)))
    lines = [
        line
        for _, line in source.filled()
        if not (kind == "trn" and line.startswith(";;"))
    ]
    texts = [_Piece(stem, line.split()) for line in lines] or [_Piece(stem, [])]
    if kind == "trn":
        by_id = [
            _Piece(found[1], found[0].split(), is_id=True)
            for found in map(split_trn, lines)
            if found
        ]
        is_trn = len(lines) == len(by_id) and (
            len(lines) > 1 or ".trn" in source.path.name
        )
        return _File(source.name, stem, by_id if is_trn else texts, by_id, is_trn)
    by_id = [
        _Piece(name, text.split(), is_id=True) for name, text in map(split_id, lines)
    ]
    if len({piece.name for piece in by_id}) < len(by_id) or any(
        re.fullmatch(r"\d+\W?", piece.name) for piece in by_id
    ):
        by_id = []  # they are repeated, or number the lines
    return _File(source.name, stem, texts, by_id, kind == "kaldi")


def closest_readings(reference: Recording, heard: Recording) -> Recording:
    """A reference with the alternatives (`{ a / b }`) that are closest to an output,
    which may differ in each piece.
    """
    # the words of a CTM have no alternatives; `marked` gives these
    if reference.spoken:
        return reference
    texts = [
        readings(" ".join(reference.words[slice(*piece)]), "reference")
        for piece in reference.pieces
    ]
    longest = [
        max(each, key=lambda text: len(text.split())).lower().split() for each in texts
    ]
    where: list[int] = []
    output = [word.lower() for word in heard.words]
    for change in Levenshtein.opcodes(
        [word for words in longest for word in words], output
    ):
        replaced = list(range(change.dest_start, change.dest_end))
        where += replaced if change.tag in ("equal", "replace") else []
        where += (
            [change.dest_start] * (change.src_end - change.src_start)
            if change.tag == "delete"
            else []
        )
    ends = [*where, len(output)]
    places = [ends[end] for end in accumulate(map(len, longest), initial=0)]
    result = Recording(unscored=reference.unscored)
    for piece, choice, span in zip(
        reference.pieces, texts, pairwise(places), strict=True
    ):
        words = Normaliser().closest(choice, " ".join(output[slice(*span)])).split()
        times = reference.times[slice(*piece)]
        result.add(
            words,
            (
                spread(words, (times[0][0], times[-1][1]))
                if times and len(choice) > 1
                else times
            ),
        )
    return result


def measured_recordings(
    outputs: Sequence[str], references: str, strict: bool = False
) -> list[list[NbestList]]:
    """Of each output its recordings, or, of CTM against STM, its segments as in sclite,
    as lists.
    """
    systems = [read_systems([references, path], strict) for path in outputs]
    timed = [
        all(a.segments for a in ref.values()) and all(b.spoken for b in out.values())
        for ref, out in systems
    ]
    if any(timed) and not all(timed):
        log.warning(
            "%s: is no CTM: recordings are aligned whole, not by segment",
            outputs[timed.index(False)],
        )
    measured: list[list[NbestList]] = []
    for path, (expected, heard) in zip(outputs, systems, strict=True):
        if unknown := sorted(heard.keys() - expected.keys()):
            raise UserError(
                f"{references}: no reference for recording {unknown[0]} of {path}"
            )
        if absent := sorted(expected.keys() - heard.keys()):
            count = len(absent)
            log.warning(
                "%s: no output for recording %s (%d missing); its words are deletions",
                path,
                absent[0],
                count,
            )
        pairs = [
            (name, reference, heard.get(name, Recording()))
            for name, reference in expected.items()
        ]
        lists = (
            _segments(*pair) if all(timed) else _whole(path, *pair) for pair in pairs
        )
        measured.append(list(chain.from_iterable(lists)))
    return measured


def _segments(name: str, reference: Recording, heard: Recording) -> Iterator[NbestList]:
    """The segments, each with the words whose middle is before its end, the last with
    all; speakers begin ids.
    """
    words: list[list[str]] = [[] for _ in reference.segments]
    place = 0
    for word, middle in heard.spoken:
        while place + 1 < len(words) and middle >= reference.segments[place][1].end:
            place += 1
        words[place].append(word)
    for number, ((speaker, _, text), output) in enumerate(
        zip(reference.segments, words, strict=True), 1
    ):
        if text.lower() != _UNSCORED:
            name_of = f"{re.sub('[-_]', '.', speaker)}-{name}-{number:05}"
            texts = readings(text, name_of)
            best = Hypothesis(
                cheapest(" ".join(output), texts, name_of), {FIRST_PASS: 0.0}
            )
            yield NbestList(name_of, [best], texts, recording=name)


def _whole(
    path: str, name: str, reference: Recording, heard: Recording
) -> Iterator[NbestList]:
    if reference.unscored and heard.times:
        heard = heard.without(reference.unscored)
    elif reference.unscored and heard.words:
        log.warning(
            "%s: recording %s has no times; its words in segments that are not measured"
            " count",
            path,
            name,
        )
    expected = closest_readings(reference.marked(), heard)
    marked = heard.marked()
    if any(word.startswith("{") for word in marked.words):
        heard = closest_readings(marked, expected)
    yield NbestList(
        name,
        [Hypothesis(heard.text, {FIRST_PASS: 0.0})],
        (expected.text,),
        recording=name,
    )


def _ctm(source: Source) -> Iterator[_Piece]:
    """`recording channel start duration word [confidence]`."""
    pieces: dict[tuple[str, str], list[CtmWord]] = {}
    for word in ctm_words(source):
        key = word.cells[0], word.cells[1]
        waiting = pieces.setdefault(key, [])
        if waiting and not word.goes_on(waiting[-1].end, len(waiting)):
            yield _ctm_piece(waiting)
            waiting.clear()
        waiting.append(word)
    yield from map(_ctm_piece, pieces.values())


def _ctm_piece(words: Sequence[CtmWord]) -> _Piece:
    name, channel = words[0].cells[:2]
    said = [word for word in words if word.word != "@"]
    times = [(word.start, word.end) for word in said]
    spoken = [word.spoken for word in words if word.spoken]
    return _Piece(
        name, [word.word for word in said], times, channel.upper(), spoken=spoken
    )


def _stm(source: Source) -> list[_Piece]:
    """The words of a segment share its time by letters; segments are sorted by their
    start.
    """
    segments: list[tuple[float, _Piece]] = []
    for place, line in source.filled():
        if line.startswith(";;"):
            continue
        match = STM.fullmatch(line)
        if match is None:
            raise UserError(
                f"{place}: not stm: expected `file channel speaker start end text`"
            )
        words, span = match[6].split(), Span.read(match[4], match[5], place)
        segment = [(match[3], span, " ".join(words))]
        piece = _Piece(
            match[1], words, spread(words, span), match[2].upper(), segments=segment
        )
        segments.append((span.start, piece))
    return [piece for _, piece in sorted(segments, key=lambda segment: segment[0])]


def _subtitles(source: Source) -> list[_Piece]:
    """The words of a cue share its time by letters."""
    timed = [(cue_words(lines), span) for span, lines in cues(source) if span]
    if not timed and "-->" not in source.head:
        raise UserError(
            f"{source.name}: no subtitle in it; expected lines `00:00:01.000 -->"
            " 00:00:02.500`"
        )
    return [
        _Piece(stem_of(source), words, spread(words, span)) for words, span in timed
    ] or [_Piece(stem_of(source), [])]


def _lists(source: Source) -> Iterator[_Piece]:
    """The best hypothesis of each list, in the order of the file."""
    for nbest in formats.iterate([source]):
        best = nbest.hypotheses[ranking(nbest, nbest.column(FIRST_PASS))[0]]
        is_id = nbest.recording is None and nbest.id != stem_of(source)
        yield _Piece(
            nbest.recording or nbest.id, best.text.split(), best.times, is_id=is_id
        )


_READERS: Mapping[str, Callable[[Source], Iterable[_Piece]]] = {
    "json": _lists,
    "ctm": _ctm,
    "stm": _stm,
    "srt": _subtitles,
}
"""Readers of the files that name their recordings, by the format."""
