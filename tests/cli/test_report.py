"""Results files, tables of many, and the gate; the project's own demo figures go through it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import torch

from rescore.networks import checkpoint
from rescore.reports.results import schema
from tests.conftest import ROOT, Run, assert_one_line_error, write_json
from tests.scoring.test_ngram import ARPA


@pytest.fixture
def results(rescore: Run, tmp_path: Path) -> Path:
    """A results file of a small run."""
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    table = {
        f"s-{index}": {
            "ref": "the old clock",
            "hyp_1": {"score": -1, "text": "the owl clock"},
            "hyp_2": {"score": -1.5, "text": "the old clock" if index % 2 else "the old"},
        }
        for index in range(10)
    }
    write_json(tmp_path / "lists.json", table)
    done = rescore("lists.json", "--lm", "ngram:lm.arpa", "--dev", "lists.json", "--report", "r.json")
    assert done.returncode == 0, done.stderr
    return tmp_path / "r.json"


def test_results_follow_the_schema(rescore: Run, results: Path, tmp_path: Path) -> None:
    written = json.loads(results.read_text())
    jsonschema.validate(written, schema())
    assert set(schema()["properties"]) == set(written)  # nothing is left undescribed
    assert (written["dataset"], written["system"]) == ("lists", "ngram")
    assert written["wrong_utterances"] == {"first_pass": 10, "oracle": 5, "reranked": 5}
    write_json(tmp_path / "plain.json", {"u": {"hyp_1": {"score": -1, "text": "the"}}})
    done = rescore("plain.json", "--lm", "ngram:lm.arpa", "--weight", "0.3", "--report", "p.json")
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads((tmp_path / "p.json").read_text()), schema())
    assert_one_line_error(rescore("report", "p.json"), "p.json: has no figures")


def test_a_table_of_many(rescore: Run, results: Path, tmp_path: Path) -> None:
    other = json.loads(results.read_text()) | {"dataset": "far"}
    write_json(tmp_path / "far.json", other)
    done = rescore("report", "r.json", "far.json", "-o", "RESULTS.md")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "RESULTS.md").read_text().splitlines()
    assert lines[0] == "| dataset | Snt | Wrd | Corr | Sub | Del | Ins | Err | S.Err |"
    assert lines[2] == "| lists, first pass | 10 | 30 | 66.7 | 33.3 | 0.0 | 0.0 | 33.3 | 100.0 |"
    assert lines[3] == "| lists, ngram | 10 | 30 | 83.3 | 0.0 | 16.7 | 0.0 | 16.7 | 50.0 |"
    assert [line.split(" |")[0] for line in lines[4:6]] == ["| far, first pass", "| far, ngram"]
    table = rescore("report", "r.json", "far.json", "--layout", "paper", "--style", "csv").stdout
    assert table.splitlines() == [
        "method,lists WER,far WER",
        "first pass,33.33,33.33",
        "oracle,16.67,16.67",
        "ngram,16.67,16.67",
    ]
    assert r"\toprule" in rescore("report", "r.json", "--style", "latex").stdout
    write_json(tmp_path / "twice.json", other | {"dataset": "lists", "reranked": 20.0})
    done = rescore("report", "r.json", "twice.json", "--layout", "paper")
    assert_one_line_error(done, "lists WER: ngram is", "name them apart")


def test_what_is_no_results_file(rescore: Run, results: Path, tmp_path: Path) -> None:
    assert_one_line_error(rescore("report", "no.json"), "no.json: cannot be read")
    assert_one_line_error(rescore("report", "lists.json"), "lists.json: schema is None")
    broken = json.loads(results.read_text())
    del broken["signature"]
    write_json(tmp_path / "broken.json", broken)
    assert_one_line_error(rescore("report", "broken.json"), "broken.json: object missing required field signature")
    (tmp_path / "cut.json").write_text(results.read_text()[:100], encoding="utf-8")
    assert_one_line_error(rescore("check", "r.json", "--golden", "cut.json"), "cut.json: line", "not valid JSON")


def test_check(rescore: Run, results: Path, tmp_path: Path) -> None:
    shutil.copy(results, tmp_path / "golden.json")
    same = rescore("check", "r.json", "--golden", "golden.json", "--junit", "j.xml")
    assert same.returncode == 0 and same.stdout.endswith("passed\n")
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert suite.get("failures") == "0" and int(suite.get("tests", "0")) == len(suite.findall("testcase")) >= 8

    def changed(**values: object) -> Path:
        return write_json(tmp_path / "now.json", json.loads(results.read_text()) | values)

    done = rescore("check", changed(reranked=16.8), "--golden", "golden.json", "--junit", "j.xml")
    assert done.returncode == 1 and "FAILED: reranked" in done.stdout and "+0.13" in done.stdout
    failure = ElementTree.parse(tmp_path / "j.xml").getroot().find("testcase[@name='reranked']/failure")
    assert failure is not None and failure.get("message") == "reranked worse: golden 16.67, now 16.80"
    assert rescore("check", "now.json", "--golden", "golden.json", "--tolerance", "0.2").returncode == 0
    better = rescore("check", changed(reranked=10.0), "--golden", "golden.json")
    assert better.returncode == 0 and "better than golden in reranked: keep it with --update" in better.stdout
    assert rescore("check", changed(utterances=9), "--golden", "golden.json").returncode == 1
    old = json.loads(results.read_text())["signature"]
    done = rescore("check", changed(signature=old.replace("case:lc", "case:mixed")), "--golden", "golden.json")
    assert done.returncode == 1 and "FAILED: settings" in done.stdout
    done = rescore(
        "check", changed(signature=old.replace("lm:ngram=ngram@", "lm:ngram=ngram@0")), "--golden", "golden.json"
    )
    assert done.returncode == 0 and "columns" in done.stdout and "changed" in done.stdout
    assert rescore("check", changed(reranked=10.0), "--golden", "golden.json", "--update").returncode == 0
    assert json.loads((tmp_path / "golden.json").read_text())["reranked"] == 10.0
    assert rescore("check", "r.json", "--golden", "new.json", "--update").returncode == 0
    assert json.loads((tmp_path / "new.json").read_text()) == json.loads(results.read_text())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


def run_demo(rescore: Run, lm: str, report: Path) -> None:
    data = ROOT / "data"
    done = rescore(data / "test.json", "--lm", lm, "--dev", data / "dev.json", "--report", report)
    assert done.returncode == 0, done.stderr


def test_the_demo_gives_the_golden_figures(rescore: Run, demo: Path) -> None:
    run_demo(rescore, "tta", demo / "r.json")
    # A word is 0.08 points here; another machine's arithmetic may decide a near tie the other way.
    done = rescore("check", demo / "r.json", "--golden", ROOT / "data" / "golden.json", "--tolerance", "0.2")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_perturbed_model_fails_the_gate(rescore: Run, demo: Path) -> None:
    folder = Path(shutil.copytree(ROOT / "models" / "tta", demo / "tta"))
    network, tokenizer = checkpoint.load(folder)
    with torch.no_grad():
        network.get_parameter("blocks.1.attention.value.weight").mul_(-1)
    checkpoint.save(folder, network, tokenizer)
    run_demo(rescore, f"tta:{folder}", demo / "perturbed.json")
    done = rescore("check", demo / "perturbed.json", "--golden", ROOT / "data" / "golden.json")
    assert done.returncode == 1 and "reranked" in done.stdout.splitlines()[-1]
