"""The findings of a check, for a person and for a CI server."""

from __future__ import annotations

from xml.etree import ElementTree

from rescore.experiment.check import Finding
from rescore.reporting.styles import text


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
