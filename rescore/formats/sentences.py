"""Lines of a text to train on or to score."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rescore.formats.ids import begin_with_ids, end_with_ids
from rescore.formats.source import UTF8, InputWarnings, Source

log = logging.getLogger(__name__)

LOOKED_AT = 100
"""Lines at the beginning of a text in which ids are looked for."""
FEWEST_LINES = 3
"""A text of fewer lines may begin with such words by chance."""


def read_lines(
    path: Path, empty: bool = False, warnings: InputWarnings | None = None
) -> Iterator[str]:
    """Yield the lines of a text for training or scoring, without blanks around them.

    Args:
        path: A file, plain, gzip or xz; `-` is standard input.
        empty: Whether empty lines are wanted, too.
        warnings: Collects repairs. With None, for training, a text that is not UTF-8 is
            an error: invalid characters must not be learnt.

    Raises:
        UserError: The file cannot be read.
    """
    for line in Source(path, warnings or InputWarnings(refused=UTF8)).lines():
        text = line.strip()
        if text or empty:
            yield text


def read_sentences(
    path: Path, empty: bool = False, warnings: InputWarnings | None = None
) -> Iterator[str]:
    """Yield the lines of a text as `read_lines` does; warn if they look like Kaldi text
    or trn, because ids would be read as words.

    Args:
        path: The file.
        empty: Whether empty lines are wanted, too.
        warnings: As for `read_lines`.

    Raises:
        UserError: The file cannot be read.
    """
    lines = read_lines(path, empty, warnings)
    beginning = list(islice(lines, LOOKED_AT))
    sentences = [line for line in beginning if line]
    name = Source(path).name
    if len(sentences) >= FEWEST_LINES:
        if begin_with_ids(sentences):
            log.warning(
                "%s: each line begins with an id, which is read as a word; remove the"
                r" ids: sed 's/^\s*\S*\s*//'",
                name,
            )
        elif end_with_ids(sentences):
            log.warning(
                "%s: each line ends with an id in brackets, which is read as words;"
                r" remove the ids: sed 's/\s*(\S*)\s*$//'",
                name,
            )
    yield from beginning
    yield from lines
