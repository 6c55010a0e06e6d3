"""The vote over many lists at once, against the vote of one list after another."""

from __future__ import annotations

import numpy as np
import pytest

from rescore.asr.rover import Rover
from rescore.asr.written import rewritten, tokens_of
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from tests.decision.plain import confusion_network, vote


@pytest.mark.parametrize("seed", range(4))
def test_all_lists_at_once_as_one_after_another(seed: int) -> None:
    """Lists of different depth and length, with empty texts, equal texts, equal
    posteriors and a majority.
    """
    random = np.random.default_rng(seed)
    lists, posteriors = [], []
    for index in range(80):
        base = random.choice(list("abcDE"), random.integers(0, 9))
        texts = []
        for _ in range(random.integers(1, 8)):
            kept = base[random.random(len(base)) > 0.2]
            texts.append(
                " ".join(
                    np.where(
                        random.random(len(kept)) < 0.3,
                        random.choice(list("abcdxy")),
                        kept,
                    )
                )
            )
        lists.append(NbestList(str(index), [Hypothesis(text) for text in texts]))
        shares = random.dirichlet(np.ones(len(texts)) * random.choice([0.2, 5.0]))
        posteriors.append(
            np.full(len(texts), 1 / len(texts)) if index % 5 == 0 else shares
        )
    rule = Rover()
    prepared = rule.prepare(lists, ErrorRate())
    every = [
        [tokens_of(one.text, Normaliser()) for one in nbest.hypotheses]
        for nbest in lists
    ]
    texts = {}
    for logs in (
        [0.0] * len(lists),
        random.choice([-0.7, -0.1, 0.0, 0.4], len(lists)).tolist(),
    ):
        each = zip(every, posteriors, np.exp(logs).tolist(), strict=True)
        texts[tuple(logs)] = [
            rewritten(vote(confusion_network(tokens, shares.tolist()), empty))
            for tokens, shares, empty in each
        ]
        no_word = np.exp(logs)
        assert (
            rule.choose_all(lists, posteriors, prepared, no_word) == texts[tuple(logs)]
        )
        held = rule.prepare(lists, ErrorRate())
        # networks of these posteriors: their votes are the same
        rule.hold(held, posteriors)
        assert rule.choose_all(lists, posteriors, held, no_word) == texts[tuple(logs)]
    single, weighed = texts.values()
    assert single != weighed and len(set(single)) > 20


def test_a_held_network_counts_other_votes() -> None:
    """The alignment stays, the votes change."""
    lists = [NbestList("u", [Hypothesis(text) for text in ("a b c", "a x c", "x c")])]
    rule = Rover()
    held = rule.prepare(lists, ErrorRate())
    rule.hold(held, [np.array([0.4, 0.3, 0.3])])
    assert rule.choose_all(lists, [np.array([0.4, 0.3, 0.3])], held, np.ones(1)) == [
        "a x c"
    ]
    assert rule.choose_all(lists, [np.array([0.1, 0.1, 0.8])], held, np.ones(1)) == [
        "x c"
    ]
