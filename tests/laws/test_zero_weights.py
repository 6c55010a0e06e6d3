"""Law: a column whose tuned weight is 0 has no influence: weights, scale, votes and
texts are those of the same search without this column.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rescore import metrics
from rescore.columns import WORDS, Column, Role
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import DECISIONS
from rescore.tuning import TuningOptions, Weights, tune_weights

USELESS = ("x", "y")
"""Columns of random numbers; `good` is a column that helps."""
CASES = list(product(DECISIONS.shipped, ("wer", "bleu"), (False, True)))


def lists(systems: bool, seed: int = 0) -> list[NbestList]:
    """Return lists with useless columns, in which each list has a text twice.

    Args:
        systems: Whether three systems wrote the lists.
        seed: The seed of texts and scores.
    """
    random = np.random.default_rng(seed)
    names = ("a", "b", "c") if systems else ()
    records = {name: Column("system", "", "", "", Role.SYSTEM) for name in names}
    every = []
    for number in range(40):
        right = [str(word) for word in random.choice(list("abcdefgh"), 7)]
        hypotheses = []
        for place in range(4):
            wrong = random.random(7) < 0.1 * place
            heard = [
                "z" if is_wrong else word
                for word, is_wrong in zip(right, wrong, strict=True)
            ]
            scores = {"s2s": float(-wrong.sum() + random.normal())}
            scores["good"] = float(-2 * wrong.sum() + random.normal())
            scores |= dict.fromkeys(names[place % 3 : place % 3 + 1], 0.0)
            text = " ".join(heard)
            for _ in range(1 if systems or place else 2):
                useless = {name: float(random.normal()) for name in USELESS}
                hypotheses.append(Hypothesis(text, scores | useless))
        nbest = NbestList(f"u{number}", hypotheses, (" ".join(right),))
        nbest.header = nbest.header.with_records(records)
        every.append(nbest)
    return every


def tuned(
    rule: str, name: str, some: list[NbestList], columns: tuple[str, ...]
) -> tuple[Weights, list[str]]:
    metric = metrics.choose_metric(name, some)
    options = TuningOptions(decision=Decision(rule))
    weights = tune_weights(metric, Dataset.of(some), columns, options)
    return weights, weights.texts(metric, Dataset.of(some))


@pytest.mark.parametrize(("rule", "metric", "systems"), CASES)
def test_useless_columns_have_no_influence(
    rule: str, metric: str, systems: bool
) -> None:
    some = lists(systems)
    columns = USELESS if systems else (*USELESS, "good")
    both, texts = tuned(rule, metric, some, columns)
    zero = {name: 0.0 for name, weight in both.weights.items() if not weight}
    assert zero
    left = tuple(name for name in columns if name not in zero)
    alone, same_texts = tuned(rule, metric, some, left)
    assert both.weights == alone.weights | zero
    assert both.decision == alone.decision
    assert both.mixture == alone.mixture
    assert both.excluded == alone.excluded
    assert both.value == alone.value
    assert texts == same_texts


SHORT = 0.2
"""Probability that a hypothesis lacks a word."""
BIAS = 0.2
"""What a word more costs in scores, beside an error of 1."""


def lists_with_short_texts(seed: int) -> list[NbestList]:
    """Return lists in which words are left out: `good` is kind to short texts, so it
    needs the word bonus; `long` counts words, with noise.

    Args:
        seed: The seed of texts and scores.
    """
    random = np.random.default_rng(seed)
    every = []
    for number in range(120):
        right = [str(word) for word in random.choice(list("abcdefgh"), 7)]
        hypotheses = []
        for place in range(5):
            heard = []
            wrong = 0
            for word in right:
                drawn = random.random()
                wrong += drawn < SHORT + 0.1 * place
                if drawn >= SHORT:
                    heard.append(word if drawn >= SHORT + 0.1 * place else "z")
            cost = wrong + BIAS * len(heard)
            scores = {
                "s2s": float(random.normal(-cost, 1.5)),
                "good": float(random.normal(-2 * cost, 1.5)),
                "long": float(random.normal(0.5 * len(heard) - 0.3 * wrong, 0.8)),
            }
            hypotheses.append(Hypothesis(" ".join(heard), scores))
        every.append(NbestList(f"u{number}", hypotheses, (" ".join(right),)))
    return every


@pytest.mark.parametrize(
    ("free", "options"),
    [
        ((), TuningOptions(bonuses=(WORDS,))),
        (("part",), TuningOptions(negative=("part",))),
    ],
)
def test_a_model_that_leaves_takes_no_weight_without_bounds_with_it(
    free: tuple[str, ...], options: TuningOptions
) -> None:
    """Be it a bonus, or a column such as a part of the toolkit's score."""
    some = lists_with_short_texts(seed=11)
    for nbest in some:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores["part"] = float(len(hypothesis.text.split()))
    metric = metrics.choose_metric("wer", some)
    alone, both = (
        tune_weights(metric, Dataset.of(some), columns, options)
        for columns in (("good", *free), ("good", "long", *free))
    )
    assert all(map(alone.weighs, ("good", *options.bonuses, *free)))
    assert both.weights == alone.weights | {"long": 0.0}
    assert both.value == alone.value


@pytest.mark.parametrize("seed", [3, 5])
def test_a_model_that_fails_hides_no_column_without_bounds(seed: int) -> None:
    some = lists_with_short_texts(seed)[:60]
    random = np.random.default_rng(seed)
    for nbest in some:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores["part"] = float(len(hypothesis.text.split()))
            hypothesis.scores["lm"] = float(random.normal())
    metric = metrics.choose_metric("wer", some)
    options = TuningOptions(negative=("part",))
    alone, both = (
        tune_weights(metric, Dataset.of(some), columns, options)
        for columns in (("part",), ("lm", "part"))
    )
    assert alone.weighs("part")
    assert both.weights == alone.weights | {"lm": 0.0}
    assert both.tuning.unproven is None


@pytest.mark.parametrize("seed", [3, 5, 7])
def test_a_useless_bonus_hides_no_useful_one(seed: int) -> None:
    """Both together need a larger gain than the useful one alone."""
    some = lists_with_short_texts(seed)[:60]
    random = np.random.default_rng(seed)
    for nbest in some:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores["useless"] = float(random.normal())
    metric = metrics.choose_metric("wer", some)
    alone, both = (
        tune_weights(metric, Dataset.of(some), (), TuningOptions(bonuses=bonuses))
        for bonuses in ((WORDS,), (WORDS, "useless"))
    )
    assert alone.weighs(WORDS)
    assert both.weights == alone.weights | {"useless": 0.0}
    assert both.value == alone.value
