"""Recordings with speakers: who says which words when, as the text of an utterance.

A session is a recording with its segments. Its text has a line for each segment, so
that digests and caches, which compare texts, also tell speakers and times apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote, unquote

from rescore.asr.measured import check_recordings
from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.alternatives import first_reading
from rescore.formats.ids import with_names_of
from rescore.formats.said import said
from rescore.formats.segments import (
    JSON,
    Segment,
    first_alternative,
    kind_of,
    with_alternatives,
)
from rescore.formats.source import InputWarnings, Source
from rescore.formats.text import undo_entities
from rescore.formats.times import Span
from rescore.formats.understood import tell_recordings
from rescore.nbest import Hypothesis, NbestList

MARK = "\u001f"
"""Unicode's unit separator, between the fields of a segment; no file has it in a
text.
"""
NO_TIME = "-"
KINDS = ("seglst", "stm", "ctm", "rttm")
"""Forms of files that name speakers."""


def _line(segment: Segment) -> str:
    """Return a segment as a line of the text of its session."""
    times = (NO_TIME, NO_TIME)
    if segment.span is not None:
        times = (repr(segment.span.start), repr(segment.span.end))
    return MARK.join((quote(segment.speaker, safe=""), *times, segment.text))


def text_of(segments: Iterable[Segment]) -> str:
    """Return the text of a session: a line for each segment.

    Args:
        segments: The segments.
    """
    return "\n".join(map(_line, segments))


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
    own = []
    for line in filter(None, text.split("\n")):
        speaker, start, end, words = line.split(MARK)
        span = None
        if start != NO_TIME:
            span = Span.read(start, end, words)
        own.append(Segment(words, speaker=unquote(speaker), span=span))
    return own


# --- files ---------------------------------------------------------------------------

Sessions = dict[str, list[Segment]]
"""The segments of each recording by its name."""


def measured_sessions(
    outputs: Sequence[str], references: str, strict: bool = False
) -> list[list[NbestList]]:
    """Return the recordings of each output as lists of one hypothesis, with references.

    Args:
        outputs: The files of the outputs, or folders of files.
        references: The file or folder of references.
        strict: Whether warnings about the input are errors.

    Raises:
        UserError: A file is damaged, there is no reference, or an output has a
            recording without a reference.
    """
    expected = read_sessions(references, strict)
    if not expected:
        raise _no_recording(references)
    measured = []
    for path in outputs:
        heard = with_names_of(expected, read_sessions(path, strict), path)
        check_recordings(references, expected, path, heard)
        lists = []
        for name, truth in expected.items():
            said = Hypothesis(text_of(heard.get(name, ())), {FIRST_PASS: 0.0})
            lists.append(NbestList(name, [said], (text_of(truth),), recording=name))
        measured.append(lists)
    return measured


def read_sessions(path: str, strict: bool = False) -> Sessions:
    """Return the recordings of a file with speakers, or of a folder of such files.

    The format is SegLST (JSON), STM, CTM or RTTM. The channel of a CTM is the speaker;
    of an RTTM the lines LEXEME are read, which have words. An empty file has no
    recording.

    Args:
        path: The file or folder.
        strict: Whether warnings about the input are errors.

    Raises:
        UserError: A file is damaged, or has no speakers, or a folder has no file.
    """
    warnings = InputWarnings(strict)
    sessions: Sessions = defaultdict(list)
    sources = Source(path, warnings).files()
    if not sources:
        raise _no_recording(path)
    for source in sources:
        for segment in _said(source):
            sessions[segment.recording].append(segment)
    warnings.report()
    words = 0
    for own in sessions.values():
        words += sum(len(segment.text.split()) for segment in own)
    tell_recordings(path, len(sessions), words)
    return dict(sessions)


def _no_recording(path: str) -> UserError:
    """Return the error about a path without recordings."""
    return UserError(f"{path}: no recording in it; give SegLST, STM, CTM or RTTM")


def _said(source: Source) -> Iterator[Segment]:
    """Yield the segments of a file with the name of a speaker in each.

    Raises:
        UserError: The file has no speakers.
    """
    kind = kind_of(source)
    if kind == JSON:
        kind = "seglst"  # its reader says what is wrong
    if kind not in KINDS:
        if not source.head.strip():
            return
        raise UserError(
            f"{source.name}: no speakers in it; give SegLST (JSON), STM, CTM or RTTM"
        )
    every = said(source, kind)
    if kind == "ctm":
        yield from _words_of_channels(every)
        return
    for segment in every:
        words = segment.text
        if kind == "stm":  # of alternatives the first is read
            words = undo_entities(" ".join(first_reading(words).split()))
        yield segment._replace(text=words)


def _words_of_channels(words: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the words of a CTM, whose channel is the speaker; of alternatives these are
    the words of the first.
    """
    for block in with_alternatives(words):
        for word in first_alternative(block):
            if word.text != "@":
                yield word._replace(speaker=word.channel)
