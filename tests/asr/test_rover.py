"""The vote over many lists at once, against the vote of one list after another."""

from __future__ import annotations

import numpy as np
import pytest

from rescore.asr import rover, slots
from rescore.asr.rover import Ends, Rover, RoverOptions
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


@pytest.mark.parametrize(
    ("texts", "ends"),
    [
        (("a b c d", "a x c d", "a c d"), Ends(1, 2)),
        (("a b", "a b c"), Ends(2, 0)),
        (("a b", "c a b"), Ends(0, 2)),
        # a word that stands twice in one text: the last of both stand together
        (("a b", "a b b"), Ends(1, 1)),
        # the word may be paired with the same word after it
        (("a b x", "a b y b z"), Ends(1, 0)),
        (("a a x", "a a y a"), Ends(0, 0)),
        (("a", "b"), Ends(0, 0)),
        (("a", ""), Ends(0, 0)),
        (("a b",), Ends(0, 2)),
    ],
)
def test_words_that_need_no_alignment(texts: tuple[str, ...], ends: Ends) -> None:
    assert rover._common_ends([tuple(text.split()) for text in texts]) == ends


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_equal_ends_are_paired_without_alignment(
    seed: int, timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words in each slot are those of an alignment of whole texts; with words that
    stand several times, in different case, with and without times.
    """
    random = np.random.default_rng(seed)
    lists = []
    posteriors = []
    for index in range(120):
        start = random.choice(list("abcA"), random.integers(0, 4))
        end = random.choice(list("abcB"), random.integers(0, 4))
        hypotheses = []
        for _ in range(random.integers(2, 6)):
            middle = random.choice(list("abcd"), random.integers(0, 4))
            words = [*start, *middle, *end]
            words = [
                word.swapcase() if random.random() < 0.2 else word for word in words
            ]
            starts = np.cumsum(random.random(len(words)))
            times = tuple((at, at + 0.3) for at in starts.tolist()) if timed else ()
            hypotheses.append(Hypothesis(" ".join(words), times=times))
        lists.append(NbestList(str(index), hypotheses))
        posteriors.append(random.dirichlet(np.ones(len(hypotheses))))
    dataset = Dataset.of(lists)
    options = RoverOptions(no_word=random.choice([0.6, 0.9, 1.0]))
    fast = Rover(options).chooser(dataset, ErrorRate())
    assert sum(map(sum, fast._ends)) > 100
    monkeypatch.setattr(rover, "_common_ends", lambda hypotheses: Ends(0, 0))
    slow = Rover(options).chooser(dataset, ErrorRate())
    texts = slow.texts(posteriors)
    assert fast.texts(posteriors) == texts
    assert fast.near(posteriors).texts(posteriors) == texts
    assert len(set(texts)) > 60


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
