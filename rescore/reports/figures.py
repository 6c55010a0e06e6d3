"""Texts for lists, measured under a metric: the values, intervals, p-values and counts
of all reports.

A `Figures` object has lists and a metric. It measures any choice of texts for the
lists: its method `row` returns a `MeasuredRow`, of which all tables of reports are
made. `sign` returns the signature of the figures.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rescore.columns import Column
from rescore.dataset import Dataset
from rescore.decision.first_pass import class_of_records
from rescore.errors import UserError
from rescore.metrics import Metric, list_statistics, oracle, value
from rescore.metrics.base import (
    Counts,
    is_measurable,
    settings_on,
    text_statistics,
)
from rescore.metrics.cached import remembered
from rescore.metrics.significance import (
    PairedTest,
    ScoredText,
    ScoredTexts,
    confidence_interval,
)
from rescore.nbest import own_indices, tie_order
from rescore.options import Declared, option
from rescore.signature import Conditions, Signature, column_records, content
from rescore.styles import UNDEFINED, figure
from rescore.tuning import TunedBy
from rescore.tuning.weights import Weights
from rescore.version import VERSION

log = logging.getLogger(__name__)

FIRST = "first pass"
"""Name of the row of the hypotheses with the best first-pass scores."""
ORACLE = "oracle"
"""Name of the row of the best hypotheses."""
MEAN_OF_SAMPLES = "mean of samples"
"""Name of the row of all hypotheses: the mean over lists of the mean of each list."""
_SHARES = 720_720_000
"""The counts of a list whose hypotheses count for one: a multiple of each number of
hypotheses up to 16. For other numbers n the share is rounded, by n / 720,720,000.
"""
SIGNIFICANT = 0.05
"""The p-value below which a difference is called significant."""
SHORT = {
    "substitutions": "sub",
    "deletions": "del",
    "insertions": "ins",
    "hyp_words": "hyp words",
    "ref_words": "ref words",
    "ref_characters": "ref characters",
    "listed_words": "listed words",
    "other_words": "other words",
}
"""Short names of counts, for the head lines of tables."""


def baseline_of(several: bool) -> str:
    """Return the name of the row of the first pass.

    Args:
        several: Whether several systems wrote the lists.
    """
    return class_of_records().title if several else FIRST


@dataclass(frozen=True, kw_only=True)
class Shown(Declared):
    """What a table of results shows beside the figures that it always has."""

    intervals: bool = option(False, "Also show 95 % confidence intervals.")
    oracle: bool | None = option(
        None,
        "Show a row for the oracle, the best hypothesis of each list.  [default: yes;"
        " in the layout espnet no]",
        "--oracle/--no-oracle",
    )


USUAL = Shown()
"""What a table shows where nobody asks for more."""


def interval_cell(interval: tuple[float, float] | None) -> str:
    """Return the cell of a confidence interval.

    Args:
        interval: The ends, in percent; the cell of None is empty.
    """
    if interval is None:
        return ""
    low, high = interval
    return f"{low:.2f}-{high:.2f}"


@dataclass(slots=True)
class MeasuredRow:
    """One text for each utterance, measured: a row of a table."""

    name: str
    """The output, such as `first pass` or the name of a system."""
    metric: str
    value: float
    """In percent; NaN if the references have nothing to measure."""
    counts: dict[str, int | float] = field(default_factory=dict)
    """What the value is computed from."""
    interval: tuple[float, float] | None = None
    """95 % confidence interval by bootstrap, in percent."""
    p_value: float | None = None
    """Two-sided, of the difference to another output."""
    signature: str = ""
    weights: dict[str, float] = field(default_factory=dict)
    """The weight of each column of scores."""
    wrong: int | None = None
    """Utterances with an error; for error rates only."""

    def cells(self, names: Sequence[str]) -> list[str]:
        """Return the cells of the row in a table: its name, the value, the interval,
        and counts.

        Args:
            names: The names of the counts. A count that the row lacks is empty.
        """
        cells = [self.name, figure(self.value), interval_cell(self.interval)]
        for name in names:
            cells.append(f"{self.counts[name]:,}" if name in self.counts else "")
        return cells


class Figures:
    """Measures texts for the same lists under one metric. The statistics of all
    hypotheses are computed once.
    """

    def __init__(
        self, metric: Metric, lists: Dataset, test: PairedTest | None = None
    ) -> None:
        """Compute the statistics of all hypotheses.

        Args:
            metric: The metric.
            lists: The lists, with their references.
            test: The test of p-values and intervals; None for the default.

        Raises:
            UserError: There are no lists, or a list has no reference.
        """
        self.metric = metric
        self.lists = lists
        self.test = test or PairedTest()
        if not lists:
            raise UserError("no lists to measure")
        self.statistics = list_statistics(metric, lists)
        if not is_measurable(metric, np.concatenate(self.statistics).sum(axis=0)):
            log.warning(
                "%s is not defined (%s): %s, as it counts them",
                metric.name,
                UNDEFINED,
                metric.undefined,
            )
        self._reporting = metric.for_reports
        if self._reporting is not metric:
            # The rows of a table share most of their texts.
            self._reporting = remembered(self._reporting)

    @cached_property
    def systems(self) -> list[str]:
        """The names of the systems that wrote the lists; empty for one system."""
        return self.lists.header.systems

    @property
    def baseline(self) -> str:
        """The name of the row of the first pass."""
        return baseline_of(self.lists.header.by_systems)

    def at(self, indices: Sequence[int]) -> list[ScoredText]:
        """Return one hypothesis of each list, measured.

        Args:
            indices: The index of the hypothesis in each list.
        """
        chosen = []
        for nbest, rows, index in zip(
            self.lists, self.statistics, indices, strict=True
        ):
            chosen.append(ScoredText(nbest.hypotheses[index].text, rows[index]))
        if self._reporting is self.metric:
            return chosen
        return self.of([output.text for output in chosen])

    def of(self, texts: Sequence[str]) -> list[ScoredText]:
        """Return texts for the lists, measured.

        Args:
            texts: One text per list.
        """
        rows: dict[int, Counts] = {}
        if self._reporting is self.metric:
            rows = self._known(texts)
        new = [place for place in range(len(texts)) if place not in rows]
        if new:
            lists = [self.lists[place] for place in new]
            own = [texts[place] for place in new]
            counted = text_statistics(self._reporting, lists, own)
            rows |= zip(new, counted, strict=True)
        return [ScoredText(text, rows[place]) for place, text in enumerate(texts)]

    def _known(self, texts: Sequence[str]) -> dict[int, Counts]:
        """Return the statistics of the texts that their lists have, by place.

        Args:
            texts: One text per list.
        """
        rows = {}
        pairs = zip(self.lists, texts, strict=True)
        for place, (nbest, text) in enumerate(pairs):
            every = [hypothesis.text for hypothesis in nbest.hypotheses]
            if text in every:
                rows[place] = self.statistics[place][every.index(text)]
        return rows

    def oracle_indices(self, own: bool = False) -> list[int]:
        """Return the index of the best hypothesis of each list; the first of equally
        good hypotheses in the order of `rescore.nbest.ranking`.

        Args:
            own: Whether only the toolkit's own hypotheses may win.
        """
        orders = []
        for nbest in self.lists:
            order = tie_order(nbest)
            if own:
                kept = set(own_indices(nbest))
                order = [index for index in order if index in kept]
            orders.append(order)
        ordered = []
        for rows, order in zip(self.statistics, orders, strict=True):
            ordered.append(rows[order])
        ranks = oracle(self.metric, ordered)
        return [order[rank] for order, rank in zip(orders, ranks, strict=True)]

    @cached_property
    def oracle(self) -> float:
        """The metric of the best hypotheses, in percent."""
        return self.value(self.at(self.oracle_indices()))

    def value(self, output: ScoredTexts) -> float:
        """Return the metric of an output, in percent."""
        return value(self.metric, summed(output))

    def by_unit(self, output: ScoredTexts) -> Sequence[Counts]:
        """Return the statistics of each unit that is exchanged or drawn
        (`PairedTest.by_unit`).

        Args:
            output: One text per list.
        """
        rows = [text.counts for text in output]
        return self.test.by_unit(self.lists, rows)

    def p_value(self, first: ScoredTexts, second: ScoredTexts) -> float:
        """Return the p-value of the difference between two outputs.

        Args:
            first: One text per list.
            second: One text per list.
        """
        return self.test.p_value(self.metric, self.lists, first, second)

    def row(
        self,
        name: str,
        output: ScoredTexts,
        against: ScoredTexts | None = None,
        interval: bool = True,
    ) -> MeasuredRow:
        """Return the figures of an output.

        Args:
            name: The name of the row.
            output: One text per list.
            against: The output that the p-value compares with; None for no p-value.
            interval: Whether the row has a confidence interval.
        """
        sums = summed(output)
        rows = [text.counts for text in output]
        row = MeasuredRow(
            name=name,
            metric=self.metric.name,
            value=value(self.metric, sums),
            counts=self.metric.details(sums),
        )
        if interval:
            row.interval = confidence_interval(self.metric, self.by_unit(output))
        if against is not None:
            row.p_value = self.p_value(against, output)
        if self.metric.words is not None:
            errors = self.metric.losses(np.stack(rows))
            row.wrong = int((errors > 0).sum())
        return row

    def mean_of_samples(self) -> MeasuredRow | None:
        """Return the mean of all hypotheses, and log it, where a metric takes each text
        as one answer; tables show the first sample alone. Each list counts once,
        however many hypotheses it has.

        Returns:
            The row, whose counts are those of all hypotheses; None for other metrics,
            for lists of one hypothesis, and for lists of several systems, which have
            equal texts once.
        """
        have_choices = max(map(len, self.statistics)) > 1
        if self.metric.unit != "text" or self.systems or not have_choices:
            return None
        means = []
        counts = []
        for rows in self.statistics:
            sums = rows.sum(axis=0)
            counts.append(sums)
            means.append(ScoredText("", sums * (_SHARES // len(rows))))
        row = self.row(MEAN_OF_SAMPLES, means)
        row.counts = self.metric.details(np.sum(counts, axis=0))
        row.wrong = None
        interval = ""
        if row.interval is not None:
            interval = f" (95 % CI {interval_cell(row.interval)})"
        log.info(
            "%s%s of one hypothesis, as the mean of all: %.2f%s",
            self.lists.header.prefix,
            self.metric.name,
            row.value,
            interval,
        )
        return row


def summed(texts: ScoredTexts) -> Counts:
    """Return the statistics (k,) of a set of texts: the sum over the texts."""
    return np.asarray(np.sum([chosen.counts for chosen in texts], axis=0))


def sign(
    metric: Metric | None,
    lists: Dataset,
    weights: Weights,
    test: PairedTest | None = None,
    objective: Metric | None = None,
    in_folds: bool = False,
) -> Signature:
    """Return the signature of the figures of lists under weights.

    Args:
        metric: The metric; None for a choice without figures.
        lists: The lists.
        weights: The weights, with their decision.
        test: The significance test; None for figures without a test.
        objective: The metric whose expected loss the decision takes, and that the
            weights of folds were tuned for; None for the metric of the figures.
        in_folds: Whether the weights of folds decided the lists.

    Raises:
        UserError: A column comes from one model in some lists and from another model in
            other lists.
    """
    decision = weights.decision
    name = "none"
    settings: dict[str, str] = {}
    versions = {"rescore": VERSION}
    if metric is not None:
        name = metric.name
        settings = settings_on(metric, lists)
        versions |= metric.versions
    if not in_folds:
        weights = replace(weights, tuning=weights.tuning.of_all)
    used = None
    if in_folds or decision.losses is not None:
        used = objective
    conditions = Conditions(
        settings,
        objective=_objective(used, name, settings, lists),
        lists=content(lists, weights.weights),
        test=test.signature if test else None,
        versions=versions,
    )
    return signed(name, weights, column_records(lists, weights.weights), conditions)


def signed(
    metric: str,
    weights: Weights,
    columns: Mapping[str, Column],
    conditions: Conditions,
) -> Signature:
    """Return the signature that records make.

    Args:
        metric: The name of the metric.
        weights: What decided, with the record of its tuning.
        columns: The record of each column that has a weight.
        conditions: How the figure was measured.
    """
    decision = weights.decision
    tuned = weights.tuning.signature
    if weights.is_untuned:
        tuned = str(TunedBy.GIVEN)
    return Signature(
        metric=metric,
        settings=conditions.settings,
        weights=weights.weights | weights.shares,
        columns=columns,
        excluded=weights.sorted_excluded,
        decision=decision.name,
        scale=decision.scale,
        deciding=decision.for_signature,
        objective=conditions.objective,
        votes=weights.mixture.origin if weights.mixture else None,
        tuned=tuned,
        lists=conditions.lists,
        test=conditions.test,
        form=conditions.form,
        versions=conditions.versions,
    )


def _objective(
    metric: Metric | None,
    name: str,
    settings: Mapping[str, str],
    lists: Dataset,
) -> str | None:
    """Return a metric with its settings, for a signature; None for no metric, or for
    the metric of the figures.

    Args:
        metric: The metric.
        name: The name of the metric of the figures.
        settings: Its settings.
        lists: The lists.
    """
    if metric is None:
        return None
    own = settings_on(metric, lists)
    if (metric.name, own) == (name, settings):
        return None
    return ",".join([metric.name, *(f"{key}={value}" for key, value in own.items())])
