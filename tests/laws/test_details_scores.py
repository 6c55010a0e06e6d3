"""The scores in --details belong to the chosen and to the first-pass hypothesis: the
list has them beside these texts, and the weights give the chosen text the best score.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rescore import formats
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import quick_folder, run_main

COLUMNS = ("s2s", "lm", "other")
ROADS = {
    "run": "run lists.jsonl --dev lists.jsonl --no-bagging",
    "folds": "run lists.jsonl --folds 2 --no-bagging",
    "rerank": "rerank lists.jsonl --weights w.json --best b",
    "analyse": "analyse lists.jsonl --weights w.json",
}
FILES = ("d.jsonl", "d.csv", "d.tsv")


def lists() -> list[NbestList]:
    """Return lists in which a text stands twice, with other scores."""
    chance = random.Random(3)
    every = []
    for number in range(30):
        hypotheses = []
        for text in ("a b", "a c", "b c", "a b"):
            scores = {name: -round(9 * chance.random(), 3) for name in COLUMNS}
            hypotheses.append(Hypothesis(text, scores))
        reference = chance.choice(("a b", "a c", "b c"))
        every.append(NbestList(f"u{number}", hypotheses, (reference,)))
    return every


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with quick_folder(tmp_path_factory.mktemp("details")):
        formats.write(lists(), "lists.jsonl")
        tuned = run_main("tune", "lists.jsonl", "--no-bagging", "-o", "w.json")
        assert tuned.returncode == 0, tuned.stderr
        yield


def rows_of(path: str) -> list[dict[str, Any]]:
    """Return the rows of a file of --details."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        if path.endswith(".jsonl"):
            return [json.loads(line) for line in file]
        delimiter = "\t" if path.endswith(".tsv") else ","
        return list(csv.DictReader(file, delimiter=delimiter))


def combined(scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the combined score without bonuses: all texts have two words."""
    return sum(weights[name] * scores[name] for name in COLUMNS)


@pytest.mark.parametrize(("road", "path"), list(product(ROADS, FILES)))
def test_scores_belong_to_the_texts(road: str, path: str) -> None:
    done = run_main(*ROADS[road].split(), "--details", path)
    assert done.returncode == 0, done.stderr
    weights = json.loads(Path("w.json").read_text())["weights"]
    rows = rows_of(path)
    assert len(rows) == 30
    for row, nbest in zip(rows, lists(), strict=True):
        first = {name: float(row[f"first_pass_{name}"]) for name in COLUMNS}
        chosen = {name: float(row[name]) for name in COLUMNS}
        own = [(one.text, one.scores) for one in nbest.hypotheses]
        assert (row["first_pass"], first) in own
        assert (row["chosen"], chosen) in own
        assert first["s2s"] == max(scores["s2s"] for _, scores in own)
        if road != "folds":  # each fold has other weights
            best = max(combined(scores, weights) for _, scores in own)
            assert combined(chosen, weights) == pytest.approx(best)
