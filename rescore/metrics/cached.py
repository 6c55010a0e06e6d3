"""A metric that keeps what it computed, for lists that are tuned more than once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from rescore.metrics.base import Counts, Metric, metric_input
from rescore.nbest import NbestList

TEXTS = 1 << 18
"""Texts whose statistics are kept: about 100 MiB."""
PAIRS = 1 << 27
"""Pairs of texts whose losses are kept: 512 MiB."""


def remembered(metric: Metric) -> Metric:
    """The same metric with a cache that lives as long as the metric."""
    return (
        metric
        if isinstance(metric, CachedMetric)
        else cast(Metric, CachedMetric(metric))
    )


class CachedMetric:
    """`statistics` and losses of lists are looked up where they are known; all else is
    the metric's own.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._rows: dict[tuple[Any, tuple[str, ...]], Counts] = {}
        self._losses: dict[tuple[Any, ...], Any] = {}
        self._statistics: dict[tuple[Any, ...], Counts] = {}

    def __getattr__(self, name: str) -> Any:
        # asked for by what copies, before there is a metric
        if name == "_metric" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._metric, name)

    @property
    def for_reports(self) -> Metric:
        """As `Metric.for_reports`; this metric, where that is the metric itself."""
        metric = self._metric.for_reports
        return cast(Metric, self) if metric is self._metric else metric

    def statistics(
        self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]
    ) -> Counts:
        """As `Metric.statistics`."""
        keys = [
            (text, tuple(texts))
            for text, texts in zip(hypotheses, references, strict=True)
        ]
        new = list(dict.fromkeys(key for key in keys if key not in self._rows))
        rows = self._metric.statistics(
            [text for text, _ in new], [texts for _, texts in new]
        )
        known = self._rows | dict(zip(new, rows, strict=True))
        if len(known) <= TEXTS:
            self._rows = known
        return np.stack([known[key] for key in keys]) if keys else rows

    def statistics_of_lists(
        self,
        lists: Sequence[NbestList],
        compute: Callable[[Metric, Sequence[NbestList]], list[Counts]],
    ) -> list[Counts]:
        """The results of `compute` for each list."""
        keys = [(nbest.references, *self._texts(nbest)) for nbest in lists]
        new = {
            key: nbest
            for key, nbest in zip(keys, lists, strict=True)
            if key not in self._statistics
        }
        known = self._statistics | dict(
            zip(new, compute(cast(Metric, self), list(new.values())), strict=True)
        )
        if sum(map(len, known.values())) <= TEXTS:
            self._statistics = known
        return [known[key] for key in keys]

    def losses_of_lists(
        self,
        lists: Sequence[NbestList],
        compute: Callable[[Metric, Sequence[NbestList]], list[Any]],
    ) -> list[Any]:
        """The results of `compute` for each list, which have a `size`."""
        keys = list(map(self._texts, lists))
        new = {
            key: nbest
            for key, nbest in zip(keys, lists, strict=True)
            if key not in self._losses
        }
        known = self._losses | dict(
            zip(new, compute(self._metric, list(new.values())), strict=True)
        )
        if sum(losses.size for losses in known.values()) <= PAIRS:
            self._losses = known
        return [known[key] for key in keys]

    def _texts(self, nbest: NbestList) -> tuple[Any, ...]:
        return tuple(
            metric_input(self._metric, nbest, one.text) for one in nbest.hypotheses
        )
