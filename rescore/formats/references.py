"""Texts with one line an utterance: references and 1-best output as Kaldi text, sclite trn, or plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.formats import native
from rescore.formats.oddities import Oddities
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import split_id, undo_marks
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList


def read_references(path: str | Path, ids: Sequence[str], oddities: Oddities | None = None) -> dict[str, str]:
    """The reference of each utterance in `ids`.

    Native N-best lists give the references that they have (the first of several). Of texts, a file whose lines all end
    in `(id)` is trn; one whose lines begin with the ids is Kaldi text; else it is plain, one line an utterance, in the
    order of `ids`.

    Raises:
        UserError: an utterance has no reference, or two; or a plain file has another number of lines.
    """
    return _References(_text_source(path, oddities)).of(ids)


class _References:
    """A file of references, read once: a pipe cannot be read again."""

    def __init__(self, source: Source) -> None:
        self._path = source.name
        self._native: dict[str, str] = {}
        self.lines: list[str] = []
        if native.sniff(source):
            lists = native.read(source, ReadOptions())
            self._native = {nbest.id: nbest.references[0] for nbest in lists if nbest.references}
        else:
            self.lines = _lines(source)
        self._trn = _trn(self.lines, self._path) or {}

    @property
    def ids(self) -> set[str]:
        """The ids that the file says for certain: of lists, and of trn."""
        return set(self._native or self._trn)

    def of(self, ids: Sequence[str]) -> dict[str, str]:
        """The reference of each utterance."""
        if self._native or not self.lines:
            return _all_of(self._native, ids, self._path)
        found = self._trn
        if not found and _first_words(self.lines) & set(ids):
            found = _kaldi(self.lines, self._path)
        if not found and len(self.lines) == len(ids):
            found = dict(zip(ids, self.lines, strict=True))
        if not found:
            raise UserError(
                f"{self._path}: {len(self.lines)} lines for {len(ids)} utterances, and no line begins or ends with an "
                f"id such as {ids[0] if ids else '?'}; give Kaldi text, trn, or one line an utterance"
            )
        return {name: undo_marks(text) for name, text in _all_of(found, ids, self._path).items()}


def _all_of(found: dict[str, str], ids: Sequence[str], path: str | Path) -> dict[str, str]:
    missing = [name for name in ids if name not in found]
    if missing:
        raise UserError(f"{path}: no reference for utterance {missing[0]} ({len(missing)} of {len(ids)} missing)")
    return {name: found[name] for name in ids}


def read_best(path: str | Path | Source, references: str | Path, oddities: Oddities | None = None) -> list[NbestList]:
    """A 1-best text with its references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of lines.

    Raises:
        UserError: the two do not fit together, or one has an utterance that the other lacks.
    """
    source, given = _text_source(path, oddities), _References(_text_source(references, oddities))
    lines, others, ids = _lines(source), given.lines, given.ids
    hypotheses = _trn(lines, source.name)
    if hypotheses is None and _begin_with(lines, ids or _first_words(others)):
        hypotheses = _kaldi(lines, source.name)
    if hypotheses is None:
        if ids or len(lines) != len(others):
            raise UserError(
                f"{source.name}: {len(lines)} lines do not fit the {len(ids or others)} of {references}; "
                "the ids must be the same, or the number of lines"
            )
        hypotheses = {str(number): line for number, line in enumerate(lines, 1)}
    elif not ids:
        ids = _first_words(others)
    absent = sorted(ids - hypotheses.keys())
    if absent:
        raise UserError(
            f"{source.name}: no text for utterance {absent[0]} of {references} ({len(absent)} of {len(ids)} missing); "
            "give an output of the whole set"
        )
    found = given.of(list(hypotheses))
    return [
        NbestList(name, [Hypothesis(undo_marks(text), {FIRST_PASS: 0.0})], (found[name],))
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


def write_best(path_name: str, best: Iterable[tuple[NbestList, str]], file: IO[str]) -> None:
    """One text an utterance: trn where the name ends in .trn, plain where it ends in .txt, else Kaldi text.

    A text is one line: whatever is white space in it is written as blanks.

    Raises:
        UserError: an id has white space (or in trn a bracket), so that nobody could read it back.
    """
    trn, plain = path_name.endswith(".trn"), path_name.endswith(".txt")
    for nbest, text in best:
        text = " ".join(text.split())
        if not plain and (not nbest.id or len(nbest.id.split()) != 1 or (trn and set(nbest.id) & set("()"))):
            kind = "trn" if trn else "Kaldi text"
            raise UserError(f"{path_name}: the id {nbest.id!r} cannot be written as {kind}; write .txt or .jsonl")
        if trn:
            file.write(f"{text} ({nbest.id})\n".lstrip())
        elif plain:
            file.write(f"{text}\n")
        else:
            file.write(f"{nbest.id} {text}".rstrip() + "\n")
