"""Results compared with golden ones, and signatures read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from urllib.parse import unquote

from rescore.errors import UserError
from rescore.nbest import Column
from rescore.reports.records import CHOICES, MetricResult
from rescore.reports.results import Results
from rescore.signature import DIGITS, Signature
from rescore.styles import text

COMPARABLE = ("metric", "settings", "decision", "test")
"""Where these fields of signatures differ two figures cannot be compared; the others
say what made them.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The comparison of a figure, as it is shown."""

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
        return self.verdict in ("worse", "differs")


def compare(golden: Results, now: Results, tolerance: float) -> list[Finding]:
    """Figures, counts and signatures of two results.

    Args:
        tolerance: by how many percentage points a figure may be worse.
    """
    measured = {figures.metric: figures for figures in now.metrics}
    both = [
        (old, measured[old.metric]) for old in golden.metrics if old.metric in measured
    ]
    return [*_figures(golden, now, both, tolerance), *_settings(golden, now, both)]


def _figures(
    golden: Results,
    now: Results,
    both: Sequence[tuple[MetricResult, MetricResult]],
    tolerance: float,
) -> Iterator[Finding]:
    for old, new in both:
        for choice in CHOICES:
            name = choice if old.metric == golden.metric else f"{old.metric}.{choice}"
            yield _moved(
                name,
                getattr(old, choice),
                getattr(new, choice),
                old.higher_is_better,
                tolerance,
            )
    if golden.dev and now.dev:
        before, after = golden.dev, now.dev
        moved = _moved(
            "dev.reranked",
            before.reranked,
            after.reranked,
            golden.metrics[0].higher_is_better,
            tolerance,
        )
        same_lists = (before.utterances, before.first_pass) == (
            after.utterances,
            after.first_pass,
        )
        yield (
            moved
            if same_lists
            else replace(moved, verdict="changed", note="other dev lists")
        )
    elif golden.dev:
        yield Finding(
            "dev.reranked",
            f"{golden.dev.reranked:.2f}",
            "not tuned",
            "changed",
            "no dev lists",
        )


def _moved(
    name: str, golden: float, now: float, higher_is_better: bool, tolerance: float
) -> Finding:
    """What became of a figure, and by how much it moved."""
    difference = now - golden
    verdict = "same"
    if abs(difference) > tolerance + 1e-9:
        verdict = "better" if (difference > 0) == higher_is_better else "worse"
    elif abs(difference) >= 0.005:
        verdict = "tolerated"
    return Finding(
        name,
        f"{golden:.2f}",
        f"{now:.2f}",
        verdict,
        f"{difference:+z.2f}" if difference else "",
    )


def _settings(
    golden: Results, now: Results, both: Sequence[tuple[MetricResult, MetricResult]]
) -> Iterator[Finding]:
    """What must be equal so that figures can be compared; then other differences, which
    are no failures.
    """
    lost = {figures.metric for figures in golden.metrics[1:]} - {
        old.metric for old, _ in both
    }
    yield from (_same("metric", name, None) for name in sorted(lost))
    for name in ("metric", "utterances", "hypotheses", "ref_words"):
        yield _same(name, getattr(golden, name), getattr(now, name))
    for old, new in both:
        if old.metric != golden.metric:
            yield _same(
                f"{old.metric}.settings",
                *(_shown(parse(figures.signature).settings) for figures in (old, new)),
            )
    different = differences(parse(golden.signature), parse(now.signature))
    for name in COMPARABLE[1:]:  # the metric was looked at above
        yield _same(name, *different.pop(name, ("", "")))
    ignored = {"metric"}
    choices = [
        (each.changed, {one.metric: one.counts.get("reranked") for one in each.metrics})
        for each in (golden, now)
    ]
    # weights are as they choose: their last digits differ between machines
    if choices[0] == choices[1]:
        ignored |= {"weights", "scale", "deciding"}
    for name, values in different.items():
        if name not in ignored:
            yield Finding(name, *values, "changed", "not a failure by itself")


def _same(name: str, golden: object, now: object) -> Finding:
    return Finding(name, str(golden), str(now), "same" if golden == now else "differs")


def render(findings: list[Finding]) -> str:
    """All figures, and all other differences."""
    rows = [["", "golden", "now", "moved", "verdict"]]
    differences = []
    for finding in findings:
        if len(finding.golden) + len(finding.now) <= 40:
            rows.append(
                [
                    finding.name,
                    finding.golden,
                    finding.now,
                    finding.note,
                    finding.verdict,
                ]
            )
        elif finding.verdict != "same":
            differences.append(
                f"{finding.name} {finding.verdict}\n  golden {finding.golden}\n  now   "
                f" {finding.now}"
            )
    failed = [finding.name for finding in findings if finding.failed]
    better = [finding.name for finding in findings if finding.verdict == "better"]
    last = f"FAILED: {', '.join(failed)}" if failed else "passed"
    if better and not failed:
        last += (
            f"; better than golden in {', '.join(better)}: copy it to the golden file"
        )
    return "\n".join([text(rows), *differences, last])


def parse(text: str) -> Signature:
    """Read a signature that was printed.

    Raises:
        UserError: it is no signature.
    """
    metric, *parts = text.split("|")
    values: dict[str, dict[str, object]] = {
        name: {} for name in ("settings", "weights", "columns", "versions")
    }
    single: dict[str, object] = {}
    try:
        for part in parts:
            key, colon, value = part.partition(":")
            name, _, rest = value.partition("=")
            if not colon:
                raise ValueError(part)
            if key == "w":
                values["weights"][unquote(name)] = float(rest)
            elif key == "lm":
                model, _, origin = rest.partition("@")
                fingerprint, norm, precision = origin.split(",")
                values["columns"][unquote(name)] = Column(
                    unquote(model), fingerprint, unquote(norm), unquote(precision)
                )
            elif key == "without":
                single["excluded"] = tuple(map(unquote, value.split(",")))
            elif key == "decide":
                single |= _decision(value)
            elif key in ("tuned", "p"):
                single["test" if key == "p" else key] = unquote(value)
            elif key == "rescore" or values["versions"]:
                values["versions"][key] = value
            else:
                values["settings"][key] = unquote(value)
    except ValueError:
        raise UserError(
            f"signature {text!r}: {part!r} is not a field of a signature"
        ) from None
    if not metric or "rescore" not in values["versions"]:
        raise UserError(f"signature {text!r}: has no metric or no version of rescore")
    return Signature(unquote(metric), **values, **single)  # type: ignore[arg-type]


def _decision(field: str) -> dict[str, object]:
    """Return the fields of a signature that `decide:` holds: a rule, perhaps a scale,
    and options.
    """
    rule, *rest = field.split(",")
    options = dict(part.split("=", 1) for part in rest if "=" in part)
    scales = [float(part) for part in rest if "=" not in part]
    return {
        "decision": unquote(rule),
        "scale": scales[0] if scales else None,
        "deciding": {name: unquote(text) for name, text in options.items()},
    }


def differences(first: Signature, second: Signature) -> dict[str, tuple[str, str]]:
    """The fields that are not the same, as text."""
    pairs = {
        field.name: (getattr(first, field.name), getattr(second, field.name))
        for field in fields(first)
    }
    return {
        name: (_shown(old), _shown(new))
        for name, (old, new) in pairs.items()
        if old != new
    }


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return (
            ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
            or "none"
        )
    if isinstance(value, Column):
        return value.short
    return (
        "none"
        if value is None
        else f"{value:.{DIGITS}g}"
        if isinstance(value, float)
        else str(value)
    )
