"""Writing 1-best texts, with the times of their words.

Subtitles are written here: pysubs2 does not escape `&` and `<` in VTT, and its SubRip
leaves `-->` in a text, which ends a cue for other readers.
"""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import chain, islice, takewhile
from typing import IO, NamedTuple

from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted
from rescore.file_options import check_form
from rescore.files import ending_of
from rescore.formats.alternatives import readings
from rescore.formats.audio import RecordingSegment, Segments
from rescore.formats.cues import Said, blank_between, cues
from rescore.formats.text import (
    Marks,
    escaped,
    marks_in,
    read_line,
    read_text,
    strip_markup,
    undo_entities,
    without_tags,
)
from rescore.formats.times import (
    ROUNDING,
    TIMED,
    TimedWord,
    Times,
    filled,
    part_times,
    spread,
    timed_pieces,
)
from rescore.formats.writing import checked_id, unmarked, written_formats
from rescore.ids import is_piece_of
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

RECORDS = (".jsonl", ".csv", ".tsv")
"""Endings of files with a record of each text: its id and the text."""
SEAM = 10.0
"""Seconds by which pieces that several systems wrote may overlap; pieces that overlap
by more are in another order.
"""

# --- checks --------------------------------------------------------------------------


def check(
    path: str,
    segments: Segments | None = None,
    lists: Iterable[NbestList] = (),
    instead: str = ".trn",
) -> None:
    """Check, before anything is computed, that the texts of lists can be written.

    Args:
        path: The file; its ending is the format.
        segments: The segments of the utterances.
        lists: The lists.
        instead: The ending of a file without times, for the message.

    Raises:
        UserError: The format is not written, an id cannot be written, or times are
            missing.
    """
    ending = ending_of(path)
    if ending == ".stm":
        raise UserError(
            f"{path}: stm is not written; write .trn, or .ctm with the times of words"
        )
    formats_of_lists = {".json", *(f".{name}" for name in written_formats())}
    if ending in formats_of_lists.difference(RECORDS):
        raise UserError(
            f"{path}: a {ending} file holds lists; give .trn, .txt or .jsonl to"
            " write 1-best texts, or -o for lists"
        )
    check_form(path, (".trn", *TIMED, *RECORDS))
    lists = list(lists)
    recordings = {nbest.id: _place(path, segments, nbest).recording for nbest in lists}
    if ending not in TIMED or segments:
        return
    timed = {recordings[nbest.id] for nbest in lists if _timed_hypotheses(nbest)}
    for nbest in lists:
        has_words = any(hypothesis.text.split() for hypothesis in nbest.hypotheses)
        if has_words and recordings[nbest.id] not in timed:
            raise _no_times(path, nbest.id, instead)


def _timed_hypotheses(nbest: NbestList) -> list[Hypothesis]:
    """Return the hypotheses whose words have times."""
    return [hypothesis for hypothesis in nbest.hypotheses if hypothesis.times]


def _no_times(path: str, name: str, instead: str = ".trn") -> UserError:
    """Return the error about an utterance whose times are not known."""
    return UserError(
        f"{path}: utterance {name}: its recording has no times of words; Whisper's,"
        " Vosk's, Azure's, Google's and sherpa's JSON may have them, or give"
        f" --segments FILE, or write {instead}"
    )


def _place(path: str, segments: Segments | None, nbest: NbestList) -> RecordingSegment:
    """Return the segment of a list, if it can be written; without segments, times count
    from the start of its recording.
    """
    ending = ending_of(path)
    if ending not in (".txt", *RECORDS, *TIMED):
        checked_id(nbest, path, "()" if ending == ".trn" else "")
    segment = RecordingSegment(nbest.recording or nbest.id, 0.0, None)
    if segments is not None and ending in TIMED:
        segment = segments.of(nbest.id)
    if ending == ".ctm" and len(segment.recording.split()) != 1:
        raise UserError(
            f"{path}: a CTM cannot hold the name {segment.recording!r}, which has"
            " blanks; give --segments FILE"
        )
    return segment


# --- writing -------------------------------------------------------------------------


class _Text(NamedTuple):
    """A text that waits for the times of its words."""

    nbest: NbestList
    text: str
    words: list[TimedWord]
    sure: Sequence[tuple[str, float]]
    """The words and their confidences; empty without confidences."""

    @property
    def is_combined(self) -> bool:
        """Whether the text is of a piece of a recording that several systems wrote:
        their clocks differ slightly.
        """
        recording = self.nbest.recording or ""
        by_systems = self.nbest.header.by_systems
        return by_systems and is_piece_of(self.nbest.id, recording)


class BestWriter:
    """Writes one text per utterance; the ending of the file is the format.

    The formats are trn (.trn), CTM with word times (.ctm), subtitles (.srt, .vtt; one
    for each list, but combined pieces are divided by `rescore.formats.cues`), plain
    lines (.txt), records of id and text (.jsonl, .csv, .tsv), else Kaldi text. A text
    is one line: white space is written as blanks. What a reader would take for a mark
    in a text is escaped (`rescore.formats.text.escaped`).

    Args:
        path: The name of the file.
        file: The open file.
        segments: The segments of utterances in their recordings; times of words count
            from the start of a segment.

    Raises:
        UserError: The format is not written.
    """

    def __init__(
        self, path: str, file: IO[str], segments: Segments | None = None
    ) -> None:
        self._path = path
        self._file = file
        self._segments = segments
        self._ending = ending_of(path)
        self._cues = 0
        """The number of subtitles."""
        self._said: list[Said] = []
        """The words of a recording that several systems wrote, for subtitles."""
        self._recording: str | None = None
        """The recording of the list before."""
        self._last = 0.0
        """The start of the last word that was written."""
        self._end: float | None = None
        """The end of the last word; None where no time of the recording is known."""
        self._waiting: list[_Text] = []
        """A text, and texts behind it without times: their times depend on the times
        that follow.
        """
        self._unordered: list[str] = []
        """For each word that begins before the word before it, the id of its list."""
        self._timeless: list[str] = []
        """The ids of texts without times."""
        check(path, segments)
        self._changed: list[str] = []
        """The ids of texts that the format cannot hold as they are."""
        if self._ending == ".vtt":
            file.write("WEBVTT\n")
        elif self._ending in RECORDS:
            self._write_record("id", "text", is_head=True)

    def write(
        self, nbest: NbestList, text: str, sure: Sequence[tuple[str, float]] = ()
    ) -> None:
        """Write the text of a list, or keep it until the times behind it are known.

        Args:
            nbest: The list.
            text: The text that was chosen from it.
            sure: The words of the text with their confidences, for CTM.

        Raises:
            UserError: The id cannot be written, or subtitles have two recordings.
        """
        segment = _place(self._path, self._segments, nbest)
        text = " ".join(text.split())
        if self._ending in TIMED:
            self._add(nbest, text, segment, sure)
        elif self._ending in RECORDS:
            self._write_record(nbest.id, unmarked(text))
        elif self._ending == ".txt":
            self._file.write(f"{escaped(text, read_line)}\n")
        elif self._ending == ".trn":
            written = escaped(text, _read_trn)
            if written.startswith(";;"):  # a comment
                written = written.replace(";", "&#59;", 1)
            self._file.write(f"{written} ({nbest.id})\n".lstrip())
        else:
            written = f"{nbest.id} {escaped(text, read_line)}"
            self._file.write(written.rstrip() + "\n")

    def close(self) -> None:
        """Write all texts that were kept, and warn of words without times; the file
        stays open.
        """
        self._write_times(None)
        for cue in cues(self._said):
            self._write_subtitle(*cue)
        if self._timeless:
            log.warning(
                "%s: no times of words in %s (first: %s); these words share the time"
                " %s",
                self._path,
                counted(len(self._timeless), "utterance"),
                self._timeless[0],
                "of their segments" if self._segments else "between their neighbours",
            )
        if self._unordered:
            log.warning(
                "%s: lists overlap or are not in the order of time at %s (first: %s);"
                " times are kept; for sclite: sort -k1,1 -k2,2 -k3,3n",
                self._path,
                counted(len(self._unordered), "place"),
                self._unordered[0],
            )
        if self._changed:
            log.warning(
                "%s: the format has marks like words in %s (first: %s): @ is no word,"
                " and --> is written as ->",
                self._path,
                counted(len(self._changed), "text"),
                self._changed[0],
            )

    def _write_record(self, name: str, text: str, is_head: bool = False) -> None:
        """Write the id and the text of an utterance, or the names of both columns.

        Raises:
            UserError: The id cannot be written.
        """
        if self._ending == ".jsonl":
            if not is_head:
                record = {"id": name, "text": text}
                self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
            return
        write_row = FORMATS[self._ending.removeprefix(".")].write_row
        write_row(self._file, [name, text], self._path)

    def _add(
        self,
        nbest: NbestList,
        text: str,
        segment: RecordingSegment,
        sure: Sequence[tuple[str, float]],
    ) -> None:
        """Keep a text, and write the texts before it whose times are now known."""
        if (self._ending == ".ctm" and "@" in text.split()) or (
            self._ending == ".srt" and "-->" in text
        ):
            self._changed.append(nbest.id)
        words = _aligned(nbest, text, segment.start)
        starts = [span[0] for _, span in words if span]
        if segment.recording != self._recording:
            self._begin_recording(segment.recording, nbest.id)
        elif starts and not self._segments:
            timeless = takewhile(lambda word: word[1] is None, words)
            self._write_times(starts[0], list(timeless))
        if words and not starts:
            self._timeless.append(nbest.id)
        self._waiting.append(_Text(nbest, text, words, sure))
        if self._segments:
            self._end = segment.start
            self._write_times(segment.end)

    def _begin_recording(self, recording: str, name: str) -> None:
        """Write the texts of the recording before, and begin another."""
        self._write_times(None)
        if self._recording is not None and self._ending != ".ctm":
            raise UserError(
                f"{self._path}: {name}: subtitles need lists of a single recording"
            )
        self._recording = recording
        self._last = 0.0
        self._end = None

    def _write_times(
        self, stop: float | None, following: Sequence[TimedWord] = ()
    ) -> None:
        """Write the texts that are kept; they share the time before `stop`, if it is
        known, with words that follow.
        """
        waiting = chain.from_iterable(text.words for text in self._waiting)
        words = [*waiting, *following]
        has_times = any(span for _, span in words)
        has_limit = self._end is not None or stop is not None
        if words and not has_times and not has_limit:
            raise _no_times(self._path, self._waiting[0].nbest.id)
        timed = iter(filled(words, self._end, stop))
        for kept in self._waiting:
            own = list(islice(timed, len(kept.words)))
            if not own:
                continue
            self._end = own[-1][1][1]
            if self._ending == ".ctm":
                self._write_ctm(kept, own)
            elif kept.is_combined and self._segments is None:
                self._add_said(kept, own)
            else:
                start = min(start for _, (start, _) in own)
                end = max(end for _, (_, end) in own)
                self._write_subtitle([kept.text], start, end)
        self._waiting.clear()

    def _write_ctm(self, kept: _Text, words: Sequence[tuple[str, Times]]) -> None:
        """Write words in their order, with their times.

        No combined piece begins before the word before it, as a CTM must be
        (sclite): systems have slightly different clocks, so a piece may begin before
        the last word of the piece before.

        Args:
            kept: The text.
            words: Its words with their times.
        """
        allowed = ROUNDING
        if kept.is_combined and self._segments is None:
            allowed = SEAM
        for word, (start, end), figure in _rows(kept.sure, words):
            begin = start
            if 0 < self._last - start <= allowed:
                begin = self._last
            if begin < self._last:
                self._unordered.append(kept.nbest.id)
            duration = max(begin, end) - begin
            place = f"{self._recording} 1 {begin:.2f} {duration:.2f}"
            self._file.write(f"{place} {escaped(word, read_text)}{figure}\n")
            self._last = begin

    def _add_said(self, kept: _Text, words: Sequence[tuple[str, Times]]) -> None:
        """Keep the words of a piece for subtitles, which end where people end them."""
        speaker = kept.nbest.fields.get("speaker", "")
        blank = blank_between(self._said[-1].text if self._said else "", kept.text)
        texts = timed_pieces(kept.text)
        texts[0] = blank + texts[0]
        for text, (_, (start, end)) in zip(texts, words, strict=True):
            self._said.append(Said(text, start, end, speaker))

    def _write_subtitle(self, lines: Sequence[str], start: float, end: float) -> None:
        """Write the lines of a subtitle."""
        self._cues += 1
        if self._ending == ".vtt":
            span = f"{_clock(start, '.')} --> {_clock(end, '.')}"
            # a bracket may begin a position such as `{\\an8}`
            text = html.escape("\n".join(lines), quote=False).replace("{", "&#123;")
            if Marks.SUBWORDS in marks_in(text):
                text = text.replace("@", "&#64;").replace("▁", "&#9601;")
            self._file.write(f"\n{span}\n{text}\n")
            return
        # the times of SubRip are told by the arrow
        written = [escaped(line.replace("-->", "->"), _read_cue) for line in lines]
        span = f"{_clock(start, ',')} --> {_clock(end, ',')}"
        text = "\n".join(written)
        self._file.write(f"{self._cues}\n{span}\n{text}\n\n")


def _rows(
    sure: Sequence[tuple[str, float]], words: Sequence[tuple[str, Times]]
) -> Iterator[tuple[str, Times, str]]:
    """Yield the words of a CTM with their times and, behind a blank, their confidences;
    without confidences there is nothing behind a word.
    """
    if not sure:
        yield from ((word, span, "") for word, span in words)
        return
    spans = part_times([word for word, _ in sure], words)
    for (word, confidence), span in zip(sure, spans, strict=True):
        yield word, span, f" {confidence:.4f}"


def _read_trn(text: str) -> str:
    """Return what readers make of a text of trn; empty for a text with alternatives."""
    try:
        texts = readings(strip_markup(without_tags(text), Marks.ENTITIES), text)
    except UserError:  # too many
        return ""
    return undo_entities(texts[0]) if len(texts) == 1 else ""


_TAG = re.compile(r"</?(?:b|i|u|s|c|v|ruby|rt|lang|font)\b|<[\d:.]+>|\{\\", re.I)
"""The beginning of a tag of subtitles, of a time, or of a position."""


def _read_cue(text: str) -> str:
    """Return what readers make of the text of a subtitle; empty for a text with
    tags.
    """
    if _TAG.search(text):
        return ""
    return read_text(text)


def write_best(
    path: str,
    best: Iterable[tuple[NbestList, str]],
    file: IO[str],
    segments: Segments | None = None,
) -> None:
    """Write one text per utterance with a `BestWriter`, which raises its errors.

    Args:
        path: The name of the file; its ending is the format.
        best: Each list with the text that was chosen from it.
        file: The open file.
        segments: The segments of utterances in their recordings.
    """
    writer = BestWriter(path, file, segments)
    for nbest, text in best:
        writer.write(nbest, text)
    writer.close()


def _clock(seconds: float, mark: str) -> str:
    """Return hours, minutes, seconds and milliseconds, as in 00:01:02,500."""
    milliseconds = round(max(0.0, seconds) * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return (
        f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
    )


# --- times of words ------------------------------------------------------------------


def word_times(nbest: NbestList, text: str) -> list[tuple[str, float, float]] | None:
    """Return the words of a text with start and end.

    The times are taken from the hypothesis with this text, else from the best
    hypothesis with times. Its words are aligned with the text. Words that replace
    others share their time by letters; an inserted word gets the time between its
    neighbours.

    Args:
        nbest: The list.
        text: A text, of the list or not.

    Returns:
        Words with start and end in seconds; None if no hypothesis has times.
    """
    timed = _timed_hypotheses(nbest)
    if not timed:
        return None
    words = _aligned(nbest, text)
    known = [span for _, span in words if span] or [timed[0].times[0]]
    timed_words = filled(words, known[0][0], known[-1][1])
    return [(word, start, end) for word, (start, end) in timed_words]


def rewritten(hypothesis: Hypothesis, text: str) -> Hypothesis:
    """Return the hypothesis with another text, whose words have the times of the words
    in whose place they stand. An alignment is kept if the number of words is.

    Args:
        hypothesis: The hypothesis, with or without times.
        text: The other text.
    """
    words = word_times(NbestList("", [hypothesis]), text) or []
    times = tuple((start, end) for _, start, end in words)
    alignment = hypothesis.alignment
    if len(text.split()) != len(hypothesis.text.split()):
        alignment = ""  # its numbers are of other words
    return replace(hypothesis, text=text, times=times, alignment=alignment)


def _aligned(nbest: NbestList, text: str, offset: float = 0.0) -> list[TimedWord]:
    """Return the words of a text with the times that are known, moved by `offset`
    seconds.
    """
    new = [piece.strip() for piece in timed_pieces(text)]
    source = _source_of_times(nbest, text)
    if source is None:
        return [(word, None) for word in new]
    old = [piece.strip() for piece in timed_pieces(source.text)]
    times = [(offset + start, offset + end) for start, end in source.times]
    words: list[TimedWord] = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        spans: Sequence[Times | None] = [None] * (end - begin)
        if kind == "equal":
            spans = times[first:last]
        elif kind == "replace":
            start = times[first][0]
            stop = max(start, times[last - 1][1])
            spans = spread(new[begin:end], (start, stop))
        words += zip(new[begin:end], spans, strict=True)
    return words


def _source_of_times(nbest: NbestList, text: str) -> Hypothesis | None:
    """Return the hypothesis with times that has this text, else the best with times;
    None if no hypothesis has times.
    """
    timed = _timed_hypotheses(nbest)
    for hypothesis in timed:
        if " ".join(hypothesis.text.split()) == text:
            return hypothesis
    return max(
        timed,
        key=lambda hypothesis: hypothesis.scores.get(FIRST_PASS, 0.0),
        default=None,
    )
