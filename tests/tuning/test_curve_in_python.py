"""`rescore.curve`: WER against lambda in one call, as a grid of evaluations has it."""

from __future__ import annotations

import random

import pytest

import rescore
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.nbest import Hypothesis, NbestList


def scored(number: int = 12) -> list[NbestList]:
    """Return lists with a column of a language model."""
    draw = random.Random(3)
    lists = []
    for place in range(number):
        hypotheses = []
        for _ in range(6):
            text = " ".join(draw.choices("ab", k=5))
            hypotheses.append(Hypothesis(text, {FIRST_PASS: draw.uniform(-9, 0)}))
        reference = " ".join(draw.choices("ab", k=5))
        lists.append(NbestList(f"u{place}", hypotheses, (reference,)))
    return rescore.score(lists, letters)


def letters(sentences: list[str]) -> list[float]:
    """Return a score of each sentence."""
    return [-float(sentence.count("b")) for sentence in sentences]


@pytest.mark.parametrize("metric", ["wer", "cer", "bleu"])
def test_it_is_the_grid(metric: str) -> None:
    lists = scored()
    steps = rescore.curve(lists, metric=metric)
    assert [steps[0].low, steps[-1].high] == [0.0, 1.0]
    assert {step.column for step in steps} == {"letters"} and len(steps) > 5
    for step in steps:
        weight = (step.low + step.high) / 2
        figures = rescore.evaluate(lists, weight, metric)
        assert figures.reranked == pytest.approx(step.value, abs=1e-9)


def test_other_weights_keep_their_proportions() -> None:
    lists = rescore.score(scored(), longer)
    weights = {FIRST_PASS: 0.6, "letters": 0.2, "longer": 0.2}
    for step in rescore.curve(lists, weights):
        weight = (step.low + step.high) / 2
        rest = 1 - weights[step.column]
        changed = {name: each * (1 - weight) / rest for name, each in weights.items()}
        figures = rescore.evaluate(lists, changed | {step.column: weight}, "wer")
        assert figures.reranked == pytest.approx(step.value, abs=1e-9)


def longer(sentences: list[str]) -> list[float]:
    """Return a score of each sentence."""
    return [float(sentence.count("a b")) for sentence in sentences]


def test_errors() -> None:
    lists = scored()
    with pytest.raises(rescore.UserError, match="no scores of a language model"):
        rescore.curve([NbestList("u", [Hypothesis("a", {FIRST_PASS: 0.0})], ("a",))])
    with pytest.raises(rescore.UserError, match="curve takes no folds; give it to run"):
        rescore.curve(lists, folds=3)
    with pytest.raises(rescore.UserError, match="no reference"):
        rescore.curve([NbestList(each.id, each.hypotheses) for each in lists])
    assert Dataset.of(lists).model_columns == ["letters"]
