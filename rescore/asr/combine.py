"""Whole recordings of several recognisers as N-best lists of short pieces, for a vote
(ROVER, Fiscus 1997).

Every system is aligned with the most central one by the edit distance of the compared
words, in memory that is linear in the recording. A recording is cut where the systems
agree on two neighbouring words.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from rescore.asr.formats.whole import Recording
from rescore.asr.systems import columns_of, header_of, one_list
from rescore.asr.written import pieces_of
from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.times import piece_times, spread
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import Hypothesis, NbestList

log = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]

SHORTEST, LONGEST = 5, 40
"""Words of the central system in a piece: no fewer; and from so many on, a cut where
not all systems agree.
"""
HARD_LIMIT = 400
"""Words of the central system after which a piece is cut even where no other system
agrees.
"""
APART = 2.0
"""Seconds between the times of a word in two systems from which on they are different
words.
"""


def combine(
    systems: Mapping[str, Mapping[str, Recording]],
    normaliser: Normaliser,
    references: Mapping[str, Recording] | None = None,
) -> Iterator[NbestList]:
    """Lists of short pieces, in the order of each recording; hypotheses and columns are
    those of `one_list`.

    The words of each system, joined over the pieces of a recording, are its words.

    Args:
        systems: the recordings of each system, by name. normaliser: says which words
            are the same.
        references: cut at the same places, for tuning.

    Raises:
        UserError: a recording has no reference.
    """
    columns = columns_of(systems)
    header = header_of(columns.values())
    for name in dict.fromkeys(
        name for recordings in systems.values() for name in recordings
    ):
        present = {
            columns[system]: recordings[name]
            for system, recordings in systems.items()
            if name in recordings
        }
        if absent := [
            system for system, recordings in systems.items() if name not in recordings
        ]:
            log.warning(
                "recording %s: %s has no output; the other systems decide",
                name,
                ", ".join(absent),
            )
        if references is not None and name not in references:
            raise UserError(
                f"recording {name}: no reference; the first is"
                f" {next(iter(references), 'none')}"
            )
        tracks = [_Track.of(recording, normaliser) for recording in present.values()]
        expected = _Track.of(references[name], normaliser) if references else None
        for number, (pieces, reference) in enumerate(_pieces(tracks, expected), 1):
            texts, own = () if reference is None else (reference,), {}
            for column, track, piece in zip(present, tracks, pieces, strict=True):
                heard = Hypothesis(
                    track.text(piece), {FIRST_PASS: 0.0}, times=track.times_of(piece)
                )
                own[column] = NbestList(
                    f"{name}-{number:05}", [heard], texts, recording=name
                )
            yield one_list(own, EXACT, header)


@dataclass(frozen=True)
class _Track:
    """A recording of one system, and its words as they are compared."""

    words: list[str]
    """As they are written; text without blanks is split as the normaliser splits it."""
    glued: list[bool]
    """For each word, whether no blank stands before it."""
    times: list[tuple[float, float]]
    """Start and end of each word, none before the words before it; empty without
    times.
    """
    tokens: list[str]
    starts: list[int]
    """For each token and the end, the written word with which it begins; -1 within a
    normalised piece.
    """

    @classmethod
    def of(cls, recording: Recording, normaliser: Normaliser) -> _Track:
        words: list[str] = []
        glued, times = [], []
        for number, word in enumerate(recording.words):
            parts = normaliser.split(word)
            words += parts
            glued += [place > 0 for place in range(len(parts))]
            if recording.times:
                span = recording.times[number]
                times += spread(parts, span) if len(parts) > 1 else [span]
        starts_so_far = accumulate((start for start, _ in times), max)
        times = [
            (start, max(start, end))
            for start, (_, end) in zip(starts_so_far, times, strict=True)
        ]
        tokens: list[str] = []
        starts, begin = [], 0
        for piece in pieces_of(recording.text, normaliser):
            tokens += piece.words
            starts += [-1 if place else begin for place in range(len(piece.words))]
            begin += len(piece.written)
        return cls(words, glued, times, tokens, [*starts, len(words)])

    @cached_property
    def clock(self) -> Ints:
        """(words,) the start of each word, in milliseconds."""
        return np.array([round(1000 * start) for start, _ in self.times])

    def text(self, span: tuple[int, int]) -> str:
        """The words from the first to the last (exclusive), as they are written."""
        words = zip(self.words[slice(*span)], self.glued[slice(*span)], strict=True)
        return "".join(word if glued else f" {word}" for word, glued in words).strip()

    def times_of(self, span: tuple[int, int]) -> tuple[tuple[float, float], ...]:
        """The times of the pieces of `text`."""
        timed = zip(self.words[slice(*span)], self.times[slice(*span)], strict=False)
        return piece_times(
            self.text(span), [(word, start, end) for word, (start, end) in timed]
        )


def _pieces(
    tracks: Sequence[_Track], reference: _Track | None
) -> Iterator[tuple[list[tuple[int, int]], str | None]]:
    """The first and the last word (exclusive) of each track in each piece, and the
    words of the reference.
    """
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
    """The system with the least median distance from all systems: a system that lacks a
    part must not lead.
    """
    tokens = [track.tokens for track in tracks]
    distances = cdist(
        tokens, tokens, scorer=Levenshtein.normalized_distance, dtype=np.float64
    )
    return int(np.sort(distances, axis=1)[:, len(tracks) // 2].argmin())


def _cuts(tracks: Sequence[_Track], central: int, voters: int) -> Iterator[list[int]]:
    """The words of each track before each cut, the last of which is the end.

    Args:
        voters: how many of the tracks decide where to cut; the reference is cut where
            they are.
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
            _word_before(pivot, track, place, cut)
            for track, place in zip(tracks, places, strict=True)
        ]
        last = cut
    yield [len(track.words) for track in tracks]


def _next_cut(agree: Ints, last: int, voters: int) -> int | None:
    """The next place where all systems agree; in a long stretch the place where most
    do, and at least half of them.
    """
    begin, number = last + SHORTEST, len(agree) - 1
    for stop, least in (
        (last + LONGEST, voters),
        (last + 2 * LONGEST, (voters + 1) // 2),
        (last + HARD_LIMIT, 1),
    ):
        window = agree[begin : min(stop, number)]
        if len(window) and window.max() >= max(least, 1):
            return begin + int(
                (window >= least).argmax() if least == voters else window.argmax()
            )
    return None


def _places(pivot: _Track, track: _Track) -> Ints:
    """(tokens of the pivot + 1,) the token of the track that is aligned with each
    token; -1 for none.
    """
    places = np.full(len(pivot.tokens) + 1, -1, dtype=np.int64)
    for block in Levenshtein.editops(pivot.tokens, track.tokens).as_matching_blocks():
        places[block.a : block.a + block.size] = np.arange(
            block.b, block.b + block.size
        )
    if pivot.times and track.times:
        words = np.maximum.accumulate(np.array(pivot.starts))
        others = np.maximum.accumulate(np.array(track.starts))
        matched = np.flatnonzero(places[:-1] >= 0)
        apart = (
            abs(pivot.clock[words[matched]] - track.clock[others[places[matched]]])
            > 1000 * APART
        )
        places[matched[apart]] = -1
    return places


def _agrees(pivot: _Track, track: _Track, places: Ints) -> Ints:
    """(tokens of the pivot + 1,) 1 where the track has the tokens before and behind a
    place, and may be cut there.
    """
    behind = places.copy()
    behind[1:] -= places[:-1]
    same = (places >= 0) & (behind == 1)
    same[0] = False
    same[1:] &= places[:-1] >= 0
    same &= np.array(pivot.starts) >= 0
    same[same] &= np.array(track.starts)[places[same]] >= 0
    return same.astype(np.int64)


def _word_before(pivot: _Track, track: _Track, places: Ints, cut: int) -> int:
    """The words of a track before the cut: by the alignment, else by time, else by the
    next aligned token.
    """
    if places[cut] < 0 and pivot.times and track.times:
        return int(np.searchsorted(track.clock, pivot.clock[pivot.starts[cut]]))
    aligned = np.flatnonzero(places[cut:] >= 0)
    token = int(places[cut + aligned[0]]) if len(aligned) else len(track.tokens)
    while track.starts[token] < 0:  # never within words that are normalised together
        token += 1
    return track.starts[token]
