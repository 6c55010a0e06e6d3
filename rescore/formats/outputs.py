"""An output of a system: N-best lists, or 1-best texts as lists of one hypothesis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.formats.reading import named_table, read
from rescore.formats.references import References, open_references, read_best
from rescore.formats.source import InputWarnings, ReadOptions, Source, sniff
from rescore.formats.sources import with_sources
from rescore.formats.unknown import is_lattice, unknown
from rescore.nbest import NbestList


def is_text(
    source: Source, format_name: str | None = None, options: ReadOptions | None = None
) -> bool:
    """Whether a path holds 1-best texts: no format of N-best lists fits."""
    return not source.is_folder and (
        format_name or named_table(source, options) or sniff(source)
    ) in (None, "text")


def read_output(
    path: str, references: str | References | None = None, **options: Any
) -> list[NbestList]:
    """N-best lists, or, with `references` given, a 1-best text as lists of one
    hypothesis; `options` as in `read`.
    """
    strict, allow_missing = (
        bool(options.get("strict")),
        bool(options.get("allow_missing")),
    )
    warnings = InputWarnings(strict)
    source = Source(path, warnings)  # one for both ways: a pipe cannot be opened again
    files = None if references is None else open_references(references, warnings)
    if files is not None and is_text(
        source, options.get("format_name"), options.get("options")
    ):
        if is_lattice(source):
            raise UserError(f"{path}: {unknown(source)}")
        lists = read_best(source, files, allow_missing)
        if sources := options.get("sources"):
            lists = with_sources(lists, Path(sources), strict, allow_missing)
    else:
        lists = read(
            [path] if source.is_folder else [source],
            references=files,
            need_references=True,
            **options,
        )
    warnings.report()
    return lists
