"""The plain optimum of lists, without averages and without a test of gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.metrics.base import Metric
from rescore.nbest import NbestList
from rescore.tuning import TuningOptions, tune_weights


class Best(NamedTuple):
    """The weights of language models and of bonuses, and the metric with them and
    without.
    """

    lm: dict[str, float]
    bonuses: dict[str, float]
    value: float
    first_pass: float
    low: float | None
    high: float | None

    @property
    def helps(self) -> bool:
        return any(self.lm.values()) or any(self.bonuses.values())


def best_weights(
    metric: Metric,
    lists: list[NbestList],
    columns: list[str],
    bonuses: Sequence[str] = (),
) -> Best:
    weights = tune_weights(
        metric,
        Dataset.of(lists),
        columns,
        options=TuningOptions(tuple(bonuses), bagging=False),
    )
    about = weights.tuning
    assert about.value is not None and about.first_pass is not None
    lm = {
        name: weights.weights.get(name, 0.0) for name in columns if name != FIRST_PASS
    }
    counts = {name: weights.weights.get(name, 0.0) for name in bonuses}
    return Best(lm, counts, about.value, about.first_pass, about.low, about.high)
