"""The vote over many lists at once, against the vote of one list after another."""

from __future__ import annotations

import numpy as np
import pytest

from rescore.decision import ListWeights
from rescore.decision.rover import Rover, confusion_network, vote
from rescore.metrics.normalise import rewritten
from rescore.metrics.wer import ErrorRate
from rescore.nbest import EMPTY, Hypothesis, NbestList


@pytest.mark.parametrize("seed", range(4))
def test_all_lists_at_once_as_one_after_another(seed: int) -> None:
    """Lists of different depth and length, with empty texts, equal texts, equal posteriors and a majority."""
    random = np.random.default_rng(seed)
    lists, posteriors = [], []
    for index in range(80):
        base = random.choice(list("abcDE"), random.integers(0, 9))
        texts = []
        for _ in range(random.integers(1, 8)):
            kept = base[random.random(len(base)) > 0.2]
            texts.append(" ".join(np.where(random.random(len(kept)) < 0.3, random.choice(list("abcdxy")), kept)))
        lists.append(NbestList(str(index), [Hypothesis(text) for text in texts]))
        shares = random.dirichlet(np.ones(len(texts)) * random.choice([0.2, 5.0]))
        posteriors.append(np.full(len(texts), 1 / len(texts)) if index % 5 == 0 else shares)
    rule = Rover()
    prepared = rule.prepare(lists, ErrorRate())
    single = [rule.choose(*each) for each in zip(lists, posteriors, prepared, strict=True)]
    assert rule.choose_all(lists, posteriors, prepared, [ListWeights({})] * len(lists)) == single
    logs = random.choice([-0.7, -0.1, 0.0, 0.4], len(lists)).tolist()
    weighed = [
        rewritten(vote(confusion_network(tokens, shares.tolist()), float(np.exp(log))))
        for tokens, shares, log in zip(prepared, posteriors, logs, strict=True)
    ]
    weights = [ListWeights({EMPTY: log}) for log in logs]
    assert rule.choose_all(lists, posteriors, prepared, weights) == weighed != single
    assert len(set(single)) > 20
