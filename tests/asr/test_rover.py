"""The vote over many lists at once, against the vote of one list after another."""

from __future__ import annotations

import numpy as np
import pytest

from rescore.asr.rover import Rover, networks
from rescore.asr.written import rewritten
from rescore.decision import ListWeights
from rescore.metrics.wer import ErrorRate
from rescore.nbest import EMPTY, Hypothesis, NbestList
from tests.decision.plain import confusion_network, vote


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
    texts = {}
    for logs in ([0.0] * len(lists), random.choice([-0.7, -0.1, 0.0, 0.4], len(lists)).tolist()):
        each = zip(prepared.tokens, posteriors, np.exp(logs).tolist(), strict=True)
        texts[tuple(logs)] = [
            rewritten(vote(confusion_network(tokens, shares.tolist()), empty)) for tokens, shares, empty in each
        ]
        weights = [ListWeights({EMPTY: log}) for log in logs]
        assert rule.choose_all(lists, posteriors, prepared, weights) == texts[tuple(logs)]
    single, weighed = texts.values()
    assert single != weighed and len(set(single)) > 20


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_network_are_its_slots(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(20):
        texts = [list(random.choice(list("abc"), random.integers(0, 6))) for _ in range(random.integers(1, 6))]
        words = [None, *dict.fromkeys(word for text in texts for word in text)]
        ((_, numbers),) = networks([texts])
        rows = [[words[number] for number in slot] for slot in numbers[0].tolist()]
        slots = confusion_network(texts, [1.0] * len(texts))
        assert [{word: float(row.count(word)) for word in row} for row in rows] == [
            {word: votes for word, votes in slot.items() if votes} for slot in slots
        ]
        assert [[row[rank] for row in rows if row[rank] is not None] for rank in range(len(texts))] == texts
    assert list(networks([])) == []
