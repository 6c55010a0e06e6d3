"""Deciding and measuring need no language model; lists without scores need none
either.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import (
    ROOT,
    Run,
    assert_one_line_error,
    read_report,
    shared,
    write_json,
)
from tests.lms.test_ngram import ARPA

LISTS = ROOT / "data" / "test.json"
TEXTS = ["the old clock", "the old cluck", "an old clock"]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    entries = [
        {"input": TEXTS[index % 2 :], "output": "the old clock"} for index in range(6)
    ]
    return write_json(tmp_path / "l.json", entries)


def test_the_first_pass_is_the_order(rescore: Run, lists: Path, tmp_path: Path) -> None:
    done = rescore(lists, "--report", "r.json")
    assert (
        done.returncode == 0
        and "6 lists have no scores; the order in the file ranks them" in done.stderr
    )
    assert "weights: the first pass alone" in done.stdout
    report = read_report(tmp_path / "r.json")
    assert report["first_pass"] == report["reranked"] == pytest.approx(100 * 3 / 18)
    converted = json.loads(rescore("convert", lists).stdout.splitlines()[0])
    assert [hypothesis["score"] for hypothesis in converted["hyps"]] == pytest.approx(
        [0, -0.6931472, -1.0986123]
    )
    assert_one_line_error(rescore(lists, "--strict"), "has no scores")
    assert "have no scores" not in rescore(lists, "--s2s", "rank").stderr


def test_decisions_without_a_model(rescore: Run, lists: Path, tmp_path: Path) -> None:
    options = ["--decide", "mbr", "--s2s", "rank"]
    done = rescore(
        lists, *options, "--dev", lists, "--best", "one", "--report", "r.json"
    )
    assert done.returncode == 0, done.stderr
    signature = json.loads((tmp_path / "r.json").read_text())["signature"]
    assert "|w:s2s=1|decide:mbr," in signature and "|tuned:6@" in signature
    assert rescore("tune", lists, *options, "-o", "w.json").returncode == 0
    assert json.loads((tmp_path / "w.json").read_text())["weights"] == {"s2s": 1.0}
    assert (
        rescore("rerank", lists, "--weights", "w.json", "--best", "two").returncode == 0
    )
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text()
    assert (
        rescore("tune", lists, *options, "--column", "s2s", "-o", "w.json").returncode
        == 0
    )
    assert json.loads((tmp_path / "w.json").read_text())["weights"] == {"s2s": 1.0}
    assert rescore(
        "rerank", lists, "--decide", "rover", "--scale", "1"
    ).stdout.startswith("1 the old clock\n")


def test_the_best_goes_to_stdout_where_nothing_can_be_measured(
    rescore: Run, tmp_path: Path
) -> None:
    write_json(
        tmp_path / "n.json",
        {
            "u": {
                "hyp_1": {"score": -1, "text": "a b"},
                "hyp_2": {"score": 0, "text": "c"},
            }
        },
    )
    done = rescore("n.json")
    assert done.stdout == "u c\n" and "not measured" not in done.stderr
    assert_one_line_error(rescore("n.json", "--html", "x.html"), "needs references")
    # A metric that nothing is tuned for, nor decided by, has no use there.
    unused = "--metric wer, cer: the lists have no references, so nothing is measured"
    assert unused in rescore("n.json", "--metric", "wer", "--metric", "cer").stderr
    risk = rescore("n.json", "--metric", "cer", "--decide", "mbr", "--scale", "1")
    assert risk.returncode == 0 and "not measured" not in risk.stderr


def test_hyporadise_is_told_where_it_is_wrong(rescore: Run, tmp_path: Path) -> None:
    write_json(tmp_path / "h.json", [{"input": ["a", "b"], "score": [1.0]}])
    assert_one_line_error(
        rescore("convert", "h.json"), "entry 1: 1 score for 2 hypotheses"
    )
    write_json(tmp_path / "h.json", [{"input": ["a", 7]}])
    assert_one_line_error(
        rescore("convert", "h.json"), "entry 1, input 2: expected a text"
    )


@pytest.mark.parametrize(
    ("name", "first_pass", "oracle"),
    [
        ("train_atis", 7.66, 5.06),
        ("test_atis", 8.40, 5.31),
        ("test_wsj_score", 6.03, 4.56),
        ("test_chime4", 12.69, 9.94),
    ],
)
def test_figures_of_hyporadise(
    rescore: Run, tmp_path: Path, name: str, first_pass: float, oracle: float
) -> None:
    done = rescore(shared(f"hyporadise/{name}.json"), "--report", "r.json")
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r.json")
    assert (round(report["first_pass"], 2), round(report["oracle"], 2)) == (
        first_pass,
        oracle,
    )


def test_what_a_first_try_gets_wrong_is_named(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lm = ("--lm", "ngram:lm.arpa")
    assert_one_line_error(
        rescore("absent.json", *lm), "absent.json: no such file or folder"
    )
    assert_one_line_error(
        rescore(LISTS, *lm),
        "lm.arpa: no recommended_weight",
        "give --dev LISTS or --weight NUMBER",
    )
    single = [
        {"id": name, "ref": "a", "hyps": [{"text": f"{name} foo", "score": -1}]}
        for name in "uv"
    ]
    (tmp_path / "one.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in single), encoding="utf-8"
    )
    done = rescore("one.jsonl", *lm, "--dev", "one.jsonl")
    assert done.returncode == 0 and "every list has only one hypothesis" in done.stderr
    # one file, told once
    assert done.stderr.count("tokens are unknown to the model; check its language") == 1
    (tmp_path / "dev.jsonl").write_text(
        (tmp_path / "one.jsonl").read_text(), encoding="utf-8"
    )
    told = rescore("one.jsonl", *lm, "--dev", "dev.jsonl").stderr
    assert (
        "\nrescore: one.jsonl: ngram: 4 of" in told
        and "\nrescore: dev.jsonl: ngram: 4 of" in told
    )
    assert "rescore: one.jsonl: every list has only one hypothesis" in told
    assert "weights: the first pass alone\n" in rescore("one.jsonl").stdout
