"""WER, CER, MER, BLEU, chrF and TER as sums of sufficient statistics; the oracle;
confidence intervals and significance tests.

A metric declares its abilities (`Metric`); `METRICS` is the table of all metrics.
"""

from __future__ import annotations

from rescore.dataset import Dataset
from rescore.metrics.base import (
    Metric,
    MetricOptions,
    list_statistics,
    oracle,
    total,
    value,
)
from rescore.metrics.normalise import Normaliser
from rescore.parts import METRICS

__all__ = [
    "DEFAULTS",
    "METRICS",
    "Metric",
    "MetricOptions",
    "Normaliser",
    "choose_metric",
    "default_metric",
    "list_statistics",
    "oracle",
    "total",
    "value",
]


DEFAULTS = ("wer", "bleu")
"""The metrics that `default_metric` may return."""


def default_metric(lists: Dataset) -> str:
    """Return the name of the metric for lists: `bleu` for translations, else `wer`.

    Args:
        lists: The lists.
    """
    return "bleu" if lists.are_translations else "wer"


def choose_metric(
    name: str | None, lists: Dataset, options: MetricOptions | None = None
) -> Metric:
    """Return the metric for lists.

    Args:
        name: A name of `METRICS`; None for the `default_metric`.
        lists: The lists, whose references the metric may look at.
        options: Options of metrics; None for their defaults.

    Raises:
        UserError: The metric is unknown, or the options do not fit it.
    """
    references: list[str] = []
    for nbest in lists:
        references += nbest.references
    metric = METRICS[name or default_metric(lists)]
    values = (options or MetricOptions()).of(metric.Options)
    return metric.choose(values, references)
