"""Law: however many useless columns are tried, one of them gets a weight in less than
5 % of the searches, and a useful column keeps its weight beside them.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from rescore import metrics
from rescore.dataset import Dataset
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import TuningOptions, tune_weights
from rescore.tuning.record import STANDARD_ERRORS
from rescore.tuning.search import CHANCE, errors_of_best, errors_of_sum

WORDS = [first + second for first in "bcdfg" for second in "aeiou"]
SEEDS = 21
"""Searches for each number of columns."""


@functools.cache
def lists(seed: int, columns: int) -> list[NbestList]:
    """Return lists with a useful column and columns of random numbers.

    Args:
        seed: The seed of texts and scores.
        columns: Number of random columns.
    """
    random = np.random.default_rng(seed)
    every = []
    for number in range(50):
        right = [str(word) for word in random.choice(WORDS, 6)]
        hypotheses = []
        for _ in range(4):
            heard = []
            for word in right:
                is_wrong = random.random() < 0.15
                heard.append(str(random.choice(WORDS)) if is_wrong else word)
            wrong = sum(a != b for a, b in zip(heard, right, strict=True))
            scores = {
                "s2s": float(random.normal(-wrong)),
                "good": float(random.normal(-wrong, 0.3)),
            }
            for index in range(columns):
                scores[f"x{index}"] = float(random.normal())
            hypotheses.append(Hypothesis(" ".join(heard), scores))
        every.append(NbestList(f"u{number}", hypotheses, (" ".join(right),)))
    return every


def weights_of(seed: int, number: int, *columns: str) -> dict[str, float]:
    """Return the weights of `number` random columns and of further columns."""
    some = lists(seed, number)
    names = [*columns, *(f"x{index}" for index in range(number))]
    metric = metrics.choose_metric("wer", some)
    weights = tune_weights(metric, Dataset.of(some), names, TuningOptions())
    return {name: weights.weights[name] for name in names}


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 5])
def test_useless_columns_get_no_weight(number: int) -> None:
    hits = 0
    for seed in range(SEEDS):
        hits += any(weights_of(seed, number).values())
    assert hits < 0.05 * SEEDS


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 5])
def test_a_useful_column_keeps_its_weight(number: int) -> None:
    for seed in range(2):
        alone = weights_of(seed, 0, "good")["good"]
        weights = weights_of(seed, number, "good")
        assert alone > 0.1 and weights["good"] > 0.1


def test_the_gain_that_is_demanded_grows_with_the_number() -> None:
    for rule in (errors_of_sum, errors_of_best):
        assert rule(0) == rule(1) == STANDARD_ERRORS
        demanded = [rule(number) for number in range(1, 50)]
        assert demanded == sorted(demanded) and len(set(demanded)) >= 48
    for number in (2, 3, 5, 20):
        # the chance that any of so many independent gains exceeds it
        chance = math.erfc(errors_of_best(number) / math.sqrt(2)) / 2
        assert number * chance < CHANCE + 1e-9
