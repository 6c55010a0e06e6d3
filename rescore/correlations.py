"""Correlations of two columns of numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def pearson(first: Floats, second: Floats) -> float:
    """Return Pearson's correlation of two columns of numbers, from -1 to 1; 0 where one
    does not vary.
    """
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def spearman(first: Floats, second: Floats) -> float:
    """Return Spearman's correlation: Pearson's correlation of ranks."""
    return pearson(ranks(first), ranks(second))


def ranks(values: Floats) -> Floats:
    """Return the place (n,) of each value among all values (n,), from 1; equal values
    have the mean of their ranks.
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means = ends - (counts - 1) / 2
    return np.asarray(means[inverse], dtype=np.float64)
