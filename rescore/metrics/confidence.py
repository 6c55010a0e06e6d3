"""How good confidences are: normalised cross entropy, expected calibration error, area under the ROC curve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
BINS = 10
NEAREST = 1e-6
"""To 0 or 1; a confidence of 0 for a right word would cost infinitely much."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Of confidences of words whose correctness is known."""

    words: int
    correct: float
    """The share of right words."""
    nce: float
    """Normalised cross entropy (NIST): 1 for perfect confidences, 0 for those that say the share of right words."""
    ece: float
    """Expected calibration error: mean distance of confidence and share of right words, over 10 bins."""
    auroc: float
    """Probability that a right word has a higher confidence than a wrong one."""

    def __str__(self) -> str:
        return f"NCE {self.nce:.3f}  ECE {self.ece:.3f}  AUROC {self.auroc:.3f}"


def quality(confidences: Floats, correct: Flags) -> Quality:
    """confidences, correct: (words,). Measures that are not defined, as where all words are right, are NaN."""
    number, right = len(correct), int(correct.sum())
    share = right / number if number else math.nan
    return Quality(
        number, share, _normalised_cross_entropy(confidences, correct), _calibration(confidences, correct),
        _area(confidences, correct),
    )  # fmt: skip


def _normalised_cross_entropy(confidences: Floats, correct: Flags) -> float:
    """(H_max + sum of log2 c over right words + sum of log2 (1 - c) over wrong ones) / H_max."""
    number, right = len(correct), int(correct.sum())
    if right in (0, number):
        return math.nan
    share = right / number
    most = -right * math.log2(share) - (number - right) * math.log2(1 - share)
    clipped = confidences.clip(NEAREST, 1 - NEAREST)
    return float((most + np.log2(np.where(correct, clipped, 1 - clipped)).sum()) / most)


def _calibration(confidences: Floats, correct: Flags) -> float:
    if not len(correct):
        return math.nan
    bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
    distance = np.bincount(bins, confidences - correct, BINS)
    return float(np.abs(distance).sum() / len(correct))


def _area(confidences: Floats, correct: Flags) -> float:
    """The Mann-Whitney statistic; equal confidences count half."""
    right, wrong = int(correct.sum()), int((~correct).sum())
    if not right or not wrong:
        return math.nan
    _, which, counts = np.unique(confidences, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return float((ranks[correct].sum() - right * (right + 1) / 2) / (right * wrong))
