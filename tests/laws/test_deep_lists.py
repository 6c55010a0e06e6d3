"""Law: on a deep list, the text chosen by expected loss is the text of the definition,
and a search that compares the most probable hypotheses alone loses at most `BOUND`
points on the lists that it tunes on.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from rescore.dataset import Dataset
from rescore.decision import Choice, Decision, combine, posteriors
from rescore.decision.risk import EQUAL, compared
from rescore.metrics import choose_metric
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import TuningOptions, pattern, tune_weights
from rescore.tuning.objective import TuningObjective

METRICS = ("wer", "cer", "bleu", "chrf", "chrf++")
WORDS = list("abcdefghijklm")
BOUND = 1.5
"""Points of a metric."""
COLUMNS = ["lm", "tm"]


def deep(lists: int, size: int, seed: int) -> list[NbestList]:
    """Return lists whose hypotheses are the reference after random changes: neighbours
    share most words, and some texts come twice.
    """
    random = np.random.default_rng(seed)
    every = []
    for number in range(lists):
        reference = random.choice(WORDS, 8).tolist()
        words = list(reference)
        hypotheses = []
        for _ in range(size):
            if random.random() < 0.3:
                words = list(reference)
            place = int(random.integers(0, len(words)))
            words[place] = str(random.choice(WORDS))
            wrong = sum(
                word != right for word, right in zip(words, reference, strict=True)
            )
            scores = {
                name: float(random.normal(-wrong, noise))
                for name, noise in (("s2s", 2.0), ("lm", 1.5), ("tm", 3.0))
            }
            hypotheses.append(Hypothesis(" ".join(words), scores))
        every.append(NbestList(f"u{number}", hypotheses, (" ".join(reference),)))
    return every


@cache
def losses_of_pairs(name: str, texts: tuple[str, ...]) -> np.ndarray:
    """Return the losses of all pairs, one by one: each scale weighs the same losses."""
    metric = choose_metric(name, deep(1, 1, seed=1))
    pairs = [(text, (other,)) for text in texts for other in texts]
    statistics = metric.statistics(
        [text for text, _ in pairs], [others for _, others in pairs]
    )
    losses: np.ndarray = metric.losses(statistics)
    return losses.reshape(len(texts), -1)


def by_definition(name: str, nbest: NbestList, shares: np.ndarray) -> str:
    """Return the text of least expected loss."""
    texts = [hypothesis.text for hypothesis in nbest.hypotheses]
    risks = losses_of_pairs(name, tuple(texts)) @ shares
    equal = risks <= risks.min() + 1e-9
    return texts[int(np.where(equal, shares, -1.0).argmax())]


@pytest.fixture
def all_lists_are_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescore.decision.risk.SHORT", 4)
    monkeypatch.setattr("rescore.metrics.mt.SHORT_LIST", 4)
    monkeypatch.setattr("rescore.metrics.mt.ADDED", 500)
    monkeypatch.setattr("rescore.metrics.mt.ROWS", 100)
    monkeypatch.setattr(pattern, "DEEP", 16)
    monkeypatch.setattr(pattern, "LIKELY", 16)


@pytest.mark.usefixtures("all_lists_are_deep")
@pytest.mark.parametrize("scale", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("name", METRICS)
def test_the_choice_is_that_of_the_definition(name: str, scale: float) -> None:
    lists = deep(6, 40, seed=1)
    metric = choose_metric(name, lists)
    choice = Choice({"s2s": 1.0, "lm": 0.5}, decision=Decision("mbr", scale))
    allowed = choice.allowed(Dataset.of(lists))
    scores = [combine(nbest, choice) for nbest in allowed]
    expected = []
    for nbest, shares in zip(allowed, posteriors(scores, scale), strict=True):
        expected.append(by_definition(name, nbest, shares))
    assert choice.texts(metric, Dataset.of(lists)) == expected
    assert EQUAL < 1e-9


@pytest.mark.parametrize("name", METRICS)
def test_a_search_compares_few_hypotheses_and_loses_little(
    name: str, request: pytest.FixtureRequest
) -> None:
    lists = deep(30, 40, seed=2)
    metric = choose_metric(name, lists)
    options = TuningOptions(decision=Decision("mbr"), bagging=False)
    slow = tune_weights(metric, Dataset.of(lists), COLUMNS, options).value
    request.getfixturevalue("all_lists_are_deep")
    fast = tune_weights(metric, Dataset.of(lists), COLUMNS, options).value
    loss = fast - slow if name in ("wer", "cer") else slow - fast
    assert loss <= BOUND


@pytest.mark.usefixtures("all_lists_are_deep")
@pytest.mark.parametrize("shared", [0, 1 << 27])
@pytest.mark.parametrize("name", METRICS)
def test_a_search_has_one_table_of_losses(
    name: str, shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses of single lists take a search ten times as long."""
    monkeypatch.setattr(pattern, "SHARED", shared)
    lists = deep(5, 40, seed=3)
    metric = choose_metric(name, lists)
    columns = ["s2s", *COLUMNS]
    kept = pattern.likely(lists, {"s2s": 1.0})
    assert kept is not None
    objective = TuningObjective.of(metric, lists, columns, kept=kept)
    losses = pattern.deciding_by(compared, objective, lists, kept).losses
    assert isinstance(losses, np.ndarray)
    assert losses.shape == (5, pattern.LIKELY, pattern.LIKELY)
