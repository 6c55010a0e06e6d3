"""The scale of posteriors for a decision whose weights are there already."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from rescore.decision import Decision, WeightsOf
from rescore.decision.rules import Decider, posteriors
from rescore.metrics.base import Counts, Metric, text_statistics
from rescore.nbest import NbestList
from rescore.pace import paced
from rescore.tuning.line import Floats
from rescore.tuning.objective import padded, spreads

log = logging.getLogger(__name__)

SCALES = tuple(2.0 ** (exponent / 2) for exponent in range(-10, 15))
"""The posterior scales that are tried, in units of 1 / spread of the combined scores:
from 1/32 to 128.
"""
MANY = 10_000
"""Hypotheses from which on alignments for each scale take minutes, and give the same
scale as those of one.
"""


def scale_grid(scores: Sequence[Floats]) -> list[float]:
    """`SCALES` for the combined scores (hypotheses,) of lists: a posterior scale has
    the inverse unit of the scores.
    """
    features = padded([list_scores[:, None] for list_scores in scores])
    unit = float(
        spreads(features, padded([np.ones(len(each), dtype=bool) for each in scores]))[
            0
        ]
    )
    return [scale / unit for scale in SCALES]


def warn_at_end(scale: float, grid: Sequence[float], what: str) -> None:
    """Say so where the best scale is the first or the last that was tried."""
    if scale in (grid[0], grid[-1]):
        log.warning(
            "%s: the best scale of the posteriors, %.4g, is at the end of the searched"
            " range (%.4g to %.4g)",
            what,
            scale,
            grid[0],
            grid[-1],
        )


def tune_scale(
    name: str, metric: Metric, lists: Sequence[NbestList], weights: WeightsOf
) -> tuple[Decision, Counts]:
    """The decision with the scale of `scale_grid` whose texts are best on lists with
    references.

    Of equally good scales next to each other the middle one, in the longest run of
    them. With `MANY` hypotheses rover tries all scales in the alignments of the middle
    one.

    Returns:
        the decision, and the statistics (lists, k) of its texts.
    """
    decider = Decider(name, metric, lists, weights)
    grid = scale_grid(decider.scores)
    if sum(map(len, decider.scores)) >= MANY:
        decider.rule.hold(
            decider.prepared, posteriors(decider.scores, grid[len(grid) // 2])
        )
    tried = map(decider.texts, paced(grid, "tried %d of %d scales of the posteriors"))
    sums = [text_statistics(metric, lists, texts).sum(axis=0) for texts in tried]
    decider.rule.hold(decider.prepared, ())
    values = metric.values(np.stack(sums))
    good = values == (values.max() if metric.higher_is_better else values.min())
    runs = np.split(
        np.flatnonzero(good), np.flatnonzero(np.diff(np.flatnonzero(good)) > 1) + 1
    )
    longest = max(runs, key=len)
    place = int(longest[(len(longest) - 1) // 2])
    warn_at_end(grid[place], grid, f"--decide {name}")
    return Decision(name, grid[place]), text_statistics(
        metric, lists, decider.texts(grid[place])
    )
