"""Folds, flat choices, curves: what goes beyond the one best weight."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rescore import decision
from rescore.columns import FIRST_PASS, WORDS
from rescore.dataset import Dataset
from rescore.decision import Choice
from rescore.errors import UserError
from rescore.metrics import list_statistics, total, value
from rescore.metrics.folds import Folds
from rescore.metrics.folds import split as cut
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning.curves import curves
from rescore.tuning.weights import Weights
from tests.tuning.plain import best_weights as tune
from tests.tuning.test_search import COLUMNS, lists_of


def helpful_lists(number: int = 150) -> list[NbestList]:
    """Lists on which the column helps: it is higher for hypotheses with fewer errors,
    more often than not.
    """
    random = np.random.default_rng(0)
    lists = []
    for index in range(number):
        hypotheses = []
        for errors in random.integers(0, 5, 5).tolist():
            scores = {
                FIRST_PASS: float(random.normal(-errors, 3)),
                "lm": float(random.normal(-2 * errors, 3)),
            }
            hypotheses.append(
                Hypothesis(" ".join(["a"] * (5 - errors) + ["b"] * errors), scores)
            )
        lists.append(NbestList(f"s{index % 5}-{index}", hypotheses, ("a a a a a",)))
    return lists


def at(lists: list[NbestList], weight: float) -> np.ndarray:
    chosen = decision.best(lists, Choice({FIRST_PASS: 1 - weight, "lm": weight}))
    statistics = list_statistics(ErrorRate(), lists)
    return np.array(
        [rows[index] for rows, index in zip(statistics, chosen, strict=True)]
    )


def test_curve_of_one_weight_is_the_error_everywhere() -> None:
    lists = helpful_lists(40)
    tuned = tune(ErrorRate(), lists, ["lm"])
    steps = curves(
        ErrorRate(), Dataset.of(lists), ["lm"], Weights.interpolation(tuned.lm).weights
    )
    assert (steps[0].low, steps[-1].high) == (0, 1)
    assert all(
        one.high == other.low and one.value != other.value
        for one, other in pairwise(steps)
    )
    for step in steps:
        middle = (step.low + step.high) / 2
        assert value(ErrorRate(), at(lists, middle).sum(axis=0)) == pytest.approx(
            step.value
        )
    assert min(step.value for step in steps) == tuned.value


def test_curves_of_several_go_through_the_point() -> None:
    lists = lists_of(3)
    tuned = tune(ErrorRate(), lists, COLUMNS, bonuses=[WORDS])
    weights = Weights.interpolation(tuned.lm, bonuses=tuned.bonuses).weights
    steps = curves(ErrorRate(), Dataset.of(lists), COLUMNS, weights)
    here = value(
        ErrorRate(),
        total(
            list_statistics(ErrorRate(), lists), decision.best(lists, Choice(weights))
        ),
    )
    for column in COLUMNS:
        mine = [step for step in steps if step.column == column]
        assert [
            step.value for step in mine if step.low <= weights[column] <= step.high
        ].count(here) >= 1


def test_folds_keep_speakers_together() -> None:
    def split(ids: Sequence[str], number: int, pattern: str | None = None) -> Folds:
        return cut(
            [NbestList(name, [Hypothesis(name)]) for name in ids], number, pattern
        )

    ids = [f"s{index % 7}-{index}" for index in range(100)]
    folds = split(ids, 3)
    assert folds.unit == "speaker" and folds == split(ids, 3)
    speakers = {
        (name.partition("-")[0], fold)
        for name, fold in zip(ids, folds.fold_of_list, strict=True)
    }
    assert len(speakers) == 7
    sizes = [folds.fold_of_list.count(fold) for fold in range(3)]
    assert sum(sizes) == 100 and max(sizes) - min(sizes) <= 15
    # ids without a speaker
    assert split([f"u{index}" for index in range(10)], 5).unit == "utterance"
    assert split(ids, 8).unit == "utterance"  # too few speakers
    assert (
        split([f"talk{index % 4}.{index}" for index in range(12)], 4, r"talk\d").unit
        == "speaker"
    )
    with pytest.raises(UserError, match="only 2 utterances"):
        split(["a", "b"], 3)
    with pytest.raises(UserError, match="at least 2"):
        split(["a", "b"], 1)
    with pytest.raises(UserError, match="does not match"):
        split(["a", "b"], 2, "x")


@pytest.mark.parametrize(
    "number", [np.float32(0.5), np.float64(0.5), np.int64(1), Fraction(1, 2)]
)
def test_weights_are_any_real_numbers(number: float, tmp_path: Path) -> None:
    weights = Weights({"s2s": 0.5, "lm": number})
    weights.save(tmp_path / "w.json")
    assert Weights.load(tmp_path / "w.json") == weights
    for odd in (np.float32("nan"), 1j, "0.5"):
        with pytest.raises(UserError, match="not a number"):
            Weights({"lm": odd})
