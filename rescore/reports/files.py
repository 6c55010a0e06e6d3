"""Results files: their schema, and what is checked when one is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from rescore.errors import UserError
from rescore.files import parsed, read_json
from rescore.reports.check import parse
from rescore.reports.records import CHOICES, SCHEMA
from rescore.reports.results import Results


def schema() -> dict[str, Any]:
    """The JSON schema of a results file, made from the fields of `Results`."""
    _, parts = msgspec.json.schema_components([Results], ref_template="#/$defs/{name}")
    body = parts.pop("Results")
    properties = body["properties"] | {
        "schema": {"const": SCHEMA, "description": "Format and version of this file."}
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
        "properties": properties,
        "additionalProperties": False,
        "$defs": parts,
    }


def read(path: Path) -> Results:
    """Read a results file.

    Raises:
        UserError: it is absent, not JSON, of another schema, has a field of the wrong
        kind, or lacks a figure.
    """
    values = read_json(path)
    if (known := values.get("schema") if isinstance(values, dict) else None) != SCHEMA:
        raise UserError(
            f"{path}: not a results file (its schema is {known!r}, not {SCHEMA!r});"
            " give a file of `rescore run --report` or `rescore rerank --report`;"
            " eval, compare and analyse write other records"
        )
    results = parsed(values, Results, str(path))
    if not results.metrics:
        raise UserError(f"{path}: has no figures; the lists had no references")
    for measured in results.metrics:
        figures = [getattr(measured, choice) for choice in CHOICES]
        names = {
            tuple(sorted(measured.counts.get(choice, ["absent"]))) for choice in CHOICES
        }
        if (
            len(names) > 1
            or "absent" in names.pop()
            or not all(map(math.isfinite, figures))
        ):
            raise UserError(
                f"{path}: {measured.metric}: a figure or a count is missing; write it"
                " again with --report"
            )
    try:
        for signature in (
            results.signature,
            *(measured.signature for measured in results.metrics),
        ):
            parse(signature)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return results
