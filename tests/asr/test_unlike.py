"""Outputs whose equal ids name different utterances are told; others are not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.conftest import Run

TEXT = "the owl flew over a barn and saw two mice in tall grass near our old mill"
WORDS = TEXT.split()
LINES = [" ".join(random.Random(n).choices(WORDS, k=8)) for n in range(30)]
SAID = "are less alike than those of utterances beside them (first: line_"


def heard(line: str, share: float, seed: int) -> str:
    """Return a line in which a share of the words is heard wrong."""
    chance = random.Random(seed)
    words = []
    for word in line.split():
        words.append(chance.choice(WORDS) if chance.random() < share else word)
    return " ".join(words)


def write(name: str, lines: list[str]) -> None:
    """Write lines with the numbers of their places as ids."""
    rows = [f"line_{number},{line}\n" for number, line in enumerate(lines, 1)]
    Path(f"{name}.csv").write_text("id,text\n" + "".join(rows))


@pytest.mark.parametrize("lost", [0, 1, 2, 10])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
def test_lines_that_are_numbered_anew(lost: int, share: float, rescore: Run) -> None:
    write("a", LINES)
    write("b", [heard(line, share, n) for n, line in enumerate(LINES)][lost:])
    done = rescore("combine", "a.csv", "b.csv", "-o", "o.jsonl")
    assert done.returncode == 0, done.stderr
    assert (SAID in done.stderr) is (lost > 0), done.stderr


def test_equal_and_few_texts_say_nothing(rescore: Run) -> None:
    for lines in (["one", "two"] * 10, LINES[:3]):
        write("a", lines)
        write("b", lines[1:])
        done = rescore("combine", "a.csv", "b.csv", "-o", "o.jsonl")
        assert done.returncode == 0, done.stderr
    assert SAID not in done.stderr
