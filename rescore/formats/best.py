"""1-best texts that are written, with the times of their words."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.formats.audio import RecordingSegment
from rescore.formats.times import TIMED, spread, timed_pieces
from rescore.formats.writing import checked_id
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

Segments = Mapping[str, RecordingSegment] | None


def check(path: str, segments: Segments = None, lists: Iterable[NbestList] = ()) -> None:
    """Check, before anything is computed, that the texts of lists can be written."""
    ending = Path(path).suffix
    if ending == ".stm":
        raise UserError(f"{path}: stm is not written; write .trn, or .ctm with the times of words")
    for nbest in lists:
        if ending in TIMED and segments is not None and nbest.id not in segments:
            raise UserError(f"{path}: no segment for utterance {nbest.id}")
        silent = not any(hypothesis.text.split() for hypothesis in nbest.hypotheses)
        if ending in TIMED and not silent and not any(hypothesis.times for hypothesis in nbest.hypotheses):
            raise UserError(
                f"{path}: utterance {nbest.id}: its list has no times of words; Whisper's, Vosk's, Azure's, Google's "
                "and sherpa's JSON may have them, or write .trn"
            )
        recording = segments[nbest.id].recording if segments else nbest.recording or nbest.id
        if ending == ".ctm" and len(recording.split()) != 1:
            raise UserError(f"{path}: a CTM cannot hold the name {recording!r}, which has blanks; give --segments FILE")
        if ending not in (".txt", *TIMED):
            checked_id(nbest, path, "()" if ending == ".trn" else "")


class BestWriter:
    """One text per utterance, written as the ending says.

    trn (.trn), CTM with word times (.ctm), subtitles (.srt, .vtt; one for each list), plain lines (.txt), else Kaldi
    text. A text is one line: white space is written as blanks.
    """

    def __init__(self, path: str, file: IO[str], segments: Segments = None) -> None:
        """`segments`: where utterances stand in their recordings; times of words count from there."""
        self._path, self._file, self._segments = path, file, segments
        self._ending = Path(path).suffix
        self._cues = 0
        self._recording: str | None = None
        self._last = 0.0
        """The recording of the list before, and the start of its last word."""
        check(path, segments)
        if self._ending == ".vtt":
            file.write("WEBVTT\n")

    def write(self, nbest: NbestList, text: str) -> None:
        """Write the text of a list; subtitles are of one recording."""
        check(self._path, self._segments, [nbest])
        text = " ".join(text.split())
        if self._ending in TIMED:
            self._write_times(nbest, text)
        elif self._ending == ".txt":
            self._file.write(f"{text}\n")
        elif self._ending == ".trn":
            self._file.write(f"{text} ({nbest.id})\n".lstrip())
        else:
            self._file.write(f"{nbest.id} {text}".rstrip() + "\n")

    def _write_times(self, nbest: NbestList, text: str) -> None:
        at = RecordingSegment(nbest.recording or nbest.id, 0.0, 0.0)
        if self._segments is not None:
            at = self._segments[nbest.id]
        words = [
            (piece.strip(), at.start + start, at.start + end)
            for piece, (_, start, end) in zip(timed_pieces(text), word_times(nbest, text) or [], strict=False)
        ]
        if self._ending == ".ctm":
            self._write_ctm(at.recording, words)
            return
        if self._recording not in (None, at.recording):
            raise UserError(f"{self._path}: {nbest.id}: subtitles need lists of a single recording")
        self._recording = at.recording
        if words:
            self._write_subtitle(text, min(start for _, start, _ in words), max(end for _, _, end in words))

    def _write_ctm(self, recording: str, words: Sequence[tuple[str, float, float]]) -> None:
        """Words in their order, none of which begins before the word before it, as a CTM must be (sclite).

        Systems that voted have slightly different clocks, so a piece of a recording may begin before the last word of
        the piece before. Utterances with segments, and lists in another order than the recording, keep their times.
        """
        if not words:
            return
        first = words[0][1]
        seam = self._segments is None and recording == self._recording and 0 < self._last - first <= SEAM
        last = self._last if seam else first
        for word, start, end in words:
            last = max(last, start)
            self._file.write(f"{recording} 1 {last:.2f} {max(last, end) - last:.2f} {word}\n")
        self._recording, self._last = recording, last

    def _write_subtitle(self, text: str, start: float, end: float) -> None:
        self._cues += 1
        if self._ending == ".vtt":
            self._file.write(f"\n{_clock(start, '.')} --> {_clock(end, '.')}\n{html.escape(text, quote=False)}\n")
            return
        text = text.replace("-->", "->")  # SubRip has no escapes, and its times are told by the arrow
        self._file.write(f"{self._cues}\n{_clock(start, ',')} --> {_clock(end, ',')}\n{text}\n\n")


SEAM = 10.0
"""Seconds by which the pieces of a recording may overlap; lists that overlap by more are in another order."""


def write_best(path: str, best: Iterable[tuple[NbestList, str]], file: IO[str], segments: Segments = None) -> None:
    """Write one text per utterance with a `BestWriter`, which raises its errors."""
    writer = BestWriter(path, file, segments)
    for nbest, text in best:
        writer.write(nbest, text)


def word_times(nbest: NbestList, text: str) -> list[tuple[str, float, float]] | None:
    """The words of a text with start and end; None if no hypothesis has times.

    The times are taken from the hypothesis with this text, else from the best hypothesis with times. Its words are
    aligned with the text. Words that replace others share their time by letters; an inserted word gets the time between
    its neighbours.
    """
    timed = [hypothesis for hypothesis in nbest.hypotheses if hypothesis.times]
    if not timed:
        return None
    same = (hypothesis for hypothesis in timed if " ".join(hypothesis.text.split()) == text)
    source = next(same, None) or max(timed, key=lambda hypothesis: hypothesis.scores.get(FIRST_PASS, 0.0))
    old, new = ([piece.strip() for piece in timed_pieces(each)] for each in (source.text, text))
    times = source.times
    words: list[tuple[str, float, float]] = []
    for kind, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            words += [(word, *span) for word, span in zip(new[begin:end], times[first:last], strict=True)]
            continue
        start = times[first][0] if first < last else times[first - 1][1] if first else times[0][0]
        stop = times[last - 1][1] if first < last else times[first][0] if first < len(times) else start
        spans = spread(new[begin:end], (start, max(start, stop)))
        words += [(word, *span) for word, span in zip(new[begin:end], spans, strict=True)]
    return words


def rewritten(hypothesis: Hypothesis, text: str) -> Hypothesis:
    """The hypothesis with another text; its words have the times of those in whose place they stand."""
    words = word_times(NbestList("", [hypothesis]), text) or []
    return replace(hypothesis, text=text, times=tuple((start, end) for _, start, end in words))


def _clock(seconds: float, mark: str) -> str:
    """Hours, minutes, seconds and milliseconds, as in 00:01:02,500."""
    milliseconds = round(max(0.0, seconds) * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
