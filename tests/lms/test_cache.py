"""Kept scores are the model's own, whoever wrote them, and whatever happened to the
process.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.lms import cache, load
from rescore.lms.base import Question, Streamed, TokenScores, without_context
from rescore.lms.cache import Cached
from tests.conftest import ROOT, write_json
from tests.processes import FORKS, ended, send, start, until


class Counting:
    """Scores by the lengths of words, and counts what it was asked."""

    model = "counting"

    def __init__(self, fingerprint: str = "a" * 64, seconds: float = 0.0) -> None:
        self.name, self.fingerprint = "counting", fingerprint
        self.asked: list[Question] = []
        self._seconds = seconds

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        self.asked += questions
        time.sleep(self._seconds)
        return [
            TokenScores(
                one.text.split(),
                np.array([-len(word) / 3 for word in one.text.split()]),
                (0,) if one.text else (),
            )
            for one in questions
        ]


def same(one: Sequence[TokenScores], other: Sequence[TokenScores]) -> bool:
    return len(one) == len(other) and all(
        a.tokens == b.tokens
        and np.array_equal(a.log_probs, b.log_probs)
        and a.unknown == b.unknown
        for a, b in zip(one, other, strict=True)
    )


TEXTS = [
    "the old clock",
    "",
    "ticked é\n",
    "the old clock",
    *(f"clock {number}" for number in range(1200)),
]


def test_scores_are_exactly_those_of_the_model(tmp_path: Path) -> None:
    lm = Counting()
    expected = lm.score(without_context(TEXTS))
    lm.asked.clear()
    assert same(
        Cached(lm, tmp_path / "new" / "cache").score(without_context(TEXTS)), expected
    )
    assert lm.asked == without_context(dict.fromkeys(TEXTS))  # each text once
    lm.asked.clear()
    assert same(
        Cached(lm, tmp_path / "new" / "cache").score(
            without_context([*TEXTS, "another"])
        )[:-1],
        expected,
    )
    assert lm.asked == without_context(["another"])


def test_questions_do_not_share_scores(tmp_path: Path) -> None:
    """Each part counts, and where it stands; whatever characters are in it."""
    questions = [
        Question("a"),
        Question("a", ""),
        Question("a", "b"),
        Question("b", "a"),
        Question("a\x1fb"),
        Question("a", before=("b",)),
        Question("a", after=("b",)),
        Question("a", before=("b", "c")),
        Question("a", before=("b\x1ec",)),
        Question('["a", "b", [], []]'),
    ]
    lm = Counting()
    for question in questions:
        Cached(lm, tmp_path).score([question])
    assert lm.asked == questions
    Cached(lm, tmp_path).score(questions)
    assert len(lm.asked) == len(questions)


def test_models_do_not_share_scores(tmp_path: Path) -> None:
    one, other = Counting(), Counting("b" * 64)
    Cached(one, tmp_path).score(without_context(TEXTS[:2]))
    Cached(other, tmp_path).score(without_context(TEXTS[:2]))
    assert other.asked == without_context(TEXTS[:2])


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    cached = Cached(Counting(), tmp_path)
    cached.path.write_bytes(b"no database" * 100)
    with pytest.raises(
        UserError,
        match=r"cannot be used \(file is not a database\); delete it, or give another",
    ):
        cached.score(without_context(["the"]))
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be used"):
        Cached(Counting(), tmp_path / "file").score(without_context(["the"]))


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE scores DROP COLUMN total",
        "ALTER TABLE scores ADD COLUMN more",
        "UPDATE scores SET log_probs = 'text'",
        "UPDATE scores SET tokens = '7'",
        "UPDATE scores SET tokens = CAST(x'ff' AS TEXT)",
        "UPDATE scores SET unknown = '7'",
        "UPDATE scores SET total = 'text'",
    ],
)
def test_damaged_tables_are_one_line(tmp_path: Path, statement: str) -> None:
    cached = Cached(Counting(), tmp_path)
    cached.score(without_context(TEXTS[:2]))
    with closing(sqlite3.connect(cached.path)) as database, database:
        database.execute(statement)
    with pytest.raises(UserError, match="delete it, or give another --cache"):
        Cached(Counting(), tmp_path).score(without_context(TEXTS[:2]))


def test_another_writer_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = Cached(Counting(), tmp_path)
    cached.score(without_context(["the"]))
    monkeypatch.setattr("rescore.lms.cache.BUSY_TIMEOUT", 0.1)
    with sqlite3.connect(cached.path) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError, match=r"cannot be used \(database is locked\)"):
            cached.score(without_context(["old"]))
    writer.close()
    assert len(cached.score(without_context(["old"]))) == 1


def _score_in_steps(folder: Path, offset: int) -> None:
    cached = Cached(Counting(seconds=0.002), folder)
    for number in range(100):
        cached.score(without_context([f"{number + offset} a", f"{number} b"]))


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    processes = [
        FORKS.Process(target=_score_in_steps, args=(tmp_path, 50 * rank))
        for rank in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        assert ended(process) == 0
    lm = Counting()
    texts = [
        *(f"{number} a" for number in range(200)),
        *(f"{number} b" for number in range(100)),
    ]
    assert same(
        Cached(lm, tmp_path).score(without_context(texts)),
        Counting().score(without_context(texts)),
    )
    assert lm.asked == []


def test_a_killed_process_leaves_a_whole_file(tmp_path: Path) -> None:
    process = FORKS.Process(target=_score_in_steps, args=(tmp_path, 0))
    cached = Cached(Counting(), tmp_path)
    cached.score(without_context([]))
    process.start()
    until(lambda: _rows(cached.path) >= 10, process)
    process.kill()
    process.join()
    with sqlite3.connect(cached.path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    texts = [f"{number} a" for number in range(100)]
    assert same(
        cached.score(without_context(texts)), Counting().score(without_context(texts))
    )


class Stuck(Counting, Streamed):
    """Gives each score at once, and stops at the text `stuck`."""

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        for place, question in enumerate(questions):
            if question.text == "stuck":
                time.sleep(600)
            yield place, self.score([question])[0]


STUCK = [*(f"{number} a" for number in range(100)), "stuck"]


def _score_until_stuck(folder: Path) -> None:
    cache.COMMIT_SECONDS = 0.0
    Cached(Stuck(), folder).score(without_context(STUCK))


def test_a_killed_process_keeps_what_it_scored(tmp_path: Path) -> None:
    """One call does not end; its first scores are kept before, each when the next one
    is there, and are not computed again.
    """
    cached = Cached(lm := Counting(), tmp_path)
    cached.score(without_context([]))
    process = FORKS.Process(target=_score_until_stuck, args=(tmp_path,))
    process.start()
    until(lambda: _rows(cached.path) == 99, process)
    process.kill()
    assert ended(process) == -signal.SIGKILL
    texts = without_context(STUCK)
    assert same(cached.score(texts), Counting().score(texts))
    assert lm.asked == texts[99:]


SECOND_SIGNAL = """
import time
from pathlib import Path
from rescore.cli import main as command_line
from rescore.lms import cache
row = cache._row
def slow_row(key, scores):
    if not cache.row_was_made:
        cache.row_was_made = True
        try:
            Path("writes").touch()
            time.sleep(600)
        finally:
            Path("signalled").touch()
    return row(key, scores)
cache._row, cache.row_was_made = slow_row, False
cache.COMMIT_SECONDS = 0.0
command_line.main()
"""
"""A program as `rescore` that waits for a signal while it writes the first score."""


@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)],
)
def test_a_second_signal_leaves_a_whole_file(
    first: signal.Signals, second: signal.Signals, tmp_path: Path
) -> None:
    big = {
        f"u{number}": {"hyp_1": {"score": 0, "text": f"the old clock {number}"}}
        for number in range(600)
    }
    write_json(tmp_path / "big.json", big)
    score = ("score", "big.json", "--lm", "tta-small", "--cache", "kept")
    process = start(
        [*score, "-o", "out.jsonl"], tmp_path, Path(os.devnull), SECOND_SIGNAL
    )
    until((tmp_path / "writes").exists, process)
    send(first, process)
    # Python handles two signals that have arrived in the order of their numbers
    until((tmp_path / "signalled").exists, process)
    # wherever the process is: until it has ended
    until(lambda: send(second, process), process)
    assert ended(process) == 128 + first
    (path,) = (tmp_path / "kept").iterdir()
    assert _rows(path) >= 0 and sorted(entry.name for entry in tmp_path.iterdir()) == [
        "big.json",
        "kept",
        "signalled",
        "writes",
    ]


def test_a_network_gives_the_same_bits_with_and_without_a_cache(tmp_path: Path) -> None:
    lists = json.loads((ROOT / "data" / "test.json").read_text(encoding="utf-8"))
    texts = [
        entry["text"]
        for nbest in lists.values()
        for key, entry in nbest.items()
        if key != "ref"
    ]
    for spec in ("tta-small", "unilm"):
        lm, questions = load(spec), without_context(texts[:300])
        expected = lm.score(questions)
        cached = Cached(lm, tmp_path)
        assert same(cached.score(questions), expected) and same(
            cached.score(questions), expected
        )


def _rows(path: Path) -> int:
    with sqlite3.connect(path, timeout=60) as database:
        return int(database.execute("SELECT count(*) FROM scores").fetchone()[0])


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions would not keep root from it."""

    def connect(path: Path, timeout: float) -> sqlite3.Connection:
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", timeout=timeout, uri=True)

    monkeypatch.setattr(
        "rescore.lms.cache.sqlite3",
        SimpleNamespace(connect=connect, Error=sqlite3.Error),
    )
    with pytest.raises(UserError, match="cannot be used"):
        Cached(Counting(), tmp_path).score(without_context(["the"]))


def test_scores_of_the_same_run_are_not_said_to_be_in_the_cache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Texts that repeat are looked up again; a first run found nothing."""
    caplog.set_level("INFO")
    questions = without_context(["a", "b c"])
    first = Cached(Counting(), tmp_path)
    first.score(questions)
    first.score(questions)
    first.report()
    assert "were in the cache" not in caplog.text
    second = Cached(Counting(), tmp_path)
    second.score(without_context(["a", "b c", "d"]))
    second.report()
    assert "counting: 2 scores were in the cache, 1 were computed" in caplog.text
