"""From columns of scores and weights to one hypothesis an utterance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from rescore.nbest import NbestList


def combine(nbest: NbestList, weights: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """(hypotheses,) the weighted sum of the columns; a column of weight 0 does not count, not even where it is -inf."""
    scores = np.zeros(len(nbest.hypotheses))
    for name, weight in weights.items():
        if weight:
            scores += weight * np.array(nbest.column(name))
    return scores


def best(lists: Sequence[NbestList], weights: Mapping[str, float]) -> list[int]:
    """The index of the best hypothesis of each list: arg max of the combined score, the first of equals."""
    return [int(np.argmax(combine(nbest, weights))) for nbest in lists]


def rerank(nbest: NbestList, weights: Mapping[str, float]) -> NbestList:
    """The list with its hypotheses sorted by the combined score, best first; equals keep their order."""
    order = np.argsort(-combine(nbest, weights), kind="stable")
    return NbestList(nbest.id, [nbest.hypotheses[index] for index in order], nbest.references, nbest.source)
