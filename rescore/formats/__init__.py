"""Reading and writing N-best lists: which format a path holds is found out by looking inside.

For example:

    lists = read(["exp/decode_test"], references="data/test/text")
"""

from __future__ import annotations

import gzip
import io
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol

from rescore.errors import UserError
from rescore.files import replacing
from rescore.formats import native
from rescore.formats.oddities import NO_SCORES, TWICE, Oddities
from rescore.formats.references import read_best, read_references, write_best
from rescore.formats.seen import Seen
from rescore.formats.source import ReadOptions, Source
from rescore.nbest import FIRST_PASS, FORMER_FIRST_PASS, RANK, NbestList
from rescore.parts import FORMATS

__all__ = [
    "FORMATS",
    "Format",
    "ReadOptions",
    "iterate",
    "opened",
    "read",
    "read_output",
    "read_references",
    "write",
    "write_best",
]


class Format(Protocol):
    """A module (or object) that reads N-best lists of one toolkit."""

    def sniff(self, source: Source) -> bool:
        """Whether the source looks like this format, from its head or its files."""
        ...

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """The lists, one after another."""
        ...


def iterate(
    paths: Sequence[str | Path | Source],
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    lenpen: float = 1.0,
    strict: bool = False,
) -> Iterator[NbestList]:
    """N-best lists of one or several paths, as a stream.

    Args:
        paths: files, folders, or `-`; several are read one after another.
        format_name: a key of `FORMATS`; found out where None.
        s2s: the column to use as first-pass score, which becomes `s2s`; `rank` for the order of the file.
        lenpen: fairseq's length penalty, with which H scores were normalised.
        strict: what is odd but can be read (rescore/formats/oddities.py) is an error, and not only told.

    Raises:
        UserError: a path is missing, damaged, or of no known format; an utterance comes twice, has no hypotheses, or
            has a score that is missing, NaN or plus infinity.
    """
    seen, found, oddities = Seen(), False, Oddities(strict)
    for path in paths:
        source = path if isinstance(path, Source) else Source(path, oddities)
        for nbest in _format(source, format_name).read(source, ReadOptions(lenpen)):
            place = f"{source.name}: utterance {nbest.id}"
            if not seen.add(nbest.id):
                raise UserError(f"{place}: comes twice; give each utterance once")
            found = True
            if not nbest.hypotheses:
                raise UserError(f"{place}: no hypotheses")
            if not any(hypothesis.scores for hypothesis in nbest.hypotheses):
                if s2s != RANK:
                    oddities.add("lists", NO_SCORES, place)
                _rank(nbest)
            elif s2s == RANK:
                _rank(nbest)
            elif s2s != FIRST_PASS:
                nbest = _with_first_pass(nbest, s2s, place)
            _check_scores(nbest, place)
            if len({hypothesis.text for hypothesis in nbest.hypotheses}) < len(nbest.hypotheses):
                oddities.add("lists", TWICE, place)
            yield nbest
    oddities.tell()
    if not found:
        raise UserError(f"{', '.join(_names(paths))}: no N-best list in it")


def read(
    paths: Sequence[str | Path | Source],
    *,
    references: str | Path | None = None,
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    lenpen: float = 1.0,
    need_references: bool = False,
    strict: bool = False,
) -> list[NbestList]:
    """All lists of `iterate`; with `references` (Kaldi text, trn or plain) these replace any in the files.

    Raises:
        UserError: as `iterate`; and where some lists have a reference, or `need_references` says so, but one has none.
    """
    lists = list(iterate(paths, format_name, s2s, lenpen, strict))
    if references is not None:
        oddities = Oddities(strict)
        table = read_references(references, [nbest.id for nbest in lists], oddities)
        oddities.tell()
        lists = [replace(nbest, references=(table[nbest.id],)) for nbest in lists]
    missing = [nbest.id for nbest in lists if not nbest.references]
    if missing and (need_references or len(missing) < len(lists)):
        name = ", ".join(_names(paths))
        raise UserError(
            f"{name}: utterance {missing[0]}: no reference ({len(missing)} of {len(lists)} missing); give --ref FILE"
        )
    return lists


def read_output(path: str, references: str | None = None, **options: Any) -> list[NbestList]:
    """N-best lists, or, with `references` given, a 1-best text as lists of one hypothesis; `options` as in `read`."""
    oddities = Oddities(bool(options.get("strict")))
    source = Source(path, oddities)  # one for both ways: a pipe cannot be opened again
    if references is not None and options.get("format_name") is None and _sniff(source) is None:
        found = read_best(source, references, oddities)
        oddities.tell()
        return found
    found = read([source], references=references, need_references=True, **options)
    oddities.tell()
    return found


def _names(paths: Sequence[str | Path | Source]) -> list[str]:
    return [path.name if isinstance(path, Source) else str(path) for path in paths]


def _sniff(source: Source) -> str | None:
    return next((name for name in FORMATS.names if FORMATS[name].sniff(source)), None)


def _format(source: Source, name: str | None) -> Format:
    if name is None:
        name = _sniff(source)
    if name is None:
        if not source.is_folder and not source.head.strip():
            raise UserError(f"{source.name}: is empty")
        known = ", ".join(FORMATS.about(one) for one in FORMATS.names)
        raise UserError(f"{source.name}: not an N-best list of a known format ({known})")
    return FORMATS[name]


def _rank(nbest: NbestList) -> None:
    """Make the order of the file the first pass."""
    for place, hypothesis in enumerate(nbest.hypotheses, 1):
        former = hypothesis.scores.pop(FIRST_PASS, None)
        kept = {} if former is None else {FORMER_FIRST_PASS: former}
        hypothesis.scores = {FIRST_PASS: -math.log(place), **hypothesis.scores, **kept}


def _check_scores(nbest: NbestList, place: str) -> None:
    for rank, hypothesis in enumerate(nbest.hypotheses, 1):
        if FIRST_PASS not in hypothesis.scores:
            raise UserError(f"{place}, hypothesis {rank}: no first-pass score; add it, or choose a column with --s2s")
        for name, score in hypothesis.scores.items():
            if math.isnan(score) or score == math.inf:
                raise UserError(f"{place}, hypothesis {rank}: score {name} is {score}; decode it again or remove it")


def _with_first_pass(nbest: NbestList, column: str, place: str) -> NbestList:
    try:
        values = nbest.column(column)
    except UserError as error:
        raise UserError(f"{place}: {str(error).partition(': ')[2].partition(';')[0]}; choose another --s2s") from None
    for hypothesis, value in zip(nbest.hypotheses, values, strict=True):
        # The old first pass goes under its own name, so that nothing is lost and the sum no longer marks a mean.
        old = hypothesis.scores.pop(FIRST_PASS, None)
        del hypothesis.scores[column]
        hypothesis.scores = {
            FIRST_PASS: value,
            **hypothesis.scores,
            **({} if old is None else {FORMER_FIRST_PASS: old}),
        }
    return nbest


@contextmanager
def opened(path: str) -> Iterator[IO[str]]:
    """A text file to write, gzipped where the name ends in .gz, renamed into place when done; `-` is stdout."""
    if path == "-":
        yield sys.stdout
        return
    try:
        with replacing(Path(path)) as temporary, open(temporary, "wb") as raw:
            if path.endswith(".gz"):
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed, io.TextIOWrapper(packed, "utf-8") as file:
                    yield file
            else:
                with io.TextIOWrapper(raw, "utf-8") as file:
                    yield file
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None


def write(lists: Iterable[NbestList], path: str) -> None:
    """Write N-best lists: one JSON object where the name ends in .json or .json.gz, else JSON Lines."""
    writer = native.write if path.removesuffix(".gz").endswith(".json") else native.write_lines
    with opened(path) as file:
        writer(lists, file)
