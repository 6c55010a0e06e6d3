"""Bars at a terminal, and messages: once, and not again at each step."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import pty
import re
import select
import struct
import sys
import termios
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from rescore import pipeline
from rescore.asr.recombine import Recombining
from rescore.cli.progress import LogProgress, progress_bar, scoring_progress
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.formats import read
from rescore.lms import ComputeOptions, load
from rescore.lms.cache import Cached
from rescore.lms.context import with_needed_neighbours
from rescore.metrics.folds import split
from rescore.metrics.mt import Ter
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.pace import paced
from rescore.scoring import score_windows, windows_of_lists
from rescore.tuning import TuningOptions, tune_weights, tuned_in_folds
from tests.conftest import ROOT, Run
from tests.processes import start, until

LISTS = ROOT / "data" / "test.json"


@dataclass
class Clock:
    """Stands for the module `time` in rescore.pace alone: other threads of this
    process ask the module for the time, too.
    """

    monotonic: Callable[[], float]


@pytest.fixture(autouse=True)
def no_pace() -> None:
    """Here, messages of slow loops appear."""


TWICE: dict[str, Any] = {
    "id": "u",
    "ref": "a b",
    "hyps": [{"text": "a b"}, {"text": "a"}, {"text": "a"}],
}


def test_slow_decisions_say_how_far_they_are(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision by the best score is quick, and says nothing."""
    clock = count(0.0, 1.5)
    monkeypatch.setattr("rescore.pace.time", Clock(lambda: next(clock)))
    lists = read([str(LISTS)])
    for decision, said in (("mbr", True), ("rover", True), ("best", False)):
        with caplog.at_level("INFO"):
            pipeline.run(lists, RunConfig(decide=decision, scale=1.0 if said else None))
        assert (
            any(
                re.match(r"decided \d+ of 116 lists, about", line)
                for line in caplog.messages
            )
            is said
        )
        caplog.clear()


def at_a_terminal(command: Sequence[str], folder: Path) -> str:
    """What a command writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = start(command, folder, Path(os.ttyname(theirs)))
    written = bytearray()

    def read() -> None:
        while select.select([ours], [], [], 0)[0]:
            written.extend(os.read(ours, 65536))

    until(read, process)
    read()
    os.close(theirs)
    os.close(ours)
    assert process.exitcode == 0, written.decode()
    return written.decode()


def test_messages_appear_once_and_the_bar_moves(model: Path, tmp_path: Path) -> None:
    lists = [{**TWICE, "id": str(number)} for number in range(50)]
    (tmp_path / "lists.jsonl").write_text(
        "".join(json.dumps(line) + "\r\n" for line in lists), encoding="utf-8"
    )
    command = [
        "score",
        "lists.jsonl",
        "--lm",
        f"tta:{model}",
        "--batch-tokens",
        "20",
        "-o",
        "scored.jsonl",
        "-v",
    ]
    shown = at_a_terminal(command, tmp_path)
    for message in (
        "end in a carriage return",
        "have no scores",
        "have a hypothesis twice",
    ):
        assert shown.count(message) == 1, shown
    assert re.search(r": 0hyp \[", shown), shown


@pytest.mark.parametrize("cached", [False, True])
def test_a_window_reports_while_it_is_scored(
    models: dict[str, Path], tmp_path: Path, cached: bool
) -> None:
    lists = read([LISTS])[:20]
    lm = load(f"bilm:{models['bilm']}", ComputeOptions(batch_tokens=2000))
    lm = Cached(lm, tmp_path) if cached else lm
    steps: list[int] = []
    (placed, _), *_ = next(
        score_windows(
            lm, windows_of_lists(with_needed_neighbours([lm], lists)), steps.append
        )
    )
    number = sum(len(nbest.hypotheses) for nbest in lists)
    assert (
        placed.nbest == lists[0]
        and sum(steps) == number
        and len(steps) > 3
        and max(steps) < number
    )


def test_steps_do_not_repeat_what_the_first_has_reported(
    rescore: Run, model: Path, tmp_path: Path
) -> None:
    hyps = [{**hyp, "score": -place} for place, hyp in enumerate(TWICE["hyps"], 1)]
    text = json.dumps({**TWICE, "hyps": hyps})
    (tmp_path / "lists.jsonl").write_text(text + "\n", encoding="utf-8")
    first = rescore(
        "score", "lists.jsonl", "--lm", f"tta:{model}", "-o", "scored.jsonl", "-v"
    )
    assert "1 list has a hypothesis twice" in first.stderr
    again = rescore("rerank", "scored.jsonl", "-o", "reranked.jsonl")
    assert again.returncode == 0 and again.stderr == ""
    for command in (
        ["rerank", "scored.jsonl"],
        ["rerank", "scored.jsonl", "--report", "r.json"],
    ):
        assert (
            "scored.jsonl: lists contain equal texts with different"
            " scores (first: utterance u); mbr"
            " adds their probabilities"
            in rescore(*command, "--decide", "mbr", "--scale", "1").stderr
        )
    assert rescore("rerank", "scored.jsonl", "--strict").returncode == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_the_time_before_the_first_hypotheses_does_not_count(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that takes 100 s to load and then scores 10 hypotheses a second."""
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    bar = progress_bar(1000, "score")
    bar._time = lambda: clock[0]  # tqdm's own clock
    clock[0] += 100.0
    for _ in range(2):
        bar.update(100)
        clock[0] += 10.0
    elapsed = (
        bar.format_dict["elapsed"] if isinstance(bar, tqdm) else clock[0] - bar._began
    )
    assert elapsed == pytest.approx(20.0)


SPEEDS = {
    "equal": (10.0, 10.0),
    "slow last": (100.0, 5.0),
    "slow first": (5.0, 100.0),
    "three": (50.0, 2.0, 500.0),
}
"""Hypotheses a second of each model."""


@pytest.mark.parametrize("windows", [1, 4])
@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("case", SPEEDS)
def test_the_time_to_go_of_several_models_never_grows(
    case: str, terminal: bool, windows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: each time that is printed is the time that the models still need, for all
    speeds and for all windows in which lists are scored.
    """
    speeds = SPEEDS[case]
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(LogProgress, "EVERY", 1e-6)
    lines: list[str] = []
    monkeypatch.setattr(
        "rescore.cli.progress.log.info", lambda form, line: lines.append(line)
    )
    lists = [NbestList("u", [Hypothesis("a")] * 1200)]
    specs = tuple(f"ngram:{number}" for number in range(len(speeds)))
    whole = sum(1200 / speed for speed in speeds)
    end = clock[0] + whole
    told = []
    with scoring_progress(RunConfig(lms=specs), lists) as progress:
        bar = progress._bar
        for _ in range(windows):
            for number, speed in enumerate(speeds):
                update = progress.of_model(str(number))
                for _ in range(20):
                    step = 1200 // windows // 20
                    clock[0] += step / speed
                    update(step)
                    left = progress._models.left
                    if left is not None:
                        told.append((left, end - clock[0]))
                    if isinstance(bar, tqdm) and left:
                        shown = bar.format_dict
                        rest = (shown["total"] - shown["n"]) / shown["rate"]
                        assert rest == pytest.approx(left)
    assert told
    for left, true in told:
        assert left == pytest.approx(true, abs=1e-6)
    if not terminal:
        assert "to go" not in lines[0] and "to go" in lines[-1]


def test_recombination_says_how_much_it_adds(caplog: pytest.LogCaptureFixture) -> None:
    hypotheses = [
        Hypothesis(text, {"s2s": -score})
        for score, text in enumerate(("a b c", "a x c", "y b c"))
    ]
    with caplog.at_level("INFO"):
        list(Recombining(20)([NbestList("u", hypotheses)]))
    assert caplog.messages == ["--recombine 20 adds 1 hypotheses to 3"]


def test_folds_say_how_far_they_are(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=30)
    monkeypatch.setattr("rescore.pace.time", Clock(lambda: float(next(seconds))))
    lists = read([LISTS])[:20]
    with caplog.at_level("INFO"):
        tuned_in_folds(
            split(lists, 4),
            ErrorRate(),
            Dataset.of(lists),
            [],
            TuningOptions(),
        )
    assert [message for message in caplog.messages if "folds" in message] == [
        f"tuned {fold} of 4 folds, about {30 * (4 - fold)} s to go"
        for fold in (1, 2, 3)
    ]


def test_loops_say_how_far_they_are_after_two_seconds_and_then_every_ten(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("rescore.pace.time.monotonic", lambda: clock[0])
    with caplog.at_level("INFO"):
        for _ in paced(range(30), "joined %d of %d"):
            clock[0] += 1.0
        for _ in paced(range(2), "quick %d of %d"):
            clock[0] += 0.9
    assert caplog.messages == [
        f"joined {done} of 30, about {30 - done} s to go" for done in (3, 14, 25)
    ]


def test_only_the_outer_loop_speaks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=30)
    monkeypatch.setattr("rescore.pace.time", Clock(lambda: float(next(seconds))))
    with caplog.at_level("INFO", logger="rescore"):
        for _ in paced(range(3), "outer %d of %d"):
            assert list(paced(range(3), "inner %d of %d")) == [0, 1, 2]
        list(paced(range(2), "later %d of %d"))
    assert [message.split(",")[0] for message in caplog.messages] == [
        "outer 1 of 3",
        "outer 2 of 3",
        "later 1 of 2",
    ]


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        ("best", "weights of s2s, words: 19 of 20 samples, about 30 s to go"),
        ("mbr", "weights of s2s, words: 19 of 20 samples, about 30 s to go"),
        ("rover", "tried 24 of 25 scales of the posteriors, about 30 s to go"),
    ],
)
def test_one_tuning_says_how_far_it_is(
    decide: str,
    message: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = count(step=30)
    monkeypatch.setattr("rescore.pace.time", Clock(lambda: float(next(seconds))))
    options = TuningOptions(bonuses=("words",), decision=Decision(decide))
    with caplog.at_level("INFO", logger="rescore"):
        tune_weights(ErrorRate(), Dataset.of(read([LISTS])[:20]), [], options=options)
    assert message in caplog.messages


def test_combining_says_how_much_is_read(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=30)
    monkeypatch.setattr("rescore.pace.time", Clock(lambda: float(next(seconds))))
    for name in "abc":
        (tmp_path / f"{name}.trn").write_text("the old clock (u-1)\n")
    combine = ("combine", "a.trn", "b.trn", "c.trn", "-o", "l.jsonl")
    assert "read 2 of 3 outputs, about 30 s to go" in rescore(*combine).stderr
    assert rescore(*combine, "--quiet").stderr == ""


def test_reading_says_how_much_of_a_file_is_read(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ticks = count(step=0.1)
    monkeypatch.setattr("rescore.pace.time", Clock(lambda: next(ticks)))
    line = '{"id": "%d", "hyps": [{"text": "%s", "score": -1}]}\n'
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(line % (number, "word " * 2000) for number in range(400)))
    packed = tmp_path / "lists.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), 0))
    for file in (path, packed):
        caplog.clear()
        with caplog.at_level("INFO", logger="rescore"):
            assert len(read([file])) == 400
        first, *others = [
            record.message for record in caplog.records if "MB" in record.message
        ]
        assert (
            re.fullmatch(rf"read 0 of 4 MB of {file}, about [23]\d s to go", first)
            and len(others) == 3
        )


def test_slow_metrics_say_how_far_they_are(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=3)
    monkeypatch.setattr("rescore.pace.time", Clock(lambda: float(next(seconds))))
    with caplog.at_level("INFO", logger="rescore"):
        counts = Ter().statistics(["a b c", *["a b x"] * 1099], [("a b c",)] * 1100)
    assert caplog.messages == ["TER: 1 of 3 batches of 500 hypotheses, about 6 s to go"]
    assert counts[:, 0].tolist() == [0, *[1] * 1099]


def test_a_log_says_within_five_seconds_that_a_model_scores(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then once a minute."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    bar = LogProgress(1000, "score tta", "hyp")
    with caplog.at_level("INFO"):
        for _ in range(130):
            clock[0] += 1.0
            bar.update(5)
    told = [line.partition(" of")[0] for line in caplog.messages]
    assert told == ["score tta: 20", "score tta: 320", "score tta: 620"]
