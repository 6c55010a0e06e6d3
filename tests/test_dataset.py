"""Sets of lists: what holds for all lists of a set."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

import rescore
from rescore import formats
from rescore.asr.systems import header_of
from rescore.columns import Column, Role
from rescore.dataset import FEWEST, Dataset
from rescore.nbest import Header, Hypothesis, NbestList
from tests.conftest import ROOT

COLUMNS = {
    "lm": Column("tta", "ab12", "mean", "float32"),
    "tokens": Column("tta", "ab12", "count", "", Role.COUNT),
}
HYPOTHESIS = Hypothesis("a b", {"s2s": -1.0, "lm": -2.0, "tokens": 3.0, "odd": 0.0})


def test_a_set_knows_its_columns() -> None:
    header = Header("file", COLUMNS, scores_are_means=True)
    lists = Dataset([NbestList("u", [HYPOTHESIS], header=header)])
    assert lists.header is header
    assert lists.score_names == ["s2s", "lm", "tokens", "odd"]
    assert lists.columns(Role.COUNT) == ["tokens"]
    assert lists.columns(Role.LM) == ["lm", "odd"]
    assert lists.model_columns == ["lm"]


def test_without_records_all_columns_are_of_models() -> None:
    lists = Dataset([NbestList("u", [HYPOTHESIS])])
    assert lists.model_columns == ["lm", "odd"]


def test_an_empty_set() -> None:
    lists = Dataset()
    assert not lists.header.records and not lists.header.systems
    assert lists.score_names == lists.columns(*Role) == lists.model_columns == []


def test_a_set_is_returned_as_it_is() -> None:
    lists = formats.read([ROOT / "data" / "dev.json"])
    assert Dataset.of(lists) is lists
    some = Dataset.of(replace(nbest) for nbest in lists[:3])
    assert some == lists[:3] and some.header.prefix.endswith("dev.json: ")


def first_pass_of(kind: str, number: int, seed: int) -> Dataset:
    """Lists whose first pass is sums over tokens, means, the same means for all, ranks
    or votes.
    """
    draw = random.Random(seed)
    lists = []
    for place in range(number):
        words = ["owl"] * draw.randrange(3, 30)
        hypotheses = []
        for rank in range(3):
            tokens = [-draw.random() for _ in words]
            score = {
                "sums": sum(tokens),
                "means": sum(tokens) / len(tokens),
                "constant": -0.5,
                "ranks": -math.log(rank + 1),
                "votes": -0.4,
            }[kind]
            text = " ".join([*words, str(rank)])
            hypotheses.append(Hypothesis(text, {"s2s": score}))
        nbest = NbestList(f"u{place}", hypotheses)
        if kind == "votes":
            nbest.header = header_of(["a", "b"])
        lists.append(nbest)
    return Dataset(lists)


@pytest.mark.parametrize("number", [20, 50, 500])
@pytest.mark.parametrize("kind", ["sums", "constant", "ranks", "votes"])
def test_what_falls_with_the_length_or_says_nothing_is_not_taken_for_means(
    kind: str, number: int
) -> None:
    for seed in range(20):
        assert not first_pass_of(kind, number, seed).look_like_means


def test_means_are_told() -> None:
    assert all(first_pass_of("means", 500, seed).look_like_means for seed in range(20))
    assert not first_pass_of("means", FEWEST - 1, 0).look_like_means


def test_a_model_beside_scores_that_look_like_means(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The command prints the line once, if sums are the default. No score changes."""
    said = "try --lm-norm mean"

    def brevity(sentences: Sequence[str]) -> list[float]:
        return [-1.0 * len(sentence) for sentence in sentences]

    means = first_pass_of("means", 500, 1)
    scored = rescore.score(means, brevity)
    assert caplog.text.count(said) == 1
    assert scored[0].header.records["brevity"].norm == "sum"
    caplog.clear()
    rescore.score(means, brevity, lm_norm="mean")
    rescore.score(first_pass_of("sums", 200, 1), brevity)
    assert said not in caplog.text
