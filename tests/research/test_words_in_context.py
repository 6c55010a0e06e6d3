"""Words in context: the file, the threshold, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.research.words_in_context import (
    WordPair,
    best_threshold,
    decided_in_folds,
    folds,
    read_word_pairs,
)
from tests.conftest import Run, assert_one_line_error

ROWS = (
    "clock\tN\t2-1\tthe old clock\tthe clock ticked\n"
    "wall\tN\t1-0\tthe wall\twall of fire\n"
) * 10
ANSWERS = "T\nF\n" * 10


@pytest.fixture
def wic(tmp_path: Path) -> tuple[Path, Path]:
    """Data and answers of WiC."""
    (tmp_path / "data").write_text(ROWS, encoding="utf-8")
    (tmp_path / "gold").write_text(ANSWERS, encoding="utf-8")
    return tmp_path / "data", tmp_path / "gold"


def test_pairs_are_read(wic: tuple[Path, Path]) -> None:
    pairs = read_word_pairs(*wic)
    assert len(pairs) == 20
    assert pairs[:2] == [
        WordPair("the old clock", "the clock ticked", (2, 1), True),
        WordPair("the wall", "wall of fire", (1, 0), False),
    ]


@pytest.mark.parametrize(
    ("rows", "answers", "message"),
    [
        (ROWS, "T\n", "gold: 1 answer for 20 pairs of "),
        (ROWS[: len(ROWS) // 10 * 4], "T\nF\n" * 4, "data: 8 pairs; at least 10"),
        ("", "", "data: 0 pairs; at least 10"),
        (ROWS, "T\nX\n" * 10, "gold: line 2: expected T or F, found X"),
        ("clock\tN\t2\ta\tb\n", "T\n", "line 1: expected word, part of speech"),
        ("clock\tN\t2-1\ta b c\n", "T\n", "line 1: expected word, part of speech"),
        ("a\tN\t0-2\ta b\ta b\n", "T\n", "'a b' has 2 words, and no word number 2"),
    ],
)
def test_other_files_are_refused(
    rows: str, answers: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text(rows, encoding="utf-8")
    (tmp_path / "gold").write_text(answers, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_word_pairs(tmp_path / "data", tmp_path / "gold")


@pytest.mark.parametrize("seed", range(20))
def test_no_threshold_is_better(seed: int) -> None:
    """Also where cosines are equal, or all answers are the same."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 4, 40) / 4
    same = random.random(40) < seed / 19 * (0.3 + values)
    found = ((values >= best_threshold(values, same)) == same).mean()
    tried = [((values >= limit) == same).mean() for limit in np.linspace(-1, 2, 301)]
    assert found == max(tried)


def test_a_fold_does_not_see_its_own_answers() -> None:
    """Every pair is in one fold; what is decided for it does not change with its own
    answer.
    """
    parts = folds(23)
    assert np.sum(parts, axis=0).tolist() == [1] * 23
    random = np.random.default_rng(1)
    values = random.random(23)
    same = random.random(23) < values
    before = decided_in_folds(values, same) == same  # what each is decided to be
    for part in parts:
        changed = np.where(part, ~same, same)
        after = decided_in_folds(values, changed) == changed
        assert np.array_equal(before[part], after[part])


def test_cosines_that_tell_the_meaning() -> None:
    same = np.arange(50) % 2 == 0
    values = np.where(same, 0.9, 0.1) + np.arange(50) / 1_000
    assert decided_in_folds(values, same).all()


def test_the_command(
    rescore: Run, models: dict[str, Path], wic: tuple[Path, Path], tmp_path: Path
) -> None:
    tta = ("--lm", f"tta:{models['tta']}")
    unilm = ("--lm", f"unilm:{models['unilm']}")
    task = ("similarity", "data", "--gold", "gold")
    done = rescore(*task, *tta, *unilm, "-o", "figures.json")
    assert done.returncode == 0, done.stderr
    assert "20 pairs; percent" in done.stdout
    first, second = json.loads((tmp_path / "figures.json").read_text())
    assert [first["name"], second["name"]] == ["tta", "unilm"]
    assert first["accuracy"] == first["best"] == 100.0  # equal pairs, equal answers
    assert first["signature"].startswith("acc|kind:context|layer:last|pooling:mean|lm:")
    done = rescore(*task, *tta, *unilm, "--joined")
    assert_one_line_error(done, "--joined does not apply to --gold")
    assert_one_line_error(rescore("similarity", "data", *tta), "line 1: expected score")
