"""Run times by length: of models whose times are known, and as a command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.lms import Capabilities, Question, TokenScores
from rescore.lms.devices import cpu_name
from rescore.research.speed import ALONE, TOGETHER, cut, measure
from rescore.research.vectors import Embedder
from tests.conftest import ROOT, Run, assert_one_line_error
from tests.lms.test_ngram import ARPA

LISTS = ROOT / "data" / "test.json"
WORDS = [f"w{number}" for number in range(200)]
CLOCK = [0.0]
"""Seconds that models of this file have taken."""


class Slow:
    """A model that takes a time for each call, and a time for each word, on a clock of
    its own.
    """

    precision = "float32"
    fingerprint = "0" * 64

    def __init__(self, name: str, call: float, word: float) -> None:
        self.name = self.model = name
        self.capabilities = Capabilities()
        self.asked: list[list[str]] = []
        self._call, self._word = call, word

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        texts = [question.text for question in questions]
        self.asked.append(texts)
        words = sum(len(text.split()) for text in texts)
        CLOCK[0] += self._call + self._word * words
        return [TokenScores([], np.zeros(0)) for _ in texts]


def test_times_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds a sentence: 2 + words / 10 alone, 2 / 4 + words / 10 together."""
    monkeypatch.setattr("rescore.research.speed.time.perf_counter", lambda: CLOCK[0])
    quick, slow = Slow("quick", 0.002, 0.0001), Slow("slow", 0.008, 0.0004)
    report = measure([quick, slow], WORDS, [50, 10], sentences=4, repeats=3)
    times = {(each.lm, each.way, each.words): each for each in report.times}
    assert len(times) == 2 * 2 * 2
    for (name, way, words), each in times.items():
        factor = 1 if name == "quick" else 4
        expected = factor * ((2 if way == ALONE else 2 / 4) + words / 10)
        assert each.least == pytest.approx(expected)
        assert each.milliseconds == pytest.approx(expected)
        assert each.ratio == pytest.approx(factor)
    # to warm up, and in three runs one at a time and together
    warming = [4, *(4, 1), *(4, 1)]
    runs = 3 * [1, 1, 1, 1, 4]
    assert [len(texts) for texts in quick.asked] == [*warming, *runs, *runs]
    assert len(quick.asked) == len(slow.asked)
    assert {len(text.split()) for texts in quick.asked for text in texts} == {10, 50}
    rows = report.cells()
    assert rows[0] == ["", "quick", "slow", "slow / quick"]
    assert [row[0] for row in rows[1:]] == [
        f"{way}, {words} words" for way in (ALONE, TOGETHER) for words in (10, 50)
    ]


def test_progress_counts_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repetition counts by its time; counted alike, a short sentence and a long one
    would each be half of the work.
    """
    monkeypatch.setattr("rescore.research.speed.time.perf_counter", lambda: CLOCK[0])
    for call, word in ((0.0, 0.001), (0.003, 0.0), (1.0, 0.1)):
        done: list[int] = []
        model = Slow("lm", call, word)
        measure([model], WORDS, [50, 10, 10], 4, repeats=5, progress=done.append)
        assert sum(done) == 100 and len(done) == 10
        short, long = (1.25 * call + 2 * word * length for length in (10, 50))
        assert sum(done[:5]) == pytest.approx(100 * short / (short + long), abs=1)


def test_models_take_turns() -> None:
    order: list[str] = []
    models = [Slow(name, 0, 0) for name in ("a", "b")]
    for model in models:
        score = model.score

        def noted(
            questions: Sequence[Question],
            name: str = model.name,
            score: object = score,
        ) -> list[TokenScores]:
            order.append(name)
            return score(questions)  # type: ignore[operator]

        model.score = noted  # type: ignore[method-assign]
    measure(models, WORDS, [5], sentences=1, repeats=2)  # type: ignore[arg-type]
    assert order == [*"ab", *"aabb", *"aabb", *"aabb"]


def test_sentences_are_spread() -> None:
    assert cut(list("abcdef"), 2, 3) == ["a b", "c d", "e f"]
    assert cut(list("abc"), 3, 2) == ["a b c", "a b c"]
    assert cut(list("abc"), 2, 1) == ["a b"]


def test_what_cannot_be_timed() -> None:
    model = Slow("lm", 0, 0)
    with pytest.raises(UserError, match="200 words, too few for a sentence of 201"):
        measure([model], WORDS, [5, 201])
    model.capabilities = Capabilities(cached=True)
    with pytest.raises(UserError, match="looked-up scores of lm cannot"):
        measure([model], WORDS, [5])


def test_command(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    lms = ["--lm", f"tta:{models['tta']}", "--lm", f"unilm:{models['unilm']}"]
    quick = ["--lengths", "2,5", "--sentences", "2", "--repeats", "1"]
    done = rescore(
        "bench", LISTS, *lms, *quick, "-o", "s.json", "-o", "s.md", "--plot", "s.svg"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "s.json").read_text())
    assert report["models"] == ["tta", "unilm"] and report["what"] == "scores"
    assert {each["words"] for each in report["times"]} == {2, 5}
    assert all(each["milliseconds"] > 0 for each in report["times"])
    assert "unilm / tta" in (tmp_path / "s.md").read_text(encoding="utf-8")
    assert (tmp_path / "s.svg").read_text(encoding="utf-8").count("<polyline") == 4
    assert f"1 thread of {cpu_name()}" in done.stdout
    (tmp_path / "text").write_text("a b c\nd e f g h\n", encoding="utf-8")
    assert rescore("bench", "text", *lms, *quick).returncode == 0
    done = rescore("bench", "-", *lms, *quick, input="a b c\nd e f g h\n")
    assert done.returncode == 0, done.stderr


def test_vectors(
    rescore: Run,
    models: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    real = Embedder.sentences

    def noted(self: Embedder, sentences: Sequence[str]) -> object:
        asked.append(len(sentences))
        return real(self, sentences)

    monkeypatch.setattr(Embedder, "sentences", noted)
    quick = ["--lengths", "4", "--sentences", "3", "--repeats", "1", "--vectors"]
    done = rescore("bench", LISTS, "--lm", f"bilm:{models['bilm']}", *quick)
    assert done.returncode == 0 and "vectors, tokenising included" in done.stdout
    assert asked == [3, *(3, 1), *(1, 1, 1, 3)]
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    done = rescore("bench", LISTS, "--lm", "ngram:lm.arpa", *quick)
    assert_one_line_error(done, "ngram: has no vectors")


def test_errors(rescore: Run, models: dict[str, Path]) -> None:
    lm = ("--lm", f"tta:{models['tta']}")
    done = rescore("bench", LISTS, *lm, "--lengths", "5,x")
    assert_one_line_error(
        done, "'5,x' is no list of numbers of words, such as 5,20,100"
    )
    done = rescore("bench", LISTS, *lm, "--cache", "cache")
    assert_one_line_error(done, "--cache: looked-up scores of tta cannot be timed")
    assert_one_line_error(rescore("bench", "no.json", *lm), "no.json: no such file")
