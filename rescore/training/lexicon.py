"""The lexicon beside a model: how often the words of its training text stand there, for `--respell`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rescore.expansion.lexicon import NAME, Lexicon
from rescore.formats.source import read_lines
from rescore.networks.tokenizer import Tokenizer

CHUNK = 10_000
"""Lines that are normalised together."""


def write(text: Path, tokenizer: Tokenizer, out: Path) -> None:
    """Count the words of a text as the tokenizer normalises them, and write the lexicon into a model's folder."""
    Lexicon.count(_sentences(text, tokenizer)).save(out / NAME)


def _sentences(text: Path, tokenizer: Tokenizer) -> Iterator[list[str]]:
    lines = read_lines(text)
    while chunk := list(islice(lines, CHUNK)):
        for words in tokenizer.words(chunk):
            yield [word.lower() for word in words]
