"""Results compared with golden ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rescore.errors import counted
from rescore.reports.results import CHOICES, MetricResult, Results
from rescore.signature import COMPARABLE, Signature
from rescore.styles import text


@dataclass(frozen=True, slots=True)
class Finding:
    """The comparison of a figure, as it is shown."""

    name: str
    golden: str
    now: str
    verdict: str
    """same, tolerated, better, worse, differs (and cannot be compared), or changed (which is no failure)."""
    note: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict in ("worse", "differs")


def compare(golden: Results, now: Results, tolerance: float) -> list[Finding]:
    """Figures, counts and signatures of two results.

    Args:
        tolerance: by how many percentage points a figure may be worse.
    """
    return [*_figures(golden, now, tolerance), *_settings(golden, now)]


def _figures(golden: Results, now: Results, tolerance: float) -> Iterator[Finding]:
    for old, new in _both(golden, now):
        for choice in CHOICES:
            name = choice if old.metric == golden.metric else f"{old.metric}.{choice}"
            values = getattr(old, choice), getattr(new, choice)
            yield Finding(name, *_shown(*values), *_verdict(*values, old.higher_is_better, tolerance))
    if golden.dev and now.dev:
        before, after = golden.dev, now.dev
        same_lists = (before.utterances, before.first_pass) == (after.utterances, after.first_pass)
        verdict = _verdict(before.reranked, after.reranked, golden.metrics[0].higher_is_better, tolerance)
        yield Finding(
            "dev.reranked",
            *_shown(before.reranked, after.reranked),
            *(verdict if same_lists else ("changed", "other dev lists")),
        )


def _both(golden: Results, now: Results) -> list[tuple[MetricResult, MetricResult]]:
    """The metrics that both results have."""
    measured = {figures.metric: figures for figures in now.metrics}
    return [(old, measured[old.metric]) for old in golden.metrics if old.metric in measured]


def _shown(golden: float, now: float) -> tuple[str, str]:
    return f"{golden:.2f}", f"{now:.2f}"


def _verdict(golden: float, now: float, higher_is_better: bool, tolerance: float) -> tuple[str, str]:
    """What became of a figure, and by how much it moved."""
    difference = now - golden
    verdict = "same"
    if abs(difference) > tolerance + 1e-9:
        verdict = "better" if (difference > 0) == higher_is_better else "worse"
    elif abs(difference) >= 0.005:
        verdict = "tolerated"
    return verdict, f"{difference:+.2f}" if difference else ""


def _settings(golden: Results, now: Results) -> Iterator[Finding]:
    """What must be equal so that figures can be compared; then other differences, which are no failures."""
    both = _both(golden, now)
    lost = {figures.metric for figures in golden.metrics[1:]} - {old.metric for old, _ in both}
    yield from (_same("metric", figures.metric, None) for figures in golden.metrics if figures.metric in lost)
    for name in ("metric", "utterances", "hypotheses", "ref_words"):
        yield _same(name, getattr(golden, name), getattr(now, name))
    for old, new in both:
        if old.metric != golden.metric:
            yield _same(f"{old.metric}.settings", _counted_by(old), _counted_by(new))
    differences = Signature.parse(golden.signature).differences(Signature.parse(now.signature))
    for name in COMPARABLE[1:]:  # the metric was looked at above
        yield _same(name, *differences.pop(name, ("", "")))
    ignored = {"metric"}
    if _choices(golden) == _choices(now):  # weights are as they choose: their last digits differ between machines
        ignored |= {"weights", "scale"}
    for name, values in differences.items():
        if name not in ignored:
            yield Finding(name, *values, "changed", "not a failure by itself")


def _same(name: str, golden: object, now: object) -> Finding:
    return Finding(name, str(golden), str(now), "same" if golden == now else "differs")


def _counted_by(figures: MetricResult) -> str:
    """How a metric counts."""
    settings = Signature.parse(figures.signature).settings
    return ", ".join(f"{name} {setting}" for name, setting in sorted(settings.items()))


def _choices(results: Results) -> object:
    """The choices, as far as a results file shows them: the counts of all metrics, and the number of changed texts."""
    return results.changed, {figures.metric: figures.counts.get("reranked") for figures in results.metrics}


def render(findings: list[Finding]) -> str:
    """All figures, and all other differences."""
    rows = [["", "golden", "now", "moved", "verdict"]]
    differences = []
    for finding in findings:
        if len(finding.golden) + len(finding.now) <= 40:
            rows.append([finding.name, finding.golden, finding.now, finding.note, finding.verdict])
        elif finding.verdict != "same":
            differences.append(f"{finding.name} {finding.verdict}\n  golden {finding.golden}\n  now    {finding.now}")
    failed = [finding.name for finding in findings if finding.failed]
    better = [finding.name for finding in findings if finding.verdict == "better"]
    last = f"FAILED: {', '.join(failed)}" if failed else "passed"
    if better and not failed:
        last += f"; better than golden in {', '.join(better)}: keep it with --update"
    return "\n".join([text(rows), *differences, last])


def summary(findings: Mapping[str, Sequence[Finding]]) -> str:
    """One line about several results files, by name."""
    failed = [name for name, of_file in findings.items() if any(finding.failed for finding in of_file)]
    passed = f"{len(findings) - len(failed)} of {counted(len(findings), 'results file')} passed"
    return f"{passed}; FAILED: {', '.join(failed)}" if failed else passed
