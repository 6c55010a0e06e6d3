"""WER, CER, MER, BLEU, chrF and TER as sums of sufficient statistics; the oracle;
confidence intervals and significance tests.

A metric declares its abilities (`Metric`); `METRICS` is the table of all metrics.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescore.metrics.base import (
    Metric,
    MetricOptions,
    list_statistics,
    oracle,
    total,
    value,
)
from rescore.metrics.normalise import Normaliser
from rescore.nbest import NbestList
from rescore.parts import METRICS

__all__ = [
    "METRICS",
    "Metric",
    "MetricOptions",
    "Normaliser",
    "choose_metric",
    "default_metric",
]
__all__ += ["list_statistics", "oracle", "total", "value"]


def default_metric(lists: Sequence[NbestList]) -> str:
    """BLEU for lists that have source texts (an empty one alone is none) or come from a
    translator, WER for others.
    """
    return (
        "bleu"
        if any(nbest.source or nbest.header.translates for nbest in lists)
        else "wer"
    )


def choose_metric(
    name: str | None, lists: Sequence[NbestList], options: MetricOptions | None = None
) -> Metric:
    """The metric called `name`; with None, the `default_metric`.

    Raises:
        UserError: the metric is unknown, or the options do not fit it.
    """
    name = name or default_metric(lists)
    references = [reference for nbest in lists for reference in nbest.references]
    metric = METRICS[name]
    return metric.choose((options or MetricOptions()).of(metric.Options), references)
