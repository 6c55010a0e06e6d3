"""The plain optimum of lists, without averages and without a test of gain."""

from __future__ import annotations

from collections.abc import Sequence

from rescore.metrics.base import Metric
from rescore.nbest import NbestList
from rescore.tuning import Tuned, TuningOptions, tune


def best_weights(metric: Metric, lists: list[NbestList], columns: list[str], bonuses: Sequence[str] = ()) -> Tuned:
    return tune(metric, lists, columns, options=TuningOptions(tuple(bonuses), bagging=False))[1]
