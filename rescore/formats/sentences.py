"""Lines of a text to train on or to score."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.ids import begin_with_ids, end_with_ids
from rescore.formats.source import UTF8, InputWarnings, Source, sniff
from rescore.parts import FORMATS

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
    return _lines(_source(path, warnings), empty)


def _source(path: Path, warnings: InputWarnings | None) -> Source:
    """Return a text as a source."""
    return Source(path, warnings or InputWarnings(refused=UTF8))


def _lines(source: Source, empty: bool) -> Iterator[str]:
    """Yield the lines of a source without blanks around them."""
    for line in source.lines():
        text = line.strip()
        if text or empty:
            yield text


def read_text(
    path: Path, empty: bool = False, warnings: InputWarnings | None = None
) -> Iterator[str]:
    """Return the lines of a text that has a sentence per line, as `read_lines` does.

    Args:
        path: The file.
        empty: Whether empty lines are wanted, too.
        warnings: As for `read_lines`.

    Raises:
        UserError: The file cannot be read, or holds N-best lists.
    """
    return _lines(_text_source(path, warnings), empty)


def _text_source(path: Path, warnings: InputWarnings | None) -> Source:
    """Return a text as a source, if it does not hold N-best lists."""
    source = _source(path, warnings)
    refuse_lists(source)
    return source


def refuse_lists(source: Source) -> None:
    """See that a text has sentences, and not N-best lists, whose marks and wrong
    hypotheses would be read as sentences.

    Args:
        source: The text.

    Raises:
        UserError: A format of lists fits.
    """
    name = sniff(source)
    if name is None:
        return
    path = shlex.quote(str(source.path))
    raise UserError(
        f"{source.name}: {FORMATS.about(name)}, where a text with a sentence per line"
        f" is expected; write the references as text: rescore convert {path} --ref-text"
        f" sentences.txt; or the best texts: rescore rerank {path} --best sentences.txt"
    )


def read_sentences(
    path: Path, empty: bool = False, warnings: InputWarnings | None = None
) -> Iterator[str]:
    """Yield the lines of a text as `read_lines` does; refuse N-best lists, and warn if
    lines look like Kaldi text or trn, because ids would be read as words.

    Args:
        path: The file.
        empty: Whether empty lines are wanted, too.
        warnings: As for `read_lines`.

    Raises:
        UserError: The file cannot be read, or holds N-best lists.
    """
    source = _text_source(path, warnings)
    lines = _lines(source, empty)
    beginning = list(islice(lines, LOOKED_AT))
    sentences = [line for line in beginning if line]
    if len(sentences) >= FEWEST_LINES:
        if begin_with_ids(sentences):
            log.warning(
                "%s: each line begins with an id, which is read as a word; remove the"
                r" ids: sed 's/^\s*\S*\s*//'",
                source.name,
            )
        elif end_with_ids(sentences):
            log.warning(
                "%s: each line ends with an id in brackets, which is read as words;"
                r" remove the ids: sed 's/\s*(\S*)\s*$//'",
                source.name,
            )
    yield from beginning
    yield from lines
