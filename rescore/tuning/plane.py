"""Two weights exactly: every cell of the plane is looked at.

Where two hypotheses of a list tie is a line in the plane of weights; all such lines cut the plane into cells, within
which the error is the same. Each cell lies beside one of the lines, so sweeps along both sides of every line see all
cells. Their number is that of the pairs of hypotheses: for small sets only.
"""

from __future__ import annotations

import numpy as np

from rescore.tuning.line import Floats, best_interval
from rescore.tuning.search import Space

MOST_LINES = 1_500
BESIDE = 1e-8
"""How far beside a line a sweep goes; a cell narrower than that at every point may be missed."""


def small_enough(space: Space) -> bool:
    """Whether a space is a plane, with few enough ties to look at them all."""
    sizes = space.present.sum(axis=1)
    return space.columns == 3 and int((sizes * (sizes - 1) // 2).sum()) <= MOST_LINES


def best_in_plane(space: Space) -> tuple[Floats, float]:
    """The best point of a space of three columns, and its value; in the middle of an interval through its cell."""
    corner = np.eye(3)[0]
    axes = np.array([np.eye(3)[1] - corner, np.eye(3)[2] - (0 if space.free else corner)])
    sign = 1.0 if space.metric.higher_is_better else -1.0
    found, value = corner, space.value(corner)
    for start, direction in _sweeps(space, corner, axes):
        low, high = _inside(space, start, direction)
        if not low < high:
            continue
        point, towards = corner + start @ axes, direction @ axes
        best = best_interval(*space.line(point, towards, low, high), space.metric.higher_is_better)
        if sign * (best.value - value) > 0:
            place = point + best.middle * towards
            there = space.value(place)
            if sign * (there - value) > 0:
                found, value = place, there
    return found, value


def _sweeps(space: Space, corner: Floats, axes: Floats) -> list[tuple[Floats, Floats]]:
    """Start and direction, in coordinates of the plane, of the lines beside every tie."""
    lines = []
    for features, present in zip(space.features, space.present, strict=True):
        rows = features[present]
        rows = rows[np.isfinite(rows).all(axis=1)]
        for i in range(len(rows)):
            for j in range(i):
                difference = rows[i] - rows[j]
                slope, offset = axes @ difference, corner @ difference
                steepness = float(np.linalg.norm(slope))
                if steepness == 0:
                    continue
                normal = slope / steepness
                along = np.array([-normal[1], normal[0]])
                foot = -offset / steepness * normal
                lines += [(foot + side * BESIDE * normal, along) for side in (-1, 1)]
    return lines


def _inside(space: Space, start: Floats, direction: Floats) -> tuple[float, float]:
    """The part of a line where score weights are not negative, and a count weight is within bounds."""
    # Constraints as c + p * x + q * y >= 0.
    if space.free:
        bound = space.bound
        limits = np.array([[0, 1, 0], [1, -1, 0], [bound, 0, 1], [bound, 0, -1]])
    else:
        limits = np.array([[0, 1, 0], [0, 0, 1], [1, -1, -1]])
    heights = limits[:, 0] + limits[:, 1:] @ start
    slopes = limits[:, 1:] @ direction
    low, high = -np.inf, np.inf
    for height, slope in zip(heights.tolist(), slopes.tolist(), strict=True):
        if slope > 0:
            low = max(low, -height / slope)
        elif slope < 0:
            high = min(high, -height / slope)
        elif height < 0:
            return 0.0, 0.0
    return float(low), float(high)
