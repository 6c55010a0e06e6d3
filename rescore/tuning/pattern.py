"""The search for minimum Bayes risk: a point is scale times weights, and a pattern
search changes all its numbers, or one of them, by smaller and smaller steps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rescore.decision.choice import Choice, combine
from rescore.decision.risk import MULTIPLIED
from rescore.decision.rules import Losses
from rescore.nbest import NbestList, in_tie_order, ranking
from rescore.tuning.line import Floats, Indices
from rescore.tuning.objective import LONG, TuningObjective, spreads, with_some

log = logging.getLogger(__name__)

STEPS = (2.0, 2**0.5, 2**0.25, 2**0.125)
"""Factors by which a pattern search changes a number, in this order."""
STARTING_SCALES = tuple(2.0**exponent for exponent in range(-5, 8))
"""Scales at which a pattern search begins, in units of 1 / spread of the combined
scores.
"""
ENTRIES = (0.05, 0.25, 1.0, 4.0)
"""Weights that a pattern search gives to a standardised column without weight (natural
log).
"""
SHARED = 1 << 27
"""Pairs of hypotheses in all lists up to which losses of whole lists are used, which
folds share; with more pairs only losses of kept hypotheses are computed.
"""
PAIRS = 1 << 24
"""Pairs of hypotheses in all lists that a search compares; more take minutes."""
DEEP = 256
"""Hypotheses from which on a list is deep: a search compares only its `LIKELY` most
probable hypotheses.
"""
LIKELY = 128
"""Hypotheses of a deep list that a search compares, at most. Losses between them are a
table of 64 kB, which a core adds faster than it finds out which losses it needs.
"""


def likely(
    lists: Sequence[NbestList], weights: Mapping[str, float], pairs: int = PAIRS
) -> list[Indices] | None:
    """Return the indices of the most probable hypotheses of each list, so that a search
    compares few pairs.

    Args:
        lists: The lists.
        weights: The weight of each column.
        pairs: Number of pairs of hypotheses in all lists, at most.

    Returns:
        The indices of each list in ascending order; None if all hypotheses stay.
    """
    most = max(2, int((pairs / len(lists)) ** 0.5))
    if are_deep(lists):
        most = min(most, LIKELY)
    if all(len(nbest.hypotheses) <= most for nbest in lists):
        return None
    log.info("tuning uses only the best %d hypotheses of each list", most)
    choice = Choice(dict(weights))
    kept = []
    for nbest in lists:
        order = ranking(nbest, combine(nbest, choice).tolist())
        kept.append(np.array(sorted(order[:most])))
    return kept


def are_deep(lists: Sequence[NbestList]) -> bool:
    """Return whether a list has more than `DEEP` hypotheses."""
    return any(len(nbest.hypotheses) > DEEP for nbest in lists)


def deciding_by(
    losses: Losses,
    objective: TuningObjective,
    lists: Sequence[NbestList],
    kept: Sequence[Indices] | None = None,
) -> TuningObjective:
    """Return the objective of the same columns for the least expected loss.

    Args:
        losses: The losses of the decision rule.
        objective: An objective for the best score.
        lists: The lists of the objective.
        kept: The indices of its hypotheses, as in `TuningObjective.of`.
    """
    if kept is None:
        lists = [in_tie_order(nbest) for nbest in lists]
    longest = LIKELY if are_deep(lists) else LONG
    if kept is not None and sum(len(nbest.hypotheses) ** 2 for nbest in lists) > SHARED:
        lists = with_some(lists, kept)
        kept = None
    every = losses(objective.metric, lists)
    if kept is not None:
        pairs = zip(every, kept, strict=True)
        every = [list_losses.among(indices) for list_losses, indices in pairs]
    return replace(
        objective, losses=_together(every, longest), choices={}, envelopes={}
    )


def _together(losses: Sequence[Any], longest: int) -> Floats | Sequence[Any]:
    """Return the losses of all lists as one array (lists, hypotheses, hypotheses); as
    they are if a list has more than `longest` hypotheses.
    """
    if not isinstance(losses[0], np.ndarray):
        if max(list_losses.size for list_losses in losses) > longest**2:
            return losses
        losses = [list_losses.matrix() for list_losses in losses]
    longest = max(map(len, losses))
    every = np.zeros((len(losses), longest, longest))
    if longest < MULTIPLIED:
        # Lists lie side by side in memory, where NumPy adds them fastest.
        every = np.zeros((longest, longest, len(losses))).transpose(2, 0, 1)
    for target, matrix in zip(every, losses, strict=True):
        target[: len(matrix), : len(matrix)] = matrix
    return every


def equal_weights(objective: TuningObjective) -> Floats:
    """Return the point (columns,) with equal weights of all language models.

    Their weights, of standardised columns, are together half of the first pass's
    weight; free columns have weight 0.
    """
    models = ~objective.free
    models[0] = False
    share = 0.5 / max(1, models.sum())
    point = objective.first_pass + np.where(models, share, 0.0)
    return np.asarray(point / point.sum())


def search(
    objective: TuningObjective, starts: Sequence[Floats], only_scale: bool = False
) -> Floats:
    """Return the best point that a pattern search reaches from the best of its starting
    points.

    Args:
        objective: An objective with losses.
        starts: Starting points (columns,).
        only_scale: Whether only all numbers together are changed: the scale.
    """
    sign = objective.sign
    point = starts[0]
    value = -np.inf
    for start, metric_value in zip(starts, objective.values(starts), strict=True):
        if sign * metric_value > value:  # The first of equals is taken.
            point = start
            value = sign * metric_value
    for step in STEPS:
        better = True
        while better:
            better = False
            if only_scale:
                around = [point * step, point / step]
            else:
                around = list(_around(objective, point, step))
            values = objective.values(around)
            for neighbour, metric_value in zip(around, values, strict=True):
                if sign * metric_value > value + 1e-9:
                    point = neighbour
                    value = sign * metric_value
                    better = True
    return point


def scaled(objective: TuningObjective, point: Floats) -> list[Floats]:
    """Return starting points in the direction of a point, for all `STARTING_SCALES`;
    none if only free columns have a weight there.
    """
    if point[~objective.free].sum() <= 0:
        return []
    scores = objective.scores(point)[..., None]
    unit = float(spreads(scores, objective.present)[0])
    return [scale / unit * point for scale in STARTING_SCALES]


def _around(objective: TuningObjective, point: Floats, step: float) -> Iterator[Floats]:
    """Yield the neighbours of a point: all its numbers are made larger or smaller, then
    each single number is changed.

    In a neighbour some bounded column has a weight, and the first pass has always one.
    """
    yield point * step
    yield point / step
    for index, number in enumerate(point.tolist()):
        for changed in _changes(number, step, index == 0, bool(objective.free[index])):
            if changed == number:
                continue
            neighbour = point.copy()
            neighbour[index] = changed
            if neighbour[~objective.free].sum() > 0:
                yield neighbour


def _changes(
    number: float, step: float, is_first_pass: bool, is_free: bool
) -> list[float]:
    """Return the numbers that a pattern search puts in the place of one number: it is
    made larger or smaller, put in, taken out, or turned round.
    """
    entries = [(step - 1.0) * entry for entry in ENTRIES]
    if number == 0:
        changes = entries
    elif is_first_pass:
        changes = [number * step, number / step]
    else:
        changes = [number * step, number / step, 0.0]
    if is_free:
        negative = [-entry for entry in entries]
        changes = [*changes, *negative, -number]
    if is_first_pass:
        return [changed for changed in changes if changed > 0]
    return changes
