"""The scale of posteriors, for a decision whose weights are known: many scales are
tried, and the best one is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rescore.dataset import Dataset
from rescore.decision import Choice, Decision, combine, posteriors
from rescore.metrics.base import Counts, Metric, text_statistics
from rescore.pace import paced
from rescore.tuning.line import Floats
from rescore.tuning.objective import padded, spreads

log = logging.getLogger(__name__)

SCALES = tuple(2.0 ** (exponent / 2) for exponent in range(-10, 15))
"""The posterior scales that are tried, in units of 1 / spread of the combined scores:
from 1/32 to 128.
"""
MANY = 10_000
"""Hypotheses from which on alignments for each scale take minutes; alignments for one
scale then serve all scales, and the best scale is the same.
"""


def scale_grid(scores: Sequence[Floats]) -> list[float]:
    """Return `SCALES` in the inverse unit of scores.

    Args:
        scores: The combined scores of each list, of shape (hypotheses,).
    """
    features = padded([list_scores[:, None] for list_scores in scores])
    present = padded([np.ones(len(list_scores), dtype=bool) for list_scores in scores])
    unit = float(spreads(features, present)[0])
    return [scale / unit for scale in SCALES]


def warn_at_end(scale: float, grid: Sequence[float], what: str) -> None:
    """Warn if the best scale is the first or the last scale that was tried.

    Args:
        scale: The best scale.
        grid: All scales that were tried, in ascending order.
        what: The subject of the message, such as `--decide mbr`.
    """
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
    choice: Choice, metric: Metric, lists: Dataset
) -> tuple[Decision, Counts]:
    """Return the decision of a choice, with the scale of `scale_grid` whose texts are
    best on lists with references.

    Of equally good scales next to each other the middle one is taken, in the longest
    run of them. For lists of `MANY` hypotheses a rule may use alignments for the middle
    scale (`Chooser.near`).

    Args:
        choice: What decides, but for the scale of its decision.
        metric: The metric that is tuned for.
        lists: Lists with references.

    Returns:
        The decision with its scale, and the statistics (lists, k) of its texts.
    """
    allowed = choice.allowed(lists)
    scores = [combine(nbest, choice) for nbest in allowed]
    exact = choice.decision.rule.chooser(allowed, metric)
    chooser = exact
    grid = scale_grid(scores)
    if sum(map(len, scores)) >= MANY:
        chooser = exact.near(posteriors(scores, grid[len(grid) // 2]))
    sums = []
    for scale in paced(grid, "tried %d of %d scales of the posteriors"):
        texts = chooser.texts(posteriors(scores, scale))
        sums.append(text_statistics(metric, lists, texts).sum(axis=0))
    values = metric.values(np.stack(sums))
    best = values.max() if metric.higher_is_better else values.min()
    places = np.flatnonzero(values == best)
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    longest = max(runs, key=len)
    scale = grid[int(longest[(len(longest) - 1) // 2])]
    warn_at_end(scale, grid, f"--decide {choice.decision.name}")
    texts = exact.texts(posteriors(scores, scale))
    chosen = text_statistics(metric, lists, texts)
    return replace(choice.decision, scale=scale), chosen
