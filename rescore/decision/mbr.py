"""Minimum Bayes risk: the hypothesis with the least expected loss under the posteriors of all hypotheses.

Kumar and Byrne 2004; over an N-best list, Stolcke et al. 1997. The metric gives the loss: word or character errors, or
the distance of a sentence's score from a perfect score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rescore.decision.rules import DecisionRule
from rescore.errors import UserError
from rescore.metrics.base import CachedMetric, Metric, Values, metric_input
from rescore.nbest import NbestList

CHUNK = 100_000  # pairs compared together: bounds memory


class AggregatedBayesRisk(DecisionRule):
    """Minimum Bayes risk against an aggregate of all hypotheses, their expected n-grams: linear in the length of the
    list."""

    needs_scale = True

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[Callable[[Values], Values]]:
        if metric is None:
            raise UserError("minimum Bayes risk needs a metric")
        if metric.aggregated is None:
            raise UserError(f"--decide mbr-aggregate is for BLEU and chrF, not for {metric.name}; give mbr")
        return [metric.aggregated([hypothesis.text for hypothesis in nbest.hypotheses]) for nbest in lists]

    def choose(self, nbest: NbestList, preference: Values, prepared: Callable[[Values], Values]) -> str:
        return nbest.hypotheses[_least(prepared(preference), preference)].text


def losses(metric: Metric, lists: Sequence[NbestList]) -> list[Values]:
    """For each list the losses (hypotheses, hypotheses): choices in rows, right hypotheses in columns.

    Equal pairs of texts are compared once; losses that a `CachedMetric` metric knows are not computed again.
    """
    if isinstance(metric, CachedMetric):
        return metric.losses_of_lists(lists, losses)
    if metric.pair_losses is not None:
        return [_of_list(metric, metric.pair_losses, nbest) for nbest in lists]
    pairs: dict[tuple[str, str], None] = {}
    for nbest in lists:
        texts = dict.fromkeys(hypothesis.text for hypothesis in nbest.hypotheses)
        pairs.update(((choice, reference), None) for choice in texts for reference in texts)
    ordered = list(pairs)
    chunks = [_loss(metric, ordered[start : start + CHUNK]) for start in range(0, len(ordered), CHUNK)]
    where = {pair: index for index, pair in enumerate(ordered)}
    values = np.concatenate(chunks)
    return [
        values[[[where[choice.text, reference.text] for reference in nbest.hypotheses] for choice in nbest.hypotheses]]
        for nbest in lists
    ]


def _of_list(metric: Metric, at_once: Callable[[Sequence[Any]], Values], nbest: NbestList) -> Values:
    """The losses of one list, for a metric that compares all pairs at once."""
    rank: dict[str, int] = {}
    which = [rank.setdefault(hypothesis.text, len(rank)) for hypothesis in nbest.hypotheses]
    values = at_once([metric_input(metric, nbest, text) for text in rank])
    return values if len(rank) == len(which) else values[np.ix_(which, which)]


def _loss(metric: Metric, pairs: Sequence[tuple[str, str]]) -> Values:
    return metric.losses(metric.statistics([choice for choice, _ in pairs], [(reference,) for _, reference in pairs]))


class MinimumBayesRisk(DecisionRule):
    """The hypothesis of least expected loss under the posteriors; the loss is the metric's."""

    needs_scale = True
    losses = staticmethod(losses)  # type: ignore[assignment]  # mypy takes a ClassVar of functions for a method

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[Values]:
        if metric is None:
            raise UserError("minimum Bayes risk needs a metric")
        return losses(metric, lists)

    def choose(self, nbest: NbestList, preference: Values, prepared: Values) -> str:
        return nbest.hypotheses[least_risk(preference, prepared)].text


def least_risk(posteriors: Values, loss: Values) -> int:
    """The index of the hypothesis with the least expected loss; of equals the more probable, then the first."""
    return _least(loss @ posteriors, posteriors)


def _least(risk: Values, posteriors: Values) -> int:
    least = np.flatnonzero(risk <= risk.min() + 1e-12)
    return int(least[np.argmax(posteriors[least])])
