"""Correlations of two columns of numbers; 0 where one does not vary."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def pearson(one: Floats, other: Floats) -> float:
    """From -1 to 1."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def spearman(one: Floats, other: Floats) -> float:
    """Pearson's correlation of ranks."""
    return pearson(ranks(one), ranks(other))


def ranks(values: Floats) -> Floats:
    """Equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)
