"""References of utterances from Kaldi text, sclite trn, stm, plain lines, or lists and manifests with references.

If either side has ids, ids must match; only lists and references without ids are paired by order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from rescore.errors import UserError, counted
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.text import (
    add_once,
    first_of,
    identity_of,
    readings,
    records_of,
    split_id,
    undo_entities,
    undo_marks,
)
from rescore.nbest import NbestList
from rescore.parts import FORMATS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class References:
    """Files of references: with several, each utterance has one of each."""

    paths: tuple[str, ...]
    format: str | None = None
    """`kaldi`, `trn`, `stm`, `plain`; None detects the format from the contents."""
    segments: str | None = None
    """Kaldi's `segments`, where the segments of an stm are to be paired with lists by time."""


def read_references(references: str | Path | References, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The references of each utterance in `ids`, from all files.

    N-best lists (and NeMo manifests) give their own references. A text file whose lines all end in `(id)` is trn; one
    whose fourth and fifth words are times is stm; one whose lines all begin with ids is Kaldi text; else it is plain,
    one line an utterance, in the order of `ids`.

    Raises:
        UserError: an utterance has no reference, or two in one file; a plain file has another number of lines; or the
            lines begin with numbers that may be ids or words.
    """
    return joined(open_references(references), ids)


def joined(files: Sequence[ReferenceFile], ids: Sequence[str], escaped: bool = True) -> dict[str, tuple[str, ...]]:
    """The references of each utterance from all files; errors as of `read_references`.

    Args:
        escaped: whether XML entities of the Moses tokeniser are undone, as in hypotheses.
    """
    per_file = [file.of(ids, escaped) for file in files]
    return {name: tuple(text for by_id in per_file for text in by_id[name]) for name in ids}


def open_references(
    references: str | Path | References | Sequence[ReferenceFile], warnings: InputWarnings | None = None
) -> list[ReferenceFile]:
    """The files of references, each read once: a pipe cannot be read again. Open ones are returned as they are."""
    if isinstance(references, Sequence) and not isinstance(references, str):
        return list(references)
    if not isinstance(references, References):
        references = References((str(references),))
    return [
        ReferenceFile(text_source(path, warnings), references.format, references.segments) for path in references.paths
    ]


class ReferenceFile:
    """A file of references."""

    def __init__(self, source: Source, format_name: str | None, segments: str | None = None) -> None:
        self.path, self.format, self._segments = source.name, format_name, segments
        self._lists: dict[str, tuple[str, ...]] = {}
        self.lines: list[str] = []
        if format_name is None and source.peek.root:
            self._lists = _of_records(source)
        else:
            self.lines = all_lines(source)
        self._trn = trn_texts(self.lines, self.path) or {} if format_name in (None, "trn") else {}
        if format_name == "trn" and not self._trn:
            raise UserError(f"{self.path}: not trn: a line does not end in (id)")

    @property
    def ids(self) -> set[str]:
        """The ids that the file has, as far as that is certain: of lists, of trn, and of lines that look like it."""
        if self._lists or self._trn:
            return set(self._lists or self._trn)
        if self.format == "kaldi" or (self.format is None and not is_stm(self.lines) and begin_with_ids(self.lines)):
            return set(first_words(self.lines))
        return set()

    @property
    def size(self) -> int:
        """The number of references, empty lines included."""
        return len(self._lists or self._trn or self.lines)

    def of(self, ids: Sequence[str], escaped: bool = True) -> dict[str, tuple[str, ...]]:
        """The references of each utterance."""
        if self._lists:
            if len(self._lists) == len(ids) and are_numbers(ids) and not self._lists.keys() & set(ids):
                return dict(zip(ids, self._lists.values(), strict=True))  # a manifest beside lists that are numbered
            return self._all_of(self._lists, ids)
        kind = self.format or self._kind(ids)
        texts = self._all_of(self._texts(kind, ids), ids)
        cleaned = {name: undo_marks(undo_entities(text) if escaped else text) for name, text in texts.items()}
        if kind not in ("trn", "stm"):
            return {name: (text,) for name, text in cleaned.items()}
        return {name: readings(text, f"{self.path}: utterance {name}") for name, text in cleaned.items()}

    def left_out(self, ids: Sequence[str]) -> list[str]:
        """The utterances of the file, in its order, that are not among `ids`; empty if it has no ids."""
        known = set(ids)
        names = list(self._lists or self._trn)
        if not names and (self.format or self._kind(ids)) == "kaldi":
            names = first_words(self.lines)
        return [] if are_numbers(ids) and not known & set(names) else [name for name in names if name not in known]

    def _texts(self, kind: str, ids: Sequence[str]) -> dict[str, str]:
        if kind == "trn":
            return self._trn
        if kind == "kaldi":
            return kaldi_texts(self.lines, self.path)
        if kind == "stm":
            return _stm(self.lines, self.path, ids, self._segments)
        if len(self.lines) != len(ids):
            raise UserError(
                f"{self.path}: {counted(len(self.lines), 'line')} for {counted(len(ids), 'utterance')}, and no line "
                f"begins or ends with an id such as {ids[0] if ids else '?'}; give Kaldi text, "
                "trn, or one line an utterance"
            )
        return dict(zip(ids, self.lines, strict=True))

    def _kind(self, ids: Sequence[str]) -> str:
        """The format of the lines, judged by the ids of the lists."""
        if self._trn:
            return "trn"
        if is_stm(self.lines):
            return "stm"
        known, first = set(ids), first_words(self.lines)
        if not are_numbers(ids):
            return "kaldi" if any(word in known for word in first) or begin_with_ids(self.lines) else "plain"
        if not all(word.isdecimal() for word in first) and begin_with_ids(self.lines):
            raise UserError(
                f"{self.path}: its lines begin with ids such as {first[0]}, but the lists have numbers only; "
                "give lines without ids in their order, or --ref-format plain if these are words"
            )
        if len(self.lines) == len(ids) and not all(word in known for word in first):
            return "plain"
        if not any(word in known for word in first):
            return "plain"
        numbers = all(word.isdecimal() for word in first) and len(set(first)) == len(first) == len(ids)
        if numbers and first not in (list(ids), sorted(ids)):
            raise UserError(
                f"{self.path}: its lines begin with numbers that are ids, but in another order than the lists; "
                "are they ids or words? Say it with --ref-format kaldi or plain"
            )
        return "kaldi"

    def _all_of(self, by_id: dict[str, T], ids: Sequence[str]) -> dict[str, T]:
        missing = [name for name in ids if name not in by_id]
        if missing:
            raise UserError(
                f"{self.path}: no reference for utterance {missing[0]} ({len(missing)} of {len(ids)} missing; "
                f"its first is {next(iter(by_id), 'none')})"
            )
        return {name: by_id[name] for name in ids}


def _of_records(source: Source) -> dict[str, tuple[str, ...]]:
    """The references of lists (some formats need options to read hypotheses), or of a manifest without hypotheses."""
    if is_manifest(source):
        by_id = references_of(source)
    else:
        reader = next((FORMATS[name] for name in FORMATS.names if FORMATS[name].sniff(source)), FORMATS["native"])
        by_id = {nbest.id: nbest.references for nbest in reader.read(source, ReadOptions(size=1)) if nbest.references}
    if not by_id:
        raise UserError(f"{source.name}: no references in it")
    return by_id


def are_numbers(ids: Sequence[str]) -> bool:
    """Whether ids are numbers in order, as of lists that have no ids: they may be paired with others by order."""
    if not ids or not (ids[0].isascii() and ids[0].isdecimal()) or len(ids[0]) > 9:
        return False
    return list(ids) == [str(number) for number in range(int(ids[0]), int(ids[0]) + len(ids))]


def begin_with_ids(lines: Sequence[str]) -> bool:
    """Whether all lines begin with different words that contain a digit, as ids do."""
    first = first_words(lines)
    return len(set(first)) == len(first) > 0 and all(set(word) & set("0123456789") for word in first)


def first_words(lines: Sequence[str]) -> list[str]:
    return [split_id(line)[0] for line in lines if line.strip()]


_STM = re.compile(r"(\S+) (\S+) (\S+) (\d+(?:\.\d+)?) (\d+(?:\.\d+)?)(?: <[^>]*>)?(?: (.*))?")
_NOT_SCORED = "IGNORE_TIME_SEGMENT_IN_SCORING"


def _stm_line(line: str) -> re.Match[str] | None:
    return _STM.fullmatch(" ".join(line.split()))


def is_stm(lines: Sequence[str]) -> bool:
    filled = [line for line in lines if line.strip() and not line.startswith(";;")]
    return bool(filled) and all(_stm_line(line) for line in filled)


def _stm(lines: Sequence[str], path: str, ids: Sequence[str], segments: str | None) -> dict[str, str]:
    """Texts of the utterances: by file where each file has one segment, else by time; by order for lists without ids.

    Raises:
        UserError: segments and utterances cannot be paired.
    """
    spoken = [segment for segment in stm_segments(lines, path) if segment.text.upper() != _NOT_SCORED]
    by_file = {segment.file: segment.text for segment in spoken}
    if len(by_file) == len(spoken) and (by_file.keys() & set(ids) or not are_numbers(ids)):
        return by_file
    if are_numbers(ids):
        if len(spoken) != len(ids):
            raise UserError(
                f"{path}: {counted(len(spoken), 'segment')} for {counted(len(ids), 'utterance')}, "
                "and the files of the segments are not the ids of the utterances"
            )
        return dict(zip(ids, (segment.text for segment in spoken), strict=True))
    # A file of recordings may be Kaldi's `segments`, or its utt2spk without times.
    known = segments is not None and any(len(line.split()) >= 4 for _, line in Source(segments).filled())
    for spans in [read_segments(str(segments))] if known else [_times_in(ids, unit) for unit in (1.0, 0.01, 0.001)]:
        if (texts := _by_time({name: spans[name] for name in ids if name in spans}, spoken)) is not None:
            return texts
    why = f"the times in {segments} do not match" if known else f"ids such as {ids[0]} contain no times"
    raise UserError(
        f"{path}: has several segments of a recording, but {why}; give Kaldi's segments with --recordings FILE, or "
        "references with ids"
    )


@dataclass(frozen=True, slots=True)
class _StmSegment:
    file: str
    channel: str
    start: float
    end: float
    text: str


def stm_segments(lines: Sequence[str], path: str) -> Iterator[_StmSegment]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(";;"):
            continue
        match = _stm_line(line)
        if not match:
            raise UserError(f"{path}: line {number}: not stm: expected `file channel speaker start end text`")
        yield _StmSegment(match[1], match[2], float(match[4]), float(match[5]), (match[6] or "").strip())


_TIMED_ID = re.compile(r"(.+)[-_](\d{1,9}(?:\.\d{1,6})?)[-_](\d{1,9}(?:\.\d{1,6})?)")


def _times_in(ids: Sequence[str], unit: float) -> dict[str, RecordingSegment]:
    """Recording, start and end as ids such as `talk-0001234-0001567` say them, in units of this many seconds."""
    matches = ((name, match) for name in ids if (match := _TIMED_ID.fullmatch(name)))
    return {name: RecordingSegment(match[1], unit * float(match[2]), unit * float(match[3])) for name, match in matches}


def _by_time(spans: Mapping[str, RecordingSegment], spoken: Sequence[_StmSegment]) -> dict[str, str] | None:
    """The text of the stm's segment at the same time, for each utterance; None for utterances without times."""
    channels: dict[str, set[str]] = {}
    for segment in spoken:
        channels.setdefault(segment.file, set()).add(segment.channel)
    recordings: dict[str, list[_StmSegment]] = {}
    for segment in spoken:
        several = len(channels[segment.file]) > 1
        for name in [f"{segment.file}{mark}{segment.channel}" for mark in "-_"] if several else [segment.file]:
            recordings.setdefault(name, []).append(segment)
    texts, taken = {}, set()
    for utterance, span in spans.items():
        # An id may have the speaker behind the recording.
        name = max((name for name in recordings if span.recording.startswith(name)), key=len, default="")
        nearest = max(recordings.get(name, ()), key=partial(_shared, span), default=None)
        if nearest is None or nearest in taken or _shared(span, nearest) <= 0.5:
            return None
        taken.add(nearest)
        texts[utterance] = nearest.text
    return texts or None


def _shared(span: RecordingSegment, segment: _StmSegment) -> float:
    """The time that both have, as a part of the time that either has."""
    both = min(span.end, segment.end) - max(span.start, segment.start)
    either = max(span.end, segment.end) - min(span.start, segment.start)
    return both / either if either > 0 else 0.0


def text_source(path: str | Path | Source, warnings: InputWarnings | None = None) -> Source:
    source = path if isinstance(path, Source) else Source(path, warnings)
    if source.is_folder:
        raise UserError(f"{source.name}: is a folder; give the file with the texts, usually {source.path / 'text'}")
    return source


def all_lines(source: Source) -> list[str]:
    """Every line; those at the end that are empty are left out only where all texts are."""
    lines = list(source.lines())
    if not any(line.strip() for line in lines):
        raise UserError(f"{source.name}: is empty")
    return lines


def trn_texts(lines: Sequence[str], path: str | Path) -> dict[str, str] | None:
    """Texts by id; `;;` begins a comment. None if a line does not end in an id in brackets.

    Raises:
        UserError: an utterance is duplicated.
    """
    texts: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith(";;"):
            continue
        text, bracket, name = line[:-1].rpartition("(")
        if not (bracket and line.endswith(")") and name and not set(name) & set("() \t")):
            return None
        if text and not text[-1].isspace():
            return None
        add_once(texts, name, text.strip(), f"{path}: line {number}")
    return texts


def kaldi_texts(lines: Sequence[str], path: str | Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            add_once(texts, *split_id(line), f"{path}: line {number}")
    return texts


_MANIFEST_TEXT = ("reference", "ref", "text", "sentence", "transcript")


def is_manifest(source: Source) -> bool:
    """Whether records have an audio file and a text, but no hypotheses: NeMo's manifests as training reads them."""
    keys = set(source.peek.keys)
    return (
        bool({"audio_filepath", "audio", "path"} & keys and set(_MANIFEST_TEXT) & keys)
        and not {"beams", "pred_text"} & keys
    )


def references_of(source: Source) -> dict[str, tuple[str, ...]]:
    """The texts of a manifest, called after their audio files.

    Raises:
        UserError: an utterance is duplicated, or has no text.
    """
    texts: dict[str, tuple[str, ...]] = {}
    for _, value, place in records_of(source):
        key = first_of(value, ("audio_filepath", "audio", "path")) if isinstance(value, dict) else None
        text = next((value[name] for name in _MANIFEST_TEXT if isinstance(value.get(name), str)), None) if key else None
        if key is None or text is None:
            raise UserError(f"{place}: expected an object with audio_filepath and text")
        add_once(texts, identity_of(value[key]), (" ".join(text.split()),), place)
    return texts


def with_recordings(lists: Iterable[NbestList], path: Path) -> Iterator[NbestList]:
    """The lists with their recordings: of each line of a file, the first field is an utterance, and the second its
    recording.

    Raises:
        UserError: a line has only one field, an utterance is duplicated, or the file does not name an utterance of the
            lists.
    """
    recordings: dict[str, str] = {}
    for place, line in Source(path).filled():
        name, *more = line.split(maxsplit=2)
        if not more:
            raise UserError(f"{place}: no recording behind {name!r}; expected UTTERANCE RECORDING")
        if recordings.setdefault(name, more[0]) != more[0]:
            raise UserError(f"{place}: utterance {name} is duplicated; give each utterance one recording")
    for nbest in lists:
        if nbest.id not in recordings:
            raise UserError(f"{path}: utterance {nbest.id} is not in it")
        yield replace(nbest, recording=recordings[nbest.id])


@dataclass(frozen=True, slots=True)
class RecordingSegment:
    """Where in a recording an utterance is, as a line of Kaldi's `segments` says it."""

    recording: str
    start: float
    end: float


def read_segments(path: str | Path) -> dict[str, RecordingSegment]:
    """Kaldi's `segments`: `utterance recording start end`, in seconds.

    Raises:
        UserError: a line is not of this form, or an utterance is duplicated.
    """
    segments: dict[str, RecordingSegment] = {}
    for place, line in Source(path).filled():
        cells = line.split()
        try:
            name, recording, start, end = cells[0], cells[1], float(cells[2]), float(cells[3])
        except (IndexError, ValueError):
            raise UserError(f"{place}: expected `utterance recording start end`") from None
        add_once(segments, name, RecordingSegment(recording, start, end), place)
    return segments
