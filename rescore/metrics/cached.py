"""A metric that keeps what it computed, for lists that are tuned more than once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from rescore.metrics.base import Counts, Metric, metric_inputs
from rescore.nbest import NbestList

TEXTS = 1 << 18
"""Number of texts whose statistics are kept: about 100 MiB."""
PAIRS = 1 << 27
"""Number of pairs of texts whose losses are kept: 512 MiB."""


def remembered(metric: Metric) -> Metric:
    """Return a metric with a cache that lives as long as the returned object.

    Args:
        metric: The metric; it is returned itself if it has a cache.
    """
    if isinstance(metric, CachedMetric):
        return metric
    return cast(Metric, CachedMetric(metric))


class CachedMetric:
    """A metric that computes statistics and losses of equal lists once.

    It has all other attributes of the metric that it is made from.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._rows: dict[tuple[Any, tuple[str, ...]], Counts] = {}
        self._losses: dict[tuple[Any, ...], Any] = {}
        self._statistics: dict[tuple[Any, ...], Counts] = {}

    def __getattr__(self, name: str) -> Any:
        # `copy` looks for special methods before the object has its metric.
        if name == "_metric" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._metric, name)

    @property
    def for_reports(self) -> Metric:
        """As `Metric.for_reports`; this object if that is the metric itself."""
        metric = self._metric.for_reports
        return cast(Metric, self) if metric is self._metric else metric

    def statistics(
        self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return the same as `Metric.statistics`; only new pairs are computed.

        Args:
            hypotheses: Texts, or `Input`s.
            references: One or more references for each hypothesis.

        Returns:
            Counts of shape (hypotheses, k).
        """
        keys = []
        for text, texts in zip(hypotheses, references, strict=True):
            if not isinstance(texts, tuple):  # `Readings` are tuples
                texts = tuple(texts)
            keys.append((text, texts))
        new = list(dict.fromkeys(key for key in keys if key not in self._rows))
        rows = self._metric.statistics(
            [text for text, _ in new], [texts for _, texts in new]
        )
        if not keys:
            return rows
        known = self._rows
        if new:
            known = known | dict(zip(new, rows, strict=True))
        if len(known) <= TEXTS:
            self._rows = known
        return np.concatenate([known[key] for key in keys]).reshape(len(keys), -1)

    def statistics_of_lists(
        self,
        lists: Sequence[NbestList],
        compute: Callable[[Metric, Sequence[NbestList]], list[Counts]],
    ) -> list[Counts]:
        """Return the statistics of all hypotheses of lists.

        Args:
            lists: Lists with references.
            compute: Computes the statistics of new lists.

        Returns:
            Counts of shape (hypotheses, k) for each list.
        """
        keys = [(nbest.references, *self._texts(nbest)) for nbest in lists]
        new = _new(keys, lists, self._statistics)
        statistics = compute(cast(Metric, self), list(new.values()))
        known = self._statistics | dict(zip(new, statistics, strict=True))
        if sum(map(len, known.values())) <= TEXTS:
            self._statistics = known
        return [known[key] for key in keys]

    def losses_of_lists(
        self,
        lists: Sequence[NbestList],
        compute: Callable[[Metric, Sequence[NbestList]], list[Any]],
    ) -> list[Any]:
        """Return the losses of pairs of texts of each list, which have a `size`.

        Args:
            lists: The lists.
            compute: Computes the losses of new lists.
        """
        keys = [self._texts(nbest) for nbest in lists]
        new = _new(keys, lists, self._losses)
        losses = compute(self._metric, list(new.values()))
        known = self._losses | dict(zip(new, losses, strict=True))
        if sum(of_list.size for of_list in known.values()) <= PAIRS:
            self._losses = known
        return [known[key] for key in keys]

    def _texts(self, nbest: NbestList) -> tuple[Any, ...]:
        """Return the inputs of the metric for the hypotheses of a list."""
        return tuple(metric_inputs(self._metric, nbest))


def _new(
    keys: Sequence[tuple[Any, ...]],
    lists: Sequence[NbestList],
    known: dict[tuple[Any, ...], Any],
) -> dict[tuple[Any, ...], NbestList]:
    """Return the lists that are not known yet, by key."""
    new = {}
    for key, nbest in zip(keys, lists, strict=True):
        if key not in known:
            new[key] = nbest
    return new
