"""References, one of each utterance: Kaldi text, sclite trn, stm, plain lines, or lists and manifests that have them.

Where either side has ids, ids must match: what is paired by order is only what has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from rescore.errors import UserError
from rescore.formats.lines import first_of, identity_of, records_of, split_id
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.text import readings, undo_entities, undo_marks
from rescore.nbest import NbestList
from rescore.parts import FORMATS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class References:
    """Files of references: with several, each utterance has one of each."""

    paths: tuple[str, ...]
    format: str | None = None
    """`kaldi`, `trn`, `stm`, `plain`; found out by looking inside where None."""


def read_references(
    references: str | Path | References, ids: Sequence[str], warnings: InputWarnings | None = None, escaped: bool = True
) -> dict[str, tuple[str, ...]]:
    """The references of each utterance in `ids`: those of each file.

    N-best lists (and NeMo manifests) give the references that they have. Of texts, a file whose lines all end in `(id)`
    is trn; one whose fourth and fifth words are times is stm; one whose lines all begin with ids is Kaldi text; else
    it is plain, one line an utterance, in the order of `ids`.

    Args:
        escaped: whether XML entities of the Moses tokeniser are undone, as readers do in hypotheses.

    Raises:
        UserError: an utterance has no reference, or two in one file; a plain file has another number of lines; or the
            lines begin with numbers that may be ids or words.
    """
    return _joined([file.of(ids, escaped) for file in open_references(references, warnings)], ids)


def _joined(per_file: Sequence[Mapping[str, tuple[str, ...]]], ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(text for by_id in per_file for text in by_id[name]) for name in ids}


def open_references(references: str | Path | References, warnings: InputWarnings | None = None) -> list[ReferenceFile]:
    """The files of references, each read once: a pipe cannot be read again."""
    if not isinstance(references, References):
        references = References((str(references),))
    return [ReferenceFile(text_source(path, warnings), references.format) for path in references.paths]


class ReferenceFile:
    """A file of references."""

    def __init__(self, source: Source, format_name: str | None) -> None:
        self.path, self.format = source.name, format_name
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
        """The utterances of the file, in its order, that are not among `ids`; none where it has no ids."""
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
            return _stm(self.lines, self.path, ids)
        if len(self.lines) != len(ids):
            raise UserError(
                f"{self.path}: {len(self.lines)} lines for {len(ids)} utterances, and no line begins or ends with an "
                f"id such as {ids[0] if ids else '?'}; give Kaldi text, trn, or one line an utterance"
            )
        return dict(zip(ids, self.lines, strict=True))

    def _kind(self, ids: Sequence[str]) -> str:
        """What the lines are, judged by the ids that the lists have."""
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
    """The references of lists, of which some formats ask how to read hypotheses; or of a manifest without any."""
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
    """Whether all lines begin with what looks like ids: different ones, with a digit in each."""
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


def _stm(lines: Sequence[str], path: str, ids: Sequence[str]) -> dict[str, str]:
    """Texts by file where each file has one segment, else in the order of the lists."""
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(";;"):
            continue
        match = _stm_line(line)
        if not match:
            raise UserError(f"{path}: line {number}: not stm: expected `file channel speaker start end text`")
        text = (match[6] or "").strip()
        if text.upper() != _NOT_SCORED:
            found.append((match[1], text))
    by_file = dict(found)
    one_each = len(by_file) == len(found)
    if one_each and (by_file.keys() & set(ids) or not are_numbers(ids)):
        return by_file
    if len(found) != len(ids):
        raise UserError(f"{path}: {len(found)} segments for {len(ids)} utterances, and their files are not these ids")
    return dict(zip(ids, (text for _, text in found), strict=True))


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
    """Texts by id; `;;` begins a comment. None where a line does not end in an id in brackets.

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
        _add(texts, name, text.strip(), path, number)
    return texts


def kaldi_texts(lines: Sequence[str], path: str | Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            _add(texts, *split_id(line), path, number)
    return texts


def _add(texts: dict[str, str], name: str, text: str, path: str | Path, number: int) -> None:
    if name in texts:
        raise UserError(f"{path}: line {number}: utterance {name} is duplicated; give each utterance once")
    texts[name] = text


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
        name = identity_of(value[key])
        if name in texts:
            raise UserError(f"{place}: utterance {name} is duplicated; give each utterance once")
        texts[name] = (" ".join(text.split()),)
    return texts


def read_recordings(path: Path) -> dict[str, str]:
    """Of each line the first field, an utterance, and the second, its recording; others are ignored.

    Raises:
        UserError: a line has one field only, an utterance is duplicated, or the file cannot be read.
    """
    recordings: dict[str, str] = {}
    for place, line in Source(path).filled():
        fields = line.split(maxsplit=2)
        if len(fields) == 1:
            raise UserError(f"{place}: no recording behind {fields[0]!r}; expected UTTERANCE RECORDING")
        if recordings.setdefault(fields[0], fields[1]) != fields[1]:
            raise UserError(f"{place}: utterance {fields[0]} is duplicated; give each utterance one recording")
    return recordings


def with_recordings(lists: Iterable[NbestList], path: Path) -> Iterator[NbestList]:
    """The lists with their recordings.

    Raises:
        UserError: the file does not name an utterance.
    """
    recordings = read_recordings(path)
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
        if name in segments:
            raise UserError(f"{place}: utterance {name} is duplicated")
        segments[name] = RecordingSegment(recording, start, end)
    return segments
