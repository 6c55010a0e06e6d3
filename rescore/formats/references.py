"""References of utterances from Kaldi text, sclite trn, stm, plain lines, or lists and manifests with references.

If either side has ids, ids must match; only lists and references without ids are paired by order.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from rescore.errors import UserError, counted
from rescore.formats.recordings import is_stm, stm_texts
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
from rescore.nbest import NbestList
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
    return [ReferenceFile(text_source(path, warnings), references.format) for path in references.paths]


def with_references(
    lists: list[NbestList],
    references: str | Path | References | Sequence[ReferenceFile],
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
