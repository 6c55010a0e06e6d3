"""Is the difference between two systems more than chance?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescore.metrics.base import Counts, Metric

BATCH = 250  # resamples at a time: bounds memory


def paired_randomisation(
    metric: Metric, first: Sequence[Counts], second: Sequence[Counts], trials: int = 10_000, seed: int = 12345
) -> float:
    """Two-sided p-value of paired approximate randomisation (Riezler and Maxwell 2005), as in sacreBLEU.

    Args:
        first, second: the statistics (k,) of each sentence under the two systems.
        trials: how many random exchanges. seed: of the exchanges.
    """
    ours, theirs = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    difference = ours - theirs
    total_ours, total_theirs = ours.sum(axis=0), theirs.sum(axis=0)

    def distance(left: Counts, right: Counts) -> np.ndarray:
        return np.abs(metric.values(left) - metric.values(right))

    observed = distance(total_ours[None], total_theirs[None])[0]
    random = np.random.default_rng(seed)
    at_least = 0
    for start in range(0, trials, BATCH):
        swapped = random.random((min(BATCH, trials - start), len(ours))) < 0.5
        moved = swapped.astype(np.int64) @ difference
        at_least += int((distance(total_ours - moved, total_theirs + moved) >= observed - 1e-12).sum())
    return (at_least + 1) / (trials + 1)
