"""The gate for tables: results against a golden file."""

from __future__ import annotations

from dataclasses import dataclass

from rescore.evaluation.results import Results
from rescore.signature import COMPARABLE, Signature


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was compared, as it is shown."""

    name: str
    golden: str
    now: str
    verdict: str
    """same, better, worse, differs (and cannot be compared), or changed (which is no failure)."""
    note: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict in ("worse", "differs")


def compare(golden: Results, now: Results, tolerance: float) -> list[Finding]:
    """Figures, counts and signatures of two results.

    Args:
        tolerance: by how many percentage points a figure may be worse.
    """
    better_up = golden.higher_is_better
    findings = [
        _figure(name, getattr(golden, name), getattr(now, name), better_up, tolerance)
        for name in ("first_pass", "oracle", "reranked")
    ]
    if golden.dev and now.dev:
        findings.append(_figure("dev.reranked", golden.dev.reranked, now.dev.reranked, better_up, tolerance))
    for name in ("metric", "utterances", "hypotheses", "ref_words"):
        findings.append(_same(name, getattr(golden, name), getattr(now, name)))
    differences = Signature.parse(golden.signature).differences(Signature.parse(now.signature))
    for name in COMPARABLE[1:]:  # the metric was looked at above
        findings.append(_same(name, *differences.pop(name, ("", ""))))
    differences.pop("metric", None)
    return [
        *findings,
        *(Finding(name, *both, "changed", "not a failure by itself") for name, both in differences.items()),
    ]


def _figure(name: str, golden: float, now: float, higher_is_better: bool, tolerance: float) -> Finding:
    difference = now - golden
    verdict = "same"
    if abs(difference) > tolerance + 1e-9:
        verdict = "better" if (difference > 0) == higher_is_better else "worse"
    note = f"{difference:+.2f}" if difference else ""
    return Finding(name, f"{golden:.2f}", f"{now:.2f}", verdict, note)


def _same(name: str, golden: object, now: object) -> Finding:
    return Finding(name, str(golden), str(now), "same" if golden == now else "differs")
