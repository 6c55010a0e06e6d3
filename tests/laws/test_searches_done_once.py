"""Law: a search that was done before is not done again, and nothing else changes: the
weights are the same with and without the searches before.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from rescore import metrics
from rescore.columns import WORDS
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.parts import DECISIONS
from rescore.tuning import Searches, TuningOptions, search, tune_weights
from rescore.tuning.objective import TuningObjective
from tests.laws.test_zero_weights import lists_with_short_texts

COLUMNS = ("good", "long")
SETS = [columns for number in (2, 1, 0) for columns in combinations(COLUMNS, number)]
"""All sets of columns; the set of all comes first."""


@pytest.mark.parametrize("bagging", [False, True])
@pytest.mark.parametrize("rule", DECISIONS.shipped)
@pytest.mark.parametrize("name", ["wer", "bleu"])
def test_searches_before_change_nothing(
    name: str, rule: str, bagging: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = Dataset.of(lists_with_short_texts(seed=11)[:20])
    metric = metrics.choose_metric(name, list(some))
    done = []
    plain = search.optimise

    def counted(
        objective: TuningObjective, *options: Any, **more: Any
    ) -> search.Optimum:
        done.append(objective.columns)
        return plain(objective, *options, **more)

    monkeypatch.setattr(search, "optimise", counted)
    searches = Searches()
    for bonuses in ((WORDS,), ()):
        options = TuningOptions(
            bonuses=bonuses, bagging=bagging, decision=Decision(rule)
        )
        for columns in SETS:
            alone = tune_weights(metric, some, columns, options)
            number = len(done)
            shared = tune_weights(metric, some, columns, options, searches=searches)
            assert shared == alone
            first = len(done) - number
            again = tune_weights(metric, some, columns, options, searches=searches)
            assert again == alone
            assert len(done) == number + first  # nothing was searched again


def test_objectives_that_differ_have_different_digests() -> None:
    some = lists_with_short_texts(seed=11)[:9]
    metric = metrics.choose_metric("wer", some)
    objective = TuningObjective.of(metric, some, ["s2s", "good"])
    losses = np.ones((9, 5, 5))
    statistics = objective.statistics.copy()
    statistics[0, 0, 0] += 1
    others = [
        objective,
        objective.over(["s2s"]),
        objective.sample(np.random.default_rng(0)),
        replace(objective, features=objective.features + 1),
        replace(objective, statistics=statistics),
        replace(objective, present=~objective.present),
        replace(objective, free=~objective.free),
        replace(objective, losses=losses),
        replace(objective, losses=2 * losses),
    ]
    assert len({other.digest() for other in others}) == len(others)
    assert replace(objective, losses=[object()]).digest() is None
    assert objective.over(["s2s", "good"]).digest() == objective.digest()
