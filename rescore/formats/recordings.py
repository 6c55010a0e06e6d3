"""Which recording, or speaker, each utterance belongs to: Kaldi's utt2spk and segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rescore.errors import UserError
from rescore.files import read_lines
from rescore.nbest import NbestList


def read_recordings(path: Path) -> dict[str, str]:
    """Of each line the first field, an utterance, and the second, its recording; others are ignored.

    Raises:
        UserError: a line has one field only, or the file cannot be read.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(read_lines(path, empty=True), 1):
        fields = line.split(maxsplit=2)
        if len(fields) == 1:
            raise UserError(f"{path}:{number}: no recording behind {fields[0]!r}; expected UTTERANCE RECORDING")
        if fields:
            found[fields[0]] = fields[1]
    return found


def with_recordings(lists: Iterable[NbestList], path: Path) -> Iterator[NbestList]:
    """The lists with their recordings.

    Raises:
        UserError: the file does not name an utterance.
    """
    found = read_recordings(path)
    for nbest in lists:
        if nbest.id not in found:
            raise UserError(f"{path}: utterance {nbest.id} is not in it")
        yield replace(nbest, recording=found[nbest.id])
