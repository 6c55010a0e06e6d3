"""Texts with one line an utterance: references and 1-best output as Kaldi text, sclite trn, or plain lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from rescore.errors import UserError
from rescore.formats.oddities import Oddities
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import split_id, undo_marks
from rescore.formats.writing import checked_id
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList
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
    found = [_References(_text_source(path, oddities), references.format).of(ids) for path in references.paths]
    return {name: tuple(text for one in found for text in one[name]) for name in ids}


@dataclass(frozen=True, slots=True)
class References:
    """Files of references: with several, each utterance has one of each."""

    paths: tuple[str, ...]
    format: str | None = None
    """`kaldi`, `trn`, `stm`, `plain`; found out by looking inside where None."""


class _References:
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
            self.lines = _lines(source)
        self._trn = _trn(self.lines, self._path) or {} if format_name in (None, "trn") else {}
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
            return _kaldi(self.lines, self._path)
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
        if _is_stm(self.lines):
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


def _is_stm(lines: Sequence[str]) -> bool:
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


def read_best(
    path: str | Path | Source, references: str | Path | References, oddities: Oddities | None = None
) -> list[NbestList]:
    """A 1-best text with its references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of lines.

    Raises:
        UserError: the two do not fit together, or one has an utterance that the other lacks.
    """
    if not isinstance(references, References):
        references = References((str(references),))
    source = _text_source(path, oddities)
    files = [_References(_text_source(name, oddities), references.format) for name in references.paths]
    given, name_of = files[0], references.paths[0]
    lines, others, ids = _lines(source), given.lines, given.ids
    hypotheses = _trn(lines, source.name)
    with_ids = references.format == "kaldi" or _begin_with(lines, ids or _first_words(others))
    if hypotheses is None and references.format != "plain" and with_ids:
        hypotheses = _kaldi(lines, source.name)
    if hypotheses is None:
        if (ids and references.format != "stm") or (others and not _is_stm(others) and len(lines) != len(others)):
            raise UserError(
                f"{source.name}: {len(lines)} lines do not fit the {len(ids or others)} of {name_of}; "
                "the ids must be the same, or the number of lines"
            )
        hypotheses = {str(number): line for number, line in enumerate(lines, 1)}
    elif not ids and not _is_stm(others):
        ids = _first_words(others)
    absent = sorted(ids - hypotheses.keys())
    if absent:
        raise UserError(
            f"{source.name}: no text for utterance {absent[0]} of {name_of} ({len(absent)} of {len(ids)} missing); "
            "give an output of the whole set"
        )
    found = [one.of(list(hypotheses)) for one in files]
    return [
        NbestList(name, [Hypothesis(undo_marks(text), {FIRST_PASS: 0.0})], tuple(r for one in found for r in one[name]))
        for name, text in hypotheses.items()
    ]


def _first_words(lines: Sequence[str]) -> set[str]:
    return {split_id(line)[0] for line in lines if line.strip()}


def _begin_with(lines: Sequence[str], ids: set[str]) -> bool:
    """Whether lines begin with ids: most of their first words are known, and all differ or look like ids."""
    first = _first_words(lines)
    differ = len(first) == sum(bool(line.strip()) for line in lines)
    return 2 * len(first & ids) > len(first) and (differ or all(set(word) & set("0123456789-_") for word in first))


def _text_source(path: str | Path | Source, oddities: Oddities | None = None) -> Source:
    source = path if isinstance(path, Source) else Source(path, oddities)
    if source.is_folder:
        raise UserError(f"{source.name}: is a folder; give the file with the texts, usually {source.path / 'text'}")
    return source


def _lines(source: Source) -> list[str]:
    """Every line; those at the end that are empty are left out only where all texts are."""
    lines = list(source.lines())
    if not any(line.strip() for line in lines):
        raise UserError(f"{source.name}: is empty")
    return lines


def _trn(lines: Sequence[str], path: str | Path) -> dict[str, str] | None:
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


def _kaldi(lines: Sequence[str], path: str | Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            _add(found, *split_id(line), path, number)
    return found


def _add(found: dict[str, str], name: str, text: str, path: str | Path, number: int) -> None:
    if name in found:
        raise UserError(f"{path}: line {number}: utterance {name} comes twice; give each utterance once")
    found[name] = text


@dataclass(frozen=True, slots=True)
class Segment:
    """Where in a recording an utterance is, as a line of Kaldi's `segments` says it."""

    recording: str
    start: float
    end: float


def read_segments(path: str | Path) -> dict[str, Segment]:
    """Kaldi's `segments`: `utterance recording start end`, in seconds.

    Raises:
        UserError: a line is not of this form, or an utterance comes twice.
    """
    found: dict[str, Segment] = {}
    for number, line in enumerate(Source(path).lines(), 1):
        cells = line.split()
        if not cells:
            continue
        try:
            name, recording, start, end = cells[0], cells[1], float(cells[2]), float(cells[3])
        except (IndexError, ValueError):
            raise UserError(f"{path}: line {number}: expected `utterance recording start end`") from None
        if name in found:
            raise UserError(f"{path}: line {number}: utterance {name} comes twice")
        found[name] = Segment(recording, start, end)
    return found


def write_best(
    path_name: str,
    best: Iterable[tuple[NbestList, str]],
    file: IO[str],
    segments: Mapping[str, Segment] | None = None,
) -> None:
    """One text an utterance: trn where the name ends in .trn, stm in .stm, plain in .txt, else Kaldi text.

    A text is one line: whatever is white space in it is written as blanks.

    Args:
        segments: times, for stm.

    Raises:
        UserError: an id has white space (or in trn a bracket), so that nobody could read it back; or has no times.
    """
    if path_name.endswith(".stm"):
        if segments is None:
            raise UserError(
                f"{path_name}: stm has times; give --segments FILE, Kaldi's `utterance recording start end`"
            )
        for nbest, text in best:
            if nbest.id not in segments:
                raise UserError(f"{path_name}: no segment for utterance {nbest.id}")
            at = segments[nbest.id]
            speaker = nbest.id.partition("-")[0]
            text = " ".join(text.split())
            file.write(f"{at.recording} 1 {speaker} {at.start:.2f} {at.end:.2f} {text}".rstrip() + "\n")
        return
    trn, plain = path_name.endswith(".trn"), path_name.endswith(".txt")
    for nbest, text in best:
        text = " ".join(text.split())
        if not plain:
            checked_id(nbest, path_name, "()" if trn else "")
        if trn:
            file.write(f"{text} ({nbest.id})\n".lstrip())
        elif plain:
            file.write(f"{text}\n")
        else:
            file.write(f"{nbest.id} {text}".rstrip() + "\n")
