"""`rescore correct`: formats, pipes, explanations and errors."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

from tests.conftest import Run, assert_one_line_error

WAIT = 60.0


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "rescore", *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        bufsize=0,
    )


def test_the_format_stays(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("Goldman Sachs\n", encoding="utf-8")
    (tmp_path / "talk.trn").write_text("ask gold man sacks (a-1)\nthanks (a-2)\n", encoding="utf-8")
    done = rescore("correct", "talk.trn", "--words", "terms.txt", "--explain", "why.txt")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ask Goldman Sachs (a-1)\nthanks (a-2)\n"
    heard = (tmp_path / "why.txt").read_text(encoding="utf-8").split("\t")
    assert heard[:3] == ["a-1", "gold man sacks", "Goldman Sachs"] and 0.5 < float(heard[3]) < 1
    shown = rescore("correct", "talk.trn", "--words", "terms.txt", "--explain", "-")
    assert shown.stdout == done.stdout and shown.stderr == (tmp_path / "why.txt").read_text(encoding="utf-8")


def test_a_line_of_a_pipe_is_answered_when_it_comes(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("Goldman Sachs\n", encoding="utf-8")
    with start(tmp_path, "correct", "-", "--words", "terms.txt") as process:
        assert process.stdin is not None and process.stdout is not None
        for heard, said in ((b"ask gold man sacks\n", b"ask Goldman Sachs\n"), (b"thanks\n", b"thanks\n")):
            process.stdin.write(heard)
            assert select.select([process.stdout], [], [], WAIT)[0], "no answer while the input is open"
            assert os.read(process.stdout.fileno(), 1 << 16) == said
        process.stdin.close()


def test_eval_prints_the_terms(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("goldman sachs\n", encoding="utf-8")
    (tmp_path / "a.trn").write_text("ask gold man sacks (a-1)\nask goldman sachs (a-2)\n", encoding="utf-8")
    (tmp_path / "ref.trn").write_text("ask goldman sachs (a-1)\nask goldman sachs (a-2)\n", encoding="utf-8")
    done = rescore("eval", "a.trn", "--ref", "ref.trn", "--words", "terms.txt")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in ("WER", "BWER", "UWER", "recall", "precision", "F1"))
    assert "50.0" in done.stdout and "100.0" in done.stdout


def test_errors(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("Goldman Sachs\thigh\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("a\n", encoding="utf-8")
    assert_one_line_error(rescore("correct", "a.txt", "--words", "terms.txt"), "the weight 'high' is not a number")
    assert_one_line_error(rescore("correct", "a.txt", "--words", "none.txt"), "none.txt")
    assert_one_line_error(rescore("correct", "a.txt", "--words", "a.txt", "--dev", "a.txt"), "belong together")
