"""Results files: their schema, and what is checked when one is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rescore.decision.first_pass import class_of_records
from rescore.errors import UserError
from rescore.files import parsed, read_json
from rescore.parts import METRICS
from rescore.reports import former
from rescore.reports.outputs import MeasuredOutputs, short_names
from rescore.reports.records import OUTPUTS, SCHEMA, MetricResult, Record
from rescore.reports.results import Results
from rescore.set_names import name_of_set
from rescore.tuning.weights import OF_TEXTS


def schema() -> dict[str, Any]:
    """Return the JSON schema of a results file, made from the fields of `Results`."""
    record = class_of_records()
    _, parts = msgspec.json.schema_components(
        [Results, record],
        schema_hook=lambda _: {"$ref": f"#/$defs/{record.__name__}"},
        ref_template="#/$defs/{name}",
    )
    body = parts.pop("Results")
    version = {"const": SCHEMA, "description": "Format and version of this file."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
        "properties": body["properties"] | {"schema": version},
        "additionalProperties": False,
        "$defs": parts,
    }


OF_EVAL = {"metric", "signature", "systems", "test"}
"""Keys of a report of `rescore eval`."""


def read_outputs(path: Path) -> list[MeasuredOutputs] | None:
    """Return a report of `rescore eval`, with a record for each metric; None if the
    file has none.

    Args:
        path: The file.

    Raises:
        UserError: The file is absent, not JSON, or a field is absent or of the wrong
            kind.
    """
    values = read_json(path)
    records = values if isinstance(values, list) else [values]
    if not records:
        return None
    for record in records:
        if not isinstance(record, dict) or not record.keys() >= OF_EVAL:
            return None
    reports = []
    for record in records:
        # reports of 0.2 do not say which values are better
        metric = METRICS.known(str(record["metric"]))
        if metric:
            record.setdefault("higher_is_better", METRICS[metric].higher_is_better)
        if "conditions" not in record:
            signature = str(record["signature"])
            record["conditions"] = former.conditions(signature, str(path))
        reports.append(parsed(record, MeasuredOutputs, str(path)))
    return reports


def read_each(path: Path) -> list[Record]:
    """Return the results of a file of any command, for tables: of a report of `rescore
    eval` one record for each output, as it compares with the first output.

    Args:
        path: The file.

    Raises:
        UserError: As `read` and `read_outputs`.
    """
    reports = read_outputs(path)
    if reports is None:
        return [read(path)]
    return as_results(reports, name_of_set(str(path)))


def as_results(reports: Sequence[MeasuredOutputs], dataset: str) -> list[Record]:
    """Return outputs as the results of runs: the first output is the first pass.

    Args:
        reports: The outputs under each metric.
        dataset: The name of the test set in tables.
    """
    outputs = reports[0].systems
    names = short_names([output.name for output in outputs])
    compared = range(1, len(outputs)) or range(1)
    results = []
    for place in compared:
        measured = []
        for report in reports:
            result = _as_result(report, place)
            result.first_output = names[outputs[0].name]
            measured.append(result)
        results.append(
            Record(
                utterances=outputs[0].utterances,
                hypotheses=0,
                choice=OF_TEXTS,
                signature=reports[0].signature,
                dataset=dataset,
                system=names[outputs[place].name],
                metrics=measured,
            )
        )
    groups = reports[0].groups
    results[0].groups = groups.called(names) if groups is not None else None
    return results


def _as_result(report: MeasuredOutputs, place: int) -> MetricResult:
    """Return the output at this place, and the first output, as what a run has of a
    metric.
    """
    first = report.systems[0].row(report.metric)
    own = report.systems[place]
    row = own.row(report.metric)
    result = MetricResult(
        metric=report.metric,
        higher_is_better=report.higher_is_better,
        first_pass=first.value,
        oracle=math.nan if own.oracle is None else own.oracle,
        reranked=row.value,
        p_value=row.p_value,
        counts={"first_pass": first.counts, "reranked": row.counts},
        sentence_errors={},
        intervals={},
        signature=report.signature,
        conditions=report.conditions,
    )
    for output, measured in (("first_pass", first), ("reranked", row)):
        if measured.wrong is not None:
            result.sentence_errors[output] = measured.wrong
        if measured.interval is not None:
            result.intervals[output] = measured.interval
    return result


def is_results(values: Mapping[str, Any]) -> bool:
    """Return whether values are of a results file, of today or of a former version."""
    return values.get("schema") in (SCHEMA, former.SCHEMA)


def read(path: Path) -> Results:
    """Return the results of a results file.

    Args:
        path: The file.

    Raises:
        UserError: The file is absent, not JSON, of another schema, has a field of the
            wrong kind, or lacks a figure.
    """
    values = read_json(path)
    stated = values.get("schema") if isinstance(values, dict) else None
    if not isinstance(values, dict) or not is_results(values):
        raise UserError(
            f"{path}: not a results file (its schema is {stated!r}, not {SCHEMA!r});"
            " give a file of `rescore run --report` or `rescore rerank"
            " --report` (`rescore check` also compares two files of `rescore eval"
            " --report`)"
        )
    values = _with_undefined(values)
    if stated == former.SCHEMA:
        values = former.as_today(values, str(path))
    results = parsed(values | {"schema": SCHEMA}, Results, str(path))
    if not results.metrics:
        raise UserError(f"{path}: has no figures; the lists had no references")
    for measured in results.metrics:
        if not _is_complete(measured):
            raise UserError(
                f"{path}: {measured.metric}: a figure or a count is missing; write it"
                " again with --report"
            )
    return results


def _with_undefined(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a results file with NaN for figures that are not defined,
    which the file has as null. Other values are returned as they are.
    """
    defined = dict(values)
    for key in ("metrics", "dev"):
        measured = values.get(key)
        if isinstance(measured, list):
            defined[key] = [_with_nan(row) for row in measured]
    return defined


def _with_nan(row: Any) -> Any:
    """Return the record of a metric with NaN for its figures if all of them are
    null.
    """
    if not isinstance(row, dict):
        return row
    figures = [row.get(output, 0) for output in OUTPUTS]
    if any(figure is not None for figure in figures):
        return row
    return row | dict.fromkeys(OUTPUTS, math.nan)


def _is_complete(measured: MetricResult) -> bool:
    """Return whether all figures of a metric are finite, or all are not defined, and
    have the same counts.
    """
    names = measured.counts.get(OUTPUTS[0], {}).keys()
    is_defined = not math.isnan(measured.first_pass)
    for output in OUTPUTS:
        if output not in measured.counts or measured.counts[output].keys() != names:
            return False
        if is_defined and not math.isfinite(getattr(measured, output)):
            return False
    return True
