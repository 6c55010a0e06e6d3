"""Whole recordings of several recognisers as N-best lists of short pieces, for a vote
(ROVER, Fiscus 1997).

Every system is aligned with the most central one by the edit distance of the compared
words, in memory that is linear in the recording. A recording is cut where the systems
agree on two neighbouring words.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from rescore.asr.systems import columns_of, header_of, one_list
from rescore.asr.whole import Recording
from rescore.asr.written import pieces_of
from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.times import TimedWord, Times, part_times, piece_times
from rescore.ids import piece_id
from rescore.metrics.normalise import EXACT, UNSPACED, Normaliser
from rescore.nbest import Hypothesis, NbestList

log = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]

SHORTEST = 5
"""Words of the central system in a piece, at least."""
LONGEST = 40
"""Words of the central system from which on a piece is cut where not all systems
agree.
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
    """Yield lists of short pieces, in the order of each recording; hypotheses and
    columns are those of `one_list`.

    The words of each system, joined over the pieces of a recording, are its words.

    Args:
        systems: The recordings of each system, by name.
        normaliser: Says which words are the same.
        references: The reference of each recording, cut at the same places, for tuning;
            its words are aligned with the words of the systems, and its times not read.

    Raises:
        UserError: A recording has no reference.
    """
    columns = columns_of(systems)
    header = header_of(columns.values())
    names: dict[str, None] = {}
    for recordings in systems.values():
        names |= dict.fromkeys(recordings)
    for name in names:
        tracks = {}
        absent = []
        for system, recordings in systems.items():
            if name in recordings:
                tracks[columns[system]] = _Track.of(recordings[name], normaliser)
            else:
                absent.append(system)
        if absent:
            log.warning(
                "recording %s: %s has no output; the other systems decide",
                name,
                ", ".join(absent),
            )
        reference = None
        if references is not None:
            if name not in references:
                raise UserError(
                    f"recording {name}: no reference; the first is"
                    f" {next(iter(references), 'none')}"
                )
            # Words of a segment share its time by letters: nobody measured theirs.
            untimed = replace(references[name], times=[])
            reference = _Track.of(untimed, normaliser)
        for own in _lists(name, tracks, reference):
            yield one_list(own, EXACT, header)


def _lists(
    name: str, tracks: Mapping[str, _Track], reference: _Track | None
) -> Iterator[dict[str, NbestList]]:
    """Yield the list of each column for each piece of a recording."""
    every = _pieces(list(tracks.values()), reference)
    for number, (pieces, expected) in enumerate(every, 1):
        texts = () if expected is None else (expected,)
        lists = {}
        for (column, track), piece in zip(tracks.items(), pieces, strict=True):
            times = track.times_of(piece)
            heard = Hypothesis(track.text(piece), {FIRST_PASS: 0.0}, times=times)
            own = piece_id(name, number)
            lists[column] = NbestList(own, [heard], texts, recording=name)
        yield lists


@dataclass(frozen=True)
class _Track:
    """A recording of one system, and its words as they are compared."""

    words: list[str]
    """As they are written; text without blanks is split as the normaliser splits it."""
    glued: list[bool]
    """For each word, whether no blank stands before it."""
    timed: list[list[tuple[str, Times]]]
    """Each word in the pieces that have times of their own, none before the pieces
    before it; empty without times.
    """
    tokens: list[str]
    starts: list[int]
    """For each token and the end, the written word with which it begins; -1 within a
    normalised piece, and within a word that is compared letter by letter: a cut in it
    would be a blank.
    """

    @classmethod
    def of(cls, recording: Recording, normaliser: Normaliser) -> _Track:
        """Return the track of a recording.

        Args:
            recording: The recording.
            normaliser: Says how words are compared.
        """
        words: list[str] = []
        glued: list[bool] = []
        timed: list[list[tuple[str, Times]]] = []
        for number, word in enumerate(recording.words):
            parts = normaliser.split(word)
            words += parts
            glued += [place > 0 for place in range(len(parts))]
            if recording.times:
                timed += _of_parts(parts, recording.timed(number))
        tokens: list[str] = []
        starts: list[int] = []
        begin = 0
        for piece in pieces_of(recording.text, normaliser):
            tokens += piece.words
            if piece.words:
                is_inside = piece.glued and not UNSPACED.match(piece.text)
                first = -1 if is_inside else begin
                starts += [first] + [-1] * (len(piece.words) - 1)
            begin += len(piece.written)
        starts.append(len(words))
        return cls(words, glued, _in_order(timed), tokens, starts)

    @cached_property
    def clock(self) -> Ints:
        """(words,) the start of each word, in milliseconds."""
        return np.array([round(1000 * pieces[0][1][0]) for pieces in self.timed])

    def text(self, span: tuple[int, int]) -> str:
        """Return the words from the first to the last (exclusive), as they are
        written.
        """
        text = ""
        for place in range(*span):
            text += self.words[place] if self.glued[place] else f" {self.words[place]}"
        return text.strip()

    def times_of(self, span: tuple[int, int]) -> tuple[tuple[float, float], ...]:
        """Return the times of the pieces of `text`."""
        timed: list[TimedWord] = []
        for pieces in self.timed[slice(*span)]:
            timed += pieces
        return piece_times(self.text(span), timed)


def _of_parts(
    parts: Sequence[str], pieces: Sequence[tuple[str, Times]]
) -> list[list[tuple[str, Times]]]:
    """Return the timed pieces of each part of a word.

    Args:
        parts: The parts as they are compared.
        pieces: The pieces of the word that have times of their own.
    """
    if len(parts) == 1:
        return [list(pieces)]
    return [[timed] for timed in zip(parts, part_times(parts, pieces), strict=True)]


def _in_order(
    words: Iterable[Sequence[tuple[str, Times]]],
) -> list[list[tuple[str, Times]]]:
    """Return words in which no piece starts before the pieces before it."""
    ordered = []
    latest = 0.0
    for pieces in words:
        own = []
        for text, (start, end) in pieces:
            latest = max(latest, start)
            own.append((text, (latest, max(latest, end))))
        ordered.append(own)
    return ordered


def _pieces(
    tracks: Sequence[_Track], reference: _Track | None
) -> Iterator[tuple[list[tuple[int, int]], str | None]]:
    """Yield the first and the last word (exclusive) of each track in each piece, and
    the words of the reference.
    """
    every = list(tracks)
    if reference:
        every.append(reference)
    last = [0] * len(every)
    for cut in _cuts(every, _central(tracks), len(tracks)):
        ends = list(map(max, last, cut))
        spans = list(zip(last, ends, strict=True))
        text = reference.text(spans[-1]) if reference else None
        yield spans[: len(tracks)], text
        last = ends


def _central(tracks: Sequence[_Track]) -> int:
    """Return the system with the least median distance from all systems: a system that
    lacks a part must not lead.
    """
    tokens = [track.tokens for track in tracks]
    distances = cdist(
        tokens, tokens, scorer=Levenshtein.normalized_distance, dtype=np.float64
    )
    return int(np.sort(distances, axis=1)[:, len(tracks) // 2].argmin())


def _cuts(tracks: Sequence[_Track], central: int, voters: int) -> Iterator[list[int]]:
    """Yield the words of each track before each cut, the last of which is the end.

    Args:
        tracks: The systems, and perhaps the reference.
        central: The system whose words are counted.
        voters: The number of tracks that decide where to cut, all but the reference.
    """
    pivot = tracks[central]
    number = len(pivot.tokens)
    places = [_places(pivot, track) for track in tracks]
    agree = np.zeros(number + 1, dtype=np.int64)
    for voter in range(voters):
        agree += _agrees(pivot, tracks[voter], places[voter])
    last = 0
    while number - last > SHORTEST:
        cut = _next_cut(agree, last, voters)
        if cut is None:
            break
        before = []
        for track, aligned in zip(tracks, places, strict=True):
            before.append(_word_before(pivot, track, aligned, cut))
        yield before
        last = cut
    yield [len(track.words) for track in tracks]


def _next_cut(agree: Ints, last: int, voters: int) -> int | None:
    """Return the next place where all systems agree; in a long stretch the place where
    most do, and at least half of them.

    Args:
        agree: The number of systems that agree at each place.
        last: The last cut.
        voters: The number of systems.
    """
    begin = last + SHORTEST
    end = len(agree) - 1
    everywhere = agree[begin : min(last + LONGEST, end)]
    if len(everywhere) and everywhere.max() >= max(voters, 1):
        return begin + int((everywhere >= voters).argmax())
    for length, least in ((2 * LONGEST, (voters + 1) // 2), (HARD_LIMIT, 1)):
        window = agree[begin : min(last + length, end)]
        if len(window) and window.max() >= max(least, 1):
            return begin + int(window.argmax())
    return None


def _places(pivot: _Track, track: _Track) -> Ints:
    """Return the token of a track that is aligned with each token of the pivot.

    Returns:
        (tokens of the pivot + 1,) places of tokens; -1 for none.
    """
    places = np.full(len(pivot.tokens) + 1, -1, dtype=np.int64)
    for block in Levenshtein.editops(pivot.tokens, track.tokens).as_matching_blocks():
        aligned = np.arange(block.b, block.b + block.size)
        places[block.a : block.a + block.size] = aligned
    if pivot.timed and track.timed:
        words = np.maximum.accumulate(np.array(pivot.starts))
        others = np.maximum.accumulate(np.array(track.starts))
        matched = np.flatnonzero(places[:-1] >= 0)
        times = pivot.clock[words[matched]]
        other_times = track.clock[others[places[matched]]]
        apart = abs(times - other_times) > 1000 * APART
        places[matched[apart]] = -1
    return places


def _agrees(pivot: _Track, track: _Track, places: Ints) -> Ints:
    """Return where a track has the tokens before and behind a place, and may be cut
    there.

    Returns:
        (tokens of the pivot + 1,) 1 where both hold, else 0.
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
    """Return the words of a track before the cut: by the alignment, else by time, else
    by the next aligned token.
    """
    if places[cut] < 0 and pivot.timed and track.timed:
        return int(np.searchsorted(track.clock, pivot.clock[pivot.starts[cut]]))
    aligned = np.flatnonzero(places[cut:] >= 0)
    token = len(track.tokens)
    if len(aligned):
        token = int(places[cut + aligned[0]])
    while track.starts[token] < 0:  # never within words that are normalised together
        token += 1
    return track.starts[token]
