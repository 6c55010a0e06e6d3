"""The search for minimum Bayes risk: scale times weights, by changes of single
numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rescore.decision.rules import Losses, combine
from rescore.nbest import NbestList, in_tie_order, ranking
from rescore.tuning.line import Floats, Indices
from rescore.tuning.objective import LONG, Objective, spreads

log = logging.getLogger(__name__)

STEPS = (2.0, 2**0.5, 2**0.25, 2**0.125)
"""Factors by which a pattern search changes a number, one after another."""
STARTING_SCALES = tuple(2.0**exponent for exponent in range(-5, 8))
"""Scales where a pattern search begins, in units of 1 / spread of the combined
scores.
"""
ENTRIES = (0.05, 0.25, 1.0, 4.0)
"""Weights that a pattern search gives to a standardised column without weight (natural
log).
"""
SHARED = 1 << 27
"""Pairs of hypotheses of whole lists whose losses are looked up, which folds share;
with more, kept ones only.
"""
PAIRS = 1 << 24
"""Pairs of hypotheses in all lists that a search compares: more would take minutes."""


def likely(
    lists: Sequence[NbestList], weights: Mapping[str, float], pairs: int = PAIRS
) -> list[Indices] | None:
    """The places of all hypotheses of long lists but the least probable, so that at
    most `pairs` are compared in all; None where all stay.
    """
    most = max(2, int((pairs / len(lists)) ** 0.5))
    if all(len(nbest.hypotheses) <= most for nbest in lists):
        return None
    log.info("tuning uses only the best %d hypotheses of each list", most)
    return [
        np.array(sorted(ranking(nbest, combine(nbest, weights).tolist())[:most]))
        for nbest in lists
    ]


def deciding_by(
    losses: Losses,
    objective: Objective,
    lists: Sequence[NbestList],
    kept: Sequence[Indices] | None = None,
) -> Objective:
    """The objective of the same columns for the least expected loss.

    Args:
        lists: of the objective. kept: as in `Objective.of`.
    """
    lists = list(map(in_tie_order, lists))
    if kept and sum(len(nbest.hypotheses) ** 2 for nbest in lists) > SHARED:
        lists = [
            replace(nbest, hypotheses=[nbest.hypotheses[place] for place in own])
            for nbest, own in zip(lists, kept, strict=True)
        ]
        kept = None
    every = losses(objective.metric, lists)
    if kept:
        every = [each.among(own) for each, own in zip(every, kept, strict=True)]
    return replace(objective, losses=_together(every), choices={}, envelopes={})


def _together(losses: Sequence[Any]) -> Floats | Sequence[Any]:
    """The losses of lists in one array; as they are where a list is long."""
    if not isinstance(losses[0], np.ndarray):
        if max(each.size for each in losses) > LONG**2:
            return losses
        losses = [each.matrix() for each in losses]
    longest = max(map(len, losses))
    # lists lie side by side
    every = np.zeros((longest, longest, len(losses))).transpose(2, 0, 1)
    for target, loss in zip(every, losses, strict=True):
        target[: len(loss), : len(loss)] = loss
    return every


def equal_weights(objective: Objective) -> Floats:
    """Equal weights for all standardised bounded columns, together half of the first
    pass's; 0 for free columns.
    """
    models = ~objective.free
    models[0] = False
    point = objective.first_pass + np.where(models, 0.5 / max(1, models.sum()), 0.0)
    return np.asarray(point / point.sum())


def search(
    objective: Objective, starts: Sequence[Floats], only_scale: bool = False
) -> Floats:
    """The best point that is found from the best of `starts`, by changing all numbers
    or one of them.
    """
    sign = objective.sign
    reached = [sign * value for value in objective.values(starts)]
    # of equals the first
    value, point = max(reached), starts[reached.index(max(reached))]
    for step in STEPS:
        better = True
        while better:
            better = False
            around = (
                [point * step, point / step]
                if only_scale
                else list(_around(objective, point, step))
            )
            for candidate, figure in zip(around, objective.values(around), strict=True):
                if sign * figure > value + 1e-9:
                    point, value, better = candidate, sign * figure, True
    return point


def scaled(objective: Objective, point: Floats) -> list[Floats]:
    """The starting points in the direction of a point; none where only free columns
    have a weight.
    """
    if point[~objective.free].sum() <= 0:
        return []
    unit = float(spreads(objective.scores(point)[..., None], objective.present)[0])
    return [scale / unit * point for scale in STARTING_SCALES]


def _around(objective: Objective, point: Floats, step: float) -> Iterator[Floats]:
    """Neighbours: all numbers, or one of them, made larger or smaller; or one put in,
    taken out, or turned round.
    """
    yield point * step
    yield point / step
    begin = [(step - 1.0) * share for share in ENTRIES]
    for index, number in enumerate(point.tolist()):
        changed = (
            [number * step, number / step, *([0.0] if index else [])]
            if number
            else begin
        )
        if objective.free[index]:
            changed = [*changed, *(-start for start in begin), -number]
        for changed_number in changed:
            if changed_number != number and (index or changed_number > 0):
                candidate = point.copy()
                candidate[index] = changed_number
                if candidate[~objective.free].sum() > 0:
                    yield candidate
