"""The Python API: its examples run, and it says what the command line says."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest

import rescore
from rescore import api
from tests.conftest import ROOT, Run


def test_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testmod(api)
    assert tried >= 8 and failed == 0


def test_import_costs_nothing() -> None:
    code = "import sys, rescore; print([name for name in ('torch', 'numpy', 'click') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_same_figures_as_the_command_line(run_in: Run, models: dict[str, Path], tmp_path: Path) -> None:
    lm = f"unilm:{models['unilm']}"
    lists = rescore.score(rescore.read(ROOT / "data" / "test.json")[:30], lm)
    weights = rescore.tune(lists)
    results = rescore.evaluate(lists, weights)
    rescore.rerank(lists, weights)
    from rescore import formats

    formats.write(lists, str(tmp_path / "l.json"))
    done = run_in("tune", "l.json")
    assert json.loads(done.stdout)["weights"] == pytest.approx(weights.weights)
    done = run_in("l.json", "--lm", lm, "--weight", str(weights.weights["unilm"]), "--report", "r.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["first_pass"], report["reranked"]) == (results.first_pass, results.reranked)
    assert rescore.evaluate(lists).reranked == results.first_pass
    with pytest.raises(rescore.UserError, match="no such file"):
        rescore.read("nowhere.json")


@pytest.fixture
def run_in(request: pytest.FixtureRequest) -> Run:
    """The fixture `rescore`, under a name that leaves the package its own."""
    return request.getfixturevalue("rescore")
