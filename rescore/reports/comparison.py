"""Language models side by side on the same lists: a row each, and one for all of them together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rescore import decision
from rescore.decision import Decision
from rescore.engines import OnProgress, score_all
from rescore.metrics import Metric, list_statistics, oracle, total, value
from rescore.metrics.base import Counts
from rescore.metrics.significance import Chosen, PairedTest
from rescore.nbest import COUNTS, FIRST_PASS, LARGE_SET, TOKENS, WORDS, NbestList
from rescore.parts import STYLES
from rescore.reports.figures import choose, measured, original, sign
from rescore.reports.styles import as_json, p_value
from rescore.scoring import LanguageModel, column_name, is_pseudo
from rescore.scoring.cache import Cached
from rescore.tuning.tune import TuningOptions, tune
from rescore.tuning.weights import FIRST_PASS_ALONE

JSON = "json"
"""Beside `STYLES`: all figures, in full precision."""


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
    norm: str,
    word_bonus: bool = True,
    test: PairedTest | None = None,
    decide: Decision | None = None,
    progress: OnProgress = lambda done: None,
) -> Comparison:
    """Score both sets with every model, tune each on `dev`, and measure on `lists`.

    The last row, where there are several models, combines all but the intact readings of masked ones (which are there
    to be looked at), with one weight each and a word bonus. Each row below the first pass has a p-value against the row
    above it. With `LARGE_SET` dev lists or more, rows with pseudo-log-likelihoods have a token bonus, as in `run`.

    Args:
        norm: `sum`, `mean` or `length^A`.
        decide: how texts are chosen; None for the best score.
    """
    decide = decide or Decision()
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
        oracle=test_set.oracle(),
        dev_oracle=dev_set.oracle(),
        first_pass=test_set.value(first),
        dev_first_pass=dev_set.value(first),
        signature=str(sign(metric, lists, FIRST_PASS_ALONE, test=significance)),
    )
    number = result.hypotheses + sum(len(nbest.hypotheses) for nbest in dev)
    above = test_set.chosen(first)
    counted = next((lm for lm in lms if is_pseudo(lm.model)), None) if len(dev) >= LARGE_SET else None

    def add(models: Sequence[LanguageModel], bonuses: Sequence[str], speed: float | None) -> None:
        nonlocal above
        columns = [column_name(lm, norm) for lm in models]
        if counted is not None and any(is_pseudo(lm.model) for lm in models):
            bonuses = (*bonuses, TOKENS)
        weights, tuned = tune(metric, dev_set.lists, columns, dev_source, TuningOptions(tuple(bonuses), decide=decide))
        texts = weights.decision.texts(metric, test_set.lists, weights.of)
        chosen = measured(metric, test_set.lists, texts)
        reranked = value(metric, np.sum([one.counts for one in chosen], axis=0))
        row = Row(
            name=" + ".join(lm.name for lm in models),
            weights=weights.weights,
            dev=tuned.value,
            value=reranked,
            gain=100 * (reranked - result.first_pass) / result.first_pass if result.first_pass else 0.0,
            p_value=significance.p_value(metric, test_set.lists, above, chosen),
            speed=speed,
            signature=str(sign(metric, test_set.lists, weights, test=significance)),
        )
        result.rows.append(row)
        above = chosen

    for lm in lms:
        began = time.perf_counter()
        count = lm is counted
        test_set.lists = score_all([lm], test_set.lists, norm, progress, count)
        dev_set.lists = score_all([lm], dev_set.lists, norm, progress, count)
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

    def chosen(self, weights: dict[str, float]) -> list[Chosen]:
        """The hypotheses with the best scores."""
        return choose(self.lists, self.statistics, decision.best(self.lists, weights))

    def value(self, weights: dict[str, float]) -> float:
        return value(self.metric, total(self.statistics, decision.best(self.lists, weights)))

    def oracle(self) -> float:
        """Of what the toolkit gave."""
        rows = original(self.lists, self.statistics)
        return value(self.metric, total(rows, oracle(self.metric, rows)))


def render(comparison: Comparison, style: str) -> str:
    """The whole comparison in one of `STYLES`, or `json`.

    Text and Markdown have the signature of every row below the table; CSV and LaTeX are the table alone.
    """
    if style == JSON:
        return as_json(comparison)
    table = STYLES[style](_cells(comparison))
    if style in ("csv", "latex"):
        return table
    signatures = [(row.name, row.signature) for row in comparison.rows]
    about = (
        f"{comparison.source}: {comparison.utterances:,} utterances, {comparison.hypotheses:,} hypotheses; "
        f"weights tuned on {comparison.dev_source}; p against the row above"
    )
    if style == "markdown":
        lines = [table, "", about + ".", "", *(f"- {name}: `{signature}`" for name, signature in signatures)]
    else:
        lines = [table, "", about, *(f"{name}: {signature}" for name, signature in signatures)]
    return "\n".join(lines)


def _cells(comparison: Comparison) -> list[list[str]]:
    metric = comparison.metric
    rows = [
        ["", "weight", f"dev {metric}", metric, "gain %", "p", "hyp/s"],
        ["oracle", "", f"{comparison.dev_oracle:.2f}", f"{comparison.oracle:.2f}", "", "", ""],
        ["first pass", "", f"{comparison.dev_first_pass:.2f}", f"{comparison.first_pass:.2f}", "", "", ""],
    ]
    for row in comparison.rows:
        weights = [f"{weight:.3f}" for name, weight in row.weights.items() if name not in (FIRST_PASS, *COUNTS)]
        weights += [f"{row.weights[name]:+.2f} a {unit}" for name, unit in COUNTS.items() if name in row.weights]
        speed = "" if row.speed is None else f"{row.speed:,.0f}"
        figures = [f"{row.dev:.2f}", f"{row.value:.2f}", f"{row.gain:+.1f}", p_value(row.p_value), speed]
        rows.append([row.name, ", ".join(weights), *figures])
    return rows
