"""The scale of posteriors exp(scale * score), for decisions that need one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescore.decision import Decision, WeightsOf
from rescore.decision.rules import Chooser
from rescore.metrics.base import Metric, list_statistics, total, value
from rescore.nbest import Hypothesis, NbestList

SCALES = tuple(2.0 ** (exponent / 2) for exponent in range(-12, 9))
"""The posterior scales that are tried, from 1/64 to 16."""


def tune_scale(name: str, metric: Metric, lists: Sequence[NbestList], weights: WeightsOf) -> Decision:
    """The decision with that of `SCALES` whose texts are best on lists with references.

    Of equally good ones next to each other the middle one, in the longest run of such.
    """
    chooser = Chooser(name, metric, lists, weights)
    values = np.array([text_value(metric, lists, chooser.texts(scale)) for scale in SCALES])
    good = values == (values.max() if metric.higher_is_better else values.min())
    runs = np.split(np.flatnonzero(good), np.flatnonzero(np.diff(np.flatnonzero(good)) > 1) + 1)
    longest = max(runs, key=len)
    return Decision(name, SCALES[int(longest[(len(longest) - 1) // 2])])


def text_value(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> float:
    """The metric's value where these texts are chosen, in percent."""
    chosen = [
        NbestList(nbest.id, [Hypothesis(text)], nbest.references, nbest.source)
        for nbest, text in zip(lists, texts, strict=True)
    ]
    return value(metric, total(list_statistics(metric, chosen), [0] * len(chosen)))
