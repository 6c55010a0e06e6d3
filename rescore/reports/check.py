"""The gate for tables: results against a golden file, for a person and for a CI server."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

from rescore.reports.figures import CHOICES, Measured
from rescore.reports.results import Results
from rescore.reports.styles import text
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
    measured = {one.metric: one for one in now.metrics}
    findings = [
        finding
        for one in golden.metrics
        if one.metric in measured
        for finding in _figures(one, measured[one.metric], one.metric == golden.metric, tolerance)
    ]
    if golden.dev and now.dev:
        up = golden.metrics[0].higher_is_better
        findings.append(_figure("dev.reranked", golden.dev.reranked, now.dev.reranked, up, tolerance))
    findings += [_same("metric", one.metric, None) for one in golden.metrics[1:] if one.metric not in measured]
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


def _figures(golden: Measured, now: Measured, first: bool, tolerance: float) -> list[Finding]:
    """The figures of one metric; those of the first go by their own names."""
    return [
        _figure(
            name if first else f"{golden.metric}.{name}",
            getattr(golden, name),
            getattr(now, name),
            golden.higher_is_better,
            tolerance,
        )
        for name in CHOICES
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


def render(findings: list[Finding]) -> str:
    """All figures, and whatever else is not as it was."""
    rows = [["", "golden", "now", "moved", "verdict"]]
    others = []
    for one in findings:
        if len(one.golden) + len(one.now) > 40:
            if one.verdict != "same":
                others.append(f"{one.name} {one.verdict}\n  golden {one.golden}\n  now    {one.now}")
        else:
            rows.append([one.name, one.golden, one.now, one.note, one.verdict])
    failed = [one.name for one in findings if one.failed]
    better = [one.name for one in findings if one.verdict == "better"]
    if failed:
        last = f"FAILED: {', '.join(failed)}"
    else:
        last = "passed" + (f"; better than golden in {', '.join(better)}: keep it with --update" if better else "")
    return "\n".join([text(rows), *others, last])


def _xml(text: str) -> str:
    """Without characters that XML cannot hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def junit(findings: list[Finding], name: str) -> str:
    """JUnit XML, as CI servers read it: a test case a finding."""
    failures = sum(one.failed for one in findings)
    name = _xml(name)
    suite = ElementTree.Element(
        "testsuite", name="rescore check", tests=str(len(findings)), failures=str(failures), errors="0"
    )
    for one in findings:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=one.name)
        if one.failed:
            message = _xml(f"{one.name} {one.verdict}: golden {one.golden}, now {one.now}")
            ElementTree.SubElement(case, "failure", message=message)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
