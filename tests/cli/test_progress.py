"""Bars at a terminal, and messages: once, and not again at each step."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from rescore.formats import read
from rescore.lms import ComputeOptions, load
from rescore.lms.cache import Cached
from rescore.lms.context import in_place
from rescore.scoring import score_windows, windows
from tests.conftest import ROOT, Run

LISTS = ROOT / "data" / "test.json"
TWICE = {"id": "u", "ref": "a b", "hyps": [{"text": "a b"}, {"text": "a"}, {"text": "a"}]}


def at_a_terminal(command: Sequence[str], folder: Path) -> str:
    """What a command writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "rescore", *command], cwd=folder, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # of a terminal that nobody writes to any more
            while part := os.read(ours, 65536):
                written += part
    os.close(ours)
    assert process.returncode == 0, written.decode()
    return written.decode()


def test_messages_appear_once_and_the_bar_moves(model: Path, tmp_path: Path) -> None:
    lists = [{**TWICE, "id": str(number)} for number in range(50)]
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(line) + "\r\n" for line in lists), encoding="utf-8")
    command = ["score", "lists.jsonl", "--lm", f"tta:{model}", "--batch-tokens", "20", "-o", "scored.jsonl", "-v"]
    shown = at_a_terminal(command, tmp_path)
    for message in ("end in a carriage return", "have no scores", "have a hypothesis twice"):
        assert shown.count(message) == 1, shown
    assert re.search(r": 0hyp \[", shown), shown


@pytest.mark.parametrize("cached", [False, True])
def test_a_window_reports_while_it_is_scored(models: dict[str, Path], tmp_path: Path, cached: bool) -> None:
    lists = read([LISTS])[:20]
    lm = load(f"bilm:{models['bilm']}", ComputeOptions(batch_tokens=2000))
    lm = Cached(lm, tmp_path) if cached else lm
    steps: list[int] = []
    ((placed, _), *_) = next(score_windows(lm, windows(in_place([lm], lists)), steps.append))
    number = sum(len(nbest.hypotheses) for nbest in lists)
    assert placed.nbest == lists[0] and sum(steps) == number and len(steps) > 3 and max(steps) < number


def test_steps_do_not_repeat_what_the_first_has_reported(rescore: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "lists.jsonl").write_text(json.dumps(TWICE) + "\n", encoding="utf-8")
    first = rescore("score", "lists.jsonl", "--lm", f"tta:{model}", "-o", "scored.jsonl", "-v")
    assert "1 list has a hypothesis twice" in first.stderr
    again = rescore("rerank", "scored.jsonl", "-o", "reranked.jsonl")
    assert again.returncode == 0 and again.stderr == ""
    for command in (["rerank", "scored.jsonl"], ["rerank", "scored.jsonl", "--report", "r.json"]):
        assert (
            "a text twice with different scores (first: u); mbr counts both"
            in rescore(*command, "--decide", "mbr").stderr
        )
    assert rescore("rerank", "scored.jsonl", "--strict").returncode == 2
