"""Outputs side by side: tests of significance, by utterance and by speaker, and what counts as a word."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Run, assert_one_line_error
from tests.metrics.test_significance import systems


def write(folder: Path) -> None:
    for name, texts in zip(("ref", "one", "two"), systems(0), strict=True):
        lines = [f"{text} (s{index % 8}-{index:03d})\n" for index, text in enumerate(texts)]
        (folder / f"{name}.trn").write_text("".join(lines), encoding="utf-8")


def test_eval_with_every_test(rescore: Run, tmp_path: Path) -> None:
    write(tmp_path)
    p_values = {}
    for name, options in {
        "randomisation": [],
        "bootstrap": ["--test", "bootstrap"],
        "mapsswe": ["--test", "mapsswe"],
        "by speaker": ["--by-speaker"],
    }.items():
        done = rescore("eval", "one.trn", "two.trn", "--ref", "ref.trn", "--report", "r.json", *options)
        assert done.returncode == 0, done.stderr
        first, second = json.loads((tmp_path / "r.json").read_text())["systems"]
        assert first["low"] < first["value"] < first["high"] and first["p_value"] is None
        p_values[name] = second["p_value"]
        assert f"p:{name.split()[0].replace('by', 'randomisation')}" in done.stdout and "95 % CI" in done.stdout
    assert all(0 < p < 0.5 for p in p_values.values()) and len(set(p_values.values())) == 4


def test_tests_that_do_not_apply(rescore: Run, tmp_path: Path) -> None:
    write(tmp_path)
    both = ["eval", "one.trn", "two.trn", "--ref", "ref.trn"]
    assert_one_line_error(rescore(*both, "--metric", "chrf", "--test", "mapsswe"), "does not apply to chrF")
    assert_one_line_error(rescore(*both, "--speaker", "x(.)"), "--speaker x(.) does not match it")


def test_what_counts_as_a_word_can_be_said(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "ref.trn").write_text("It's a well-known fact (a-1)\n", encoding="utf-8")
    (tmp_path / "hyp.trn").write_text("its a well known fact, <unk> (a-1)\n", encoding="utf-8")
    (tmp_path / "en.glm").write_text("its => it's / [ ] __ [ ]\n", encoding="utf-8")

    def errors(*options: str) -> int:
        done = rescore("eval", "hyp.trn", "--ref", "ref.trn", "--report", "-", *options)
        assert done.returncode == 0, done.stderr
        counts = json.loads(done.stdout)["systems"][0]["counts"]
        return counts["substitutions"] + counts["deletions"] + counts["insertions"]

    assert errors() == 5
    assert errors("--split-hyphens") == 3
    assert errors("--split-hyphens", "--drop-unknown", "--drop-punctuation") == 1
    assert errors("--split-hyphens", "--drop-unknown", "--drop-punctuation", "--drop-apostrophes") == 0
    assert errors("--split-hyphens", "--drop-unknown", "--drop-punctuation", "--glm", "en.glm") == 0
    assert errors("--case-sensitive") == 5
    assert_one_line_error(rescore("eval", "hyp.trn", "--ref", "ref.trn", "--glm", "no.glm"), "no.glm: cannot be read")
