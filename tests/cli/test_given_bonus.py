"""A bonus that the user gives beside dev lists is not called tuned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run


def write(name: str) -> None:
    """Write lists in which the second hypothesis is right."""
    lines = []
    for number in range(12):
        hypotheses = [
            {"text": "a b", "score": -1.0},
            {"text": "a b c", "score": -1.5 - 0.1 * number},
        ]
        lines.append(
            json.dumps({"id": f"u{number}", "ref": "a b c", "hyps": hypotheses})
        )
    Path(name).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("tuning", [("--dev", "dev.jsonl"), ("--folds", "3"), ()])
def test_weights_that_are_all_given_are_called_given(
    tuning: tuple[str, ...], rescore: Run
) -> None:
    write("test.jsonl")
    write("dev.jsonl")
    done = rescore("test.jsonl", *tuning, "--word-bonus", "2")
    assert "lambda: +2 a word (given)\n" in done.stdout, done.stdout
    assert "|tuned:given|" in done.stdout


def test_a_tuned_bonus_is_called_tuned(rescore: Run) -> None:
    write("test.jsonl")
    write("dev.jsonl")
    done = rescore("test.jsonl", "--dev", "dev.jsonl", "--word-bonus", "tune")
    assert "(tuned on dev.jsonl)" in done.stdout, done.stdout
    assert "|tuned:12@" in done.stdout


def test_a_tuned_scale_is_called_tuned(rescore: Run) -> None:
    write("test.jsonl")
    write("dev.jsonl")
    done = rescore(
        *("test.jsonl", "--dev", "dev.jsonl", "--word-bonus", "2", "--decide", "mbr")
    )
    assert "lambda: +2 a word (given)\n" in done.stdout, done.stdout
    assert "|tuned:12@" in done.stdout


@pytest.mark.parametrize("tuning", [("--dev", "test.jsonl"), ("--folds", "3")])
def test_a_bonus_alone_that_does_not_help_has_a_reason(
    tuning: tuple[str, ...], rescore: Run
) -> None:
    lines = []
    for number in range(12):
        hypotheses = [{"text": "a b", "score": -1.0}, {"text": "c", "score": -1.5}]
        lines.append(json.dumps({"id": f"u{number}", "ref": "a b", "hyps": hypotheses}))
    Path("test.jsonl").write_text("\n".join(lines) + "\n")
    done = rescore("test.jsonl", *tuning, "--word-bonus", "tune")
    assert "the weight is 0, the word bonus does not help: no weight is" in done.stdout


def test_a_bonus_that_was_tuned_to_0_beside_a_given_one(rescore: Run) -> None:
    """The weights are those of a search, though only the given one is left."""
    write("test.jsonl")
    Path("words.txt").write_text("c\n")
    done = rescore(
        *("test.jsonl", "--folds", "3", "--words", "words.txt", "--boost", "0.01"),
        *("--word-bonus", "tune"),
    )
    assert "(tuned on all lists" in done.stdout, done.stdout
    assert "|tuned:3folds" in done.stdout


def test_a_given_scale_beside_a_given_bonus(rescore: Run) -> None:
    write("test.jsonl")
    done = rescore(
        *("test.jsonl", "--dev", "test.jsonl", "--word-bonus", "2"),
        *("--decide", "mbr", "--scale", "0.5"),
    )
    assert "|tuned:given|" in done.stdout, done.stdout


def test_results_with_an_undefined_figure_on_dev_are_read(rescore: Run) -> None:
    """No listed word stands in the references of dev, so B-WER is not defined there."""
    write("test.jsonl")
    write("dev.jsonl")
    text = Path("dev.jsonl").read_text().replace("a b c", "a b d")
    Path("dev.jsonl").write_text(text)
    Path("words.txt").write_text("c\n")
    done = rescore(
        *("test.jsonl", "--dev", "dev.jsonl", "--words", "words.txt", "--boost", "1"),
        *("--report", "r.json"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(Path("r.json").read_text())["dev"][1]["first_pass"] is None
    assert rescore("check", "r.json", "--golden", "r.json").returncode == 0
    assert rescore("report", "r.json", "--dev").returncode == 0
