"""Results files of former versions are compared and shown as they were meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore.reports import files
from rescore.reports.check import compare, compare_reports, differences
from rescore.reports.figures import signed
from rescore.reports.former import SCHEMA
from rescore.reports.records import MetricResult, Record
from rescore.signature import Signature, parse
from tests.conftest import ROOT


def former() -> list[Path]:
    """The results files of former versions: of releases, and between them."""
    folders = [ROOT / "tests" / "data" / name for name in ("released", "former")]
    folders.append(ROOT / "docs" / "results")
    paths = [ROOT / "data" / "golden.json"]
    for folder in folders:
        paths += sorted(folder.rglob("*.json"))
    kept = []
    for path in paths:
        values = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(values, dict) and values.get("schema") == SCHEMA:
            kept.append(path)
    return kept


FORMER = former()


def signature_of(record: Record, measured: MetricResult) -> Signature:
    """Return the signature that the records make."""
    return signed(measured.metric, record.choice, record.columns, measured.conditions)


def test_there_are_files_of_each_version() -> None:
    versions = set()
    for path in FORMER:
        signature = json.loads(path.read_text(encoding="utf-8"))["signature"]
        versions.add(parse(signature).versions["rescore"])
    assert len(FORMER) > 20 and {"0.2.0", "0.3.0.dev0"} <= versions


@pytest.mark.parametrize("path", FORMER, ids=lambda path: str(path.relative_to(ROOT)))
def test_records_say_what_the_signatures_said(path: Path, tmp_path: Path) -> None:
    """Of each metric, and again when the file is written as today."""
    before = json.loads(path.read_text(encoding="utf-8"))
    results = files.read(path)
    results.save(tmp_path / "today.json")
    again = files.read(tmp_path / "today.json")
    for record in (results, again):
        assert str(record.tuning) == before["origin"]
        for measured in record.metrics:
            known = parse(measured.signature)
            assert differences(signature_of(record, measured), known) == {}
    for name in ("choice", "metrics", "dev", "columns", "groups", "plan"):
        assert getattr(again, name) == getattr(results, name)
    verdicts = {finding.verdict for finding in compare(results, again, 0.0)}
    assert verdicts == {"same"}


@pytest.mark.parametrize("version", ["0.2.0", "0.3.0"])
def test_reports_of_eval_have_the_conditions_of_their_signatures(version: str) -> None:
    path = ROOT / "tests" / "data" / "released" / version / "eval.json"
    reports = files.read_outputs(path)
    assert reports is not None
    for report in reports:
        assert differences(report.signed, parse(report.signature)) == {}
    verdicts = {finding.verdict for finding in compare_reports(reports, reports, 0.0)}
    assert verdicts == {"same"}
