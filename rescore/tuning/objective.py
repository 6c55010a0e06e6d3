"""The objective of tuning: the metric of the texts that a decision chooses, as a
function of the weights of columns.

Columns are standardised: each is divided by its `spreads`, the standard deviation of
its scores within a list. A search over standardised columns does not depend on the unit
of a score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.columns import units
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
"""Largest number whose square is a float."""
ROUNDING = 1e-12
"""A weight below this share of the largest weight (of standardised columns) is 0: a
rest of the middle around 0.
"""
LONG = 64
"""Hypotheses from which on a list is long: its losses are computed where they can
change a choice.
"""
PIVOTS = 64
"""Hypotheses of each list beside which all others are looked at, to find those that no
weights can choose.
"""
CACHED = 2_000
"""Points, about, whose choices are kept, of 8 bytes per list."""


def padded(rows: Sequence[npt.NDArray[Scalar]]) -> npt.NDArray[Scalar]:
    """Arrays (hypotheses, ...) of lists of different lengths as one (lists, most
    hypotheses, ...), with zeros after.
    """
    result = np.zeros(
        (len(rows), max(map(len, rows)), *rows[0].shape[1:]), dtype=rows[0].dtype
    )
    for target, row in zip(result, rows, strict=True):
        target[: len(row)] = row
    return result


def side_by_side(rows: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The same array (lists, hypotheses); numbers along the longer axis lie side by
    side, which NumPy adds faster.
    """
    return np.asarray(rows, order="F" if rows.shape[0] > rows.shape[1] else "C")


def spreads(features: Floats, present: Flags) -> Floats:
    """(columns,) the standard deviation within a list of features (lists, hypotheses,
    columns) where they are present (lists, hypotheses), the mean over lists; 1 for a
    column without any.

    Impossible hypotheses (-inf in a column) do not count. Values are added in ascending
    order, so that the order of hypotheses does not change the last digit.
    """
    away, number = centred(features, present)
    with np.errstate(under="ignore"):
        deviations = np.sqrt(np.sort(away**2, axis=1).sum(axis=1) / number).mean(axis=0)
    return np.where(deviations > 0, deviations, 1.0)


def centred(features: Floats, present: Flags) -> tuple[Floats, Floats]:
    """(lists, hypotheses, columns) scores less their mean in the list, 0 for what is
    impossible; (lists, 1) numbers.
    """
    possible = (present & np.isfinite(features).all(axis=-1))[..., None]
    number = np.maximum(possible.sum(axis=1), 1).astype(np.float64)
    values = np.where(possible, features, 0.0)
    with np.errstate(over="ignore"):
        means = np.sort(values / number[:, None], axis=1).sum(axis=1, keepdims=True)
        away = np.where(possible, values - means, 0.0)
    return away.clip(-MAX_SQUARED, MAX_SQUARED), number


def by_content(features: Floats, present: Flags) -> list[int]:
    """The columns in an order that depends on their values alone: neither on their
    names nor on their units.

    Sorted by the covariance of the standardised column with the first column, plus a
    part of its skewness for lists whose first column is constant.
    """
    away = centred(features, present)[0] / spreads(features, present)
    keys = (away * (away[..., :1] + 0.1 * away**2)).sum(axis=(0, 1))
    return np.argsort(keys, kind="stable").tolist()


@dataclass(frozen=True, slots=True)
class Objective:
    """The metric of chosen texts at a point, the (columns,) weights of standardised
    columns.

    Without `losses` the hypothesis with the best score is chosen. With them a point is
    scale times weights, and the hypothesis of least expected loss under the posteriors
    exp(score) is chosen: minimum Bayes risk, of which the best score is the limit of an
    infinite scale.

    Hypotheses stand in the order in which equals win (`rescore.nbest.tie_order`): of
    equals the first is right.
    """

    metric: Metric
    columns: tuple[str, ...]
    """The first pass, then the others."""
    statistics: Counts
    """(lists, hypotheses, k)"""
    features: Floats
    """(lists, hypotheses, columns) standardised scores"""
    present: Flags
    """(lists, hypotheses): False where a list is shorter than the longest"""
    units: Floats
    """(columns,) what scores were divided by"""
    free: Flags
    """(columns,) whether a weight may be negative"""
    times: Counts
    """(lists,) how often each list counts: once, except in a bootstrap sample"""
    losses: Floats | Sequence[Any] | None = None
    """(lists, hypotheses, hypotheses) loss of a row where the column is right; or
    `ListLosses` of `decision.risk`
    """
    choices: dict[bytes, Indices] = field(default_factory=dict)
    """The choices at points that were looked up before; shared by all samples"""
    envelopes: dict[bytes, Envelopes] = field(default_factory=dict)
    """The envelopes of lines that were swept before; shared by all samples"""
    known: dict[str, Any] = field(default_factory=dict)
    """The results of `once`; shared by all samples"""

    @classmethod
    def of(
        cls,
        metric: Metric,
        lists: Sequence[NbestList],
        columns: Sequence[str],
        free: Sequence[str] = (),
        standardise: bool = True,
        kept: Sequence[Indices] | None = None,
    ) -> Objective:
        """The objective on lists with references, over the first pass, then other
        columns; weights of `free` columns and of counts may be negative.

        Args:
            kept: of each list, the places of the hypotheses that may be chosen; None
                for all.

        Raises:
            UserError: a list has no reference, or lacks a column.
        """
        lists = [in_tie_order(nbest) for nbest in lists]
        places = kept or [np.arange(len(nbest.hypotheses)) for nbest in lists]
        every = zip(lists, places, strict=True)
        features = padded(
            [
                np.array([nbest.column(name) for name in columns]).T[own]
                for nbest, own in every
            ]
        )
        present = side_by_side(
            padded([np.ones(len(own), dtype=bool) for own in places])
        )
        statistics = list_statistics(metric, lists)
        scales = spreads(features, present) if standardise else np.ones(len(columns))
        unbounded = {*units(), *free}
        return cls(
            metric,
            tuple(columns),
            padded([rows[own] for rows, own in zip(statistics, places, strict=True)]),
            features / scales,
            present,
            scales,
            np.array([name in unbounded for name in columns]),
            np.ones(len(lists), dtype=np.int64),
        )

    def sample(self, random: np.random.Generator) -> Objective:
        """As many lists, drawn with replacement."""
        number = len(self.times)
        return replace(
            self,
            times=np.bincount(random.integers(0, number, number), minlength=number),
        )

    def over(self, columns: Sequence[str]) -> Objective:
        """The objective over some of its columns, in their order."""
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

    @property
    def sign(self) -> float:
        """1 where higher values are better, -1 where lower ones are."""
        return 1.0 if self.metric.higher_is_better else -1.0

    @property
    def first_pass(self) -> Floats:
        """(columns,) the point at which the first pass decides alone."""
        return np.eye(len(self.columns))[0]

    @property
    def by_column(self) -> list[Floats]:
        """Of each column the features (lists, hypotheses)."""
        return list(
            self.once(
                "by column",
                lambda each: list(map(side_by_side, np.moveaxis(each.features, -1, 0))),
            )
        )

    def scores(self, point: Floats) -> Floats:
        """(lists, hypotheses) weighted sums; -inf for what is impossible, and after the
        end of a list.

        Columns are added one after another, as `rescore.decision.combine` adds them, so
        that hypotheses with equal features have equal sums. A column of weight 0 does
        not count, not even where it is -inf; what has -inf in another column is
        impossible, for weights of either sign.
        """
        scores = np.zeros_like(self.by_column[0])
        with np.errstate(invalid="ignore", over="ignore"):
            for column in np.flatnonzero(point).tolist():
                scores += point[column] * self.by_column[column]
        return np.where(self.present & np.isfinite(scores), scores, -np.inf)

    def posteriors(self, point: Floats) -> Floats:
        """(lists, hypotheses) exp(score) in proportion, adding up to 1; all alike where
        a whole list is impossible.
        """
        shares = self.scores(point)
        highest = shares.max(axis=1, keepdims=True)
        if len(lost := np.flatnonzero(np.isneginf(highest))):
            shares[lost], highest[lost] = (
                np.where(self.present[lost], 0.0, -np.inf),
                0.0,
            )
        with np.errstate(over="ignore"):
            shares -= highest
        np.exp(shares, out=shares)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def value(self, point: Floats) -> float:
        """The metric's value at a point, in percent."""
        return self.values([point])[0]

    def values(self, points: Sequence[Floats]) -> list[float]:
        """The metric's values at points, in percent; faster than one point after
        another.
        """
        if len(self.choices) > CACHED:
            self.choices.clear()
        new = {
            point.tobytes(): point
            for point in points
            if point.tobytes() not in self.choices
        }
        self.choices.update(
            zip(new, self._choose(list(new.values())) if new else (), strict=True)
        )
        return self.metric.values(
            np.stack([self.times @ self.chosen(point) for point in points])
        ).tolist()

    def chosen(self, point: Floats) -> Counts:
        """(lists, k) the statistics of what is chosen at a point, each list once."""
        if (key := point.tobytes()) not in self.choices:
            (self.choices[key],) = self._choose([point])
        return taken(
            self.statistics, np.arange(len(self.statistics)), self.choices[key]
        )

    def _choose(self, points: Sequence[Floats]) -> list[Indices]:
        if self.losses is None:
            return [np.asarray(self.scores(point).argmax(axis=1)) for point in points]
        # here: only decisions by expected loss need it
        from rescore.decision.risk import least_expected

        return least_expected(
            self.losses, [self.posteriors(point) for point in points], self.present
        )

    def once(self, name: str, compute: Callable[[Objective], Any]) -> Any:
        """The result of a function that depends on the columns and the lists, but not
        on how often a list counts.
        """
        if name not in self.known:
            self.known[name] = compute(self)
        return self.known[name]

    def line(
        self, start: Floats, direction: Floats, low: float, high: float
    ) -> tuple[Floats, Floats]:
        """Edges (m + 1,) and values (m,) of the objective along `start + x *
        direction`: the best score alone.

        The value is a step function of x in [low, high] (`rescore.tuning.line.swept`).
        """
        key = b"".join(
            part.tobytes() for part in (start, direction, np.array([low, high]))
        )
        front: Objective = self.once("front", _front)
        if key not in self.envelopes:
            if len(self.envelopes) == CACHED // 50:
                self.envelopes.clear()
            self.envelopes[key] = upper_envelopes(
                front.scores(start), front.scores(direction), low, high
            )
        return swept(
            self.metric, front.statistics, self.envelopes[key], low, high, self.times
        )

    def weights(self, point: Floats) -> tuple[dict[str, float], float]:
        """The weights of the columns as they are, those that are not free adding up to
        1; and the scale.
        """
        raw = (
            np.where(
                np.abs(point) < ROUNDING * np.abs(point[~self.free]).max(), 0.0, point
            )
            / self.units
        )
        scale = math.fsum(raw[~self.free].tolist())
        return dict(zip(self.columns, (raw / scale).tolist(), strict=True)), scale

    def point(self, weights: Mapping[str, float]) -> Floats:
        """The point of weights of the columns as they are."""
        return np.array([weights.get(name, 0.0) for name in self.columns]) * self.units


def _front(objective: Objective) -> Objective:
    """The objective without hypotheses of long lists that no weights can choose:
    another one has equal values in the free columns and higher ones in all others, or
    comes first and has no lower ones. Most of them leave.
    """
    stay, lists = objective.present.copy(), np.arange(len(objective.features))
    if (number := stay.shape[1]) <= LONG:
        return objective
    free, bounded = (
        np.moveaxis(objective.features[..., which], -1, 0)
        for which in (objective.free, ~objective.free)
    )
    total = np.nan_to_num(
        objective.features[..., ~objective.free].sum(axis=-1), nan=-np.inf
    )
    heights = np.where(stay, total, -np.inf)
    for _ in range(PIVOTS):
        pivot = heights.argmax(axis=1)
        theirs, usable = (
            bounded[:, lists, pivot][..., None],
            np.isfinite(heights[lists, pivot])[:, None],
        )
        later = (bounded <= theirs).all(axis=0) & (np.arange(number) > pivot[:, None])
        equal = (free == free[:, lists, pivot][..., None]).all(axis=0)
        gone = ((bounded < theirs).all(axis=0) | later) & equal & usable
        stay &= ~gone
        heights[gone] = heights[lists, pivot] = -np.inf
    features, statistics, present = (
        padded([rows[kept] for rows, kept in zip(every, stay, strict=True)])
        for every in (objective.features, objective.statistics, stay)
    )
    return replace(
        objective,
        features=features,
        statistics=statistics,
        present=present,
        losses=None,
        known={},
    )
