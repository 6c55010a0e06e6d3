"""Minimum Bayes risk: the hypothesis of least expected loss under the posteriors of all hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from rescore.decision.rules import DecisionRule, Floats
from rescore.errors import UserError
from rescore.metrics.base import Metric, metric_input
from rescore.metrics.cached import CachedMetric
from rescore.nbest import NbestList

CHUNK = 100_000
"""Pairs of texts that are compared together: bounds memory."""


def losses(metric: Metric, lists: Sequence[NbestList]) -> list[Floats]:
    """For each list the losses (hypotheses, hypotheses): choices in rows, right hypotheses in columns.

    Equal pairs of texts are compared once; losses that a `CachedMetric` metric knows are not computed again.
    """
    if isinstance(metric, CachedMetric):
        return metric.losses_of_lists(lists, losses)
    if metric.pair_losses is not None:
        return [_of_list(metric, metric.pair_losses, nbest) for nbest in lists]
    shown = [{one.text: metric_input(metric, nbest, one.text) for one in nbest.hypotheses} for nbest in lists]
    pairs = list(dict.fromkeys(pair for of_list in shown for pair in product(of_list.values(), of_list)))
    where = {pair: index for index, pair in enumerate(pairs)}
    chunks = [np.zeros(0)]
    for start in range(0, len(pairs), CHUNK):
        choices, references = zip(*pairs[start : start + CHUNK], strict=True)
        chunks.append(metric.losses(metric.statistics(choices, [(reference,) for reference in references])))
    values = np.concatenate(chunks)
    return [
        values[
            [
                [where[of_list[choice.text], reference.text] for reference in nbest.hypotheses]
                for choice in nbest.hypotheses
            ]
        ]
        for of_list, nbest in zip(shown, lists, strict=True)
    ]


def _of_list(metric: Metric, at_once: Callable[[Sequence[Any]], Floats], nbest: NbestList) -> Floats:
    """The losses of one list, for a metric that compares all pairs at once."""
    rank: dict[str, int] = {}
    which = [rank.setdefault(hypothesis.text, len(rank)) for hypothesis in nbest.hypotheses]
    values = at_once([metric_input(metric, nbest, text) for text in rank])
    return values if len(rank) == len(which) else values[np.ix_(which, which)]


class MinimumBayesRisk(DecisionRule):
    """The hypothesis of least expected loss under the posteriors of all hypotheses (Kumar and Byrne 2004; over an
    N-best list, Stolcke et al. 1997).

    The loss is the metric's: word or character errors, or the distance of a sentence's score from a perfect score.
    """

    needs_scale = True
    losses = staticmethod(losses)  # type: ignore[assignment]  # mypy takes a ClassVar of functions for a method

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[Floats]:
        if metric is None:
            raise UserError("minimum Bayes risk needs a metric")
        return losses(metric, lists)

    def choose(self, nbest: NbestList, preference: Floats, prepared: Floats) -> str:
        return nbest.hypotheses[least_risk(prepared @ preference, preference)].text


def least_risk(risk: Floats, posteriors: Floats) -> int:
    """The index of the hypothesis with the least expected loss; of equals the more probable, then the first."""
    least = np.flatnonzero(risk <= risk.min() + 1e-12)
    return int(least[np.argmax(posteriors[least])])
