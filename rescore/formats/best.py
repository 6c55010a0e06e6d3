"""1-best texts that are written, with the times of their words.

Subtitles are written here: pysubs2 does not escape `&` and `<` in VTT, and its SubRip
leaves `-->` in a text, which ends a cue for other readers.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import groupby, islice, takewhile
from pathlib import Path
from typing import IO

from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted
from rescore.formats.audio import RecordingSegment
from rescore.formats.times import TIMED, spread, timed_pieces
from rescore.formats.writing import checked_id
from rescore.nbest import Hypothesis, NbestList

log = logging.getLogger(__name__)

Segments = Mapping[str, RecordingSegment] | None


def check(
    path: str, segments: Segments = None, lists: Iterable[NbestList] = ()
) -> None:
    """Check, before anything is computed, that the texts of lists can be written."""
    ending = Path(path).suffix
    if ending == ".stm":
        raise UserError(
            f"{path}: stm is not written; write .trn, or .ctm with the times of words"
        )
    lists = list(lists)
    recordings = {nbest.id: _place(path, segments, nbest).recording for nbest in lists}
    timed = {
        recordings[nbest.id]
        for nbest in lists
        if any(hypothesis.times for hypothesis in nbest.hypotheses)
    }
    for nbest in lists if ending in TIMED and not segments else ():
        if recordings[nbest.id] not in timed and any(
            hypothesis.text.split() for hypothesis in nbest.hypotheses
        ):
            raise _no_times(path, nbest.id)


def _no_times(path: str, name: str) -> UserError:
    return UserError(
        f"{path}: utterance {name}: its recording has no times of words; Whisper's,"
        " Vosk's, Azure's, Google's and sherpa's JSON may have them, or give"
        " --segments FILE, or write .trn"
    )


def _place(
    path: str, segments: Mapping[str, RecordingSegment] | None, nbest: NbestList
) -> RecordingSegment:
    """The segment of a list, if it can be written; without segments, times count from
    the start of its recording.
    """
    ending = Path(path).suffix
    if ending not in (".txt", *TIMED):
        checked_id(nbest, path, "()" if ending == ".trn" else "")
    if ending in TIMED and segments is not None and nbest.id not in segments:
        raise UserError(f"{path}: no segment for utterance {nbest.id}")
    at = (
        segments[nbest.id]
        if segments and ending in TIMED
        else RecordingSegment(nbest.recording or nbest.id, 0.0, None)
    )
    if ending == ".ctm" and len(at.recording.split()) != 1:
        raise UserError(
            f"{path}: a CTM cannot hold the name {at.recording!r}, which has blanks;"
            " give --segments FILE"
        )
    return at


Times = tuple[float, float]
_Word = tuple[str, Times | None]
"""A word with its start and end in the recording, if they are known."""


class BestWriter:
    """One text per utterance, written as the ending says.

    trn (.trn), CTM with word times (.ctm), subtitles (.srt, .vtt; one for each list),
    plain lines (.txt), else Kaldi text. A text is one line: white space is written as
    blanks.
    """

    def __init__(self, path: str, file: IO[str], segments: Segments = None) -> None:
        """`segments`: where utterances stand in their recordings; times of words count
        from there.
        """
        self._path, self._file, self._segments = path, file, segments
        self._ending = Path(path).suffix
        self._cues = 0
        self._recording: str | None = None
        self._last = 0.0
        """The recording of the list before, and the start of its last word."""
        self._end: float | None = None
        """The end of the last word; None where no time of the recording is known."""
        self._waiting: list[tuple[str, str, list[_Word]]] = []
        """A text with its id and words, and texts behind it without times: these depend
        on the times that follow.
        """
        self._timeless: list[str] = []
        check(path, segments)
        if self._ending == ".vtt":
            file.write("WEBVTT\n")

    def write(self, nbest: NbestList, text: str) -> None:
        """Write the text of a list, or keep it until the times behind it are known;
        subtitles are of one recording.
        """
        at = _place(self._path, self._segments, nbest)
        text = " ".join(text.split())
        if self._ending in TIMED:
            self._add(nbest, text, at)
        elif self._ending == ".txt":
            self._file.write(f"{text}\n")
        elif self._ending == ".trn":
            self._file.write(f"{text} ({nbest.id})\n".lstrip())
        else:
            self._file.write(f"{nbest.id} {text}".rstrip() + "\n")

    def close(self) -> None:
        """Write all that was kept, and tell which words had no times; the file stays
        open.
        """
        self._write_times(None)
        if self._timeless:
            log.warning(
                "%s: no times of words in %s (first: %s); these words share the time"
                " between their neighbours",
                *(
                    self._path,
                    counted(len(self._timeless), "utterance"),
                    self._timeless[0],
                ),
            )

    def _add(self, nbest: NbestList, text: str, at: RecordingSegment) -> None:
        words = _aligned(nbest, text, at.start)
        starts = [span[0] for _, span in words if span]
        if at.recording != self._recording:
            self._write_times(None)
            if self._recording is not None and self._ending != ".ctm":
                raise UserError(
                    f"{self._path}: {nbest.id}: subtitles need lists of a single"
                    " recording"
                )
            self._recording, self._last, self._end = at.recording, 0.0, None
        elif starts and not self._segments:
            self._write_times(
                starts[0], list(takewhile(lambda word: word[1] is None, words))
            )
        self._timeless += [nbest.id] if words and not starts else []
        self._waiting.append((nbest.id, text, words))
        if self._segments:
            self._end = at.start
            self._write_times(at.end)

    def _write_times(self, stop: float | None, following: Sequence[_Word] = ()) -> None:
        """Write the texts that are kept; they share the time before `stop`, if it is
        known, with words that follow.
        """
        every = [word for _, _, words in self._waiting for word in words] + list(
            following
        )
        if (
            every
            and self._end is None
            and stop is None
            and not any(span for _, span in every)
        ):
            raise _no_times(self._path, self._waiting[0][0])
        times = iter(_filled(every, self._end, stop))
        for _, text, kept in self._waiting:
            if words := list(islice(times, len(kept))):
                self._end = words[-1][1][1]
                if self._ending == ".ctm":
                    self._write_ctm(words)
                else:
                    self._write_subtitle(
                        text,
                        min(start for _, (start, _) in words),
                        max(end for _, (_, end) in words),
                    )
        self._waiting.clear()

    def _write_ctm(self, words: Sequence[tuple[str, Times]]) -> None:
        """Words in their order, none of which begins before the word before it, as a
        CTM must be (sclite).

        Systems that voted have slightly different clocks, so a piece of a recording may
        begin before the last word of the piece before. Utterances with segments, and
        lists in another order than the recording, keep their times.
        """
        first = words[0][1][0]
        last = (
            self._last
            if self._segments is None and 0 < self._last - first <= SEAM
            else first
        )
        for word, (start, end) in words:
            last = max(last, start)
            self._file.write(
                f"{self._recording} 1 {last:.2f} {max(last, end) - last:.2f} {word}\n"
            )
        self._last = last

    def _write_subtitle(self, text: str, start: float, end: float) -> None:
        self._cues += 1
        if self._ending == ".vtt":
            self._file.write(
                f"\n{_clock(start, '.')} -->"
                f" {_clock(end, '.')}\n{html.escape(text, quote=False)}\n"
            )
            return
        # SubRip has no escapes, and its times are told by the arrow
        text = text.replace("-->", "->")
        self._file.write(
            f"{self._cues}\n{_clock(start, ',')} --> {_clock(end, ',')}\n{text}\n\n"
        )


LETTER = 0.1
"""Seconds for a letter of a word without times at the beginning or the end of a
recording.
"""
SEAM = 10.0
"""Seconds by which the pieces of a recording may overlap; lists that overlap by more
are in another order.
"""


def write_best(
    path: str,
    best: Iterable[tuple[NbestList, str]],
    file: IO[str],
    segments: Segments = None,
) -> None:
    """Write one text per utterance with a `BestWriter`, which raises its errors."""
    writer = BestWriter(path, file, segments)
    for nbest, text in best:
        writer.write(nbest, text)
    writer.close()


def word_times(nbest: NbestList, text: str) -> list[tuple[str, float, float]] | None:
    """The words of a text with start and end; None if no hypothesis has times.

    The times are taken from the hypothesis with this text, else from the best
    hypothesis with times. Its words are aligned with the text. Words that replace
    others share their time by letters; an inserted word gets the time between its
    neighbours.
    """
    times = [time for hypothesis in nbest.hypotheses for time in hypothesis.times]
    if not times:
        return None
    words = _aligned(nbest, text)
    known = [span for _, span in words if span] or times[:1]
    return [(word, *span) for word, span in _filled(words, known[0][0], known[-1][1])]


def _aligned(nbest: NbestList, text: str, at: float = 0.0) -> list[_Word]:
    """The words of a text with the times that are known, moved by `at` seconds."""
    new = [piece.strip() for piece in timed_pieces(text)]
    timed = [hypothesis for hypothesis in nbest.hypotheses if hypothesis.times]
    if not timed:
        return [(word, None) for word in new]
    same = (
        hypothesis for hypothesis in timed if " ".join(hypothesis.text.split()) == text
    )
    source = next(same, None) or max(
        timed, key=lambda hypothesis: hypothesis.scores.get(FIRST_PASS, 0.0)
    )
    old, times = (
        [piece.strip() for piece in timed_pieces(source.text)],
        [(at + start, at + end) for start, end in source.times],
    )
    words: list[_Word] = []
    for kind, first, last, begin, end in SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        spans: Sequence[Times | None] = (
            times[first:last] if kind == "equal" else [None] * (end - begin)
        )
        if kind == "replace":
            spans = spread(
                new[begin:end],
                (times[first][0], max(times[first][0], times[last - 1][1])),
            )
        words += zip(new[begin:end], spans, strict=True)
    return words


def _filled(
    words: Sequence[_Word], start: float | None, stop: float | None
) -> list[tuple[str, Times]]:
    """The words with times: words without share the time between their neighbours, or
    from `start`, or to `stop`.

    Where a neighbour or limit is missing, they last `LETTER` seconds a letter.
    """
    filled: list[tuple[str, Times]] = []
    for is_timeless, group in groupby(words, key=lambda word: word[1] is None):
        run = list(group)
        if not is_timeless:
            filled += [(word, span) for word, span in run if span]
            continue
        texts = [word for word, _ in run]
        length, rest = LETTER * sum(map(len, texts)), words[len(filled) + len(run) :]
        after = rest[0][1][0] if rest and rest[0][1] else stop
        before = (
            filled[-1][1][1]
            if filled
            else max(0.0, (after or 0.0) - length)
            if start is None
            else start
        )
        after = before + length if after is None else after
        filled += zip(texts, spread(texts, (min(before, after), after)), strict=True)
    return filled


def rewritten(hypothesis: Hypothesis, text: str) -> Hypothesis:
    """The hypothesis with another text; its words have the times of those in whose
    place they stand.
    """
    words = word_times(NbestList("", [hypothesis]), text) or []
    return replace(
        hypothesis, text=text, times=tuple((start, end) for _, start, end in words)
    )


def _clock(seconds: float, mark: str) -> str:
    """Hours, minutes, seconds and milliseconds, as in 00:01:02,500."""
    milliseconds = round(max(0.0, seconds) * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return (
        f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
    )
