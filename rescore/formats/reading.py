"""Reading N-best lists: which format a path holds is found out by looking inside; what
single lists must have.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.files import shown
from rescore.formats.source import (
    NO_SCORES,
    TWICE,
    InputWarnings,
    ReadOptions,
    Source,
    sniff,
)
from rescore.nbest import (
    FIRST_PASS,
    FORMER_FIRST_PASS,
    RANK,
    SCORE,
    SUM,
    WORDS,
    Header,
    Hypothesis,
    NbestList,
    are_means,
    check_scores,
    reserved_names,
)
from rescore.parts import FORMATS

if TYPE_CHECKING:
    from rescore.formats.references import References, TextFile

log = logging.getLogger(__name__)


class Format(Protocol):
    """A module (or object) that reads N-best lists of one toolkit.

    It may have a further method, `write(lists, path)`.
    """

    def sniff(self, source: Source) -> bool:
        """Whether the source has this format, judged by its head or its files."""
        ...

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """The lists, one after another."""
        ...


def iterate(
    paths: Sequence[str | Path | Source],
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    strict: bool = False,
    options: ReadOptions | None = None,
    told: bool = False,
) -> Iterator[NbestList]:
    """N-best lists of one or several paths, as a stream: the border of files. Code
    behind it checks no list again.

    Args:
        paths: files, folders (also of JSON Lines), or `-`; several are read one after
            another.
        format_name: a key of `FORMATS`; None detects the format.
        s2s: the column to use as first-pass score, which becomes `s2s`; `rank` for the
            order of the file.
        strict: oddities that can be repaired (`rescore.formats.source.InputProblem`)
            are errors instead of warnings.
        options: settings of single formats. told: a long reading is logged.
    """
    seen = set[str]()
    warnings = InputWarnings(strict)
    for path in expanded(paths):
        source = path if isinstance(path, Source) else Source(path, warnings)
        reader = _format(source, format_name or named_table(source, options))
        every = reader.read(source, options or ReadOptions())
        own, header = Header(), Header()
        for nbest in source.timed(every) if told else every:
            place = f"{source.name}: utterance {nbest.id}"
            if nbest.id in seen:
                raise UserError(f"{place}: is duplicated; give each utterance once")
            seen.add(nbest.id)
            check_scores(nbest, place)
            without_scores = not any(
                hypothesis.scores for hypothesis in nbest.hypotheses
            )
            alone = (
                len(nbest.hypotheses) == 1
                and FIRST_PASS not in nbest.hypotheses[0].scores
            )
            if without_scores and not alone and s2s != RANK:
                warnings.add("list", NO_SCORES, place)
            if without_scores or s2s == RANK or (alone and s2s == FIRST_PASS):
                _rank(nbest)
            elif s2s != FIRST_PASS:
                _with_first_pass(nbest, s2s, place)
            _check_columns(nbest, place)
            if not header.name or (nbest.header is not own and nbest.header != own):
                own = nbest.header
                header = replace(
                    own,
                    name=shown(source.name),
                    translates=own.translates or getattr(reader, "translates", False),
                    means=are_means(nbest),
                )
            nbest.header = header
            scored = any(
                not column.is_component for column in nbest.header.columns.values()
            )
            reported = scored and not strict  # by the command that added the columns
            if not reported and len(
                {hypothesis.text for hypothesis in nbest.hypotheses}
            ) < len(nbest.hypotheses):
                warnings.add("list", TWICE, place)
            yield nbest
    warnings.report()
    if not seen:
        raise UserError(f"{', '.join(_names(paths))}: no N-best list in it")


def read(
    paths: Sequence[str | Path | Source],
    *,
    references: str | Path | References | Sequence[TextFile] | None = None,
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    need_references: bool = False,
    ref_option: str = "--ref",
    strict: bool = False,
    options: ReadOptions | None = None,
    allow_missing: bool = False,
    sources: str | Path | None = None,
) -> Dataset:
    """All lists of `iterate`; with `references` (Kaldi text, trn or plain) these
    replace any in the files, and so do `sources`, a file of source texts (Kaldi text,
    plain, or a table with a column src).

    Messages about missing references name `ref_option`. With `allow_missing`,
    references of utterances without a list are only reported, and not an error.
    """
    lists = list(iterate(paths, format_name, s2s, strict, options, told=True))
    if references is not None:
        from rescore.formats.references import with_references

        warnings = InputWarnings(strict)
        lists = with_references(lists, references, warnings, allow_missing)
        warnings.report()
    if sources is not None:
        from rescore.formats.sources import with_sources

        lists = with_sources(lists, Path(sources), strict, allow_missing)
    missing = [nbest.id for nbest in lists if not nbest.references]
    if missing and (need_references or len(missing) < len(lists)):
        name = ", ".join(_names(paths))
        raise UserError(
            f"{name}: utterance {missing[0]}: no reference ({len(missing)} of"
            f" {len(lists)} missing); give {ref_option} FILE"
        )
    return Dataset.of(lists)


def from_json(value: Any, place: str) -> NbestList:
    """A list from JSON that is in memory, as a line of native JSON Lines has it: the
    border of requests and of Python, with the checks of files.
    """
    nbest = FORMATS["native"].from_json(value, place)
    check_scores(nbest, place)
    if not any(hypothesis.scores for hypothesis in nbest.hypotheses):
        _rank(nbest)
    _check_columns(nbest, place)
    return nbest


def expanded(paths: Sequence[str | Path | Source]) -> Iterator[str | Path | Source]:
    """Folders of JSON Lines or of fairseq's logs as these files, by name; other paths
    as they are.
    """
    for path in paths:
        if (
            not isinstance(path, Source)
            and Path(path).is_dir()
            and sniff(Source(path)) is None
        ):
            folder = Path(path)
            yield from (
                sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")])
                or fairseq_logs(folder)
                or [folder]
            )
        else:
            yield path


def fairseq_logs(folder: Path) -> list[Path]:
    """fairseq's logs among other files: a single log, or the parts of a set."""
    files = sorted(
        path
        for ending in ("txt", "log", "out")
        for path in folder.glob(f"*.{ending}*")
        if path.is_file()
    )
    return [path for path in files if FORMATS["fairseq"].sniff(Source(path))]


def _names(paths: Sequence[str | Path | Source]) -> list[str]:
    return [path.name if isinstance(path, Source) else str(path) for path in paths]


def named_table(source: Source, options: ReadOptions | None) -> str | None:
    """The kind of table whose first line has the name that --field text= gives."""
    text = options.values.get("fields", {}).get("text") if options else None
    first = source.head.partition("\n")[0].rstrip("\r") if text else ""
    return next(
        (
            name
            for name, mark in (("tsv", "\t"), ("csv", ","))
            if text in first.split(mark)
        ),
        None,
    )


def _format(source: Source, name: str | None) -> Format:
    name = name or sniff(source)
    if name is None:
        # here: most paths have a known format
        from rescore.formats.unknown import unknown

        raise UserError(f"{source.name}: {unknown(source)}")
    return FORMATS[name]


def _rank(nbest: NbestList) -> None:
    """Make the order of the file the first pass."""
    for place, hypothesis in enumerate(nbest.hypotheses, 1):
        _set_first_pass(hypothesis, -math.log(place))


def _set_first_pass(hypothesis: Hypothesis, score: float) -> None:
    """Make a score the first pass. The old first pass goes under its own name, so that
    nothing is lost and the sum no longer marks a mean.
    """
    former = hypothesis.scores.pop(FIRST_PASS, None)
    kept = {} if former is None else {FORMER_FIRST_PASS: former}
    hypothesis.scores = {FIRST_PASS: score, **hypothesis.scores, **kept}


READERS_OWN = {FIRST_PASS, SUM, FORMER_FIRST_PASS, SCORE}
"""Reserved names of first-pass columns, which readers and writers of files handle
themselves.
"""


def _check_columns(nbest: NbestList, place: str) -> None:
    """Check that each hypothesis has a first pass, and that no column has a reserved
    name, unless the record of the list says that it is ours.
    """
    ours = {FIRST_PASS, *READERS_OWN.difference(nbest.header.columns)}
    ours |= {
        name for name, column in nbest.header.columns.items() if not column.is_component
    }
    reserved = reserved_names()
    for rank, hypothesis in enumerate(nbest.hypotheses, 1):
        for name in hypothesis.scores:
            if name in reserved and name not in ours:
                raise UserError(
                    f"{place}: the name of the column {name} is reserved; give the"
                    " column another name"
                )
        if FIRST_PASS not in hypothesis.scores:
            what, how = (
                f"{place}, hypothesis {rank}: no first-pass score",
                "add the score, or name its column with --s2s",
            )
            if columns := list(hypothesis.scores):
                what += f" among its columns ({', '.join(columns)})"
                how = (
                    f"choose a column with --s2s, or --field score=-{columns[0]} where"
                    " lower is better"
                )
            raise UserError(f"{what}; {how}")


def _with_first_pass(nbest: NbestList, column: str, place: str) -> None:
    """Make another column the first pass."""
    if column == WORDS and not all(
        WORDS in hypothesis.scores for hypothesis in nbest.hypotheses
    ):
        raise UserError(
            f"{place}: no score {column!r} in the file; choose another --s2s"
        )
    try:
        values = nbest.column(column)
    except UserError as error:
        raise UserError(
            f"{place}: {str(error).partition(': ')[2].partition(';')[0]}; choose"
            " another --s2s"
        ) from None
    for hypothesis, value in zip(nbest.hypotheses, values, strict=True):
        del hypothesis.scores[column]
        _set_first_pass(hypothesis, value)
