"""Law: a set of columns is never worse on the lists that it is tuned on than a part of
these columns.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from rescore import metrics
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import TuningOptions, tune_weights

COLUMNS = ("a", "b", "c", "d")
PARTS = [part for size in (1, 2, 3) for part in combinations(COLUMNS, size)]


def lists(seed: int) -> list[NbestList]:
    random = np.random.default_rng(seed)
    every = []
    for number in range(15):
        right = random.choice(list("abcdefgh"), 6).tolist()
        hypotheses = []
        for _ in range(5):
            wrong = random.random(6) < 0.3
            heard = np.where(wrong, "z", right).tolist()
            scores = {"s2s": float(random.normal(-wrong.sum()))}
            for index, name in enumerate(COLUMNS):
                scores[name] = float(random.normal(-wrong.sum(), 1 + index))
            hypotheses.append(Hypothesis(" ".join(heard), scores))
        every.append(NbestList(f"u{number}", hypotheses, (" ".join(right),)))
    return every


@pytest.mark.parametrize("rule", ["best", "mbr"])
@pytest.mark.parametrize("name", ["wer", "bleu"])
@pytest.mark.parametrize("seed", [1, 3])
def test_a_set_is_never_worse_than_its_parts(name: str, rule: str, seed: int) -> None:
    some = lists(seed)
    metric = metrics.choose_metric(name, some)
    options = TuningOptions(bagging=False, decision=Decision(rule))
    sign = 1 if metric.higher_is_better else -1
    together = sign * tune_weights(metric, Dataset.of(some), COLUMNS, options).value
    for part in PARTS:
        assert (
            together
            >= sign * tune_weights(metric, Dataset.of(some), part, options).value - 1e-9
        )
