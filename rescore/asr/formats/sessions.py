"""Recordings with speakers: who says which words when, as files write it, and as the
text of an utterance.

A session is a recording with its segments. Its text has a line for each segment, so
that digests and caches, which compare texts, also tell speakers and times apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from rescore.asr.formats.contents import ctm_words, kind_of, stm_lines
from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.alternatives import first_reading
from rescore.formats.source import InputWarnings, Source
from rescore.formats.times import Span
from rescore.nbest import Hypothesis, NbestList

MARK = "\u001f"
"""Unicode's unit separator, between the fields of a segment; no file has it in a
text.
"""
NO_TIME = "-"


class Segment(NamedTuple):
    """Words that a speaker says without a pause."""

    speaker: str
    text: str
    span: Span | None = None
    """None in a file without times."""

    @property
    def line(self) -> str:
        """The segment as a line of the text of its session."""
        times = (NO_TIME, NO_TIME)
        if self.span is not None:
            times = (repr(self.span.start), repr(self.span.end))
        return MARK.join((quote(self.speaker, safe=""), *times, self.text))


def text_of(segments: Iterable[Segment]) -> str:
    """Return the text of a session: a line for each segment.

    Args:
        segments: The segments.
    """
    return "\n".join(segment.line for segment in segments)


def is_session(text: str) -> bool:
    """Return whether a text is of a session; an empty text is a session in which nobody
    speaks.
    """
    return not text or MARK in text


def segments_of(text: str) -> list[Segment]:
    """Return the segments of a session.

    Args:
        text: The text of the session, as `text_of` returns it.
    """
    segments = []
    for line in filter(None, text.split("\n")):
        speaker, start, end, words = line.split(MARK)
        span = None
        if start != NO_TIME:
            span = Span.read(start, end, words)
        segments.append(Segment(unquote(speaker), words, span))
    return segments


# --- files ---------------------------------------------------------------------------

Sessions = dict[str, list[Segment]]
"""The segments of each recording by its name."""
Parts = Iterator[tuple[str, Segment]]
"""Segments with the names of their recordings."""


def measured_sessions(
    outputs: Sequence[str], references: str, strict: bool = False
) -> list[list[NbestList]]:
    """Return the recordings of each output as lists of one hypothesis, with references.

    Args:
        outputs: The files of the outputs, or folders of files.
        references: The file or folder of references.
        strict: Whether warnings about the input are errors.

    Raises:
        UserError: A file is damaged, or an output has a recording without a reference.
    """
    expected = read_sessions(references, strict)
    measured = []
    for path in outputs:
        heard = read_sessions(path, strict)
        unknown = sorted(heard.keys() - expected.keys())
        if unknown:
            raise UserError(
                f"{references}: no reference for recording {unknown[0]} of {path}; give"
                " a file with all recordings as --ref"
            )
        lists = []
        for name, segments in expected.items():
            said = Hypothesis(text_of(heard.get(name, ())), {FIRST_PASS: 0.0})
            truth = (text_of(segments),)
            lists.append(NbestList(name, [said], truth, recording=name))
        measured.append(lists)
    return measured


def read_sessions(path: str, strict: bool = False) -> Sessions:
    """Return the recordings of a file with speakers, or of a folder of such files.

    The format is SegLST (JSON), STM, CTM or RTTM. The channel of a CTM is the speaker;
    of an RTTM the lines LEXEME are read, which have words.

    Args:
        path: The file or folder.
        strict: Whether warnings about the input are errors.

    Raises:
        UserError: A file is damaged, has no speakers, or there is no recording.
    """
    warnings = InputWarnings(strict)
    sessions: Sessions = defaultdict(list)
    for source in Source(path, warnings).files():
        for name, segment in _reader(source)(source):
            sessions[name].append(segment)
    warnings.report()
    if not sessions:
        raise UserError(f"{path}: no recording in it; give SegLST, STM, CTM or RTTM")
    return dict(sessions)


def _reader(source: Source) -> Callable[[Source], Parts]:
    """Return the function that reads a file, by its contents."""
    readers = {"json": _seglst, "stm": _stm, "ctm": _ctm}
    kind = kind_of(source)
    if _is_rttm(source):
        return _rttm
    if kind not in readers:
        raise UserError(
            f"{source.name}: no speakers in it; give SegLST (JSON), STM, CTM or RTTM"
        )
    return readers[kind]


def _seglst(source: Source) -> Parts:
    """Yield the segments of a SegLST: a JSON list of objects."""
    content = loads(source.read_all(), source.name)
    if not isinstance(content, list):
        raise UserError(f"{source.name}: not SegLST: expected a JSON list of segments")
    for number, entry in enumerate(content, 1):
        yield _entry(entry, f"{source.name}: segment {number}")


def _entry(entry: Any, place: str) -> tuple[str, Segment]:
    """Return a segment of a SegLST with its recording."""
    if not isinstance(entry, dict):
        raise UserError(f"{place}: not SegLST: expected an object, not a {entry!r:.40}")
    for key in ("session_id", "speaker", "words"):
        value = entry.get(key)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_text = isinstance(value, str) and MARK not in value
        if not is_text and not (is_number and key != "words"):
            raise UserError(
                f"{place}: {key} is {value!r:.40}, not a text; a segment of SegLST has"
                " session_id, speaker and words"
            )
    times = (entry.get("start_time"), entry.get("end_time"))
    span = None
    if times != (None, None):
        span = Span.read(*times, place)
    words = " ".join(entry["words"].split())
    return str(entry["session_id"]), Segment(str(entry["speaker"]), words, span)


def _stm(source: Source) -> Parts:
    """Yield the segments of an STM; of alternatives the first is read."""
    for line in stm_lines(source):
        words = " ".join(first_reading(line.text).split())
        yield line.recording, Segment(line.speaker, words, line.span)


def _ctm(source: Source) -> Parts:
    """Yield the words of a CTM, whose channel is the speaker."""
    for word in ctm_words(source):
        recording, speaker = word.cells[:2]
        if word.word != "@":
            yield recording, Segment(speaker, word.word, Span(word.start, word.end))


RTTM_FIELDS = 8
"""`type file channel start duration word subtype speaker`."""


def _is_rttm(source: Source) -> bool:
    """Return whether the first line of a file is of an RTTM."""
    for line in source.head.splitlines():
        if line.strip() and not line.startswith(";;"):
            cells = line.split()
            return cells[0].isupper() and len(cells) in (9, 10)
    return False


def _rttm(source: Source) -> Parts:
    """Yield the words of an RTTM."""
    others = 0
    number = 0
    for place, line in source.filled():
        cells = line.split()
        if cells[0] != "LEXEME":
            others += 1
            continue
        if len(cells) < RTTM_FIELDS:
            raise UserError(f"{place}: not RTTM: expected 9 or 10 fields")
        number += 1
        span = Span.read(cells[3], cells[4], place, duration=True)
        yield cells[1], Segment(cells[7], cells[5], span)
    if others and not number:
        raise UserError(
            f"{source.name}: an RTTM without words (LEXEME lines); words are compared:"
            " give SegLST, STM or CTM"
        )
