"""Texts with one line an utterance: references and 1-best output as Kaldi text, sclite trn, or plain lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.formats import native
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import undo_marks
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

_TRN = re.compile(r"(?:(.*)\s)?\s*\(([^()\s]+)\)\s*")


def read_references(path: str | Path, ids: Sequence[str]) -> dict[str, str]:
    """The reference of each utterance in `ids`.

    Native N-best lists give the references that they have (the first of several). Of texts, a file whose lines all end
    in `(id)` is trn; one whose lines begin with the ids is Kaldi text; else it is plain, one line an utterance, in the
    order of `ids`.

    Raises:
        UserError: an utterance has no reference, or a plain file has another number of lines.
    """
    lines = _lines(path)
    table = _trn(lines)
    if table is None and set(kaldi := _kaldi(lines)) & set(ids):
        table = kaldi
    if table is None and len(lines) == len(ids):
        table = dict(zip(ids, lines, strict=True))
    if table is None:
        raise UserError(
            f"{path}: {len(lines)} lines for {len(ids)} utterances, and no line begins or ends with an id such as "
            f"{ids[0] if ids else '?'}; give Kaldi text, trn, or one line an utterance"
        )
    missing = [name for name in ids if name not in table]
    if missing:
        raise UserError(f"{path}: no reference for utterance {missing[0]} ({len(missing)} of {len(ids)} missing)")
    return {name: undo_marks(table[name]) for name in ids}


def read_best(path: str | Path, references: str | Path) -> list[NbestList]:
    """A 1-best text with its references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of lines.

    Raises:
        UserError: the two do not fit together.
    """
    lines, others = _lines(path), _lines(references)
    hypotheses, table = _trn(lines), _trn(others)
    if hypotheses is None and set(kaldi := _kaldi(lines)) == set(table if table is not None else _kaldi(others)):
        hypotheses = kaldi
    if hypotheses is None:
        if table is not None or len(lines) != len(others):
            raise UserError(
                f"{path}: {len(lines)} lines do not fit the {len(others)} of {references}; "
                "the ids must be the same, or the number of lines"
            )
        hypotheses = {str(number): line for number, line in enumerate(lines, 1)}
    found = read_references(references, list(hypotheses))
    return [
        NbestList(name, [Hypothesis(undo_marks(text), {FIRST_PASS: 0.0})], (found[name],))
        for name, text in hypotheses.items()
    ]


def _lines(path: str | Path) -> list[str]:
    source = Source(path)
    if source.is_folder:
        raise UserError(f"{path}: is a folder; give the file with the texts, usually {source.path / 'text'}")
    if native.sniff(source):  # N-best lists, for their references
        return [
            f"{nbest.references[0]} ({nbest.id})" for nbest in native.read(source, ReadOptions()) if nbest.references
        ]
    with source.open() as file:
        lines = file.read().splitlines()
    if not any(line.strip() for line in lines):
        raise UserError(f"{path}: is empty")
    return lines


def _trn(lines: Sequence[str]) -> dict[str, str] | None:
    matches = [_TRN.fullmatch(line) for line in lines if line.strip()]
    return {match[2]: match[1] or "" for match in matches if match} if all(matches) else None


def _kaldi(lines: Sequence[str]) -> dict[str, str]:
    fields = (line.strip().split(maxsplit=1) for line in lines)
    return {name: text for name, text, *_ in ([*field, ""] for field in fields if field)}


def write_best(path_name: str, best: Iterable[tuple[NbestList, str]], file: IO[str]) -> None:
    """One text an utterance: trn where the name ends in .trn, plain where it ends in .txt, else Kaldi text."""
    for nbest, text in best:
        if path_name.endswith(".trn"):
            file.write(f"{text} ({nbest.id})\n".lstrip())
        elif path_name.endswith(".txt"):
            file.write(f"{text}\n")
        else:
            file.write(f"{nbest.id} {text}".rstrip() + "\n")
