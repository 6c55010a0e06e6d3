"""Law: folds whose tuned weights are worse on held-out lists than the same decision
without these weights are decided without them, and the results say so; each list is
decided once by each of the two, in any order of the file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rescore import deciding, pipeline
from rescore.config import RunConfig
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.summary import render
from rescore.tuning.folds import InFolds

RULES = ("best", "mbr", "rover")


def lists(helps: bool) -> list[NbestList]:
    """Return lists with a column that is right in the first half of the lists and wrong
    in the others; or right in all lists.
    """
    random = np.random.default_rng(1)
    every = []
    for number in range(40):
        right = " ".join(map(str, random.choice(list("abcdef"), 5)))
        is_right = helps or number < 20
        scores = [-2.0, -1.0] if is_right else [-1.0, -2.0]
        column = [-1.0, -9.0] if is_right else [-9.0, -1.0]
        hypotheses = []
        texts = (right, right + " z" * (1 + number % 3))
        for text, first, score in zip(texts, scores, column, strict=True):
            hypotheses.append(Hypothesis(text, {"s2s": first, "lm": score}))
        speaker = "one" if is_right else "two"
        every.append(NbestList(f"{speaker}-{number}", hypotheses, (right,)))
    return every


def outcome_of(rule: str, some: list[NbestList], bagging: bool) -> pipeline.Outcome:
    config = RunConfig(decide=rule, columns=("lm",), folds=2, bagging=bagging)
    return pipeline.run(some, config)


@pytest.mark.parametrize("rule", RULES)
def test_weights_that_harm_held_out_lists_are_not_applied(rule: str) -> None:
    harmful = outcome_of(rule, lists(helps=False), bagging=False)
    kept = outcome_of(rule, lists(helps=False), bagging=True)
    assert harmful.results.metrics[0].reranked > kept.results.metrics[0].reranked
    assert kept.weights.weights == {"s2s": 1.0, "lm": 0.0}
    for fold in kept.weights.tuning.of_folds:
        assert fold.weights == {"s2s": 1.0, "lm": 0.0}
    unproven = kept.weights.tuning.unproven
    assert unproven is not None and unproven.held_out
    assert ",kept=first_pass," in kept.results.signature
    assert "on held-out folds is" in render(kept.results)


@pytest.mark.parametrize("rule", RULES)
def test_weights_that_help_are_applied(rule: str) -> None:
    outcome = outcome_of(rule, lists(helps=True), bagging=True)
    assert outcome.weights.weighs("lm") and outcome.weights.tuning.unproven is None
    assert "kept" not in outcome.results.signature
    assert outcome.results.metrics[0].reranked < outcome.results.metrics[0].first_pass


@pytest.mark.parametrize("helps", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_texts_that_were_compared_are_not_decided_again(
    monkeypatch: pytest.MonkeyPatch, rule: str, helps: bool
) -> None:
    compared = []
    texts = InFolds.texts

    def counting(of: InFolds, *arguments: Any) -> list[str]:
        compared.append(of)
        return texts(of, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(InFolds, "texts", counting)
        outcome = outcome_of(rule, lists(helps), bagging=True)
    assert len(compared) == 2  # with the columns, and without them
    decided = outcome.decided
    again = deciding.decide(
        outcome.plan.metric,
        decided.lists,
        decided.weights,
        in_folds=decided.in_folds,
    )
    assert again.texts == decided.texts


@pytest.mark.parametrize("rule", RULES)
def test_the_interval_does_not_depend_on_the_order_of_the_file(rule: str) -> None:
    every = lists(helps=False)
    turned = [*reversed(every[:20]), *reversed(every[20:])]
    records = []
    for some in (every, turned):
        unproven = outcome_of(rule, some, bagging=True).weights.tuning.unproven
        assert unproven is not None
        records.append((unproven.low, unproven.high))
    assert records[0] == pytest.approx(records[1], abs=1e-9)
