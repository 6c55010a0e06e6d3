"""The search for several weights: along the best of many lines through a point, again
and again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescore.tuning.line import Flags, Floats, best_interval
from rescore.tuning.objective import MAX_SQUARED, Objective, side_by_side

SHARPNESS = (4.0, 16.0)
"""Scales of the posteriors under which the gradient of the best score is taken, in
units of 1 / standard deviation.
"""


def climb(objective: Objective, point: Floats) -> Floats:
    """From a point along the best of the lines through it, again and again, as long as
    the value improves.
    """
    sign = objective.sign
    value = objective.value(point)
    while True:
        moves = []
        for start, direction, low, high in _lines(objective, point):
            best = best_interval(
                *objective.line(start, direction, low, high),
                objective.metric.higher_is_better,
            )
            moves.append((best.value, start + best.middle * direction))
        # What the sweep says of an interval holds at its middle up to rounding: that is
        # looked up, not assumed.
        moves = [
            (objective.value(place), place)
            for swept, place in moves
            if sign * (swept - value) > 0
        ]
        best_move = max(moves, key=lambda move: sign * move[0], default=None)
        if best_move is None or sign * (best_move[0] - value) <= 0:
            return point
        value, point = best_move


def coordinate(
    point: Floats, index: int, bounded: Flags
) -> tuple[Floats, Floats] | None:
    """The line (start, direction) from without one bounded column to that column alone;
    the others keep proportions.

    None where the other bounded columns have no weight.
    """
    start = point.copy()
    start[index] = 0.0
    rest = start[bounded].sum()
    if rest <= 0:
        return None
    start[bounded] /= rest
    direction = np.where(bounded, np.eye(len(point))[index] - start, 0.0)
    return start, direction


def _lines(
    objective: Objective, point: Floats
) -> Iterator[tuple[Floats, Floats, float, float]]:
    """The whole line of each coordinate, then the lines along gradients: start,
    direction, from, to.

    Bounded weights are at least 0 and add up to 1; free weights lie between minus and
    plus `reach`.
    """
    bounded, reach = ~objective.free, objective.once("reach", reach_of)
    for index in range(len(point)):
        if bounded[index]:
            line = coordinate(point, index, bounded)
            if line is not None:
                yield *line, 0.0, 1.0
        else:
            corner = np.eye(len(point))[index]
            yield point * (1 - corner), corner, -reach, reach
    for sharpness in SHARPNESS:
        direction = gradient(objective, sharpness * point)
        direction[bounded] -= direction[bounded].mean()
        direction /= np.abs(direction).max() or 1.0
        falls, rises = bounded & (direction < 0), bounded & (direction > 0)
        high = float((point[falls] / -direction[falls]).min(initial=reach))
        low = float((-point[rises] / direction[rises]).max(initial=-reach))
        if direction.any() and low < high:
            yield point, direction, low, high


def gradient(objective: Objective, point: Floats) -> Floats:
    """(columns,) where the expected loss under the posteriors of a point falls fastest.

    The value itself is a step function. The expected loss, the sum of p * loss over
    hypotheses with p = exp(score) in proportion, has the derivative sum of p * (loss -
    expected loss) * feature.
    """
    posteriors = objective.posteriors(point)
    losses, features = objective.once("losses", _losses)
    slope = (
        posteriors
        * (losses - (posteriors * losses).sum(axis=1, keepdims=True))
        * objective.times[:, None]
    )
    return np.array([-(slope * values).sum() for values in features])


def _losses(objective: Objective) -> tuple[Floats, list[Floats]]:
    """(lists, hypotheses) the losses, and the features of each column; 0 for what is
    impossible.
    """
    losses = objective.metric.losses(
        objective.statistics.reshape(-1, objective.statistics.shape[-1])
    )
    losses = side_by_side(
        np.where(objective.present, losses.reshape(objective.present.shape), 0.0)
    )
    return losses, [
        np.where(np.isfinite(values), values, 0.0) for values in objective.by_column
    ]


def reach_of(objective: Objective) -> float:
    """The largest weight of a free column that a search tries: there it outweighs any
    difference of scores.
    """
    possible = (objective.present & np.isfinite(objective.features).all(axis=-1))[
        ..., None
    ]
    highest = np.where(possible, objective.features, -np.inf).max(axis=1)
    lowest = np.where(possible, objective.features, np.inf).min(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        widest = np.where(np.isfinite(highest), highest - lowest, 0.0)[
            :, ~objective.free
        ].max()
    return float(min(1.0 + widest, MAX_SQUARED))
