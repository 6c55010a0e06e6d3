"""Warnings that save a day."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run
from tests.lms.test_ngram import ARPA

LISTS = ROOT / "data" / "test.json"


def test_another_language(rescore: Run, tmp_path: Path) -> None:
    line = (
        '{"id": "%s", "hyps": [{"text": "\u0c95 \u0c96", "score": -1}, {"text": "\u0c97'
        ' \u0c98", "score": -2}]}\n'
    )
    (tmp_path / "l.jsonl").write_text(line % "u" + line % "v", encoding="utf-8")
    told = rescore("score", "l.jsonl", "--lm", "tta").stderr
    assert (
        "tta: 8 of 8 tokens are unknown to the model; check its language, script and"
        " case" in told
    )
    assert "all hypotheses of a list have the same score, in each of 2 lists" in told


@pytest.mark.parametrize("model", ["tta", "unilm"])
def test_a_language_in_the_same_letters(
    rescore: Run, tmp_path: Path, model: str
) -> None:
    """Its words fall into many tokens, of which none is unknown; short English lists do
    not look foreign.
    """
    malay = [
        "saya tidak tahu kenapa mereka",
        "kerajaan telah mengumumkan peruntukan tambahan",
    ]
    english = ["yes", "no", "i do not know", "the old house by the river"]
    for name, texts in (("malay", malay), ("english", english)):
        row = {"hyps": [{"text": text, "score": -1.0} for text in texts]}
        lines = [json.dumps({"id": f"u{number}", **row}) + "\n" for number in range(5)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    told = rescore("score", "malay.jsonl", "--lm", model, "-o", "m.jsonl").stderr
    found = re.search(
        r": a word has (\S+) tokens \(1.2 in its training text\), and \d+ of .* unknown"
        r" to the model; check",
        told,
    )
    assert found and 1.9 < float(found[1]) < 5
    assert (
        "training text"
        not in rescore("score", "english.jsonl", "--lm", model, "-o", "e.jsonl").stderr
    )


def test_the_same_model_twice(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lm = ("--lm", "ngram:lm.arpa")
    assert (
        "--lm ngram:lm.arpa is given 2 times"
        in rescore("score", LISTS, *lm, *lm).stderr
    )
    assert "given" not in rescore("score", LISTS, *lm).stderr


def test_scales_of_dev_and_test(rescore: Run, tmp_path: Path) -> None:
    line = (
        '{"id": "%s", "ref": "a", "hyps": [{"text": "a", "score": %f}, {"text": "b",'
        ' "score": %f}]}\n'
    )
    (tmp_path / "dev.jsonl").write_text(line % ("u", -10, -20), encoding="utf-8")
    (tmp_path / "test.jsonl").write_text(line % ("v", -1, -2), encoding="utf-8")
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    told = rescore("test.jsonl", "--dev", "dev.jsonl", "--lm", "ngram:lm.arpa").stderr
    assert "differ by 10 in the dev lists but by 1 in the test lists" in told
    (tmp_path / "test.jsonl").write_text(line % ("v", -4, -8), encoding="utf-8")
    assert (
        "differ by"
        not in rescore(
            "test.jsonl", "--dev", "dev.jsonl", "--lm", "ngram:lm.arpa"
        ).stderr
    )


def test_few_unknown_tokens_are_not_told(rescore: Run, tmp_path: Path) -> None:
    """One in a hundred at most."""
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    for unknown in (3, 6):
        text = " ".join(["the"] * (300 - unknown) + ["unheard"] * unknown)
        (tmp_path / "l.jsonl").write_text(
            json.dumps({"id": "u", "hyps": [{"text": text, "score": 0}]}) + "\n"
        )
        told = rescore("score", "l.jsonl", "--lm", "ngram:lm.arpa").stderr
        assert ("tokens are unknown to the model" in told) is (unknown == 6), told
