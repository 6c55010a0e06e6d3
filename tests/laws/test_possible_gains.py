"""Law: `analyse` never shows a gain above the gain of perfect choices. A decision that
writes texts which no list has may gain more; the line is then called oracle, and no
line speaks of a possible gain.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from rescore.asr.systems import combined
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.deciding import decide
from rescore.decision import Decision
from rescore.metrics import choose_metric
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import DECISIONS
from rescore.reports.analysis import analyse, outlook, render
from rescore.tuning import Weights
from tests import test_roads

METRICS = ("wer", "cer", "mer", "bleu", "chrf", "ter", "exact")
WORDS = ["an", "old", "owl", "sat", "on", "a", "wall"]
LISTS = 4
SEEDS = (0, 1, 2, 70, 85)
"""The last two make lists whose first pass has a better BLEU than the oracle, which
chooses the best text of each list.
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    test_roads.fewer_samples(monkeypatch)
    yield


def spoken(draw: random.Random) -> str:
    """Return words, of which some are wrong or missing."""
    return " ".join(
        draw.choice(WORDS) if draw.random() < 0.3 else word
        for word in WORDS
        if draw.random() < 0.8
    )


References = list[tuple[str, ...]]


def outputs(draw: random.Random, known: References, size: int) -> list[NbestList]:
    """Return random lists of one system."""
    lists = []
    for number, references in enumerate(known):
        hypotheses = [
            Hypothesis(spoken(draw), {FIRST_PASS: draw.gauss(0, 1)})
            for _ in range(size)
        ]
        lists.append(NbestList(f"u{number}", hypotheses, references))
    return lists


def read(seed: int, references: int, by_systems: bool) -> Dataset:
    """Return random lists, of one system or of three systems."""
    draw = random.Random(seed)
    known = [tuple(spoken(draw) for _ in range(references)) for _ in range(LISTS)]
    if not by_systems:
        return Dataset.of(outputs(draw, known, size=4))
    return Dataset.of(
        list(combined({name: outputs(draw, known, size=1) for name in "abc"}))
    )


@pytest.mark.parametrize("by_systems", [False, True])
@pytest.mark.parametrize("references", [1, 2])
@pytest.mark.parametrize("decision", sorted(DECISIONS.shipped))
@pytest.mark.parametrize("name", METRICS)
def test_no_gain_is_above_the_possible_gain(
    name: str, decision: str, references: int, by_systems: bool
) -> None:
    for seed in SEEDS:
        lists = read(seed, references, by_systems)
        metric = choose_metric(name, lists)
        rule = Decision(decision, None if decision == "best" else 1.0)
        decided = decide(metric, lists, Weights({FIRST_PASS: 1.0}, decision=rule))
        found = outlook(metric, decided)
        printed = render(analyse(metric, decided))
        known = [{one.text for one in nbest.hypotheses} for nbest in lists]
        new = sum(
            text not in texts for text, texts in zip(decided.texts, known, strict=True)
        )
        assert found.new_texts == new
        assert ("\noracle  " in printed) == bool(new)
        assert ("perfect" in printed) == (not new)
        assert not (new and "possible" in printed)
        values = [found.oracle, found.first_pass]
        if not new:
            values.append(found.reranked)
            assert found.gain <= found.possible + 1e-9, seed
        best_of = max if metric.higher_is_better else min
        assert found.oracle == best_of(values), seed


def test_decisions_that_write_texts_are_among_them() -> None:
    """Otherwise the law above says nothing about them."""
    lists = read(seed=0, references=1, by_systems=True)
    metric = choose_metric("wer", lists)
    rover = Weights({FIRST_PASS: 1.0}, decision=Decision("rover", 1.0))
    assert outlook(metric, decide(metric, lists, rover)).new_texts
