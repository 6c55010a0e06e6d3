"""Results files: their schema, and what is checked when one is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from rescore.errors import UserError
from rescore.files import parsed, read_json
from rescore.reports.results import CHOICES, SCHEMA, MetricResult, Results
from rescore.signature import Signature
from rescore.styles import as_json

ERRORS = {"substitutions", "deletions", "insertions"}
"""What error rates count beside the words or characters of the references."""


def schema() -> dict[str, Any]:
    """The JSON schema of a results file, made from the fields of `Results`."""
    _, parts = msgspec.json.schema_components([Results], ref_template="#/$defs/{name}")
    body = parts.pop("Results")
    properties = body["properties"] | {"schema": {"const": SCHEMA, "description": "Format and version of this file."}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
        "properties": properties,
        "additionalProperties": False,
        "$defs": parts,
    }


def write(results: Results, file: IO[str]) -> None:
    """Write a results file: one JSON object, keys as the fields of `Results`."""
    file.write(as_json(results) + "\n")


def read(path: Path) -> Results:
    """Read a results file.

    Raises:
        UserError: it is absent, not JSON, of another schema, has a field of the wrong kind, or lacks a figure.
    """
    values = read_json(path)
    if (known := values.get("schema") if isinstance(values, dict) else None) != SCHEMA:
        raise UserError(f"{path}: schema is {known!r}, not {SCHEMA!r}; write it with `rescore run --report`")
    results = parsed(values, Results, str(path))
    if not results.metrics:
        raise UserError(f"{path}: has no figures; the lists had no references")
    for fault in _faults(results):
        raise UserError(f"{path}: {fault}; write it again with --report")
    try:
        for signature in (results.signature, *(measured.signature for measured in results.metrics)):
            Signature.parse(signature)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return results


def _faults(results: Results) -> Iterator[str]:
    """What a table or a check would miss, or could not show."""
    for measured in results.metrics:
        for choice in CHOICES:
            if not math.isfinite(getattr(measured, choice)):
                yield f"{measured.metric}: {choice} is {getattr(measured, choice)}, not a number"
            if choice not in measured.counts:
                yield f"{measured.metric}: no counts of {choice}"
        yield from _unequal(measured)
        if not all(math.isfinite(bound) for interval in measured.intervals.values() for bound in interval):
            yield f"{measured.metric}: a confidence interval without end"
    if results.utterances < 1:
        yield f"utterances is {results.utterances}"


def _unequal(measured: MetricResult) -> Iterator[str]:
    names = set(measured.counts.get("first_pass", ()))
    if names & ERRORS:
        names |= ERRORS if names - ERRORS else {*ERRORS, "ref_words"}
        if set(measured.sentence_errors) != set(CHOICES):
            lacking = sorted(set(CHOICES) - set(measured.sentence_errors))
            yield f"{measured.metric}: sentence_errors lacks {', '.join(lacking)}"
    for choice, counts in measured.counts.items():
        rate = 100 * sum(counts.get(name, 0) for name in ERRORS)
        rate /= max(1, sum(counts.get(name, 0) for name in names - ERRORS))
        if choice not in CHOICES or set(counts) != names:
            yield f"{measured.metric}: the counts of {choice} differ from the counts of the first pass"
        elif names > ERRORS and abs(rate - getattr(measured, choice)) > 0.005:
            yield f"{measured.metric}: {choice} is {getattr(measured, choice):.2f}, but its counts give {rate:.2f}"
