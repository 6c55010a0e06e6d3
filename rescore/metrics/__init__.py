"""WER, CER, MER, BLEU, chrF and TER as sums of sufficient statistics; the oracle; confidence intervals and significance
tests.

A metric declares its abilities (`Metric`); `METRICS` is the table of all metrics.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescore.metrics.base import Metric, MetricOptions, list_statistics, oracle, total, value
from rescore.metrics.normalise import Normaliser
from rescore.nbest import TRANSLATOR, NbestList
from rescore.parts import METRICS

__all__ = ["METRICS", "Metric", "MetricOptions", "Normaliser", "are_translations", "choose_metric"]
__all__ += ["list_statistics", "oracle", "total", "value"]


def are_translations(lists: Sequence[NbestList]) -> bool:
    """Whether lists have source texts (an empty one alone is none), or come from a translator."""
    return any(nbest.source or TRANSLATOR in nbest.provenance for nbest in lists)


def default_metric(lists: Sequence[NbestList]) -> str:
    """BLEU for translations, and WER for other lists."""
    return "bleu" if are_translations(lists) else "wer"


def choose_metric(name: str | None, lists: Sequence[NbestList], options: MetricOptions | None = None) -> Metric:
    """The metric called `name`; with None, the `default_metric`.

    Raises:
        UserError: the metric is unknown, or the options do not fit it.
    """
    name = name or default_metric(lists)
    references = [reference for nbest in lists for reference in nbest.references]
    metric = METRICS[name]
    return metric.choose((options or MetricOptions()).of(metric.Options), references)
