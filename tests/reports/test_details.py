"""Results per utterance, and the names of methods and sets in tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from rescore.dataset import Dataset
from rescore.metrics.mt import Bleu
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.details import details
from rescore.reports.results import system_name
from rescore.tuning import Weights
from tests.conftest import ROOT, Run, some_lists, write_json

DEV, TEST = ROOT / "data" / "dev.json", ROOT / "data" / "test.json"
COLUMNS = [
    "id",
    "reference",
    "first_pass",
    "chosen",
    "first_pass_errors",
    "chosen_errors",
    "changed",
    "verdict",
    "s2s",
]

OF_MODEL = ["tta-small", "tokens"]
OF_FIRST_PASS = ["first_pass_s2s", "first_pass_tta-small", "first_pass_tokens"]


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Where the scores of tta-small are kept for all tests here."""
    return "--cache", str(tmp_path_factory.mktemp("scores"))


@pytest.mark.long
def test_a_row_per_utterance_from_run_analyse_and_eval(
    rescore: Run, scores: tuple[str, str], tmp_path: Path
) -> None:
    tuned = (
        "--lm",
        "tta-small",
        *scores,
        "--dev",
        DEV,
        "--report",
        "r.json",
        "--save-weights",
        "w.json",
        "--best",
        "b.trn",
    )
    done = rescore("run", TEST, *tuned, "--details", "d.jsonl")
    assert done.returncode == 0, done.stderr
    rows = [
        json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()
    ]
    figures = json.loads((tmp_path / "r.json").read_text())
    assert (
        len(rows) == figures["utterances"]
        and sum(row["changed"] for row in rows) == figures["changed"]
    )
    assert (
        list(rows[0]) == [*COLUMNS, *OF_MODEL, *OF_FIRST_PASS]
        and "details" not in figures
    )
    for name, choice in (("first_pass", "first_pass"), ("chosen", "reranked")):
        counts = figures["metrics"][0]["counts"][choice]
        errors = sum(
            counts[kind] for kind in ("substitutions", "deletions", "insertions")
        )
        assert sum(row[f"{name}_errors"] for row in rows) == errors
    rescore("score", TEST, "--lm", "tta-small", *scores, "-o", "s.jsonl")
    assert (
        rescore(
            "analyse", "s.jsonl", "--weights", "w.json", "--details", "a.jsonl"
        ).returncode
        == 0
    )
    again = [
        json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()
    ]
    assert [row["chosen"] for row in again] == [row["chosen"] for row in rows]
    assert (
        rescore("eval", TEST, "b.trn", "--ref", TEST, "--details", "e.tsv").returncode
        == 0
    )
    head, *lines = [
        line.split("\t") for line in (tmp_path / "e.tsv").read_text().splitlines()
    ]
    assert head == [*COLUMNS, "first_pass_s2s"] and [line[3] for line in lines] == [
        row["chosen"] for row in rows
    ]
    assert [float(line[5]) for line in lines] == [row["chosen_errors"] for row in rows]
    assert (
        rescore(
            "rerank", "s.jsonl", "--weights", "w.json", "--details", "f.csv"
        ).returncode
        == 0
    )
    with open(tmp_path / "f.csv", newline="") as file:
        of_rerank = list(csv.DictReader(file))
    assert [row["chosen"] for row in of_rerank] == [row["chosen"] for row in rows]
    for row in rows:
        gain = row["first_pass_errors"] - row["chosen_errors"]
        assert row["verdict"] == (
            "better" if gain > 0 else "worse" if gain < 0 else "same"
        )
    assert {row["verdict"] for row in of_rerank} == {"better", "worse", "same"}


def test_verdicts_of_a_metric_where_more_is_better() -> None:
    lists = [
        NbestList("u", [Hypothesis("a b c d"), Hypothesis("a x c d")], ("a b c d",))
    ]
    pairs = (("a b c d", "a x c d"), ("a x c d", "a b c d"))
    assert [
        details(Bleu(), Dataset.of(lists), [old], [new])[0]["verdict"]
        for old, new in pairs
    ] == ["worse", "better"]
    assert details(None, Dataset.of(lists), ["a"], ["b"])[0]["verdict"] is None
    lists = [NbestList("u", lists[0].hypotheses, ("a b c d",), source="w x y z")]
    (row,) = details(Bleu(), Dataset.of(lists), ["a x c d"], ["a b c d"])
    assert (
        list(row)[:3] == ["id", "source", "reference"]
        and row["source"] == "w x y z"
        and row["verdict"] == "better"
    )


def test_dev_and_test_stand_in_one_table(rescore: Run, tmp_path: Path) -> None:
    dev_lists, test_lists = (some_lists(tmp_path, name, 25) for name in ("dev", "test"))
    done = rescore(
        "run",
        test_lists,
        "--lm",
        "tta-small",
        "--dev",
        dev_lists,
        "--report",
        "r.json",
        "--table",
        "t.md",
    )
    assert done.returncode == 0, done.stderr
    rows = [
        line.split(" |")[0]
        for line in (tmp_path / "t.md").read_text().splitlines()[2:6]
    ]
    sets = [
        f"| {name}, {row}"
        for name in ("dev", "test")
        for row in ("first pass", "tta-small")
    ]
    assert rows == sets
    assert "dev, first pass" not in rescore("report", "r.json").stdout
    shown = rescore(
        "report", "r.json", "--dev", "--layout", "paper", "--style", "csv"
    ).stdout.splitlines()
    assert shown[0] == "method,dev WER,test WER" and shown[-1].startswith("tta-small,")
    report = json.loads((tmp_path / "r.json").read_text())
    for figures in (report["metrics"][0], report["dev"][0]):
        figures["p_value"] = 0.001
    write_json(tmp_path / "sure.json", report)
    marked = (
        rescore("report", "sure.json", "--dev", "--layout", "paper")
        .stdout.splitlines()[3]
        .split()
    )
    # weights know the dev lists
    assert [cell.endswith("‡") for cell in marked] == [False, False, True]
    dev = report["choice"]["tuning"]
    assert (
        shown[-1].split(",")[1] == f"{dev['value']:.2f}"
        and shown[1].split(",")[1] == f"{dev['first_pass']:.2f}"
    )


@pytest.mark.parametrize(
    ("weights", "decision", "name"),
    [
        ({"s2s": 0.5, "tta-small": 0.5}, "best", "tta-small"),
        ({"s2s": 0.5, "tta-small": 0.5}, "mbr", "tta-small, MBR"),
        ({"s2s": 1.0, "tta": 0.0}, "mbr", "MBR"),
        ({"s2s": 1.0, "tta": 0.0}, "best", "tta"),
        ({"s2s": 1.0}, "best", "first pass"),
        ({"s2s": 0.5, "tta": 0.0, "ngram": 0.5}, "best", "ngram"),
        ({"s2s": 0.5, "ilm": -0.1, "ngram": 0.5}, "rover", "ngram - ilm, ROVER"),
    ],
)
def test_names_of_methods(weights: dict[str, float], decision: str, name: str) -> None:
    assert system_name(Weights(weights), decision) == name


def test_a_model_of_weight_0_is_in_a_note(
    rescore: Run, scores: tuple[str, str], tmp_path: Path
) -> None:
    lm = ("--lm", "tta-small", *scores, "--weight", "0")
    done = rescore(
        "run", TEST, *lm, "--decide", "mbr", "--scale", "0.01", "--report", "r.json"
    )
    assert done.returncode == 0, done.stderr
    table = rescore("report", "r.json").stdout
    assert "\ntest, MBR  " in table and "test, MBR: weight 0 of tta-small" in table
