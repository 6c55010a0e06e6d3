"""Language models side by side on the same lists: a row each, and one for all of them together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rescore import decision, pipeline, scoring
from rescore.metrics import Metric, list_statistics, oracle, total, value
from rescore.metrics.base import Counts
from rescore.metrics.significance import paired_randomisation
from rescore.nbest import FIRST_PASS, NbestList
from rescore.reporting.comparison import Comparison, Row
from rescore.version import VERSION


def compare(
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    lms: Sequence[scoring.LanguageModel],
    metric: Metric,
    *,
    source: str = "test",
    dev_source: str = "dev",
    norm: str | None = None,
    word_bonus: bool = True,
    progress: Callable[[int], object] = lambda done: None,
) -> Comparison:
    """Score both sets with every model, tune each on `dev`, and measure on `lists`.

    The last row, where there are several models, combines all but the intact readings of masked ones (which are there
    to be looked at), with one weight each and a word bonus. Each row below the first pass has a p-value against the row
    above it.

    Args:
        norm: `sum` or `mean`; None for the one that suits the first pass.
    """
    norm = pipeline.choose_norm(norm, lists)
    test, tuned_on = _Set(metric, lists), _Set(metric, dev)
    first = {FIRST_PASS: 1.0}
    result = Comparison(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        source=source,
        dev_source=dev_source,
        utterances=len(lists),
        hypotheses=sum(len(nbest.hypotheses) for nbest in lists),
        oracle=test.value(oracle(metric, test.statistics)),
        dev_oracle=tuned_on.value(oracle(metric, tuned_on.statistics)),
        first_pass=test.value(test.best(first)),
        dev_first_pass=tuned_on.value(tuned_on.best(first)),
        signature=f"{metric.signature}|rescore:{VERSION}",
    )
    number = result.hypotheses + sum(len(nbest.hypotheses) for nbest in dev)
    above = test.best(first)

    def add(models: Sequence[scoring.LanguageModel], bonus: bool, speed: float | None) -> None:
        nonlocal above
        columns = [scoring.column_name(lm, norm) for lm in models]
        weights, _ = pipeline.tune(metric, tuned_on.lists, columns, dev_source, bonus)
        choice = test.best(weights.columns)
        reranked = test.value(choice)
        row = Row(
            name=" + ".join(lm.name for lm in models),
            weights=weights.columns,
            dev=tuned_on.value(tuned_on.best(weights.columns)),
            value=reranked,
            gain=100 * (reranked - result.first_pass) / result.first_pass if result.first_pass else 0.0,
            p_value=test.p_value(above, choice),
            speed=speed,
            signature="|".join([metric.signature, *pipeline.settings(models, norm, weights), f"rescore:{VERSION}"]),
        )
        result.rows.append(row)
        above = choice

    for lm in lms:
        began = time.perf_counter()
        test.lists = pipeline.score_all([lm], test.lists, norm, progress)
        tuned_on.lists = pipeline.score_all([lm], tuned_on.lists, norm, progress)
        add([lm], False, number / (time.perf_counter() - began))
    together = [lm for lm in lms if "intact" not in lm.name.split(":")]
    if len(together) > 1:
        add(together, word_bonus, None)
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

    def p_value(self, one: Sequence[int], other: Sequence[int]) -> float:
        before, after = (
            [counts[index] for counts, index in zip(self.statistics, choice, strict=True)] for choice in (one, other)
        )
        return paired_randomisation(self.metric, before, after)
