"""Analyses of lists that are decided with weights."""

from __future__ import annotations

from collections.abc import Sequence

from rescore.dataset import Dataset
from rescore.deciding import decide
from rescore.metrics import Metric
from rescore.nbest import NbestList
from rescore.reports.analysis import Analysis, Outlook, analyse, outlook
from rescore.tuning import Weights


def analysed(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> Analysis:
    """The analysis of lists that are decided with weights."""
    return analyse(metric, decide(metric, Dataset.of(lists), weights))


def outlook_of(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> Outlook:
    """The outlook of lists that are decided with weights."""
    return outlook(metric, decide(metric, Dataset.of(lists), weights))
