"""The decisions under one roof: texts from lists, and the posterior scale that some of them need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rescore.decision import WeightsOf, best, combine, posteriors
from rescore.decision.risk import least_risk, losses
from rescore.decision.rover import confusion_network, vote
from rescore.errors import UserError
from rescore.metrics.base import Metric, Values, list_statistics, total, value
from rescore.nbest import Hypothesis, NbestList

SCALES = tuple(2.0 ** (exponent / 2) for exponent in range(-12, 9))
"""The posterior scales that are tried, from 1/64 to 16."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One of `DECISIONS`; for `mbr` and `rover` with the scale of the posteriors exp(scale * score)."""

    name: str = "best"
    scale: float | None = None

    @property
    def signature(self) -> list[str]:
        return [] if self.name == "best" else [f"decide:{self.name}", f"scale:{self.scale:.6g}"]

    def texts(self, metric: Metric | None, lists: Sequence[NbestList], weights: WeightsOf) -> list[str]:
        """The text that is chosen for each list.

        Raises:
            UserError: the decision needs a scale, or minimum Bayes risk a metric, that is not given.
        """
        if self.name == "best":
            chosen = best(lists, weights)
            return [nbest.hypotheses[index].text for nbest, index in zip(lists, chosen, strict=True)]
        if self.scale is None:
            raise UserError(f"{self.name} needs the scale of posteriors; give --scale, or --dev lists to tune it on")
        return _decider(self.name, metric, lists, weights)(self.scale)


def tune_scale(name: str, metric: Metric, lists: Sequence[NbestList], weights: WeightsOf) -> Decision:
    """The decision with that of `SCALES` whose texts are best on lists with references.

    Of equally good ones next to each other the middle one, in the longest run of such.
    """
    decide = _decider(name, metric, lists, weights)
    values = np.array([text_value(metric, lists, decide(scale)) for scale in SCALES])
    good = values == (values.max() if metric.higher_is_better else values.min())
    runs = np.split(np.flatnonzero(good), np.flatnonzero(np.diff(np.flatnonzero(good)) > 1) + 1)
    longest = max(runs, key=len)
    return Decision(name, SCALES[int(longest[(len(longest) - 1) // 2])])


def text_value(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> float:
    """The metric's value where these texts are chosen."""
    chosen = [
        NbestList(nbest.id, [Hypothesis(text)], nbest.references) for nbest, text in zip(lists, texts, strict=True)
    ]
    return value(metric, total(list_statistics(metric, chosen), [0] * len(chosen)))


def _decider(
    name: str, metric: Metric | None, lists: Sequence[NbestList], weights: WeightsOf
) -> Callable[[float], list[str]]:
    """From a scale to texts; what does not depend on the scale is computed once."""
    scores = [combine(nbest, weights) for nbest in lists]
    if name == "rover":
        words = [[hypothesis.text.split() for hypothesis in nbest.hypotheses] for nbest in lists]

        def voted(scale: float) -> list[str]:
            return [
                " ".join(vote(confusion_network(one, posteriors(score, scale).tolist())))
                for one, score in zip(words, scores, strict=True)
            ]

        return voted
    if metric is None:
        raise UserError("minimum Bayes risk needs a metric")
    matrices: list[Values] = losses(metric, lists)

    def least(scale: float) -> list[str]:
        return [
            nbest.hypotheses[least_risk(posteriors(score, scale), matrix)].text
            for nbest, score, matrix in zip(lists, scores, matrices, strict=True)
        ]

    return least
