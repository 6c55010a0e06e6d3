"""Correlations of two columns of numbers."""

from __future__ import annotations

import numpy as np

from rescore.metrics.base import Values


def pearson(first: Values, second: Values) -> float:
    """Pearson's correlation of two columns of numbers, from -1 to 1; 0 where one does not vary."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def spearman(first: Values, second: Values) -> float:
    """Pearson's correlation of ranks."""
    return pearson(ranks(first), ranks(second))


def ranks(values: Values) -> Values:
    """(n,), the place of each value among all, from 1; equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)
