"""Warnings about how texts are written. Law: what a warning advises makes texts equal
that differ in nothing else, and then no warning is printed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from rescore.dataset import Dataset
from rescore.metrics import MetricOptions, Normaliser, choose_metric
from rescore.metrics.base import text_value
from rescore.metrics.steps import without_marks
from rescore.metrics.texts import warn_of_texts
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run
from tests.metrics.test_scripts import MARKED, UNSPACED

SEMITIC = ("Arabic", "Hebrew")
SIDES = {
    "references": [(True, False)] * 8,
    "texts": [(False, True)] * 8,
    "some references": [(True, False), *[(False, False)] * 7],
}
"""Whether the reference and the text of each list have marks."""
FORGOTTEN = [*[(True, True)] * 7, (True, False)]
ADVICE = "give --drop-marks"


def lists_of(script: str, sides: Sequence[tuple[bool, bool]]) -> list[NbestList]:
    lists = []
    for number, is_marked in enumerate(sides):
        marked = MARKED[script]
        bare = without_marks(marked)
        reference, text = (marked if with_marks else bare for with_marks in is_marked)
        scores = {"s2s": 0.0}
        lists.append(NbestList(f"u{number}", [Hypothesis(text, scores)], (reference,)))
    return lists


def value_of(metric: str, lists: Sequence[NbestList], normaliser: Normaliser) -> float:
    texts = [nbest.hypotheses[0].text for nbest in lists]
    made = choose_metric(metric, [], MetricOptions(normaliser=normaliser))
    warn_of_texts(made, Dataset.of(lists))
    return text_value(made, lists, texts)


@pytest.mark.parametrize("metric", ["wer", "cer", "mer"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("script", SEMITIC)
def test_marks_of_one_side_are_told(
    script: str, side: str, metric: str, caplog: pytest.LogCaptureFixture
) -> None:
    lists = lists_of(script, SIDES[side])
    assert value_of(metric, lists, Normaliser()) > 0
    assert caplog.text.count(ADVICE) == 1
    caplog.clear()
    assert value_of(metric, lists, Normaliser(drop_marks=True)) == 0
    assert not caplog.text


@pytest.mark.parametrize("script", MARKED)
def test_marks_of_both_sides_are_no_fault(
    script: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A recogniser that forgets a mark is wrong there, and told nothing."""
    assert value_of("wer", lists_of(script, [(True, True)] * 8), Normaliser()) == 0
    value_of("wer", lists_of(script, FORGOTTEN), Normaliser())
    assert ADVICE not in caplog.text


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("script", SEMITIC)
def test_what_is_advised_beside_whispers_normaliser_helps(
    script: str, side: str, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")
    lists = lists_of(script, SIDES[side])
    assert value_of("wer", lists, Normaliser(whisper_basic=True)) > 0
    assert ADVICE in caplog.text and "--unicode-basic" not in caplog.text
    caplog.clear()
    both = Normaliser(whisper_basic=True, drop_marks=True)
    assert value_of("wer", lists, both) == 0
    assert not caplog.text


SAID = "no spaces between words; give --metric cer, or --metric mer if"
COMMANDS = {
    "combine": ("combine", "a.txt", "b.txt", "-o", "o.jsonl"),
    "combine with references": ("combine", "a.txt", "b.txt", "--ref", "r.txt"),
    "eval": ("eval", "a.txt", "--ref", "r.txt"),
    "run": ("run", "l.jsonl"),
    "run, tuned": ("run", "l.jsonl", "--folds", "2", "--decide", "mbr"),
    "tune": ("tune", "l.jsonl", "-o", "w.json"),
    "rerank by votes": ("rerank", "x.jsonl", "--decide", "rover", "--scale", "1"),
    "rerank by risk": ("rerank", "x.jsonl", "--decide", "mbr", "--scale", "1"),
    "rerank with figures": ("rerank", "l.jsonl", "--table", "t.md"),
    "analyse": ("analyse", "l.jsonl"),
    "confidence": ("confidence", "l.jsonl", "-o", "c.jsonl"),
    "errors": ("errors", "l.jsonl"),
}


@pytest.fixture
def files(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Texts of two systems, references, and lists with references and without."""
    text = UNSPACED[request.param] * 3
    texts = {"r.txt": text, "a.txt": text[1:], "b.txt": text[:-1]}
    for name, own in texts.items():
        lines = [f"u{number} {own}\n" for number in range(4)]
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    for name, about in {"l.jsonl": {"ref": text}, "x.jsonl": {}}.items():
        hyps = [{"text": text[1:], "score": -1, "qe": 1}]
        hyps.append({"text": text, "score": -2, "qe": 2})
        rows = [{"id": f"u{n}", "hyps": hyps, **about} for n in range(4)]
        lines = [f"{json.dumps(row)}\n" for row in rows]
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("files", UNSPACED, indirect=True)
@pytest.mark.parametrize("command", ["combine", "tune", "rerank by votes"])
def test_each_script_without_blanks_is_told(
    rescore: Run, files: Path, command: str
) -> None:
    assert rescore(*COMMANDS[command]).stderr.count(SAID) == 1


@pytest.mark.parametrize("files", ["Khmer"], indirect=True)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_compares_words_says_so_once(
    rescore: Run, files: Path, command: str
) -> None:
    done = rescore(*COMMANDS[command])
    assert done.stderr.count(SAID) == 1, done.stderr
    if command == "errors":  # counts words alone
        return
    for metric in ("cer", "mer"):
        done = rescore(*COMMANDS[command], "--metric", metric)
        assert done.returncode == 0 and SAID not in done.stderr, done.stderr


@pytest.mark.parametrize("files", ["Khmer"], indirect=True)
def test_a_decision_that_compares_no_words_says_nothing(
    rescore: Run, files: Path
) -> None:
    assert SAID not in rescore("rerank", "x.jsonl").stderr


def test_texts_without_references_are_no_side(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for script in MARKED:
        lists = lists_of(script, [(True, True)])
        for metric in ("wer", "cer", "mer", "exact"):
            made = choose_metric(metric, [])
            warn_of_texts(made, Dataset.of([NbestList("u", lists[0].hypotheses)]))
    assert ADVICE not in caplog.text and "--nfkc" not in caplog.text


@pytest.mark.parametrize("flag", ["nfkc", "unicode_basic"])
def test_forms_that_are_made_equal_are_not_told(
    flag: str, caplog: pytest.LogCaptureFixture
) -> None:
    lists = [NbestList("u", [Hypothesis("cafe\u0301 ka\u200bb")], ("caf\u00e9 kab",))]
    for flags, is_told in (
        (Normaliser(), True),
        (Normaliser(**{flag: True}), False),
    ):
        caplog.clear()
        metric = choose_metric("cer", lists, MetricOptions(normaliser=flags))
        warn_of_texts(metric, Dataset.of(lists))
        assert ("give --nfkc" in caplog.text) is is_told


@pytest.mark.parametrize("side", ["texts", "references"])
@pytest.mark.parametrize("flag", [None, *("drop_punctuation", "unicode_basic")])
def test_punctuation_of_one_side_is_told(
    side: str, flag: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    normaliser = Normaliser(**{flag: True}) if flag else Normaliser()
    marked, bare = "Well, an owl sat.", "well an owl sat"
    text, reference = (marked, bare) if side == "texts" else (bare, marked)
    for number, both in ((4, False), (5, False), (5, True)):
        lists = []
        for place in range(number):
            own = marked if both and place == 0 else text
            its = marked if both and place == 0 else reference
            lists.append(NbestList(f"u{place}", [Hypothesis(own)], (its,)))
        metric = choose_metric("wer", lists, MetricOptions(normaliser=normaliser))
        caplog.clear()
        warn_of_texts(metric, Dataset.of(lists))
        is_told = f"only the {side} have punctuation, and WER" in caplog.text
        assert is_told == (flag is None and number == 5 and not both)
        if flag:
            assert text_value(metric, lists, [text] * number) == 0.0
