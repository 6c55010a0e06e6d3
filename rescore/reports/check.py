"""Results compared with golden results.

`compare` says of each figure whether it is the same, better or worse, and refuses to
compare figures whose signatures differ in a setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from rescore.columns import Column
from rescore.reports.figures import signed
from rescore.reports.outputs import MeasuredOutputs, Output
from rescore.reports.records import CHOICES, MetricResult, Record
from rescore.reports.summary import REFERENCE_SIZES
from rescore.signature import DIGITS, Signature
from rescore.styles import figure, text

COMPARABLE = ("metric", "settings", "decision", "test")
"""Fields of signatures that figures must have in common to be compared. The other
fields say what made the figures.
"""
SINCE_2 = ("objective", "votes", "lists", "form")
"""Fields of which version 1 of signatures says nothing."""
SHOWN = 0.005
"""The least difference of figures, in percentage points, that two decimals show."""
ROUNDING = 1e-9
"""A difference may exceed the tolerance by this, as floats are not exact."""
LONGEST = 40
"""Letters of both values, up to which a row of the table shows them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The comparison of a figure or a setting, as the table shows it."""

    name: str
    golden: str
    now: str
    verdict: str
    """same, tolerated, better, worse, differs (and cannot be compared), or changed
    (which is no failure).
    """
    note: str = ""

    @property
    def failed(self) -> bool:
        """Whether the check fails because of this finding."""
        return self.verdict in ("worse", "differs")


def compare(golden: Record, now: Record, tolerance: float) -> list[Finding]:
    """Return the comparison of the figures, counts and signatures of two results.

    Args:
        golden: The results that are right.
        now: The results to check.
        tolerance: Percentage points by which a figure may be worse.
    """
    measured = {figures.metric: figures for figures in now.metrics}
    pairs = []
    for old in golden.metrics:
        if old.metric in measured:
            pairs.append((old, measured[old.metric]))
    findings = list(_figures(golden, pairs, tolerance))
    findings += _dev_figures(golden, now, tolerance)
    findings += _settings(golden, now, pairs)
    return findings


def compare_reports(
    golden: Sequence[MeasuredOutputs], now: Sequence[MeasuredOutputs], tolerance: float
) -> list[Finding]:
    """Return the comparison of two reports of `rescore eval`, each with a record for
    each metric. Outputs are matched by their names.

    Args:
        golden: The report that is right.
        now: The report to check.
        tolerance: Percentage points by which a figure may be worse.
    """
    findings = [_same("names of metrics", _metrics(golden), _metrics(now))]
    measured = {report.metric: report for report in now}
    for old in golden:
        new = measured.get(old.metric)
        if new is not None:
            findings += _output_figures(old, new, tolerance)
    return findings


def _metrics(reports: Sequence[MeasuredOutputs]) -> str:
    """Return the names of the metrics of a report."""
    return ", ".join(report.metric for report in reports)


def _output_figures(
    old: MeasuredOutputs, new: MeasuredOutputs, tolerance: float
) -> Iterator[Finding]:
    """Yield the comparison of the outputs under one metric, and of its settings."""
    pairs, other = _paired(old.systems, new.systems)
    for before, after in pairs:
        name = f"{before.name}, {old.metric}"
        if after is None:
            was = figure(_value(before.value))
            yield Finding(name, was, "missing", "differs", "no such output")
            continue
        if before.name != after.name:
            yield Finding(name, before.name, after.name, "changed", "another name")
        yield from _one_output(before, after, name, old.higher_is_better, tolerance)
    for after in other:
        name = f"{after.name}, {old.metric}"
        value = figure(_value(after.value))
        yield Finding(name, "missing", value, "changed", "not in the golden file")
    different = differences(old.signed, new.signed)
    settings = _shown(old.conditions.settings)
    yield _same(
        f"settings of {old.metric}", *different.pop("settings", (settings, settings))
    )
    for name, values in different.items():
        what = f"{name} of {old.metric}"
        if name in COMPARABLE:
            yield _same(what, *values)
        else:
            yield Finding(what, *values, "changed", "not a failure by itself")


def _paired(
    golden: Sequence[Output], now: Sequence[Output]
) -> tuple[list[tuple[Output, Output | None]], list[Output]]:
    """Return each golden output with the output of its name, if there is one; and the
    outputs of other names. If both reports have a single output, these are a pair under
    any names.
    """
    if len(golden) == 1 and len(now) == 1:
        return [(golden[0], now[0])], []
    left = {output.name: output for output in now}
    pairs = [(output, left.pop(output.name, None)) for output in golden]
    return pairs, list(left.values())


def _one_output(
    before: Output, after: Output, name: str, higher_is_better: bool, tolerance: float
) -> Iterator[Finding]:
    """Yield the comparison of an output with the golden output."""
    figures = {name: (before.value, after.value)}
    if before.oracle is not None and after.oracle is not None:
        figures[f"{name}, oracle"] = (before.oracle, after.oracle)
    for figure_name, (was, is_now) in figures.items():
        yield _moved(
            figure_name, _value(was), _value(is_now), higher_is_better, tolerance
        )
    yield _same(f"{name}, utterances", before.utterances, after.utterances)
    for size in REFERENCE_SIZES:
        if size in before.counts:
            sizes = before.counts[size], after.counts.get(size)
            yield _same(f"{name}, {size.replace('ref_', 'reference ')}", *sizes)


def _value(value: float | None) -> float:
    """Return a figure; NaN for one that is not defined."""
    return math.nan if value is None else value


def _figures(
    golden: Record,
    pairs: Sequence[tuple[MetricResult, MetricResult]],
    tolerance: float,
) -> Iterator[Finding]:
    """Yield the comparison of each figure of the metrics that both results have."""
    for old, new in pairs:
        prefix = "" if old.metric == golden.metric else f"{old.metric}."
        for choice in CHOICES:
            yield _moved(
                f"{prefix}{choice}",
                getattr(old, choice),
                getattr(new, choice),
                old.higher_is_better,
                tolerance,
            )


def _dev_figures(golden: Record, now: Record, tolerance: float) -> Iterator[Finding]:
    """Yield the comparison of the figure on the dev lists, if the golden results have
    dev lists.
    """
    name = "dev.reranked"
    before = golden.tuning
    after = now.tuning
    if before.value is None:
        return
    if after.value is None:
        was = figure(before.value)
        yield Finding(name, was, "not tuned", "changed", "no dev lists")
        return
    higher_is_better = golden.metrics[0].higher_is_better
    finding = _moved(name, before.value, after.value, higher_is_better, tolerance)
    same_number = before.lists == after.lists
    if not same_number or before.first_pass != after.first_pass:
        finding = replace(finding, verdict="changed", note="other dev lists")
    yield finding


def _moved(
    name: str, golden: float, now: float, higher_is_better: bool, tolerance: float
) -> Finding:
    """Return the comparison of a figure, with the difference as its note."""
    undefined = [math.isnan(golden), math.isnan(now)]
    if any(undefined):
        verdict = "same" if all(undefined) else "differs"
        return Finding(name, figure(golden), figure(now), verdict)
    difference = now - golden
    if abs(difference) > tolerance + ROUNDING:
        is_better = (difference > 0) == higher_is_better
        verdict = "better" if is_better else "worse"
    elif abs(difference) >= SHOWN:
        verdict = "tolerated"
    else:
        verdict = "same"
    note = f"{difference:+z.2f}" if difference else ""
    return Finding(name, figure(golden), figure(now), verdict, note)


def _settings(
    golden: Record, now: Record, pairs: Sequence[tuple[MetricResult, MetricResult]]
) -> Iterator[Finding]:
    """Yield the comparison of all that must be equal so that figures can be compared;
    then other differences, which are no failures.
    """
    lost = {figures.metric for figures in golden.metrics[1:]}
    lost -= {old.metric for old, _ in pairs}
    for name in sorted(lost):
        yield _same("metric", name, None)
    for name in ("metric", "utterances", "hypotheses", "ref_words"):
        yield _same(name, getattr(golden, name), getattr(now, name))
    for old, new in pairs:
        if old.metric != golden.metric:
            before = _shown(old.conditions.settings)
            after = _shown(new.conditions.settings)
            yield _same(f"{old.metric}.settings", before, after)
    different = differences(_signed(golden), _signed(now))
    different.pop("metric", None)  # compared above, with the counts
    for name in COMPARABLE[1:]:
        yield _same(name, *different.pop(name, ("", "")))
    # Weights that choose the same texts are equal: their last digits differ between
    # machines.
    if _chosen(golden) == _chosen(now):
        for name in ("weights", "scale", "deciding"):
            different.pop(name, None)
    for name, values in different.items():
        yield Finding(name, *values, "changed", "not a failure by itself")


def _signed(results: Record) -> Signature:
    """Return the signature that the records of the first metric make."""
    measured = results.metrics[0]
    return signed(measured.metric, results.choice, results.columns, measured.conditions)


def _chosen(results: Record) -> tuple[object, ...]:
    """Return what tells whether two results chose the same texts: the number of changed
    utterances, and the counts of the reranked texts under each metric.
    """
    counts = {
        figures.metric: figures.counts.get("reranked") for figures in results.metrics
    }
    return results.changed, counts


def _same(name: str, golden: object, now: object) -> Finding:
    """Return the comparison of values that must be equal."""
    verdict = "same" if golden == now else "differs"
    return Finding(name, str(golden), str(now), verdict)


def render(findings: list[Finding]) -> str:
    """Return a table of all figures, then all other differences and the verdict.

    Args:
        findings: As `compare` returns them.
    """
    rows = [["", "golden", "now", "moved", "verdict"]]
    differences = []
    for finding in findings:
        name = finding.name
        golden = finding.golden
        now = finding.now
        if len(golden) + len(now) <= LONGEST:
            rows.append([name, golden, now, finding.note, finding.verdict])
        elif finding.verdict != "same":
            differences.append(f"{name} {finding.verdict}")
            differences.append(f"  golden {golden}")
            differences.append(f"  now    {now}")
    return "\n".join([text(rows), *differences, _verdict(findings)])


def _verdict(findings: Sequence[Finding]) -> str:
    """Return whether the check passed, and what failed or is better."""
    failed = [finding.name for finding in findings if finding.failed]
    if failed:
        return f"FAILED: {', '.join(failed)}"
    better = [finding.name for finding in findings if finding.verdict == "better"]
    if better:
        names = ", ".join(better)
        return f"passed; better than golden in {names}: copy it to the golden file"
    return "passed"


# --- signatures ----------------------------------------------------------------------


def differences(first: Signature, second: Signature) -> dict[str, tuple[str, str]]:
    """Return the fields that differ between two signatures, with both values as text.

    Args:
        first: A signature.
        second: Another signature.
    """
    different = {}
    same_form = first.form == second.form
    for entry in fields(Signature):
        if entry.name in SINCE_2 and not same_form:
            continue
        old = getattr(first, entry.name)
        new = getattr(second, entry.name)
        if _rounded(old) != _rounded(new):
            different[entry.name] = (_shown(old), _shown(new))
    return different


def _rounded(value: object) -> object:
    """Return the value of a field as signatures show it: more digits of a weight or a
    scale differ between machines.
    """
    if isinstance(value, Mapping):
        return {name: _shown(item) for name, item in value.items()}
    return _shown(value)


def _shown(value: object) -> str:
    """Return the value of a field as text."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        items = [f"{name} {_shown(item)}" for name, item in value.items()]
        return ", ".join(items) or "none"
    if isinstance(value, Column):
        return value.short
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    return str(value)
