"""Language models side by side on the same lists: a row each, and one for all of them together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rescore import decision
from rescore.engines import OnProgress, score_all
from rescore.evaluation.evaluate import choose, sign
from rescore.evaluation.significance import PairedTest
from rescore.experiment.run import choose_norm, warn_of_overlap
from rescore.metrics import Metric, list_statistics, oracle, total, value
from rescore.metrics.base import Counts
from rescore.nbest import FIRST_PASS, WORDS, NbestList
from rescore.scoring import LanguageModel, column_name
from rescore.scoring.cache import Cached
from rescore.tuning.tune import TuningOptions, tune
from rescore.tuning.weights import FIRST_PASS_ALONE


@dataclass(slots=True)
class Row:
    """One model, or several together."""

    name: str
    weights: dict[str, float]
    dev: float
    """The metric on dev, in percent."""
    value: float
    """The metric on test, in percent."""
    gain: float
    """The change from the first pass on test, in percent of it."""
    p_value: float
    """Two-sided, against the row above."""
    speed: float | None
    """Hypotheses scored a second; None where scores were looked up."""
    signature: str


@dataclass(slots=True)
class Comparison:
    """Language models on the same lists."""

    metric: str
    higher_is_better: bool
    source: str
    """Path or name of the test lists."""
    dev_source: str
    """Path or name of the dev lists."""
    utterances: int
    """Test lists."""
    hypotheses: int
    """Hypotheses in them."""
    oracle: float
    """The metric of the best hypothesis of each test list, in percent."""
    dev_oracle: float
    first_pass: float
    """The metric of the first pass on test, in percent."""
    dev_first_pass: float
    signature: str
    """Of the first pass."""
    rows: list[Row] = field(default_factory=list)


def compare(
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    lms: Sequence[LanguageModel],
    metric: Metric,
    *,
    source: str = "test",
    dev_source: str = "dev",
    norm: str | None = None,
    word_bonus: bool = True,
    test: PairedTest | None = None,
    progress: OnProgress = lambda done: None,
) -> Comparison:
    """Score both sets with every model, tune each on `dev`, and measure on `lists`.

    The last row, where there are several models, combines all but the intact readings of masked ones (which are there
    to be looked at), with one weight each and a word bonus. Each row below the first pass has a p-value against the row
    above it.

    Args:
        norm: `sum` or `mean`; None for the one that suits the first pass.
    """
    norm = choose_norm(norm, lists)
    warn_of_overlap(lists, dev)
    test_set, dev_set = _Set(metric, lists), _Set(metric, dev)
    significance = test or PairedTest()
    first = {FIRST_PASS: 1.0}
    result = Comparison(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        source=source,
        dev_source=dev_source,
        utterances=len(lists),
        hypotheses=sum(len(nbest.hypotheses) for nbest in lists),
        oracle=test_set.value(oracle(metric, test_set.statistics)),
        dev_oracle=dev_set.value(oracle(metric, dev_set.statistics)),
        first_pass=test_set.value(test_set.best(first)),
        dev_first_pass=dev_set.value(dev_set.best(first)),
        signature=str(sign(metric, lists, FIRST_PASS_ALONE, test=significance)),
    )
    number = result.hypotheses + sum(len(nbest.hypotheses) for nbest in dev)
    above = test_set.best(first)

    def add(models: Sequence[LanguageModel], bonuses: Sequence[str], speed: float | None) -> None:
        nonlocal above
        columns = [column_name(lm, norm) for lm in models]
        weights, _ = tune(metric, dev_set.lists, columns, dev_source, TuningOptions(tuple(bonuses)))
        choice = test_set.best(weights.weights)
        reranked = test_set.value(choice)
        row = Row(
            name=" + ".join(lm.name for lm in models),
            weights=weights.weights,
            dev=dev_set.value(dev_set.best(weights.weights)),
            value=reranked,
            gain=100 * (reranked - result.first_pass) / result.first_pass if result.first_pass else 0.0,
            p_value=test_set.p_value(significance, above, choice),
            speed=speed,
            signature=str(sign(metric, test_set.lists, weights, test=significance)),
        )
        result.rows.append(row)
        above = choice

    for lm in lms:
        began = time.perf_counter()
        test_set.lists = score_all([lm], test_set.lists, norm, progress)
        dev_set.lists = score_all([lm], dev_set.lists, norm, progress)
        add([lm], (), None if isinstance(lm, Cached) else number / (time.perf_counter() - began))
    together = [lm for lm in lms if "intact" not in lm.name.split(":")]
    if len(together) > 1:
        add(together, (WORDS,) if word_bonus else (), None)
    return result


@dataclass(slots=True)
class _Set:
    """Lists, and the statistics of their hypotheses, computed once."""

    metric: Metric
    lists: Sequence[NbestList]
    statistics: list[Counts]

    def __init__(self, metric: Metric, lists: Sequence[NbestList]) -> None:
        self.metric, self.lists, self.statistics = metric, lists, list_statistics(metric, lists)

    def best(self, weights: dict[str, float]) -> list[int]:
        return decision.best(self.lists, weights)

    def value(self, choice: Sequence[int]) -> float:
        return value(self.metric, total(self.statistics, choice))

    def p_value(self, test: PairedTest, one: Sequence[int], other: Sequence[int]) -> float:
        before, after = (choose(self.lists, self.statistics, choice) for choice in (one, other))
        return test.p_value(self.metric, self.lists, before, after)
