"""Sentences and their translations, line by line, from two files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.source import read_lines

CHUNK = 10_000

SentencePair = tuple[str, str]


def read_pairs(source: Path, target: Path) -> Iterator[list[SentencePair]]:
    """The pairs of lines, in chunks; empty lines among them.

    Raises:
        UserError: the files do not have the same number of lines.
    """
    lines = zip_longest(read_lines(source, empty=True), read_lines(target, empty=True))
    number = 0
    while chunk := list(islice(lines, CHUNK)):
        if None in chunk[-1]:
            shorter = (source, target)[chunk[-1].index(None)]
            lines_there = number + next(place for place, pair in enumerate(chunk) if None in pair)
            raise UserError(f"{shorter}: has {lines_there} lines, the other side of --pairs has more")
        number += len(chunk)
        yield [(str(one), str(other)) for one, other in chunk]
