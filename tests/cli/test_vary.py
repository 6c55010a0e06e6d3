"""`compare --vary`: a row for each value of an option, with the figures that `run` has
for the value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import rescore as api
from tests.conftest import Run, assert_one_line_error
from tests.tuning.test_curve_in_python import scored


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    entries = []
    for nbest in scored(12):
        hyps = [
            {"text": one.text, "score": one.scores["s2s"]} for one in nbest.hypotheses
        ]
        entries.append({"id": nbest.id, "ref": nbest.references[0], "hyps": hyps})
    lines = [json.dumps(entry) for entry in entries]
    (tmp_path / "l.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "words").write_text("b\n", encoding="utf-8")
    return tmp_path / "l.jsonl"


def letters(sentences: Sequence[str]) -> list[float]:
    """Return a score of each sentence."""
    return [-float(sentence.count("b")) for sentence in sentences]


@pytest.mark.parametrize(
    ("name", "values", "options"),
    [
        ("boost", [0, 0.5, 3], {"words": "words", "bagging": False}),
        ("scale", [0.1, 5], {"decide": "mbr", "bagging": False}),
        ("no_word", [0.5, 9], {"decide": "rover", "scale": 0.5, "bagging": False}),
    ],
)
def test_a_row_is_what_compare_has_for_its_value(
    name: str,
    values: list[float],
    options: dict[str, Any],
    lists: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(lists.parent)
    read = api.read(lists)
    table = api.compare(read, read, letters, vary=(name, values), **options)
    assert len(table.rows) == len(values)
    for row, value in zip(table.rows, values, strict=True):
        assert row.name.startswith(f"{name} {value:g}")
        alone = api.compare(read, read, letters, **options, **{name: value}).rows[-1]
        assert (row.value, row.dev, row.weights) == (
            *(alone.value, alone.dev),
            alone.weights,
        )
    assert len({row.value for row in table.rows}) > 1
    best = min(table.rows, key=lambda row: row.dev)
    assert f"best on dev: {best.name}" in table.about


def test_what_cannot_be_varied_is_refused(rescore: Run, lists: Path) -> None:
    command = ["compare", lists, "--dev", lists, "--lm", "tta", "--vary"]
    for typed, message in (
        ("boost", "'boost' is not OPTION=NUMBER,NUMBER..., such as boost=0,0.3,1"),
        ("recombine=1,2", "--vary recombine: compare varies numbers that leave the"),
        ("decide=1", "--vary decide: compare varies numbers"),
        ("lm_norm=sum,mean", "--vary: compare varies numbers that leave the"),
        ("--lm-norm=mean", "give each value of lm_norm to `rescore run` with --rep"),
        ("boost=much", "'boost=much' is not OPTION=NUMBER,NUMBER..., such as boost="),
        ("scale=-1,2", "--scale -1.0: expected a number from 0 to 1000000"),
        ("folds=2,3", "compare takes no folds; give it to run"),
        ("bost=1", "bost is not an option; did you mean boost?"),
    ):
        assert_one_line_error(rescore(*command, typed), message)


def test_several_metrics_are_columns(rescore: Run, lists: Path) -> None:
    (lists.parent / "text").write_text("a b b a\nb a b a\n", encoding="utf-8")
    trained = rescore(
        *("train", "--lm", "ngram", "--text", "text", "--discount-fallback"),
        *("--out", "lm"),
    )
    assert trained.returncode == 0, trained.stderr
    command = ["compare", lists, "--dev", lists, "--lm", "ngram:lm", "--vary"]
    metrics = ["--metric", "wer", "--metric", "bwer", "--words", "words"]
    done = rescore(*command, "boost=0,1", *metrics)
    assert done.returncode == 0 and "BWER" in done.stdout, done.stderr
    assert "boost 1" in done.stdout and "+1.00 a listed word" in done.stdout


def test_dev_has_a_column_for_each_metric(
    lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lists.parent)
    read = api.read(lists)
    table = api.compare(
        *(read, read, letters),
        vary=("boost", [0, 1]),
        metrics=["wer", "bwer", "uwer"],
        words="words",
        bagging=False,
    )
    head = table.table("csv").splitlines()[0]
    assert head.startswith(",weight,dev WER,dev BWER,dev UWER,WER,BWER,UWER,")
    assert table.dev_others == table.others, "test and dev are the same lists"
    for row in table.rows:
        assert row.dev_others == row.others and row.others.keys() == {"BWER", "UWER"}
        assert row.dev == row.value


def test_of_equal_values_the_smallest_is_best(
    lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lists.parent)
    (lists.parent / "none").write_text("zebra\n", encoding="utf-8")
    read = api.read(lists)
    values = [2, 0.5, 1]
    table = api.compare(read, read, letters, vary=("boost", values), words="none")
    tie = "(the smallest of 3 values with equal dev WER)"
    assert f"best on dev: boost 0.5 {tie}" in table.about


def test_values_are_compared_without_a_model(
    rescore: Run, lists: Path, tmp_path: Path
) -> None:
    """Each row has the figure of `run` with its value, which needs no model either."""
    asked = [lists, "--dev", lists, "--words", "words", "--metric", "wer"]
    done = rescore("compare", *asked, "--vary", "boost=0,9", "-o", "t.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["boost 0", "boost 9"]
    for row in rows:
        boost = row["name"].removeprefix("boost ")
        alone = rescore("run", *asked, "--boost", boost, "--report", "r.json")
        assert alone.returncode == 0, alone.stderr
        report = json.loads((tmp_path / "r.json").read_text())
        assert row["value"] == report["metrics"][0]["reranked"]
    assert len({row["value"] for row in rows}) == 2


def test_without_values_a_model_is_needed(rescore: Run, lists: Path) -> None:
    assert_one_line_error(
        rescore("compare", lists, "--dev", lists),
        "compare needs --lm KIND[:PATH] or --vary OPTION=N,N...",
    )
