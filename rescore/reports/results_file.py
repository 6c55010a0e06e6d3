"""Results files: `Results` as JSON, with a schema, checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rescore.errors import UserError
from rescore.files import parsed, read_json
from rescore.reports.figures import CHOICES, Measured
from rescore.reports.results import SCHEMA, Results
from rescore.reports.styles import as_json
from rescore.signature import Signature

BEFORE = "rescore/results/2"
"""Files of the first metric's figures at the top, and those of others in `also`: read, and never written."""
ERRORS = {"substitutions", "deletions", "insertions"}
"""What error rates count beside the words or characters of the references."""


def schema() -> dict[str, Any]:
    """The JSON schema of a results file, made from the fields of `Results`."""
    import msgspec

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
    """Read a results file, also one of the schema before.

    Raises:
        UserError: it is absent, not JSON, of another schema, has a field of the wrong kind, or lacks a figure.
    """
    values = read_json(path)
    found = values.get("schema") if isinstance(values, dict) else None
    if found == BEFORE:
        values = _of_before(values)
    elif found != SCHEMA:
        raise UserError(f"{path}: schema is {found!r}, not {SCHEMA!r}; write it with `rescore run --report`")
    results = parsed(values, Results, str(path))
    if not results.metrics:
        raise UserError(f"{path}: has no figures; the lists had no references")
    for fault in _faults(results):
        raise UserError(f"{path}: {fault}; write it again with --report")
    try:
        for signature in (results.signature, *(one.signature for one in results.metrics)):
            Signature.parse(signature)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return results


def _of_before(values: dict[str, Any]) -> dict[str, Any]:
    """The content of a file of the schema before, as it would be written now."""
    values = {name: value for name, value in values.items() if name != "schema"}
    own = ("metric", "higher_is_better", *CHOICES, "p_value", "counts", "wrong_utterances", "intervals")
    first = {name: values.pop(name) for name in own if name in values} | {"signature": values.get("signature")}
    others = values.pop("also", [])
    metrics = [first, *others] if first.get("metric") is not None and isinstance(others, list) else []
    for one in metrics:
        if isinstance(one, dict) and "wrong_utterances" in one:
            one["sentence_errors"] = one.pop("wrong_utterances")
    return values | {"metrics": metrics}


def _faults(results: Results) -> Iterator[str]:
    """What a table or a check would miss, or could not show."""
    for one in results.metrics:
        for choice in CHOICES:
            if not math.isfinite(getattr(one, choice)):
                yield f"{one.metric}: {choice} is {getattr(one, choice)}, not a number"
            if choice not in one.counts:
                yield f"{one.metric}: no counts of {choice}"
        yield from _unequal(one)
        if not all(math.isfinite(bound) for interval in one.intervals.values() for bound in interval):
            yield f"{one.metric}: a confidence interval without end"
    if results.utterances < 1:
        yield f"utterances is {results.utterances}"


def _unequal(one: Measured) -> Iterator[str]:
    names = set(one.counts["first_pass"]) if "first_pass" in one.counts else set()
    if one.metric in ("WER", "CER"):
        names |= ERRORS | {"ref_words" if one.metric == "WER" else "ref_characters"}
        if set(one.sentence_errors) != set(CHOICES):
            yield f"{one.metric}: sentence_errors lacks {', '.join(sorted(set(CHOICES) - set(one.sentence_errors)))}"
    for choice, counts in one.counts.items():
        if choice not in CHOICES or set(counts) != names:
            yield f"{one.metric}: the counts of {choice} are not those of the first pass"
