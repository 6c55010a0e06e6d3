"""Results compared with golden results.

`compare` says of each figure whether it is the same, better or worse, and refuses to
compare figures whose signatures differ in a setting.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from rescore.columns import Column
from rescore.errors import OptionError
from rescore.reports.figures import MEAN_OF_SAMPLES, MeasuredRow, signed
from rescore.reports.outputs import MeasuredOutputs, Output, names_in_each
from rescore.reports.records import OUTPUTS, MetricResult, Record
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
MOST_DIGITS = 9
"""Decimals of a difference that is shown, at most."""
LONGEST = 40
"""Letters of both values, up to which a row of the table shows them."""
HARMLESS = "not a failure by itself"
"""The note of a difference that figures may have and still be compared."""


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
    moved: str = ""
    """The difference of figures, in percentage points."""
    note: str = ""
    """Why the verdict is as it is."""
    advice: str = ""
    """A line for below the table: what to do."""

    @property
    def failed(self) -> bool:
        """Whether the check fails because of this finding."""
        return self.verdict in ("worse", "differs")


def compare(
    golden: Record,
    now: Record,
    tolerance: float,
    renamed: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Return the comparison of the figures, counts and signatures of two results.

    Args:
        golden: The results that are right.
        now: The results to check.
        tolerance: Percentage points by which a figure may be worse.
        renamed: The new name of each system that has another name in the golden
            results.

    Raises:
        UserError: No system has a name in `renamed`.
    """
    measured = {figures.metric: figures for figures in now.metrics}
    pairs = []
    for old in golden.metrics:
        if old.metric in measured:
            pairs.append((old, measured[old.metric]))
    matched = _Matched.of("system", _systems_of(golden), _systems_of(now), renamed)
    matched = matched.with_probable_names(
        [(_keys(old.systems), _keys(new.systems)) for old, new in pairs]
    )
    findings = list(_figures(golden, pairs, tolerance, matched))
    findings += _dev_figures(golden, now, tolerance)
    findings += _settings(golden, now, pairs)
    return findings


def _systems_of(results: Record) -> list[str]:
    """Return the names of the systems of results."""
    return [row.name for row in results.metrics[0].systems]


def compare_reports(
    golden: Sequence[MeasuredOutputs],
    now: Sequence[MeasuredOutputs],
    tolerance: float,
    renamed: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Return the comparison of two reports of `rescore eval`, each with a record for
    each metric. Outputs are matched by the names that tables print.

    Args:
        golden: The report that is right.
        now: The report to check.
        tolerance: Percentage points by which a figure may be worse.
        renamed: The new name of each output that has another name in the golden report.

    Raises:
        UserError: No output has a name in `renamed`.
    """
    findings = [_same("names of metrics", _metrics(golden), _metrics(now))]
    measured = {report.metric: report for report in now}
    both = [(old, measured[old.metric]) for old in golden if old.metric in measured]
    paths = [
        [output.name for output in reports[0].systems] for reports in (golden, now)
    ]
    before, after = names_in_each(paths)
    matched = _Matched.of("output", before, after, renamed)
    matched = matched.with_probable_names(
        [(_keys(old.systems), _keys(new.systems)) for old, new in both]
    )
    for old, new in both:
        findings += _output_figures(old, new, matched, tolerance)
    return findings


def _metrics(reports: Sequence[MeasuredOutputs]) -> str:
    """Return the names of the metrics of a report."""
    return ", ".join(report.metric for report in reports)


@dataclass(frozen=True, slots=True)
class _Matched:
    """Which output of a report is which output of the golden report; or which of the
    systems whose lists were combined.
    """

    what: str
    """What is matched: `output` or `system`."""
    golden: Sequence[str]
    """The name of each output of the golden report."""
    now: Sequence[str]
    """The name of each output of the report to check."""
    places: Mapping[int, int]
    """The place of golden outputs in the report to check."""
    probable: Mapping[int, int] = field(default_factory=dict)
    """The place of outputs that have another name and equal figures."""

    @classmethod
    def of(
        cls,
        what: str,
        before: Sequence[str],
        after: Sequence[str],
        renamed: Mapping[str, str] | None,
    ) -> _Matched:
        """Return the outputs of equal names. If both reports have a single output,
        these are a pair under any names.

        Args:
            what: What is matched.
            before: The name of each output of the golden report.
            after: The name of each output of the report to check.
            renamed: The new name of outputs that have another name.

        Raises:
            UserError: No output has a name in `renamed`.
        """
        renamed = renamed or {}
        for old, new in renamed.items():
            _check_name(what, old, before, "the golden file")
            _check_name(what, new, after, "the results")
        places: dict[int, int] = {}
        in_order = sorted(enumerate(before), key=lambda entry: entry[1] not in renamed)
        for place, name in in_order:  # outputs with a new name first
            today = renamed.get(name, name)
            same = [at for at, other in enumerate(after) if other == today]
            free = [at for at in same if at not in places.values()]
            if free:
                places[place] = free[0]
        if len(before) == 1 and len(after) == 1:
            places = {0: 0}
        return cls(what, before, after, places)

    @property
    def missing(self) -> list[int]:
        """The golden outputs that the report to check does not have."""
        return [place for place in range(len(self.golden)) if place not in self.places]

    @property
    def new(self) -> list[int]:
        """The outputs that the golden report does not have."""
        known = self.places.values()
        return [place for place in range(len(self.now)) if place not in known]

    def with_probable_names(self, keys: Sequence[tuple[_Keys, _Keys]]) -> _Matched:
        """Return the same with the new names of missing outputs: each has equal figures
        under all metrics, and no other output has these figures.

        Args:
            keys: The figures of each golden output, and of each output of today, under
                each metric that both reports have.
        """
        pairs = []
        for before in self.missing:
            for after in self.new:
                if keys and all(old[before] == new[after] for old, new in keys):
                    pairs.append((before, after))
        old_times = Counter(before for before, _ in pairs)
        new_times = Counter(after for _, after in pairs)
        probable = {}
        for before, after in pairs:
            if old_times[before] == 1 and new_times[after] == 1:
                probable[before] = after
        return replace(self, probable=probable)


_Keys = Sequence[tuple[object, ...]]
"""The figures of each output under a metric; a renamed output has equal figures."""


def _keys(outputs: Sequence[Output] | Sequence[MeasuredRow]) -> _Keys:
    """Return the figures of outputs, or of systems, under a metric."""
    keys = []
    for row in outputs:
        oracle = row.oracle if isinstance(row, Output) else None
        keys.append((row.value, row.counts, oracle))
    return keys


def _check_name(what: str, name: str, names: Sequence[str], place: str) -> None:
    """Refuse a name that no output, or no system, has."""
    if name not in names:
        raise OptionError(
            f"--renamed: no {what} in {place} is called {name}; the {what}s are"
            f" {', '.join(names)}"
        )


def _output_figures(
    old: MeasuredOutputs, new: MeasuredOutputs, matched: _Matched, tolerance: float
) -> Iterator[Finding]:
    """Yield the comparison of the outputs under one metric, and of its settings."""
    for place, output in enumerate(matched.golden):
        before = old.systems[place]
        today = matched.places.get(place)
        if today is None:
            name = f"{output} ({old.metric})"
            yield _missing(name, _value(before.value), matched, place)
            continue
        after = new.systems[today]
        if output != matched.now[today]:
            name = f"{output} ({old.metric}, name)"
            yield Finding(name, output, matched.now[today], "changed")
        names = (output, old.metric)
        yield from _one_output(before, after, names, old.higher_is_better, tolerance)
    for place in matched.new:
        name = f"{matched.now[place]} ({old.metric})"
        yield _added(name, _value(new.systems[place].value))
    name = f"references of {old.metric}"
    yield from _references(name, old.references, new.references)
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
            yield Finding(what, *values, "changed", note=HARMLESS)


def _missing(name: str, value: float, matched: _Matched, place: int) -> Finding:
    """Return the finding about a golden output, or system, that is missing.

    Args:
        name: The name of the finding.
        value: The golden figure, in percent.
        matched: The outputs.
        place: The place of the golden output.
    """
    note = f"no such {matched.what}"
    advice = ""
    if place in matched.probable:
        old = matched.golden[place]
        new = matched.now[matched.probable[place]]
        note = "probably renamed"
        renamed = shlex.quote(f"{old}={new}")
        advice = (
            f"{old} is probably {new} now: the figures are equal; give --renamed"
            f" {renamed}, or copy the new report to the golden file"
        )
    return Finding(name, figure(value), "missing", "differs", note=note, advice=advice)


def _added(name: str, value: float) -> Finding:
    """Return the finding about an output, or system, that the golden report lacks."""
    note = "not in the golden file"
    return Finding(name, "missing", figure(value), "changed", note=note)


def _one_output(
    before: Output,
    after: Output,
    names: tuple[str, str],
    higher_is_better: bool,
    tolerance: float,
) -> Iterator[Finding]:
    """Yield the comparison of an output with the golden output.

    Args:
        before: The golden output.
        after: The output of today.
        names: The names of the output and of the metric.
        higher_is_better: Whether a higher value is the better one.
        tolerance: Percentage points by which the figure may be worse.
    """
    output, metric = names
    figures = {f"{output} ({metric})": (before.value, after.value)}
    if before.oracle is not None and after.oracle is not None:
        figures[f"{output} ({metric}, oracle)"] = (before.oracle, after.oracle)
    if before.mean_of_samples is not None and after.mean_of_samples is not None:
        means = before.mean_of_samples.value, after.mean_of_samples.value
        figures[f"{output} ({metric}, {MEAN_OF_SAMPLES})"] = means
    for name, (was, is_now) in figures.items():
        yield _moved(name, _value(was), _value(is_now), higher_is_better, tolerance)
    yield _same(f"{output} ({metric}, utterances)", before.utterances, after.utterances)
    for size in REFERENCE_SIZES:
        if size in before.counts:
            sizes = before.counts[size], after.counts.get(size)
            unit = size.replace("ref_", "reference ")
            yield _same(f"{output} ({metric}, {unit})", *sizes)


def _value(value: float | None) -> float:
    """Return a figure; NaN for one that is not defined."""
    return math.nan if value is None else value


def _figures(
    golden: Record,
    pairs: Sequence[tuple[MetricResult, MetricResult]],
    tolerance: float,
    matched: _Matched,
) -> Iterator[Finding]:
    """Yield the comparison of each figure of the metrics that both results have."""
    for old, new in pairs:
        prefix = "" if old.metric == golden.metric else f"{old.metric}."
        for output in OUTPUTS:
            yield _moved(
                f"{prefix}{output}",
                getattr(old, output),
                getattr(new, output),
                old.higher_is_better,
                tolerance,
            )
        if old.mean_of_samples is not None and new.mean_of_samples is not None:
            yield _moved(
                f"{prefix}mean_of_samples",
                old.mean_of_samples.value,
                new.mean_of_samples.value,
                old.higher_is_better,
                tolerance,
            )
        yield from _systems(old, new, prefix, tolerance, matched)


def _systems(
    old: MetricResult,
    new: MetricResult,
    prefix: str,
    tolerance: float,
    matched: _Matched,
) -> Iterator[Finding]:
    """Yield the comparison of each system alone, if the golden results have systems.

    Args:
        old: The golden figures of a metric.
        new: The figures of today.
        prefix: The beginning of the names of figures of the metric.
        tolerance: Percentage points by which a figure may be worse.
        matched: Which system is which.
    """
    if not old.systems:
        return
    for place, before in enumerate(old.systems):
        name = f"{prefix}systems.{before.name}"
        today = matched.places.get(place)
        if today is None:
            yield _missing(name, before.value, matched, place)
            continue
        value = new.systems[today].value
        yield _moved(name, before.value, value, old.higher_is_better, tolerance)
    for place in matched.new:
        row = new.systems[place]
        yield _added(f"{prefix}systems.{row.name}", row.value)


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
        yield Finding(name, was, "not tuned", "changed", note="no dev lists")
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
    """Return the comparison of a figure, with their difference."""
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
    moved = f"{difference:+z.{_digits(difference, tolerance)}f}" if difference else ""
    note = ""
    if verdict == "worse" and tolerance:
        note = f"the tolerance is {tolerance:g}"
    return Finding(name, figure(golden), figure(now), verdict, moved, note)


def _digits(difference: float, tolerance: float) -> int:
    """Return the decimals that show on which side of the tolerance a difference is."""
    is_within = abs(difference) <= tolerance + ROUNDING
    for digits in range(2, MOST_DIGITS):
        shown = round(abs(difference), digits)
        if (shown <= tolerance + ROUNDING) == is_within:
            return digits
    return MOST_DIGITS


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
    for name in ("metric", "utterances"):
        yield _same(name, getattr(golden, name), getattr(now, name))
    yield _hypotheses(golden, now)
    yield _same("ref_words", golden.ref_words, now.ref_words)
    yield from _references("references", golden.references, now.references)
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
        yield Finding(name, *values, "changed", note=HARMLESS)


def _hypotheses(golden: Record, now: Record) -> Finding:
    """Return the comparison of the number of hypotheses.

    Of several systems, a text that several of them wrote is one hypothesis. The number
    then says how far systems agree, and it moves with the texts of each system.
    """
    finding = _same("hypotheses", golden.hypotheses, now.hypotheses)
    if finding.failed and _systems_of(golden) and _systems_of(now):
        return replace(finding, verdict="changed", note=HARMLESS)
    return finding


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


def _references(name: str, golden: str | None, now: str | None) -> Iterator[Finding]:
    """Yield the comparison of the references, if both results say which they had:
    figures against other references cannot be compared.
    """
    if golden is not None and now is not None:
        yield _same(name, golden, now)


def _same(name: str, golden: object, now: object) -> Finding:
    """Return the comparison of values that must be equal."""
    verdict = "same" if golden == now else "differs"
    return Finding(name, str(golden), str(now), verdict)


def render(findings: list[Finding]) -> str:
    """Return a table of all figures, then all other differences and the verdict.

    Args:
        findings: As `compare` returns them.
    """
    rows = [["", "golden", "now", "moved", "verdict", "note"]]
    differences = []
    advice: dict[str, None] = {}
    for finding in findings:
        name = finding.name
        golden = finding.golden
        now = finding.now
        if len(golden) + len(now) <= LONGEST:
            cells = [name, golden, now, finding.moved, finding.verdict, finding.note]
            rows.append(cells)
        elif finding.verdict != "same":
            differences.append(f"{name} {finding.verdict}")
            differences.append(f"  golden {golden}")
            differences.append(f"  now    {now}")
        if finding.advice:
            advice[finding.advice] = None
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    return "\n".join([text(rows), *differences, *advice, _verdict(findings)])


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
