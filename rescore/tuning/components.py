"""The toolkit's score as a weighted sum of its components, and the weight that each
component has beside tuned weights: the number that a decoder needs.

The weights of the sum follow from the lists by least squares. The sum is exact if no
first-pass score differs from it by more than the precision of the scores: one unit in
the last digit of each score, or a millionth of the score if this is more (toolkits add
in float32). A component of whole numbers is a count, which toolkits do not round,
unless the first pass has whole numbers, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

import numpy as np

from rescore.columns import FIRST_PASS, Role
from rescore.dataset import Dataset
from rescore.decision.rules import Floats
from rescore.nbest import own_indices

SAMPLE = 2_000
"""Scores of a column whose digits are counted."""
FLOAT32 = 1e-6
"""The share of a score by which sums of many tokens in float32 may differ."""
CERTAIN = 0.005
"""The largest uncertainty of a weight of the sum, as a share of the largest weight."""

ENOUGH = 10
"""Hypotheses beyond the number of components with which the differences from the sum
show how precise the scores are. With fewer, the weights fit the rounding.
"""


class Fit(StrEnum):
    """Whether a first pass is a weighted sum of its components."""

    EXACT = "exact"
    INEXACT = "inexact"
    """The first pass has another part, such as a length bonus."""
    UNDETERMINED = "undetermined"
    """Other weights fit as well: the hypotheses are few, or components depend on each
    other.
    """


@dataclass(frozen=True, slots=True)
class ToolkitScore:
    """The first pass as a weighted sum of the toolkit's components."""

    fit: Fit
    weights: dict[str, float]
    """The weight of each component in the first pass. A component that is 0 in all
    hypotheses has none.
    """
    error: float
    """The largest difference between a first-pass score and the sum, in nats."""

    def effective(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Return the weight of each component where tuned weights decide: the weight of
        the first pass times the component's weight in it, and the component's own.

        Args:
            weights: The weight of each column, of the first pass too.
        """
        first_pass = weights.get(FIRST_PASS, 0.0)
        effective = {}
        for name, weight in self.weights.items():
            effective[name] = first_pass * weight + weights.get(name, 0.0)
        return effective


def toolkit_score(lists: Dataset, columns: Sequence[str]) -> ToolkitScore | None:
    """Return the first pass of lists as a weighted sum of its components; None if no
    column is a component.

    Args:
        lists: The lists.
        columns: The columns whose weights are tuned.
    """
    names = lists.columns(Role.COMPONENT)
    if not set(names) & set(columns):
        return None
    first_pass, scores = _scores(lists, names)
    varied = np.abs(scores).max(axis=0, initial=0.0) > 0
    names = [names[index] for index in np.flatnonzero(varied)]
    scores = scores[:, varied]
    sizes = np.abs(scores).max(axis=0, initial=0.0)
    if len(first_pass) <= len(names) or not names:
        return ToolkitScore(Fit.UNDETERMINED, dict.fromkeys(names, 0.0), 0.0)
    scaled, _, rank, singular = np.linalg.lstsq(scores / sizes, first_pass, rcond=None)
    weights = scaled / sizes
    differences = np.abs(first_pass - scores @ weights)
    precision = _precision(first_pass, scores, weights)
    error = precision.max()
    if len(first_pass) >= len(names) + ENOUGH:
        # scores can be more precise than their digits say: 3 may be 3.00000
        error = min(error, differences.max())
    uncertainty = error / (singular[-1] or 1e-300) / sizes
    fit = Fit.EXACT
    if (differences > precision).any():
        fit = Fit.INEXACT
    elif rank < len(names) or uncertainty.max() > CERTAIN * np.abs(weights).max():
        fit = Fit.UNDETERMINED
    by_name = dict(zip(names, weights.tolist(), strict=True))
    return ToolkitScore(fit, by_name, float(differences.max()))


def _scores(lists: Dataset, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the first pass (hypotheses,) and the components (hypotheses, components)
    of the toolkit's own hypotheses, as far as they are finite.
    """
    rows = []
    for nbest in lists:
        columns = [nbest.column(name) for name in (FIRST_PASS, *names)]
        own = own_indices(nbest)
        rows.append(np.array(columns, dtype=np.float64)[:, own])
    together = np.concatenate(rows, axis=1)
    finite = np.isfinite(together).all(axis=0)
    return together[0, finite], together[1:, finite].T


def _precision(first_pass: Floats, scores: Floats, weights: Floats) -> Floats:
    """Return by how much the rounding of scores can part each first-pass score from the
    weighted sum, (hypotheses,), in nats.

    Args:
        first_pass: The first-pass scores, (hypotheses,).
        scores: The components, (hypotheses, components).
        weights: The weights of the sum, (components,).
    """
    rounded_to_whole = _whole(first_pass)
    precision = _units(first_pass)
    for values, weight in zip(scores.T, weights, strict=True):
        if _whole(values) and not rounded_to_whole:
            units = FLOAT32 * np.abs(values)
        else:
            units = _units(values)
        precision += abs(weight) * units
    return precision


def _whole(scores: Floats) -> bool:
    """Return whether all scores are whole numbers."""
    return bool((scores == np.round(scores)).all())


def _units(scores: Floats) -> Floats:
    """Return the precision of each score of a column, in nats.

    Toolkits write a number of decimals, or a number of digits; the longest score shows
    both numbers.
    """
    decimals = 0
    digits = 1
    for score in scores[:SAMPLE].tolist():
        parts = Decimal(repr(score)).normalize().as_tuple()
        decimals = max(decimals, -int(parts.exponent))
        digits = max(digits, len(parts.digits))
    sizes = np.abs(scores)
    magnitudes = np.floor(np.log10(np.maximum(sizes, 1e-300)))
    of_digits = np.where(sizes > 0, 10.0 ** (magnitudes + 1 - digits), 0.0)
    units: Floats = np.maximum(of_digits, 10.0**-decimals)
    return np.maximum(units, FLOAT32 * sizes)
