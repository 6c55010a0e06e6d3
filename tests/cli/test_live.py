"""Live pipes: a list is answered when it has come, while the input is still open; and many at once come together."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from rescore.formats.source import LiveInput
from rescore.lms.context import WithNeighbours
from rescore.nbest import Hypothesis, NbestList
from rescore.scoring import windows
from tests.lms.test_ngram import ARPA

WAIT = 60.0


def line(name: str) -> bytes:
    hyps = [{"text": "the owl", "score": -1.0}, {"text": "the old", "score": -1.1}]
    return json.dumps({"id": name, "hyps": hyps}).encode() + b"\n"


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "rescore", *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        bufsize=0,
    )


def answer(process: subprocess.Popen[bytes]) -> list[str]:
    """The ids of the lists (or lines of text) that come next, until one has come whole."""
    assert process.stdout is not None
    said = b""
    while not said.endswith(b"\n"):
        assert select.select([process.stdout], [], [], WAIT)[0], "no answer while the input is open"
        said += os.read(process.stdout.fileno(), 1 << 16)
    return [json.loads(one)["id"] for one in said.splitlines()]


@pytest.mark.parametrize("command", [("rerank", "-", "-o", "-"), ("score", "-", "--lm", "ngram:lm.arpa", "-o", "-")])
def test_a_list_is_answered_while_the_input_is_open(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    with start(tmp_path, *command) as process:
        assert process.stdin is not None
        for name in ("u1", "u2"):
            process.stdin.write(line(name))
            assert answer(process) == [name]
        process.stdin.write(line("u3") + line("u4"))
        ids = answer(process)
        ids += answer(process) if len(ids) == 1 else []
        assert ids == ["u3", "u4"]
        process.stdin.close()
        assert process.wait(WAIT) == 0


def test_a_text_is_answered_while_the_input_is_open(tmp_path: Path) -> None:
    with start(tmp_path, "rerank", "-") as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line("u1"))
        assert select.select([process.stdout], [], [], WAIT)[0]
        assert os.read(process.stdout.fileno(), 1 << 16) == b"u1 the owl\n"
        process.stdin.close()
        assert process.wait(WAIT) == 0


def test_what_has_come_is_scored_together() -> None:
    """Ten lines that are there at once are one window, though the pipe is empty behind them; the next is another."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as raw:
        live = LiveInput(raw)
        os.write(writer, line("u") * 10)
        assert live.read1(1 << 16).count(b"\n") == 10

        def lists() -> object:
            for number in range(12):
                if number == 10:
                    os.write(writer, line("u") * 2)
                    assert live.read1(1 << 16)
                live.take_line()
                yield WithNeighbours(NbestList(str(number), [Hypothesis("a")]))

        assert [len(window) for window in windows(lists(), live.waits)] == [10, 2]  # type: ignore[arg-type]
        os.close(writer)
        assert not live.waits()  # at the end nothing more can come
