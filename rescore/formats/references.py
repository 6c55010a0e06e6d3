"""References, one of each utterance: Kaldi text, sclite trn, stm, plain lines, or lists that have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rescore.errors import UserError
from rescore.formats.lines import split_id
from rescore.formats.oddities import Oddities
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import undo_marks
from rescore.nbest import NbestList
from rescore.parts import FORMATS

if TYPE_CHECKING:
    from rescore.formats import Format

T = TypeVar("T")


def read_references(
    references: str | Path | References, ids: Sequence[str], oddities: Oddities | None = None
) -> dict[str, tuple[str, ...]]:
    """The references of each utterance in `ids`: one of each file.

    N-best lists (and NeMo manifests) give the references that they have. Of texts, a file whose lines all end in `(id)`
    is trn; one whose fourth and fifth words are times is stm; one whose lines all begin with ids is Kaldi text; else
    it is plain, one line an utterance, in the order of `ids`.

    Raises:
        UserError: an utterance has no reference, or two in one file; a plain file has another number of lines; or the
            lines begin with numbers that may be ids or words.
    """
    if not isinstance(references, References):
        references = References((str(references),))
    found = [ReferenceFile(text_source(path, oddities), references.format).of(ids) for path in references.paths]
    return {name: tuple(text for one in found for text in one[name]) for name in ids}


@dataclass(frozen=True, slots=True)
class References:
    """Files of references: with several, each utterance has one of each."""

    paths: tuple[str, ...]
    format: str | None = None
    """`kaldi`, `trn`, `stm`, `plain`; found out by looking inside where None."""


class ReferenceFile:
    """A file of references, read once: a pipe cannot be read again."""

    def __init__(self, source: Source, format_name: str | None) -> None:
        self._path, self._format = source.name, format_name
        self._lists: dict[str, tuple[str, ...]] = {}
        self.lines: list[str] = []
        if format_name is None and source.outline.root:
            reader = next((FORMATS[name] for name in FORMATS.names if FORMATS[name].sniff(source)), FORMATS["native"])
            self._lists = {nbest.id: nbest.references for nbest in _lists(reader, source) if nbest.references}
            if not self._lists:
                raise UserError(f"{self._path}: no references in it")
        else:
            self.lines = all_lines(source)
        self._trn = trn_texts(self.lines, self._path) or {} if format_name in (None, "trn") else {}
        if format_name == "trn" and not self._trn:
            raise UserError(f"{self._path}: not trn: a line does not end in (id)")

    @property
    def ids(self) -> set[str]:
        """The ids that the file says for certain: of lists, and of trn."""
        return set(self._lists or self._trn)

    def of(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The references of each utterance."""
        if self._lists:
            if len(self._lists) == len(ids) and not self._lists.keys() & set(ids):
                return dict(zip(ids, self._lists.values(), strict=True))  # a manifest beside lists that are numbered
            return _all_of(self._lists, ids, self._path)
        return {name: (undo_marks(text),) for name, text in _all_of(self._texts(ids), ids, self._path).items()}

    def _texts(self, ids: Sequence[str]) -> dict[str, str]:
        kind = self._format or self._kind(ids)
        if kind == "trn":
            return self._trn
        if kind == "kaldi":
            return kaldi_texts(self.lines, self._path)
        if kind == "stm":
            return _stm(self.lines, self._path, ids)
        if len(self.lines) != len(ids):
            raise UserError(
                f"{self._path}: {len(self.lines)} lines for {len(ids)} utterances, and no line begins or ends with an "
                f"id such as {ids[0] if ids else '?'}; give Kaldi text, trn, or one line an utterance"
            )
        return dict(zip(ids, self.lines, strict=True))

    def _kind(self, ids: Sequence[str]) -> str:
        """What the lines are, judged by the ids that the lists have."""
        if self._trn:
            return "trn"
        if is_stm(self.lines):
            return "stm"
        known = set(ids)
        first = [split_id(line)[0] for line in self.lines if line.strip()]
        if len(self.lines) == len(ids) and not all(word in known for word in first):
            return "plain"
        if not any(word in known for word in first):
            return "plain"
        numbers = all(word.isdecimal() for word in first) and len(set(first)) == len(first) == len(ids)
        if numbers and first not in (list(ids), sorted(ids)):
            raise UserError(
                f"{self._path}: its lines begin with numbers that are ids, but in another order than the lists; "
                "are they ids or words? Tell with --ref-format kaldi or plain"
            )
        return "kaldi"


def _lists(reader: Format, source: Source) -> Iterator[NbestList]:
    """The lists of a file of references, of which some formats ask how to read hypotheses."""
    return reader.read(source, ReadOptions(size=1))


def _all_of(found: dict[str, T], ids: Sequence[str], path: str | Path) -> dict[str, T]:
    missing = [name for name in ids if name not in found]
    if missing:
        raise UserError(f"{path}: no reference for utterance {missing[0]} ({len(missing)} of {len(ids)} missing)")
    return {name: found[name] for name in ids}


_STM = re.compile(r"(\S+)\s+(\S+)\s+(\S+)\s+(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)(?:\s+<[^>]*>)?(?:\s+(.*))?")
_NOT_SCORED = "IGNORE_TIME_SEGMENT_IN_SCORING"


def is_stm(lines: Sequence[str]) -> bool:
    found = [line for line in lines if line.strip() and not line.startswith(";;")]
    return bool(found) and all(_STM.fullmatch(line.strip()) for line in found)


def _stm(lines: Sequence[str], path: str, ids: Sequence[str]) -> dict[str, str]:
    """Texts by file where each file has one segment, else in the order of the lists."""
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(";;"):
            continue
        match = _STM.fullmatch(line.strip())
        if not match:
            raise UserError(f"{path}: line {number}: not stm: expected `file channel speaker start end text`")
        text = (match[6] or "").strip()
        if text.upper() != _NOT_SCORED:
            found.append((match[1], text))
    by_file = dict(found)
    if len(by_file) == len(found) and by_file.keys() & set(ids):
        return by_file
    if len(found) != len(ids):
        raise UserError(f"{path}: {len(found)} segments for {len(ids)} utterances, and their files are no ids of these")
    return dict(zip(ids, (text for _, text in found), strict=True))


def first_words(lines: Sequence[str]) -> set[str]:
    return {split_id(line)[0] for line in lines if line.strip()}


def text_source(path: str | Path | Source, oddities: Oddities | None = None) -> Source:
    source = path if isinstance(path, Source) else Source(path, oddities)
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
    """Texts by id; None where a line does not end in an id in brackets.

    Raises:
        UserError: an utterance comes twice.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line:
            continue
        text, bracket, name = line[:-1].rpartition("(")
        if not (bracket and line.endswith(")") and name and not set(name) & set("() \t")):
            return None
        if text and not text[-1].isspace():
            return None
        _add(found, name, text.strip(), path, number)
    return found


def kaldi_texts(lines: Sequence[str], path: str | Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            _add(found, *split_id(line), path, number)
    return found


def _add(found: dict[str, str], name: str, text: str, path: str | Path, number: int) -> None:
    if name in found:
        raise UserError(f"{path}: line {number}: utterance {name} comes twice; give each utterance once")
    found[name] = text
