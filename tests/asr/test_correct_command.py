"""`rescore correct`: formats, explanations and errors."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import Run, assert_one_line_error


def test_the_format_stays(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("Goldman Sachs\n", encoding="utf-8")
    (tmp_path / "talk.trn").write_text(
        "ask gold man sacks (a-1)\nthanks (a-2)\n", encoding="utf-8"
    )
    done = rescore(
        "correct", "talk.trn", "--words", "terms.txt", "--explain", "why.txt"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ask Goldman Sachs (a-1)\nthanks (a-2)\n"
    heard = (tmp_path / "why.txt").read_text(encoding="utf-8").split("\t")
    assert (
        heard[:3] == ["a-1", "gold man sacks", "Goldman Sachs"]
        and 0.5 < float(heard[3]) < 1
    )
    (tmp_path / "plain.txt").write_text("the sun is out\n", encoding="utf-8")
    nothing = ("correct", "plain.txt", "--words", "terms.txt", "--explain", "-")
    for threshold in (None, 1.0, 0.3, 0.25, 0.01):
        more = () if threshold is None else ("--threshold", str(threshold))
        done_nothing = rescore(*nothing, *more)
        assert done_nothing.stdout == "the sun is out\n"
        advice = re.fullmatch(
            r"rescore: nothing to correct; a lower --threshold \(such as (.*)\)"
            r" corrects more\n",
            done_nothing.stderr,
        )
        assert advice and 0 < float(advice[1]) < (threshold or 0.62)
    lowest = rescore(*nothing, "--threshold", "0")
    assert lowest.stderr == "rescore: nothing to correct\n"
    shown = rescore("correct", "talk.trn", "--words", "terms.txt", "--explain", "-")
    assert shown.stdout == done.stdout and shown.stderr == (
        tmp_path / "why.txt"
    ).read_text(encoding="utf-8")


def test_case_alone_is_an_option(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("Goldman Sachs\n", encoding="utf-8")
    (tmp_path / "talk.txt").write_text("ask goldman sachs\n", encoding="utf-8")
    done = rescore("correct", "talk.txt", "--words", "terms.txt", "--explain", "-")
    assert (done.stdout, done.stderr) == (
        "ask Goldman Sachs\n",
        "1\tgoldman sachs\tGoldman Sachs\t0.881\n",
    )
    assert (
        rescore("correct", "talk.txt", "--words", "terms.txt", "--no-case").stdout
        == "ask goldman sachs\n"
    )


def test_eval_prints_the_terms(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("goldman sachs\n", encoding="utf-8")
    (tmp_path / "a.trn").write_text(
        "ask gold man sacks (a-1)\nask goldman sachs (a-2)\n", encoding="utf-8"
    )
    (tmp_path / "ref.trn").write_text(
        "ask goldman sachs (a-1)\nask goldman sachs (a-2)\n", encoding="utf-8"
    )
    done = rescore("eval", "a.trn", "--ref", "ref.trn", "--words", "terms.txt")
    assert done.returncode == 0, done.stderr
    assert all(
        name in done.stdout
        for name in ("WER", "BWER", "UWER", "recall", "precision", "F1")
    )
    assert "50.0" in done.stdout and "100.0" in done.stdout


def test_errors(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("Goldman Sachs\thigh\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("a\n", encoding="utf-8")
    assert_one_line_error(
        rescore("correct", "a.txt", "--words", "terms.txt"),
        "terms.txt: line 1: has a tab",
    )
    assert_one_line_error(
        rescore("correct", "a.txt", "--words", "none.txt"), "none.txt"
    )


def test_several_texts_and_folders(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("Goldman Sachs\n", encoding="utf-8")
    (tmp_path / "talks").mkdir()
    for name in ("talks/a.trn", "talks/b.trn", "c.trn"):
        (tmp_path / name).write_text(
            f"ask gold man sacks ({Path(name).stem}-1)\n", encoding="utf-8"
        )
    corrected = ("--words", "terms.txt", "-o")
    done = rescore(
        "correct", "talks", "c.trn", *corrected, "new", "--explain", "why.txt"
    )
    assert done.returncode == 0, done.stderr
    for name in ("a", "b", "c"):
        assert (
            tmp_path / "new" / f"{name}.trn"
        ).read_text() == f"ask Goldman Sachs ({name}-1)\n"
    assert len((tmp_path / "why.txt").read_text().splitlines()) == 3
    for texts, output in ((["talks"], "-"), (["talks/a.trn", "c.trn"], "talks")):
        assert_one_line_error(
            rescore("correct", *texts, *corrected, output),
            "several texts need -o FOLDER",
        )
    assert_one_line_error(
        rescore("correct", "talks", *corrected, "talks"), "would write over talks"
    )
