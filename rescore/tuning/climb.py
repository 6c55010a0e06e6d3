"""The search for several weights: a move along the best of many lines through a point,
again and again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescore.tuning.line import Flags, Floats, best_interval
from rescore.tuning.objective import MAX_SQUARED, TuningObjective, side_by_side

SHARPNESS = (4.0, 16.0)
"""Scales of the posteriors under which the gradient of the best score is taken, in
units of 1 / standard deviation.
"""


def climb(objective: TuningObjective, point: Floats) -> Floats:
    """Return the point that is reached by moves along lines, as long as a move improves
    the value.

    Each move goes to the best place on the lines of `_lines` through the point before.

    Args:
        objective: The objective.
        point: The starting point (columns,).
    """
    value = objective.value(point)
    while True:
        move = _best_move(objective, point, value)
        if move is None:
            return point
        value, point = move


def _best_move(
    objective: TuningObjective, point: Floats, value: float
) -> tuple[float, Floats] | None:
    """Return the value and the place of the best move from a point; None if no move is
    better than the value there.
    """
    sign = objective.sign
    promised = []
    for start, direction, low, high in _lines(objective, point):
        edges, values = objective.line(start, direction, low, high)
        best = best_interval(edges, values, objective.metric.higher_is_better)
        if sign * (best.value - value) > 0:
            promised.append(start + best.middle * direction)
    # The sweep promises the value of an interval; rounding may break this promise at
    # its middle, so the value there is looked up.
    moves = [(objective.value(place), place) for place in promised]
    if not moves:
        return None
    move = max(moves, key=lambda move: sign * move[0])
    return move if sign * (move[0] - value) > 0 else None


def coordinate(
    point: Floats, index: int, bounded: Flags
) -> tuple[Floats, Floats] | None:
    """Return the line from a point without one bounded column to this column alone; the
    other bounded columns keep their proportions.

    Args:
        point: A point (columns,).
        index: The index of the column.
        bounded: The bounded columns (columns,).

    Returns:
        The start and the direction, both of shape (columns,); None if no other bounded
        column has a weight.
    """
    start = point.copy()
    start[index] = 0.0
    rest = start[bounded].sum()
    if rest <= 0:
        return None
    start[bounded] /= rest
    corner = np.eye(len(point))[index]
    direction = np.where(bounded, corner - start, 0.0)
    return start, direction


def _lines(
    objective: TuningObjective, point: Floats
) -> Iterator[tuple[Floats, Floats, float, float]]:
    """Yield lines through a point: the whole line of each coordinate, then parts of the
    lines along gradients.

    Bounded weights are at least 0 and add up to 1; free weights lie between minus and
    plus `reach_of`.

    Yields:
        The start (columns,), the direction (columns,), and both ends of the range of x
        in start + x * direction.
    """
    bounded = ~objective.free
    reach = objective.once("reach", reach_of)
    for index in range(len(point)):
        if bounded[index]:
            line = coordinate(point, index, bounded)
            if line is not None:
                start, direction = line
                yield start, direction, 0.0, 1.0
        else:
            corner = np.eye(len(point))[index]
            yield point * (1 - corner), corner, -reach, reach
    for sharpness in SHARPNESS:
        direction = gradient(objective, sharpness * point)
        direction[bounded] -= direction[bounded].mean()
        direction /= np.abs(direction).max() or 1.0
        falls = bounded & (direction < 0)
        rises = bounded & (direction > 0)
        high = float((point[falls] / -direction[falls]).min(initial=reach))
        low = float((-point[rises] / direction[rises]).max(initial=-reach))
        if direction.any() and low < high:
            yield point, direction, low, high


def gradient(objective: TuningObjective, point: Floats) -> Floats:
    """Return the direction in which the expected loss under the posteriors of a point
    falls fastest.

    The value itself is a step function. The expected loss is the sum of p * loss over
    hypotheses, with p proportional to exp(score). Its derivative by a weight is the sum
    of p * (loss - expected loss) * feature.

    Args:
        objective: The objective.
        point: The point (columns,), which includes the scale of the posteriors.

    Returns:
        The direction of shape (columns,).
    """
    posteriors = objective.posteriors(point)
    losses = objective.once("losses", _losses)
    features = objective.once("finite features", _finite_features)
    expected = (posteriors * losses).sum(axis=1, keepdims=True)
    slope = posteriors * (losses - expected) * objective.times[:, None]
    return np.array([-(slope * values).sum() for values in features])


def _losses(objective: TuningObjective) -> Floats:
    """Return the losses (lists, hypotheses); 0 after the end of a list."""
    number = objective.statistics.shape[-1]
    losses = objective.metric.losses(objective.statistics.reshape(-1, number))
    losses = losses.reshape(objective.present.shape)
    return side_by_side(np.where(objective.present, losses, 0.0))


def _finite_features(objective: TuningObjective) -> list[Floats]:
    """Return the features (lists, hypotheses) of each column; 0 for impossible
    hypotheses.
    """
    columns = objective.by_column
    return [np.where(np.isfinite(values), values, 0.0) for values in columns]


def reach_of(objective: TuningObjective) -> float:
    """Return the largest weight of a free column that a search tries: it outweighs any
    difference of scores.
    """
    possible = objective.present & np.isfinite(objective.features).all(axis=-1)
    possible = possible[..., None]  # (lists, hypotheses, 1)
    highest = np.where(possible, objective.features, -np.inf).max(axis=1)
    lowest = np.where(possible, objective.features, np.inf).min(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        widths = np.where(np.isfinite(highest), highest - lowest, 0.0)
    widest = widths[:, ~objective.free].max()
    return float(min(1.0 + widest, MAX_SQUARED))
