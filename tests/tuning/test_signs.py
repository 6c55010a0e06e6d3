"""Columns of one's own with the wrong sign. Law: a warning names a column exactly if
less of it is better, and each option that it names lowers the WER.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.conftest import Run

WORDS = ("the", "owl", "hoots", "at", "night", "and", "a", "fox", "runs", "over")
SAID = "goes with more errors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Lists, and tables with an estimate of errors (`cost`), its negative (`quality`),
    and noise.
    """
    draw = random.Random(3)
    lines = []
    tables = {name: [f"id,rank,{name}\n"] for name in ("cost", "quality", "noise")}
    for number in range(60):
        words = draw.choices(WORDS, k=8)
        hyps = []
        for rank in range(1, 6):
            heard = [w if draw.random() > 0.2 else draw.choice(WORDS) for w in words]
            wrong = sum(one != other for one, other in zip(heard, words, strict=True))
            cost = wrong / 8 + draw.gauss(0, 0.05)
            hyps.append({"text": " ".join(heard), "score": -rank})
            values = {"cost": cost, "quality": -cost, "noise": draw.random()}
            for name, value in values.items():
                tables[name].append(f"{number},{rank},{value:.3f}\n")
        row = {"id": f"{number}", "ref": " ".join(words), "hyps": hyps}
        lines.append(json.dumps(row) + "\n")
    (tmp_path / "l.jsonl").write_text("".join(lines))
    for name, table in tables.items():
        (tmp_path / f"{name}.csv").write_text("".join(table))
    return tmp_path


def wer_of(rescore: Run, folder: Path, column: str, *more: str) -> tuple[float, str]:
    """Return the WER of the reranked texts, and what stderr says."""
    scores = ["--scores", f"{column}.csv"]
    done = rescore("l.jsonl", *scores, "--folds", "3", *more, "--report", "r")
    assert done.returncode == 0, done.stderr
    report = json.loads((folder / "r").read_text())
    return float(report["metrics"][0]["reranked"]), done.stderr


@pytest.mark.parametrize("column", ["cost", "quality", "noise"])
def test_the_sign_of_a_column_of_ones_own(
    rescore: Run, folder: Path, column: str
) -> None:
    first, said = wer_of(rescore, folder, column)
    assert said.count(SAID) == (column == "cost"), said
    if column != "cost":
        return
    for more in (("--field", "cost=-cost"), ("--allow-negative", "cost")):
        assert " ".join(more) in said
        value, again = wer_of(rescore, folder, column, *more)
        assert value < first - 5 and SAID not in again
