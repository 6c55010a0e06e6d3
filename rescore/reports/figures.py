"""Texts for lists, measured under a metric: the values, intervals, p-values and counts
of all reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rescore import decision
from rescore.decision import Decision
from rescore.metrics import Metric, list_statistics, oracle, value
from rescore.metrics.base import Counts, settings_on, text_statistics
from rescore.metrics.cached import remembered
from rescore.metrics.significance import (
    Choice,
    PairedTest,
    ScoredText,
    confidence_interval,
)
from rescore.nbest import FIRST_PASS, NbestList, first_pass_indices, tie_order
from rescore.signature import Signature, origins
from rescore.tuning.weights import Weights
from rescore.version import VERSION

FIRST, MIXTURE, ORACLE = "first pass", "mixture", "oracle"
"""The names of rows that tables have beside those of systems."""
SIGNIFICANT = 0.05
"""The p-value below which a difference is called significant."""
SHORT = {
    "substitutions": "sub",
    "deletions": "del",
    "insertions": "ins",
    "hyp_words": "hyp words",
    "ref_words": "ref words",
    "listed_words": "listed words",
    "other_words": "other words",
}
"""The names of counts in the heads of tables."""


@dataclass(slots=True)
class Row:
    """One text for each utterance, measured: a row of a table."""

    name: str
    """The output, such as `first pass` or the name of a system."""
    metric: str
    value: float
    """In percent."""
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
        """The cells of the name, the value, the interval, and the counts of these
        names, in all tables of reports.
        """
        bounds = "{:.2f}-{:.2f}".format(*self.interval) if self.interval else ""
        counts = (
            f"{self.counts[name]:,}" if name in self.counts else "" for name in names
        )
        return [self.name, f"{self.value:.2f}", bounds, *counts]


class Figures:
    """Texts for the same lists under one metric. The statistics of all hypotheses are
    computed once.
    """

    def __init__(
        self, metric: Metric, lists: Sequence[NbestList], test: PairedTest | None = None
    ) -> None:
        """
        Args:
            test: what p-values and intervals are made with.
        """
        self.metric, self.lists, self.test = metric, lists, test or PairedTest()
        self.statistics = list_statistics(metric, lists)
        self._reporting = metric.for_reports
        if self._reporting is not metric:  # rows of a table share most of their texts
            self._reporting = remembered(self._reporting)

    @cached_property
    def first(self) -> list[ScoredText]:
        """The hypothesis of each list with the best first-pass score."""
        return self.at(decision.best(self.lists, {FIRST_PASS: 1.0}))

    def at(self, places: Sequence[int]) -> list[ScoredText]:
        """The hypothesis at one place of each list."""
        chosen = [
            ScoredText(nbest.hypotheses[place].text, rows[place])
            for nbest, rows, place in zip(
                self.lists, self.statistics, places, strict=True
            )
        ]
        if self._reporting is self.metric:
            return chosen
        return self.of([one.text for one in chosen])

    def of(self, texts: Sequence[str]) -> list[ScoredText]:
        """Texts chosen for the lists."""
        rows = text_statistics(self._reporting, self.lists, texts)
        return [
            ScoredText(text, counts) for text, counts in zip(texts, rows, strict=True)
        ]

    def oracle_places(self, own: bool = False) -> list[int]:
        """The place of the best hypothesis of each list; of equally good ones as
        `rescore.nbest.ranking` has it.

        Args:
            own: only of the toolkit's own hypotheses.
        """
        places = [tie_order(nbest) for nbest in self.lists]
        if own:
            kept = [set(first_pass_indices(nbest)) for nbest in self.lists]
            places = [
                [place for place in order if place in mine]
                for order, mine in zip(places, kept, strict=True)
            ]
        best = oracle(
            self.metric,
            [rows[order] for rows, order in zip(self.statistics, places, strict=True)],
        )
        return [order[index] for order, index in zip(places, best, strict=True)]

    @cached_property
    def oracle(self) -> float:
        """The metric of the best hypotheses, in percent."""
        return self.value(self.at(self.oracle_places()))

    def value(self, choice: Choice) -> float:
        """The metric of a choice, in percent."""
        return value(self.metric, summed(choice))

    def row(
        self,
        name: str,
        choice: Choice,
        against: Choice | None = None,
        interval: bool = True,
    ) -> Row:
        """One choice, measured.

        Args:
            against: the choice that the p-value compares with.
        """
        sums, rows = summed(choice), [text.counts for text in choice]
        errors = (
            self.metric.losses(np.stack(rows))
            if self.metric.words is not None
            else None
        )
        return Row(
            name=name,
            metric=self.metric.name,
            value=value(self.metric, sums),
            counts=self.metric.details(sums),
            interval=(
                confidence_interval(self.metric, self.test.by_unit(self.lists, rows))
                if interval
                else None
            ),
            p_value=(
                None
                if against is None
                else self.test.p_value(self.metric, self.lists, against, choice)
            ),
            wrong=None if errors is None else int((errors > 0).sum()),
        )


def summed(texts: Choice) -> Counts:
    """(k,) the statistics of a set."""
    return np.asarray(np.sum([chosen.counts for chosen in texts], axis=0))


def sign(
    metric: Metric | None,
    lists: Sequence[NbestList],
    weights: Weights,
    decide: Decision | None = None,
    test: PairedTest | None = None,
) -> Signature:
    """The signature of the figures of lists under weights.

    Raises:
        UserError: a column comes from one model in some lists and from another one in
        others.
    """
    decide = decide or weights.decision
    return Signature(
        metric=metric.name if metric else "none",
        settings=settings_on(metric, lists) if metric else {},
        weights=weights.weights | weights.votes,
        columns=origins(lists, weights.weights),
        excluded=weights.exclusions,
        decision=decide.name,
        scale=decide.scale,
        deciding=decide.signed,
        tuned=weights.tuned.signature,
        test=test.signature if test else None,
        versions={"rescore": VERSION, **(metric.versions if metric else {})},
    )
