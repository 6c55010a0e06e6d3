"""Source texts for lists that have none."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.references import TextFile, with_references
from rescore.formats.source import InputWarnings, Source
from rescore.nbest import NbestList


def with_sources(
    lists: list[NbestList], path: Path, strict: bool, allow_missing: bool
) -> list[NbestList]:
    """The lists with the source texts of a file: plain lines in their order, Kaldi
    text, CSV or TSV with the columns id and src, or lists in JSON.

    Raises:
        UserError: a list has no source text, or the file has source texts of other
        lists.
    """
    warnings = InputWarnings(strict)
    try:
        kind = "plain" if path.suffix in (".csv", ".tsv") else None
        file = TextFile(Source(path, warnings), kind, sources=True)
        if file.format:
            text = io.StringIO("\n".join(file.lines))
            rows = list(
                csv.DictReader(text, delimiter="," if path.suffix == ".csv" else "\t")
            )
            if not rows or not {"id", "src"} <= rows[0].keys():
                raise UserError(
                    f"{path}: the first line names no columns id and src; name them so"
                )
            file.format, file.by_id = None, {row["id"]: (row["src"],) for row in rows}
        texts = with_references(lists, [file], warnings, allow_missing)
    except UserError as error:
        raise UserError(str(error).replace("no reference", "no source text")) from None
    warnings.report()
    return [
        replace(nbest, source=text.references[0])
        for nbest, text in zip(lists, texts, strict=True)
    ]
