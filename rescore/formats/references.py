"""Texts of utterances: references, and 1-best outputs with them. Kaldi text, sclite trn, stm, plain lines; references
also from lists and manifests.

If either side has ids, ids must match; only lists and references without ids are paired by order.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from rescore.errors import UserError, counted
from rescore.formats.records import first_of, records_of
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.text import (
    add_once,
    are_numbers,
    begin_with_ids,
    first_words,
    has_entities,
    identity_of,
    split_id,
    undo_entities,
    undo_marks,
)
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class References:
    """Files of references: with several, each utterance has one of each."""

    paths: tuple[str, ...]
    format: str | None = None
    """`kaldi`, `trn`, `stm`, `plain`; None detects the format from the contents."""


def read_references(references: str | Path | References, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The references of each utterance in `ids`, from all files.

    N-best lists (and NeMo manifests) give their own references. A text file whose lines all end in `(id)` is trn; one
    whose fourth and fifth words are times is stm; one whose lines all begin with ids is Kaldi text; else it is plain,
    one line an utterance, in the order of `ids`.
    """
    return joined(open_references(references), ids)


def joined(files: Sequence[TextFile], ids: Sequence[str], escaped: bool = True) -> dict[str, tuple[str, ...]]:
    """The references of each utterance from all files; errors as of `read_references`.

    Args:
        escaped: whether XML entities of the Moses tokeniser are undone, as in hypotheses.
    """
    per_file = [file.of(ids, escaped) for file in files]
    return {name: tuple(text for by_id in per_file for text in by_id[name]) for name in ids}


def open_references(
    references: str | Path | References | Sequence[TextFile], warnings: InputWarnings | None = None
) -> list[TextFile]:
    """The files of references, each read once: a pipe cannot be read again. Open ones are returned as they are."""
    if isinstance(references, Sequence) and not isinstance(references, str):
        return list(references)
    if not isinstance(references, References):
        references = References((str(references),))
    return [TextFile(Source(path, warnings), references.format) for path in references.paths]


def with_references(
    lists: list[NbestList],
    references: str | Path | References | Sequence[TextFile],
    warnings: InputWarnings,
    allow_missing: bool,
) -> list[NbestList]:
    """The lists with references from files, whose utterances must be these lists."""
    ids = [nbest.id for nbest in lists]
    files = open_references(references, warnings)
    # Readers undo the tokeniser's entities; if hypotheses still have entities, both sides are left as they are.
    escaped = not any(has_entities(hypothesis.text) for nbest in lists for hypothesis in nbest.hypotheses)
    texts = joined(files, ids, escaped)
    for file in files:
        if absent := file.left_out(ids):
            message = f"{file.path}: no list for {len(absent):,} of its {counted(len(absent) + len(ids), 'utterance')}"
            if not allow_missing:
                raise UserError(f"{message}, first {absent[0]}; give lists of the whole set, or --allow-missing")
            log.warning("%s (first: %s); these utterances are not measured", message, absent[0])
    return [replace(nbest, references=texts[nbest.id]) for nbest in lists]


class TextFile:
    """A file of texts that is read once: references, or a 1-best output."""

    def __init__(self, source: Source, format_name: str | None = None, output: bool = False) -> None:
        """`output`: the file has 1-best texts, which are lines, whatever they look like."""
        if source.is_folder:
            raise UserError(f"{source.name}: is a folder; give the file with the texts, usually {source.path / 'text'}")
        self.path, self.format = source.name, format_name
        of_records = format_name is None and not output and bool(source.peek.root)
        self._lists = _of_records(source) if of_records else {}
        self.lines = [] if of_records else all_lines(source)
        self.trn = _trn_texts(self.lines, self.path) if format_name in (None, "trn") and not of_records else None
        if format_name == "trn" and not self.trn:
            raise UserError(f"{self.path}: not trn: a line does not end in (id)")

    @cached_property
    def first(self) -> list[str]:
        """The first words of the lines that are not empty."""
        return first_words(self.lines)

    @cached_property
    def is_stm(self) -> bool:
        return is_stm(self.lines)

    @cached_property
    def begins_with_ids(self) -> bool:
        return begin_with_ids(self.lines)

    @cached_property
    def _known(self) -> Mapping[str, object]:
        """The texts by id of a file that surely has ids: of lists or of trn."""
        return self._lists or self.trn or {}

    @property
    def ids(self) -> set[str]:
        """The ids that the file has, as far as that is certain: of lists, of trn, and of lines that look like it."""
        if self._known:
            return set(self._known)
        kaldi = self.format == "kaldi" or (self.format is None and not self.is_stm and self.begins_with_ids)
        return set(self.first) if kaldi else set()

    @property
    def size(self) -> int:
        """The number of texts, empty lines included."""
        return len(self._known or self.lines)

    def kaldi_texts(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for number, line in enumerate(self.lines, 1):
            if line.strip():
                add_once(texts, *split_id(line), f"{self.path}: line {number}")
        return texts

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
        names = list(self._known)
        if not names and (self.format or self._kind(ids)) == "kaldi":
            names = self.first
        return [] if are_numbers(ids) and not known & set(names) else [name for name in names if name not in known]

    def _texts(self, kind: str, ids: Sequence[str]) -> dict[str, str]:
        if kind == "trn":
            return self.trn or {}
        if kind == "kaldi":
            return self.kaldi_texts()
        if kind == "stm":
            return stm_texts(self.lines, self.path, ids)
        if len(self.lines) != len(ids):
            raise UserError(
                f"{self.path}: {counted(len(self.lines), 'line')} for {counted(len(ids), 'utterance')}, and no line "
                f"begins or ends with an id such as {ids[0] if ids else '?'}; give Kaldi text, "
                "trn, or one line an utterance"
            )
        return dict(zip(ids, self.lines, strict=True))

    def _kind(self, ids: Sequence[str]) -> str:
        """The format of the lines, judged by the ids of the lists."""
        if self.trn or self.is_stm:
            return "trn" if self.trn else "stm"
        known, first = set(ids), self.first
        some_known, numbers = any(word in known for word in first), all(map(str.isdecimal, first))
        if not are_numbers(ids):
            return "kaldi" if some_known or self.begins_with_ids else "plain"
        if not numbers and self.begins_with_ids:
            raise UserError(
                f"{self.path}: its lines begin with ids such as {first[0]}, but the lists have numbers only; "
                "give lines without ids in their order, or --ref-format plain if these are words"
            )
        if not some_known or (len(self.lines) == len(ids) and not all(word in known for word in first)):
            return "plain"
        each_once = numbers and len(set(first)) == len(first) == len(ids)
        if each_once and first not in (list(ids), sorted(ids)):
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
    if _is_manifest(source):
        by_id = _references_of(source)
    else:
        reader = next((FORMATS[name] for name in FORMATS.names if FORMATS[name].sniff(source)), FORMATS["native"])
        by_id = {nbest.id: nbest.references for nbest in reader.read(source, ReadOptions(size=1)) if nbest.references}
    if not by_id:
        raise UserError(f"{source.name}: no references in it")
    return by_id


def all_lines(source: Source) -> list[str]:
    """Every line; those at the end that are empty are left out only where all texts are."""
    lines = list(source.lines())
    if not any(line.strip() for line in lines):
        raise UserError(f"{source.name}: is empty")
    return lines


def _trn_texts(lines: Sequence[str], path: str) -> dict[str, str] | None:
    """Texts by id; `;;` begins a comment. None if a line does not end in an id in brackets."""
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


_STM = re.compile(r"(\S+) (\S+) (\S+) (\d+(?:\.\d+)?) (\d+(?:\.\d+)?)(?: <[^>]*>)?(?: (.*))?")
_NOT_SCORED = "IGNORE_TIME_SEGMENT_IN_SCORING"


def _stm_line(line: str) -> re.Match[str] | None:
    return _STM.fullmatch(" ".join(line.split()))


def is_stm(lines: Sequence[str]) -> bool:
    filled = [line for line in lines if line.strip() and not line.startswith(";;")]
    return bool(filled) and all(_stm_line(line) for line in filled)


def stm_texts(lines: Sequence[str], path: str, ids: Sequence[str]) -> dict[str, str]:
    """Texts of the utterances: by file where each has one segment; by order for lists without ids."""
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
    raise UserError(
        f"{path}: has several segments of a recording; give references with the ids of the lists (trn or Kaldi text), "
        "or measure whole recordings with: rescore eval --whole"
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


_MANIFEST_TEXT = ("reference", "ref", "text", "sentence", "transcript")


def _is_manifest(source: Source) -> bool:
    """Whether records have an audio file and a text, but no hypotheses: NeMo's manifests as training reads them."""
    keys = set(source.peek.keys)
    return (
        bool({"audio_filepath", "audio", "path"} & keys and set(_MANIFEST_TEXT) & keys)
        and not {"beams", "pred_text"} & keys
    )


def _references_of(source: Source) -> dict[str, tuple[str, ...]]:
    """The texts of a manifest, called after their audio files."""
    texts: dict[str, tuple[str, ...]] = {}
    for _, value, place in records_of(source):
        key = first_of(value, ("audio_filepath", "audio", "path")) if isinstance(value, dict) else None
        text = next((value[name] for name in _MANIFEST_TEXT if isinstance(value.get(name), str)), None) if key else None
        if key is None or text is None:
            raise UserError(f"{place}: expected an object with audio_filepath and text")
        add_once(texts, identity_of(value[key]), (" ".join(text.split()),), place)
    return texts


MOST_READINGS = 1024
DEEPEST = 20


def readings(text: str, place: str) -> tuple[str, ...]:
    """All texts that a reference of sclite such as `the { cat / cats } sat { @ / down }` stands for; @ is no word.

    Brackets that are not closed are words.

    Example:
        >>> readings("a { b / @ } c", "ref.trn")
        ('a b c', 'a c')
    """
    words = text.split()
    depths = list(accumulate((word == "{") - (word == "}") for word in words))
    if "{" not in words or min(depths) < 0 or depths[-1] or max(depths) > DEEPEST:
        return (text,)
    sequences, _ = _sequence(words, 0, place, 0)
    return tuple(dict.fromkeys(" ".join(words) for words in sequences))


def _sequence(words: list[str], at: int, place: str, depth: int) -> tuple[list[tuple[str, ...]], int]:
    """The texts of the words from `at` on, until a closing slash or bracket; and its place."""
    sequences: list[tuple[str, ...]] = [()]
    while at < len(words) and not (depth and words[at] in ("}", "/")):
        new: list[tuple[str, ...]] = [() if depth and words[at] == "@" else (words[at],)]
        if words[at] == "{":
            new = []
            while words[at] != "}":
                more, at = _sequence(words, at + 1, place, depth + 1)
                new += more
        at += 1
        if len(sequences) * len(new) > MOST_READINGS:
            raise UserError(f"{place}: its alternatives make more than {MOST_READINGS:,} readings; leave some out")
        sequences = [sequence + more for sequence in sequences for more in new]
    return sequences, at


class _Text:
    """1-best texts, which need references beside them: no N-best lists."""

    def sniff(self, source: Source) -> bool:
        return False

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        raise UserError(f"{source.name}: --format text is for 1-best texts with --ref, in `rescore eval`")


BEST = _Text()


def read_best(source: Source, files: Sequence[TextFile]) -> list[NbestList]:
    """A 1-best text with its references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of lines.
    """
    output = TextFile(source, output=True)
    hypotheses = _with_ids(output, files[0]) or {str(place): line for place, line in enumerate(output.lines, 1)}
    absent = [name for file in files for name in file.left_out(list(hypotheses))]
    if absent:
        raise UserError(
            f"{output.path}: no text for utterance {absent[0]} of {files[0].path} ({len(absent)} missing); "
            "give an output of the whole set"
        )
    texts = joined(files, list(hypotheses))
    return [
        NbestList(name, [Hypothesis(undo_marks(undo_entities(text)), {FIRST_PASS: 0.0})], texts[name])
        for name, text in hypotheses.items()
    ]


def _with_ids(output: TextFile, references: TextFile) -> dict[str, str] | None:
    """The texts of an output by their ids; None if neither output nor references have ids."""
    if references.format == "plain":
        return None
    if output.trn is not None:
        return output.trn
    ids, first = references.ids, output.first
    names = set(first)
    looks = len(names) == len(first) or all(set(word) & set("0123456789-_") for word in first)
    if references.format == "kaldi" or (looks and 2 * len(names & (ids or set(references.first))) > len(names)):
        return output.kaldi_texts()
    if ids and references.format != "stm":
        if output.begins_with_ids:
            raise UserError(
                f"{references.path}: no reference for utterance {first[0]} of {output.path}; its first is {min(ids)}"
            )
        raise UserError(
            f"{output.path}: its lines have no ids such as {min(ids)} of {references.path}; give an output with ids "
            "(rescore rerank --best NAME, not NAME.txt), or --ref-format plain if both have none"
        )
    if references.lines and not references.is_stm:
        if output.begins_with_ids and not all(map(str.isdecimal, first)):
            raise UserError(
                f"{references.path}: no reference for utterance {first[0]} of {output.path}, whose lines begin with ids"
            )
        if len(output.lines) != len(references.lines):
            raise UserError(
                f"{output.path}: has {counted(len(output.lines), 'line')}, but {references.path} has "
                f"{len(references.lines):,}; the ids must be the same, or the number of lines"
            )
    return None
