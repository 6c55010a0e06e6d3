"""A metric that counts nothing twice: tuning and tables ask it the same of the same lists again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from rescore.metrics.base import Counts, Metric, Values, metric_input
from rescore.nbest import NbestList

TEXTS = 1 << 18
"""Texts whose statistics are kept: about 100 MiB."""
PAIRS = 1 << 24
"""Pairs of texts whose losses are kept: 128 MiB."""

AllLosses = Callable[[Metric, Sequence[NbestList]], list[Values]]


def remembered(metric: Metric) -> Metric:
    """The same metric, which keeps what it computed as long as it is itself kept."""
    return metric if isinstance(metric, Remembered) else cast(Metric, Remembered(metric))


class Remembered:
    """`statistics` and losses of lists are looked up where they are known; all else is the metric's own."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._rows: dict[tuple[Any, tuple[str, ...]], Counts] = {}
        self._losses: dict[tuple[Any, ...], Values] = {}
        self._pairs = 0

    def __getattr__(self, name: str) -> Any:
        if name == "_metric" or name.startswith("__"):  # asked for by what copies, before there is a metric
            raise AttributeError(name)
        return getattr(self._metric, name)

    def statistics(self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]) -> Counts:
        """As `Metric.statistics`."""
        keys = [(text, tuple(texts)) for text, texts in zip(hypotheses, references, strict=True)]
        new = list(dict.fromkeys(key for key in keys if key not in self._rows))
        if len(self._rows) + len(new) > TEXTS:
            return self._metric.statistics(hypotheses, references)
        rows = self._metric.statistics([text for text, _ in new], [texts for _, texts in new])
        self._rows.update(zip(new, rows, strict=True))
        return np.stack([self._rows[key] for key in keys]) if keys else rows

    def losses_of_lists(self, lists: Sequence[NbestList], compute: AllLosses) -> list[Values]:
        """What `compute` gives for lists: (hypotheses, hypotheses) each."""
        keys = [tuple(metric_input(self._metric, nbest, one.text) for one in nbest.hypotheses) for nbest in lists]
        new = {key: nbest for key, nbest in zip(keys, lists, strict=True) if key not in self._losses}
        found = dict(zip(new, compute(self._metric, list(new.values())), strict=True)) if new else {}
        pairs = sum(loss.size for loss in found.values())
        if self._pairs + pairs > PAIRS:
            return [found[key] if key in found else self._losses[key] for key in keys]
        self._pairs += pairs
        self._losses |= found
        return [self._losses[key] for key in keys]
