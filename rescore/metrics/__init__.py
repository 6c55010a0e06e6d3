"""WER, CER, MER, BLEU, chrF and TER as sums of sufficient statistics; the oracle; confidence intervals and significance
tests.

A metric declares its abilities (`Metric`); `METRICS` is the table of all metrics.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescore.metrics.base import Metric, MetricOptions, list_statistics, oracle, total, value
from rescore.metrics.normalise import Normaliser
from rescore.nbest import NbestList
from rescore.parts import METRICS

__all__ = [
    "METRICS",
    "Metric",
    "MetricOptions",
    "Normaliser",
    "choose_metric",
    "list_statistics",
    "oracle",
    "total",
    "value",
]


def choose_metric(name: str | None, lists: Sequence[NbestList], options: MetricOptions | None = None) -> Metric:
    """The metric called `name`. With None, it is BLEU for translations (lists with a source text) and WER for other
    lists.

    Raises:
        UserError: the metric is unknown, or the options do not fit it.
    """
    if name is None:
        name = "bleu" if any(nbest.source for nbest in lists) else "wer"  # an empty source alone is no translation
    references = [reference for nbest in lists for reference in nbest.references]
    metric = METRICS[name]
    return metric.choose((options or MetricOptions()).of(metric.Options), references)
