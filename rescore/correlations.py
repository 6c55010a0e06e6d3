"""Correlations of two columns of numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def pearson(first: Floats, second: Floats) -> float:
    """Return Pearson's correlation of two columns of numbers, from -1 to 1; 0 where one
    does not vary.
    """
    if not varies(first) or not varies(second):
        return 0.0
    # no sum of squares is beyond the largest float
    first = first / np.abs(first).max()
    second = second / np.abs(second).max()
    return float(np.corrcoef(first, second)[0, 1])


def varies(values: Floats) -> bool:
    """Return whether a column (n,) has two different values."""
    return bool((values != values[:1]).any())


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
