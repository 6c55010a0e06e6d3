"""Whole recordings of several recognisers as N-best lists of short pieces, for a vote (ROVER, Fiscus 1997).

Every system is aligned with the most central one by the edit distance of the compared words, in memory that is linear
in the recording. A recording is cut where the systems agree on two neighbouring words.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.formats.whole import Recording
from rescore.asr.written import pieces_of
from rescore.errors import UserError
from rescore.formats.times import piece_times, spread
from rescore.metrics.normalise import Normaliser
from rescore.nbest import EMPTY, FIRST_PASS, VOTE, Column, Hypothesis, NbestList, Origin, free_name

log = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]

SHORTEST, LONGEST = 5, 40
"""Words of the central system in a piece: no fewer; and from so many on, a cut where not all systems agree."""
HARD_LIMIT = 400
"""Words of the central system after which a piece is cut even where no other system agrees."""
APART = 2.0
"""Seconds between the times of a word in two systems from which on they are different words."""
CONFIDENCE = "confidence"
"""The column with the natural log of the mean word confidence of a piece, less the system's mean."""


def combine(
    systems: Mapping[str, Mapping[str, Recording]],
    normaliser: Normaliser,
    references: Mapping[str, Recording] | None = None,
) -> Iterator[NbestList]:
    """Lists of short pieces, one hypothesis per system, in the order of each recording.

    The words of each system, joined over the pieces of a recording, are its words. Each system has a column of its
    name, which is 1 in its own hypotheses and 0 in others: the weight is the natural log of its votes.

    Args:
        systems: the recordings of each system, by name. normaliser: says which words are the same.
        references: cut at the same places, for tuning.

    Raises:
        UserError: a recording has no reference.
    """
    columns = {name: free_name(name, (CONFIDENCE, EMPTY)) for name in systems}
    provenance = {name: Column.component(VOTE) for name in (*columns.values(), EMPTY)}
    provenance[CONFIDENCE] = Column.component(CONFIDENCE)
    for name in dict.fromkeys(name for recordings in systems.values() for name in recordings):
        present = {columns[system]: recordings[name] for system, recordings in systems.items() if name in recordings}
        if absent := [system for system, recordings in systems.items() if name not in recordings]:
            log.warning("recording %s: %s has no output; the other systems decide", name, ", ".join(absent))
        if references is not None and name not in references:
            raise UserError(f"recording {name}: no reference; the first is {next(iter(references), 'none')}")
        tracks = [_Track.of(recording, normaliser) for recording in present.values()]
        expected = _Track.of(references[name], normaliser) if references else None
        for number, (pieces, reference) in enumerate(_pieces(tracks, expected), 1):
            hypotheses = [
                _hypothesis(track, piece, column, list(columns.values()), rank)
                for rank, (track, piece, column) in enumerate(zip(tracks, pieces, present, strict=True))
            ]
            texts = () if reference is None else (reference,)
            yield NbestList(f"{name}-{number:05}", hypotheses, texts, provenance=provenance, recording=name)


@dataclass(frozen=True, slots=True)
class _Track:
    """A recording of one system, and its words as they are compared."""

    recording: Recording
    """Text without blanks is split as the normaliser splits it."""
    glued: list[bool]
    """For each word, whether no blank stands before it."""
    tokens: list[str]
    starts: list[int]
    """For each token and the end, the written word with which it begins; -1 within a normalised piece."""
    clock: Ints | None
    """(words,) the start of each word, in milliseconds, as far as time has run; None without times."""
    mean_confidence: float

    @classmethod
    def of(cls, recording: Recording, normaliser: Normaliser) -> _Track:
        recording, glued = _split(recording, normaliser)
        starts_so_far = accumulate((start for start, _ in recording.times), max)
        times = [(start, max(start, end)) for start, (_, end) in zip(starts_so_far, recording.times, strict=True)]
        recording = replace(recording, times=times)
        pieces = pieces_of(recording.text, normaliser)
        begins = accumulate((len(piece.written) for piece in pieces), initial=0)
        starts: list[int] = []
        for piece, begin in zip(pieces, begins, strict=False):
            starts += [-1 if place else begin for place in range(len(piece.words))]
        clock = None
        if recording.times:
            clock = np.array([round(1000 * start) for start, _ in recording.times])
        tokens = [word for piece in pieces for word in piece.words]
        mean = fmean(recording.confidences) if recording.confidences else 1.0
        return cls(recording, glued, tokens, [*starts, len(recording.words)], clock, mean)

    def text(self, span: tuple[int, int]) -> str:
        """The words from the first to the last (exclusive), as they are written."""
        words = zip(self.recording.words[slice(*span)], self.glued[slice(*span)], strict=True)
        return "".join(word if glued else f" {word}" for word, glued in words).strip()


def _split(recording: Recording, normaliser: Normaliser) -> tuple[Recording, list[bool]]:
    """The recording with the words that the normaliser splits, and for each word whether no blank stands before it."""
    parts = [normaliser.split(word) for word in recording.words]
    glued = [place > 0 for part in parts for place in range(len(part))]
    if len(glued) == len(parts):
        return recording, glued
    parted = Recording()
    for number, part in enumerate(parts):
        times = spread(part, recording.times[number]) if recording.times else []
        sure = [recording.confidences[number]] * len(part) if recording.confidences else []
        parted.add(part, times, sure)
    return parted, glued


def _pieces(tracks: Sequence[_Track], reference: _Track | None) -> Iterator[tuple[list[tuple[int, int]], str | None]]:
    """The first and the last word (exclusive) of each track in each piece, and the words of the reference."""
    every = [*tracks, *([reference] if reference else [])]
    central = _central(tracks)
    last = [0] * len(every)
    for now in _cuts(every, central, len(tracks)):
        ends = [max(first, end) for first, end in zip(last, now, strict=True)]
        spans = list(zip(last, ends, strict=True))
        text = reference.text(spans[-1]) if reference else None
        yield spans[: len(tracks)], text
        last = ends


def _central(tracks: Sequence[_Track]) -> int:
    """The system with the least median distance from all systems: a system that lacks a part must not lead."""
    distances = np.zeros((len(tracks), len(tracks)))
    for row, first in enumerate(tracks):
        for column, second in enumerate(tracks[:row]):
            length = max(len(first.tokens), len(second.tokens), 1)
            distance = Levenshtein.distance(first.tokens, second.tokens) / length
            distances[row, column] = distances[column, row] = distance
    return int(np.sort(distances, axis=1)[:, len(tracks) // 2].argmin())


def _cuts(tracks: Sequence[_Track], central: int, voters: int) -> Iterator[list[int]]:
    """The words of each track before each cut, the last of which is the end.

    Args:
        voters: how many of the tracks decide where to cut; the reference is cut where they are.
    """
    pivot = tracks[central]
    number = len(pivot.tokens)
    places = [_places(pivot, track) for track in tracks]
    agree = np.zeros(number + 1, dtype=np.int64)
    for track in range(voters):
        agree += _agrees(pivot, tracks[track], places[track])
    last = 0
    while number - last > SHORTEST:
        cut = _next_cut(agree, last, voters)
        if cut is None:
            break
        yield [
            _word_before(pivot, track, place, cut, track is pivot) for track, place in zip(tracks, places, strict=True)
        ]
        last = cut
    yield [len(track.recording.words) for track in tracks]


def _next_cut(agree: Ints, last: int, voters: int) -> int | None:
    """The next place where all systems agree; in a long stretch the place where most do, and at least half of them."""
    begin, number = last + SHORTEST, len(agree) - 1
    for stop, least in ((last + LONGEST, voters), (last + 2 * LONGEST, (voters + 1) // 2), (last + HARD_LIMIT, 1)):
        window = agree[begin : min(stop, number)]
        if len(window) and window.max() >= max(least, 1):
            return begin + int((window >= least).argmax() if least == voters else window.argmax())
    return last + HARD_LIMIT if last + HARD_LIMIT < number and agree[last + HARD_LIMIT] else None


def _places(pivot: _Track, track: _Track) -> Ints:
    """(tokens of the pivot + 1,) the token of the track that is aligned with each token; -1 for none."""
    places = np.full(len(pivot.tokens) + 1, -1, dtype=np.int64)
    for block in Levenshtein.editops(pivot.tokens, track.tokens).as_matching_blocks():
        places[block.a : block.a + block.size] = np.arange(block.b, block.b + block.size)
    if pivot.clock is not None and track.clock is not None:
        words = np.maximum.accumulate(np.array(pivot.starts))
        others = np.maximum.accumulate(np.array(track.starts))
        matched = np.flatnonzero(places[:-1] >= 0)
        apart = abs(pivot.clock[words[matched]] - track.clock[others[places[matched]]]) > 1000 * APART
        places[matched[apart]] = -1
    return places


def _agrees(pivot: _Track, track: _Track, places: Ints) -> Ints:
    """(tokens of the pivot + 1,) 1 where the track has the tokens before and behind a place, and may be cut there."""
    behind = places.copy()
    behind[1:] -= places[:-1]
    same = (places >= 0) & (behind == 1)
    same[0] = False
    same[1:] &= places[:-1] >= 0
    same &= np.array(pivot.starts) >= 0
    same[same] &= np.array(track.starts)[places[same]] >= 0
    return same.astype(np.int64)


def _word_before(pivot: _Track, track: _Track, places: Ints, cut: int, own: bool) -> int:
    """The words of a track before the cut: by the alignment, else by time, else by the next or the last aligned token,
    or in proportion if both are far away."""
    if own:
        return pivot.starts[cut]
    if places[cut] < 0 and pivot.clock is not None and track.clock is not None:
        return int(np.searchsorted(track.clock, pivot.clock[pivot.starts[cut]]))
    behind = np.flatnonzero(places[cut : cut + HARD_LIMIT] >= 0)
    before = np.flatnonzero(places[max(0, cut - HARD_LIMIT) : cut][::-1] >= 0)
    if len(behind):
        token = int(places[cut + behind[0]])
    elif len(before):
        token = int(places[cut - 1 - before[0]]) + 1
    else:
        aligned = np.flatnonzero(places >= 0)
        ends = (
            np.concatenate([[0], aligned, [len(pivot.tokens)]]),
            np.concatenate([[0], places[aligned], [len(track.tokens)]]),
        )
        token = int(np.interp(cut, *ends))
    while track.starts[token] < 0:  # never within words that are normalised together
        token += 1
    return track.starts[token]


def _hypothesis(track: _Track, span: tuple[int, int], column: str, columns: Sequence[str], rank: int) -> Hypothesis:
    recording = track.recording
    scores = {FIRST_PASS: 0.0} | {name: float(name == column) for name in columns} | {EMPTY: 0.0, CONFIDENCE: 0.0}
    if recording.confidences and span[0] < span[1] and track.mean_confidence > 0:
        share = fmean(recording.confidences[slice(*span)]) / track.mean_confidence
        scores[CONFIDENCE] = math.log(max(share, 1e-3))
    text = track.text(span)
    timed = zip(recording.words[slice(*span)], recording.times[slice(*span)], strict=False)
    times = piece_times(text, [(word, start, end) for word, (start, end) in timed])
    return Hypothesis(text, scores, Origin.MERGED if rank else Origin.FIRST_PASS, times)
