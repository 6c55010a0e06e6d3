"""The vote over many lists at once, against the vote of one list after another."""

from __future__ import annotations

import numpy as np
import pytest

from rescore.asr import slots
from rescore.asr.rover import Rover, RoverOptions
from rescore.asr.written import rewritten, tokens_of
from rescore.dataset import Dataset
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from tests.decision.plain import confusion_network, vote


@pytest.mark.parametrize(
    ("few", "block"), [(0, 1), (slots.FEW_LISTS, slots.BLOCK), (1000, 300)]
)
@pytest.mark.parametrize("seed", range(4))
def test_all_lists_at_once_as_one_after_another(
    seed: int, few: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of different depth and length, with empty texts, equal texts, equal
    posteriors and a majority; however many lists, or slots, are computed together.
    """
    monkeypatch.setattr(slots, "FEW_LISTS", few)
    monkeypatch.setattr(slots, "BLOCK", block)
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
    ballots = Rover().chooser(Dataset.of(lists), ErrorRate())
    every = [
        [tokens_of(one.text, Normaliser()) for one in nbest.hypotheses]
        for nbest in lists
    ]
    texts = {}
    for no_word in (1.0, 0.5, 1.4):
        texts[no_word] = [
            rewritten(vote(confusion_network(tokens, shares.tolist()), no_word))
            for tokens, shares in zip(every, posteriors, strict=True)
        ]
        own = ballots.with_options(RoverOptions(no_word=no_word))
        assert own.texts(posteriors) == texts[no_word]
        # Networks of these posteriors: their votes are the same.
        assert own.near(posteriors).texts(posteriors) == texts[no_word]
    assert texts[1.0] != texts[0.5] and len(set(texts[1.0])) > 20


def test_a_held_network_counts_other_votes() -> None:
    """The alignment stays, the votes change."""
    lists = [NbestList("u", [Hypothesis(text) for text in ("a b c", "a x c", "x c")])]
    held = (
        Rover()
        .chooser(Dataset.of(lists), ErrorRate())
        .near([np.array([0.4, 0.3, 0.3])])
    )
    assert held.texts([np.array([0.4, 0.3, 0.3])]) == ["a x c"]
    assert held.texts([np.array([0.1, 0.1, 0.8])]) == ["x c"]
