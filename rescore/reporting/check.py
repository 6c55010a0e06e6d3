"""The gate for tables: results against a golden file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

from rescore.reporting.results import Results
from rescore.reporting.styles import text

# Of a signature, what says which model, weights and versions there were: it may change, and the figures with it. The
# rest says how figures are computed: where that changed they cannot be compared.
_IDENTITY = re.compile(r"(lm|lambda|words|tokens|scale|version|jiwer|rapidfuzz|rescore):|tuned on |[^:]*=")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was compared, as it is shown; `verdict` is same, better, worse, differs or changed."""

    name: str
    golden: str
    now: str
    verdict: str
    note: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict in ("worse", "differs")


def compare(golden: Results, now: Results, tolerance: float) -> list[Finding]:
    """Figures, counts and signatures of two results.

    Args:
        tolerance: by how many percentage points a figure may be worse.
    """
    findings = [_figure(golden, now, name, tolerance) for name in ("first_pass", "oracle", "reranked")]
    if golden.dev and now.dev:
        findings.append(
            _moved("dev.reranked", golden.dev.reranked, now.dev.reranked, golden.higher_is_better, tolerance)
        )
    for name in ("metric", "utterances", "hypotheses", "ref_words"):
        findings.append(_same(name, getattr(golden, name), getattr(now, name)))
    settings, identity = zip(*(_parts(one.signature) for one in (golden, now)), strict=True)
    findings.append(_same("settings", *("|".join(parts) for parts in settings)))
    if identity[0] != identity[1]:
        old, new = (sorted(set(one) - set(other)) for one, other in (identity, identity[::-1]))
        findings.append(Finding("identity", "|".join(old), "|".join(new), "changed", "not a failure by itself"))
    return findings


def _figure(golden: Results, now: Results, name: str, tolerance: float) -> Finding:
    return _moved(name, getattr(golden, name), getattr(now, name), golden.higher_is_better, tolerance)


def _moved(name: str, golden: float, now: float, higher_is_better: bool, tolerance: float) -> Finding:
    difference = now - golden
    verdict = "same"
    if abs(difference) > tolerance + 1e-9:
        verdict = "better" if (difference > 0) == higher_is_better else "worse"
    note = f"{difference:+.2f}" if difference else ""
    return Finding(name, f"{golden:.2f}", f"{now:.2f}", verdict, note)


def _same(name: str, golden: object, now: object) -> Finding:
    return Finding(name, str(golden), str(now), "same" if golden == now else "differs")


def _parts(signature: str) -> tuple[list[str], list[str]]:
    parts = signature.split("|")
    identity = [part for part in parts if _IDENTITY.match(part)]
    return [part for part in parts if not _IDENTITY.match(part)], identity


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


def junit(findings: list[Finding], name: str) -> str:
    """JUnit XML, as CI servers read it: a test case a finding."""
    failures = sum(one.failed for one in findings)
    suite = ElementTree.Element(
        "testsuite", name="rescore check", tests=str(len(findings)), failures=str(failures), errors="0"
    )
    for one in findings:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=one.name)
        if one.failed:
            message = f"{one.name} {one.verdict}: golden {one.golden}, now {one.now}"
            ElementTree.SubElement(case, "failure", message=message)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
