"""The objective of tuning: the metric of the texts that a decision chooses, as a
function of the weights of columns.

Columns are standardised: each is divided by its `spreads`, the standard deviation of
its scores within a list. A search over standardised columns does not depend on the unit
of a score.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.columns import units
from rescore.decision.risk import least_expected
from rescore.metrics.base import Counts, Metric, list_statistics
from rescore.nbest import NbestList, in_tie_order
from rescore.tuning.line import (
    Envelopes,
    Flags,
    Floats,
    Indices,
    swept,
    taken,
    upper_envelopes,
)

Scalar = TypeVar("Scalar", bound=np.generic)
MAX_SQUARED = 1e150
"""The largest number whose square is a float."""
ROUNDING = 1e-12
"""A weight below this share of the largest weight (of standardised columns) is 0: it
is the rounding error of the middle of an interval around 0.
"""
LONG = 64
"""Hypotheses from which on a list is long: only losses that can change a choice are
computed.
"""
PIVOTS = 64
"""Hypotheses of each list that all others are compared with, to leave out hypotheses
that no weights can choose.
"""
CACHED = 2_000
"""Points, about, whose choices are kept; each takes 8 bytes per list."""
CACHED_LINES = CACHED // 50
"""Lines whose envelopes are kept."""


def with_some(
    lists: Sequence[NbestList], indices: Sequence[Indices]
) -> list[NbestList]:
    """Return lists with some of their hypotheses alone.

    Args:
        lists: The lists.
        indices: The indices of the hypotheses of each list.
    """
    shorter = []
    for nbest, own in zip(lists, indices, strict=True):
        hypotheses = [nbest.hypotheses[index] for index in own]
        shorter.append(replace(nbest, hypotheses=hypotheses))
    return shorter


def padded(rows: Sequence[npt.NDArray[Scalar]]) -> npt.NDArray[Scalar]:
    """Return arrays of lists of different lengths as one array, padded with zeros.

    Args:
        rows: An array of shape (hypotheses, ...) for each list.

    Returns:
        An array of shape (lists, most hypotheses, ...).
    """
    shape = (len(rows), max(map(len, rows)), *rows[0].shape[1:])
    result = np.zeros(shape, dtype=rows[0].dtype)
    for target, row in zip(result, rows, strict=True):
        target[: len(row)] = row
    return result


def side_by_side(rows: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return the same array (lists, hypotheses) with numbers along its longer axis side
    by side in memory, which NumPy adds faster.
    """
    return np.asarray(rows, order="F" if rows.shape[0] > rows.shape[1] else "C")


def spreads(features: Floats, present: Flags) -> Floats:
    """Return the standard deviation of each column within a list, the mean over lists.

    Impossible hypotheses (-inf in a column) do not count. Values are added in ascending
    order, so that the order of hypotheses does not change the last digit.

    Args:
        features: Scores of shape (lists, hypotheses, columns).
        present: Whether a list has a hypothesis, of shape (lists, hypotheses).

    Returns:
        Deviations of shape (columns,); 1 for a constant column.
    """
    away, number = centred(features, present)
    with np.errstate(under="ignore"):
        variances = np.sort(away**2, axis=1).sum(axis=1) / number
        deviations = np.sqrt(variances).mean(axis=0)
    return np.where(deviations > 0, deviations, 1.0)


def centred(features: Floats, present: Flags) -> tuple[Floats, Floats]:
    """Return scores less their mean in the list, and the number of possible hypotheses.

    Args:
        features: As in `spreads`.
        present: As in `spreads`.

    Returns:
        Differences of shape (lists, hypotheses, columns), 0 for impossible hypotheses;
        numbers of shape (lists, 1), at least 1.
    """
    possible = (present & np.isfinite(features).all(axis=-1))[..., None]
    number = np.maximum(possible.sum(axis=1), 1).astype(np.float64)
    values = np.where(possible, features, 0.0)
    with np.errstate(over="ignore"):
        means = np.sort(values / number[:, None], axis=1).sum(axis=1, keepdims=True)
        away = np.where(possible, values - means, 0.0)
    return away.clip(-MAX_SQUARED, MAX_SQUARED), number


def by_content(features: Floats, present: Flags) -> list[int]:
    """Return the indices of columns in an order that depends on their values, but not
    on their names and units.

    Columns are sorted by the covariance of the standardised column with the first
    column, plus a part of its skewness for lists whose first column is constant.

    Args:
        features: As in `spreads`.
        present: As in `spreads`.
    """
    away, _ = centred(features, present)
    away = away / spreads(features, present)
    keys = (away * (away[..., :1] + 0.1 * away**2)).sum(axis=(0, 1))
    return np.argsort(keys, kind="stable").tolist()


@dataclass(frozen=True, slots=True)
class TuningObjective:
    """The metric of the chosen texts as a function of a point: weights of standardised
    columns, of shape (columns,).

    Without `losses` the hypothesis with the best score is chosen. With losses a point
    is scale times weights, and the hypothesis of least expected loss under the
    posteriors exp(score) is chosen: minimum Bayes risk. The best score is its limit for
    an infinite scale.

    Hypotheses stand in the order in which equals win (`rescore.nbest.tie_order`): the
    first of equals is right.
    """

    metric: Metric
    columns: tuple[str, ...]
    """The first pass, then the others."""
    statistics: Counts
    """Statistics of the metric, of shape (lists, hypotheses, k)."""
    features: Floats
    """Standardised scores of shape (lists, hypotheses, columns)."""
    present: Flags
    """False after the end of a list, of shape (lists, hypotheses)."""
    units: Floats
    """The numbers that scores were divided by, of shape (columns,)."""
    free: Flags
    """Whether a weight may be negative, of shape (columns,)."""
    times: Counts
    """Number of times that each list counts, of shape (lists,): once, except in a
    bootstrap sample.
    """
    losses: Floats | Sequence[Any] | None = None
    """The loss of a row where the column is right, of shape (lists, hypotheses,
    hypotheses); or `ListLosses` of `rescore.decision.risk`.
    """
    choices: dict[bytes, Indices] = field(default_factory=dict)
    """The choices at points that were looked up before; all samples share them."""
    envelopes: dict[bytes, Envelopes] = field(default_factory=dict)
    """The envelopes of lines that were swept before; all samples share them."""
    known: dict[str, Any] = field(default_factory=dict)
    """The results of `once`; all samples share them."""
    parts: dict[tuple[str, ...], Floats] = field(default_factory=dict)
    """The best points over some of the columns that a search found; all objectives over
    columns of these lists share them.
    """

    @classmethod
    def of(
        cls,
        metric: Metric,
        lists: Sequence[NbestList],
        columns: Sequence[str],
        free: Sequence[str] = (),
        standardise: bool = True,
        kept: Sequence[Indices] | None = None,
    ) -> TuningObjective:
        """Return the objective on lists with references.

        Args:
            metric: The metric.
            lists: Lists with references.
            columns: The first pass, then the other columns.
            free: Columns whose weights may be negative; weights of counts always may.
            standardise: Whether columns are divided by their spread.
            kept: The indices of the hypotheses of each list that may be chosen, for
                lists whose hypotheses are in `tie_order`; None for all hypotheses.

        Raises:
            UserError: A list has no reference, or lacks a column.
        """
        if kept is None:
            lists = [in_tie_order(nbest) for nbest in lists]
        statistics = list_statistics(metric, lists)
        if kept is not None:
            pairs = zip(statistics, kept, strict=True)
            statistics = [counts[own] for counts, own in pairs]
            lists = with_some(lists, kept)
        rows = []
        present = []
        for nbest in lists:
            rows.append(np.array([nbest.column(name) for name in columns]).T)
            present.append(np.ones(len(nbest.hypotheses), dtype=bool))
        features = padded(rows)
        is_present = side_by_side(padded(present))
        scales = np.ones(len(columns))
        if standardise:
            scales = spreads(features, is_present)
        unbounded = {*units(), *free}
        return cls(
            metric,
            tuple(columns),
            padded(statistics),
            features / scales,
            is_present,
            scales,
            np.array([name in unbounded for name in columns]),
            np.ones(len(lists), dtype=np.int64),
        )

    def sample(self, random: np.random.Generator) -> TuningObjective:
        """Return the objective on as many lists, drawn with replacement."""
        number = len(self.times)
        drawn = random.integers(0, number, number)
        return replace(self, times=np.bincount(drawn, minlength=number))

    def over(self, columns: Sequence[str]) -> TuningObjective:
        """Return the objective over some of its columns, in the order given."""
        keep = [self.columns.index(name) for name in columns]
        return replace(
            self,
            columns=tuple(columns),
            features=self.features[..., keep],
            units=self.units[keep],
            free=self.free[keep],
            choices={},
            envelopes={},
            known={},
        )

    def digest(self) -> bytes | None:
        """Return a hash of all numbers that a search reads; None with losses that are
        not all computed.

        A search does not read the names of columns, and not the units.
        """
        arrays = [self.statistics, self.features, self.present, self.free, self.times]
        if self.losses is not None:
            if not isinstance(self.losses, np.ndarray):
                return None
            arrays.append(self.losses)
        digest = hashlib.blake2b()
        for array in arrays:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.digest()

    @property
    def sign(self) -> float:
        """1 if higher values are better, -1 if lower values are better."""
        return 1.0 if self.metric.higher_is_better else -1.0

    @property
    def first_pass(self) -> Floats:
        """The point (columns,) at which the first pass decides alone."""
        return np.eye(len(self.columns))[0]

    @property
    def by_column(self) -> list[Floats]:
        """The features (lists, hypotheses) of each column."""
        columns: list[Floats] = self.once("by column", _by_column)
        return columns

    def scores(self, point: Floats) -> Floats:
        """Return the weighted sums at a point.

        Columns are added one after another, as `rescore.decision.combine` adds them, so
        that hypotheses with equal features have equal sums. A column of weight 0 does
        not count, even where it is -inf; a hypothesis with -inf in another column is
        impossible, also under a negative weight.

        Returns:
            Scores of shape (lists, hypotheses); -inf for impossible hypotheses and
            after the end of a list.
        """
        scores = np.zeros_like(self.by_column[0])
        term = np.empty_like(scores)
        with np.errstate(invalid="ignore", over="ignore"):
            for column in np.flatnonzero(point).tolist():
                np.multiply(self.by_column[column], point[column], out=term)
                scores += term
        possible = np.isfinite(scores)
        possible &= self.present
        if not possible.all():
            scores[~possible] = -np.inf
        return scores

    def posteriors(self, point: Floats) -> Floats:
        """Return the probabilities of hypotheses, proportional to exp(score).

        If all hypotheses of a list are impossible, they are equally probable.

        Returns:
            Probabilities of shape (lists, hypotheses), which add up to 1 in each list.
        """
        shares = self.scores(point)
        highest = shares.max(axis=1, keepdims=True)
        lost = np.flatnonzero(np.isneginf(highest))
        if len(lost):
            shares[lost] = np.where(self.present[lost], 0.0, -np.inf)
            highest[lost] = 0.0
        # In place: this is the inner loop of a search for minimum Bayes risk.
        with np.errstate(over="ignore"):
            shares -= highest
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def value(self, point: Floats) -> float:
        """Return the metric at a point, in percent."""
        return self.values([point])[0]

    def values(self, points: Sequence[Floats]) -> list[float]:
        """Return the metric at points, in percent; faster than point by point."""
        if len(self.choices) > CACHED:
            self.choices.clear()
        new = {}
        for point in points:
            key = point.tobytes()
            if key not in self.choices:
                new[key] = point
        if new:
            choices = self._choose(list(new.values()))
            self.choices.update(zip(new, choices, strict=True))
        sums = [self.times @ self.chosen(point) for point in points]
        return self.metric.values(np.stack(sums)).tolist()

    def chosen(self, point: Floats) -> Counts:
        """Return the statistics (lists, k) of the choices at a point; each list counts
        once.
        """
        key = point.tobytes()
        if key not in self.choices:
            (self.choices[key],) = self._choose([point])
        lists = np.arange(len(self.statistics))
        return taken(self.statistics, lists, self.choices[key])

    def _choose(self, points: Sequence[Floats]) -> list[Indices]:
        """Return the hypothesis of each list (lists,) that is chosen at each point."""
        if self.losses is None:
            return [np.asarray(self.scores(point).argmax(axis=1)) for point in points]
        shares = [self.posteriors(point) for point in points]
        return least_expected(self.losses, shares, self.present)

    def once(self, name: str, compute: Callable[[TuningObjective], Any]) -> Any:
        """Return the result of a function of this objective, computed once.

        Args:
            name: The name of the result.
            compute: Depends on the columns and the lists, but not on `times`.
        """
        if name not in self.known:
            self.known[name] = compute(self)
        return self.known[name]

    def line(
        self, start: Floats, direction: Floats, low: float, high: float
    ) -> tuple[Floats, Floats]:
        """Return the metric along `start + x * direction`, for the best score.

        It is a step function of x in [low, high] (`rescore.tuning.line.swept`).

        Args:
            start: A point (columns,).
            direction: A direction (columns,).
            low: The lower end of x.
            high: The upper end of x.

        Returns:
            Edges of shape (steps + 1,) and values of shape (steps,), in percent.
        """
        ends = np.array([low, high])
        key = b"".join(part.tobytes() for part in (start, direction, ends))
        front: TuningObjective = self.once("front", _front)
        if key not in self.envelopes:
            if len(self.envelopes) == CACHED_LINES:
                self.envelopes.clear()
            self.envelopes[key] = upper_envelopes(
                front.scores(start), front.scores(direction), low, high
            )
        envelopes = self.envelopes[key]
        return swept(self.metric, front.statistics, envelopes, low, high, self.times)

    def weights(self, point: Floats) -> tuple[dict[str, float], float]:
        """Return the weights of columns that are not standardised, and the scale.

        The weights that are not free add up to 1.

        Args:
            point: A point (columns,).
        """
        largest = np.abs(point[~self.free]).max()
        rounding = np.abs(point) < ROUNDING * largest
        raw = np.where(rounding, 0.0, point) / self.units
        scale = math.fsum(raw[~self.free].tolist())
        return dict(zip(self.columns, (raw / scale).tolist(), strict=True)), scale

    def point(self, weights: Mapping[str, float]) -> Floats:
        """Return the point (columns,) of weights of columns that are not
        standardised.
        """
        return np.array([weights.get(name, 0.0) for name in self.columns]) * self.units


def _by_column(objective: TuningObjective) -> list[Floats]:
    """Return the features (lists, hypotheses) of each column, fast to add."""
    columns = np.moveaxis(objective.features, -1, 0)
    return [side_by_side(column) for column in columns]


def _front(objective: TuningObjective) -> TuningObjective:
    """Return the objective without hypotheses of long lists that no weights can choose.

    Another hypothesis has equal values in the free columns and higher values in all
    other columns, or it comes first and has no lower values there. Not all of these
    hypotheses are left out, but most of them.
    """
    stay = objective.present.copy()
    number = stay.shape[1]
    if number <= LONG:
        return objective
    lists = np.arange(len(stay))
    by_column = np.moveaxis(objective.features, -1, 0)  # (columns, lists, hypotheses)
    free = by_column[objective.free]
    bounded = by_column[~objective.free]
    total = objective.features[..., ~objective.free].sum(axis=-1)
    heights = np.where(stay, np.nan_to_num(total, nan=-np.inf), -np.inf)
    for _ in range(PIVOTS):
        pivot = heights.argmax(axis=1)
        usable = np.isfinite(heights[lists, pivot])[:, None]
        theirs = bounded[:, lists, pivot][..., None]
        same_free = (free == free[:, lists, pivot][..., None]).all(axis=0)
        higher = (bounded < theirs).all(axis=0)
        not_lower = (bounded <= theirs).all(axis=0)
        comes_first = np.arange(number) > pivot[:, None]
        gone = (higher | (not_lower & comes_first)) & same_free & usable
        stay &= ~gone
        heights[gone] = -np.inf
        heights[lists, pivot] = -np.inf
    return replace(
        objective,
        features=_kept(objective.features, stay),
        statistics=_kept(objective.statistics, stay),
        present=_kept(stay, stay),
        losses=None,
        known={},
    )


def _kept(values: npt.NDArray[Scalar], stay: Flags) -> npt.NDArray[Scalar]:
    """Return the values (lists, hypotheses, ...) of hypotheses that stay, padded."""
    return padded([rows[own] for rows, own in zip(values, stay, strict=True)])
