"""Signatures: what is printed is read again; and one experiment has one signature,
however it was made.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescore
from rescore.columns import Column
from rescore.errors import UserError
from rescore.reports.check import differences
from rescore.signature import Signature, parse
from tests.cli.test_recipe import make
from tests.conftest import ROOT, Run, assert_one_line_error, write_json
from tests.lms.test_ngram import ARPA

NAMES = st.text(min_size=1, max_size=12)
NUMBERS = st.floats(-100, 100).map(lambda value: float(f"{value:.5g}"))
COLUMNS = st.builds(
    Column, NAMES, st.from_regex(r"[0-9a-f]{12}", fullmatch=True), NAMES, NAMES
)


@given(
    st.builds(
        Signature,
        metric=NAMES,
        settings=st.dictionaries(st.sampled_from(["case", "tok", "comet"]), NAMES),
        weights=st.dictionaries(NAMES, NUMBERS),
        columns=st.dictionaries(NAMES, COLUMNS),
        excluded=st.lists(NAMES).map(tuple),
        decision=st.sampled_from(["best", "mbr"]),
        tuned=st.none() | NAMES,
        test=st.none() | NAMES,
        versions=st.just(
            {
                "rescore": "1.0",
                "sacrebleu": "2.5.1",
                "unbabel-comet": "2.2.7",
                "comet": "3",
            }
        ),
    )
)
def test_what_is_printed_is_read_again(signature: Signature) -> None:
    line = str(signature)
    assert line.isprintable() and parse(line) == signature
    assert differences(signature, signature) == {}


def test_differences_are_by_field() -> None:
    one = Signature(
        "WER", {"case": "lc"}, {"s2s": 0.5, "tta": 0.5}, tuned="10@aaaaaaaa"
    )
    other = Signature(
        "WER", {"case": "mixed"}, {"s2s": 0.4, "tta": 0.6}, tuned="10@aaaaaaaa"
    )
    assert differences(one, other) == {
        "settings": ("case lc", "case mixed"),
        "weights": ("s2s 0.5, tta 0.5", "s2s 0.4, tta 0.6"),
    }


@pytest.mark.parametrize("line", ["", "WER|case", "WER|w:s2s=x", "WER|lm:tta=tta@12"])
def test_what_is_no_signature(line: str) -> None:
    with pytest.raises(UserError, match="signature"):
        parse(line)


def test_one_experiment_has_one_signature(rescore: Run, tmp_path: Path) -> None:
    """`run`, the stages, the recipe and Python: byte for byte; and a golden file of one
    passes the check of another.
    """
    import rescore as package

    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    for name in ("dev", "test"):
        table = json.loads((ROOT / "data" / f"{name}.json").read_text(encoding="utf-8"))
        write_json(tmp_path / f"{name}.json", dict(list(table.items())[:40]))
    lm = ("--lm", "ngram:lm.arpa")
    done = rescore(
        "test.json",
        *lm,
        "--dev",
        "dev.json",
        "--report",
        "run.json",
        "--cache",
        "cache",
    )
    assert done.returncode == 0, done.stderr
    for name in ("dev", "test"):
        assert (
            rescore("score", f"{name}.json", *lm, "-o", f"{name}.jsonl").returncode == 0
        )
    assert rescore("tune", "dev.jsonl", "-o", "w.json").returncode == 0
    assert (
        rescore(
            "rerank", "test.jsonl", "--weights", "w.json", "--report", "staged.json"
        ).returncode
        == 0
    )
    lines = [
        "DEV := dev.json",
        "TEST := test.json",
        "LM := ngram:lm.arpa",
        "include $(shell rescore recipe)",
    ]
    (tmp_path / "Makefile").write_text("\n".join(lines), encoding="utf-8")
    made: subprocess.CompletedProcess[str] = make(tmp_path)
    assert made.returncode == 0, made.stderr
    dev, test = (
        package.score(package.read(f"{name}.json"), "ngram:lm.arpa")
        for name in ("dev", "test")
    )
    by_python = package.evaluate(test, package.tune(dev))
    run = json.loads((tmp_path / "run.json").read_text())
    for other in ("staged.json", "rescored/test.results.json"):
        assert (
            json.loads((tmp_path / other).read_text())["signature"] == run["signature"]
        )
        assert (
            rescore(
                "check", other, "--golden", "run.json", "--tolerance", "0"
            ).returncode
            == 0
        )
    assert by_python.signature == run["signature"]
    assert "|lm:ngram=ngram@" in run["signature"] and "|tuned:40@" in run["signature"]


def test_a_fingerprint_is_of_content(
    rescore: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    """Neither the place among several models nor a cache changes it."""
    write_json(
        tmp_path / "l.json", {"u": {"hyp_1": {"score": -1, "text": "the old clock"}}}
    )
    lms = [f"{kind}:{models[kind]}" for kind in ("tta", "unilm")]

    def columns(*arguments: str) -> dict[str, object]:
        done = rescore("score", "l.json", *arguments)
        return json.loads(done.stdout.splitlines()[0])["columns"]

    both = columns("--lm", lms[0], "--lm", lms[1])
    assert columns("--lm", lms[1], "--lm", lms[0]) == both
    assert columns("--lm", lms[1], "--lm", lms[0], "--cache", "c") == both
    assert columns("--lm", lms[0])["tta"] == both["tta"] != both["unilm"]


def test_columns_of_two_models_are_not_mixed(
    rescore: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    write_json(
        tmp_path / "a.json",
        {"u": {"ref": "the", "hyp_1": {"score": -1, "text": "the old clock"}}},
    )
    write_json(
        tmp_path / "b.json",
        {"v": {"ref": "the", "hyp_1": {"score": -1, "text": "the old clock"}}},
    )
    assert (
        rescore(
            "score", "a.json", "--lm", f"tta:{models['tta']}", "-o", "a.jsonl"
        ).returncode
        == 0
    )
    assert rescore("score", "b.json", "--lm", "tta", "-o", "b.jsonl").returncode == 0
    assert_one_line_error(
        rescore("tune", "a.jsonl", "b.jsonl"), "utterance v: column tta comes from tta@"
    )
    done = rescore("convert", "a.jsonl", "b.jsonl")
    assert (
        done.returncode == 2
        and "utterance v: column tta comes from another model" in done.stderr
    )


def test_lists_of_other_tools_have_no_record(rescore: Run, tmp_path: Path) -> None:
    hypotheses = {
        f"hyp_{rank}": {"score": -rank, "text": "a", "scores": {"lm": -1}}
        for rank in (1, 2)
    }
    write_json(
        tmp_path / "l.json",
        {"columns": {"ref": "a", **hypotheses}, "u": {"ref": "b", **hypotheses}},
    )
    lists = rescore_read(tmp_path / "l.json")
    assert [nbest.id for nbest in lists] == ["columns", "u"] and not lists[
        0
    ].header.records
    assert rescore("tune", "l.json", "-o", "w.json").returncode == 0
    done = rescore("rerank", "l.json", "--weights", "w.json", "--report", "r.json")
    assert (
        done.returncode == 0
        and "|lm:" not in json.loads((tmp_path / "r.json").read_text())["signature"]
    )


def rescore_read(path: Path) -> list[rescore.NbestList]:
    return rescore.read(path)


def test_every_figure_is_signed(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    hypotheses = {
        "hyp_1": {"score": -1, "text": "the owl"},
        "hyp_2": {"score": -2, "text": "the old"},
    }
    write_json(
        tmp_path / "l.json",
        {f"u{index}": {"ref": "the old", **hypotheses} for index in range(3)},
    )
    (tmp_path / "text").write_text("the old clock\n", encoding="utf-8")
    lm = ("--lm", "ngram:lm.arpa")
    rescore("score", "l.json", *lm, "-o", "s.jsonl")
    tuned = rescore("tune", "s.jsonl", "-o", "w.json")
    for line in (
        tuned.stderr.splitlines()[-1],
        rescore("analyse", "s.jsonl", "--weights", "w.json").stdout.splitlines()[-1],
        rescore("score", "--text", "text", *lm).stdout.splitlines()[-1],
        rescore("eval", "l.json").stdout.splitlines()[-1],
    ):
        assert parse(line).versions["rescore"]
    rescore(
        "rerank",
        "s.jsonl",
        "--weights",
        "w.json",
        "--report",
        "r.json",
        "--dataset",
        "set",
    )
    assert (
        f"- set, ngram: `{json.loads((tmp_path / 'r.json').read_text())['signature']}`"
        in rescore("report", "r.json", "--style", "markdown").stdout
    )
