"""One score per hypothesis: the weighted sum of its columns; and posteriors from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rescore.nbest import COMBINED, NbestList, given_places

WeightsOf = Mapping[str, float] | Callable[[NbestList], Mapping[str, float]]
"""The weight of each column; or a function that says them for a list, where they depend on its condition."""


LARGEST = float(np.finfo(np.float64).max)


def combine(nbest: NbestList, weights: WeightsOf) -> npt.NDArray[np.float64]:
    """(hypotheses,) the weighted sum of the columns; a column of weight 0 does not count, not even where it is -inf.

    A hypothesis with a score of -inf is impossible under every other weight, also under a negative one. Sums that
    exceed what a float can hold are the largest float.
    """
    scores = np.zeros(len(nbest.hypotheses))
    impossible = np.zeros(len(scores), dtype=bool)
    for name, weight in (weights(nbest) if callable(weights) else weights).items():
        if weight:
            values = np.array(nbest.column(name))
            impossible |= np.isneginf(values)
            with np.errstate(over="ignore"):
                scores = np.clip(scores + weight * np.where(impossible, 0.0, values), -LARGEST, LARGEST)
    scores[impossible] = -np.inf
    return scores


def best(lists: Sequence[NbestList], weights: WeightsOf) -> list[int]:
    """The index of the best hypothesis of each list: arg max of the combined score.

    Of equals the first that the toolkit gave: a respelled hypothesis has the first-pass score of the one it came from,
    and lists are read in any order.
    """
    return [_first_of_best(nbest, combine(nbest, weights)) for nbest in lists]


def _first_of_best(nbest: NbestList, scores: npt.NDArray[np.float64]) -> int:
    top = int(np.argmax(scores))
    if nbest.hypotheses[top].scores.get(COMBINED):
        return next((place for place in given_places(nbest) if scores[place] == scores[top]), top)
    return top


def rerank(nbest: NbestList, weights: WeightsOf) -> NbestList:
    """The list with its hypotheses sorted by the combined score, best first; of equals those that the toolkit gave
    come first, and keep their order."""
    new = np.array([bool(one.scores.get(COMBINED)) for one in nbest.hypotheses])
    order = np.lexsort(np.stack([new, -combine(nbest, weights)]))
    return replace(nbest, hypotheses=[nbest.hypotheses[index] for index in order])


def posteriors(scores: npt.NDArray[np.float64], scale: float) -> npt.NDArray[np.float64]:
    """(hypotheses,) probabilities in proportion to exp(scale * score).

    A hypothesis whose score is minus infinity has none; where all are such, the first has all.
    """
    highest = scores.max()
    if np.isneginf(highest):
        return np.eye(len(scores))[0]
    with np.errstate(over="ignore"):
        weights = np.exp(scale * (scores - highest))
    return np.asarray(weights / weights.sum(), dtype=np.float64)
