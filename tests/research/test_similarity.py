"""Correlations of cosines of sentence vectors with people's scores."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rescore.correlations import ranks, spearman
from rescore.errors import UserError
from rescore.lms import load
from rescore.research.similarity import (
    RatedPair,
    cosines,
    interval,
    measure_pairs,
    read_pairs,
)
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error

TEXTS = [*SENTENCES[:9], "the old clock", "the"]
LINES = [
    f"{number % 6}\t{first}\t{second}"
    for number, (first, second) in enumerate(pairwise(TEXTS))
]
SICK_HEAD = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\n"


def test_files_of_pairs(tmp_path: Path) -> None:
    expected = [
        RatedPair(first, second, number % 6)
        for number, (first, second) in enumerate(pairwise(TEXTS))
    ]
    (tmp_path / "plain").write_text("\n".join(LINES), encoding="utf-8")
    of_sts = [f"genre\tfile\tyear\t1\t{line}\ta source" for line in LINES]
    (tmp_path / "sts.csv").write_text("\n".join(of_sts), encoding="utf-8")
    of_sick = [
        f"1\t{pair.first}\t{pair.second}\tNEUTRAL\t{pair.score}\n" for pair in expected
    ]
    (tmp_path / "SICK.txt").write_text(SICK_HEAD + "".join(of_sick), encoding="utf-8")
    for name in ("plain", "sts.csv", "SICK.txt"):
        assert read_pairs(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; expected pairs of sentences"),
        ("1\ta\tb\n\nx\ta\tb\n", "line 3: expected score, sentence, sentence"),
        ("1\ta\n", "line 1: expected score"),
        ("nan\ta\tb\n", "line 1: expected score"),
        ("sentence_A\tsentence_B\nthe old\tclock\n", "line 1: expected score"),
        (SICK_HEAD + "1\ta\tb\tNEUTRAL\n", "line 2: expected score"),
    ],
)
def test_other_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_pairs(tmp_path / "pairs")


def test_cosines() -> None:
    first = np.array([[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    second = np.array([[2.0, 0.0], [-4.0, 3.0], [1.0, 1.0]])
    assert cosines(first, second).tolist() == [1.0, 0.0, 0.0]
    shift = np.array([10.0, -20.0])
    centred = cosines(first, second, centre=True)
    assert cosines(first + shift, second + shift, centre=True) == pytest.approx(centred)


def test_equal_values_share_their_rank() -> None:
    assert ranks(np.array([5.0, 1.0, 5.0, 7.0])).tolist() == [2.5, 1.0, 2.5, 4.0]
    values = np.array([0.1, 0.4, 0.2, 0.9])
    assert spearman(values, np.exp(9 * values)) == pytest.approx(1.0)
    assert spearman(values, np.ones(4)) == 0.0


def test_an_interval_has_95_percent() -> None:
    assert interval(np.arange(1_000) / 1_000) == pytest.approx((2.5, 97.4))


def test_figures_are_those_of_the_vectors(models: dict[str, Path]) -> None:
    pairs = [
        RatedPair(first, second, number % 6)
        for number, (first, second) in enumerate(pairwise(TEXTS))
    ]
    embedder = Embedder([load(f"tta:{models['tta']}")])
    first = embedder.sentences([pair.first for pair in pairs])
    second = embedder.sentences([pair.second for pair in pairs])
    products = (first * second).sum(axis=1)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    scores = [pair.score for pair in pairs]
    expected = 100 * np.corrcoef(products / norms, scores)[0, 1]
    found = measure_pairs(pairs, embedder)
    assert found.pearson == pytest.approx(expected, abs=1e-3)
    assert found.pairs == 10
    assert found.pearson_interval[0] <= found.pearson <= found.pearson_interval[1]
    assert found.spearman_interval[0] <= found.spearman <= found.spearman_interval[1]
    centred = measure_pairs(pairs, embedder, centre=True)
    assert centred.pearson != found.pearson
    assert "|centre:yes|" in centred.signature and "centre" not in found.signature


def test_the_command(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("\n".join(LINES), encoding="utf-8")
    tta = ("--lm", f"tta:{models['tta']}")
    lms = (*tta, "--lm", f"unilm:{models['unilm']}")
    done = rescore("similarity", "pairs.tsv", *lms, "-o", "figures.json", "--centre")
    assert done.returncode == 0, done.stderr
    first, second = json.loads((tmp_path / "figures.json").read_text())
    assert [first["name"], second["name"]] == ["tta", "unilm"]
    assert f"{first['pearson']:.1f}" in done.stdout.splitlines()[1]
    assert "|pooling:mean|centre:yes|lm:tta=tta@" in done.stdout
    done = rescore(
        "similarity", "pairs.tsv", *lms, "--joined", "-o", "-", "--pooling", "max"
    )
    (joined,) = json.loads(done.stdout)
    assert joined["name"] == "tta + unilm" and "|pooling:max|" in joined["signature"]
    done = rescore("similarity", "pairs.tsv", *tta, "--layers", "1:0.2,3:0.8")
    assert "|layer:1:0.2+3:0.8|" in done.stdout
    for arguments, message in (
        (("--layer", "9"), "not between 0 and 3"),
        (("--layers", "1,x"), "expected a layer such as 2"),
        (("--layer", "1", "--kind", "token"), "layer 1 selects hidden vectors"),
    ):
        done = rescore("similarity", "pairs.tsv", *tta, *arguments)
        assert_one_line_error(done, message)
    done = rescore("similarity", "pairs.tsv", "--lm", "ngram:pairs.tsv")
    assert_one_line_error(done, "pairs.tsv: ", "an ARPA file")
