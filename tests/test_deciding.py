"""One stage chooses the texts of every road, before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import rescore
from rescore import Rescorer, deciding, pipeline
from rescore.columns import FIRST_PASS
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.deciding import decide, decide_parts
from rescore.decision import Decision
from rescore.metrics import choose_metric
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import Weights
from rescore.tuning.folds import InFolds

CHOSEN = "chosen elsewhere"


def some_lists(number: int = 12) -> list[NbestList]:
    lists = []
    for place in range(number):
        scores = [{FIRST_PASS: -1.0, "lm": -3.0}, {FIRST_PASS: -2.0, "lm": -1.0}]
        texts = [f"a b {place}", f"a c {place}"]
        hypotheses = [
            Hypothesis(text, own) for text, own in zip(texts, scores, strict=True)
        ]
        lists.append(NbestList(f"u{place}", hypotheses, (texts[place % 2],)))
    return lists


def by_run(**options: Any) -> list[str]:
    return pipeline.run(some_lists(), RunConfig(**options)).texts


def by_service() -> list[str]:
    def lm(sentences: Sequence[str]) -> list[float]:
        return [0.0 for _ in sentences]

    rescorer = Rescorer(lm, {FIRST_PASS: 1.0})
    return [choice.text for choice in rescorer.choose_all(some_lists())]


def by_compare() -> list[str]:
    lists = some_lists()
    comparison = rescore.compare(lists, lists, "tta", decision="mbr")
    right = [row.value for row in comparison.rows]
    return [CHOSEN if value == 100.0 else "" for value in right]


ROADS: dict[str, Callable[[], list[str]]] = {
    "run": lambda: by_run(weights=(0.5,), columns=("lm",)),
    "dev": lambda: pipeline.run(some_lists(), RunConfig(), some_lists()).texts,
    "folds": lambda: by_run(folds=3),
    "rerank": lambda: rescore.texts(some_lists(), {FIRST_PASS: 1.0}),
    "service": by_service,
    "compare": by_compare,
}


@pytest.mark.parametrize("road", ROADS)
def test_every_road_decides_in_one_place(
    road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(metric: object, lists: Sequence[NbestList], *rest: object) -> list[str]:
        return [CHOSEN] * len(lists)

    monkeypatch.setattr(deciding, "_texts", chosen)
    assert set(ROADS[road]()) == {CHOSEN}


def test_folds_decide_with_their_own_weights() -> None:
    lists = some_lists(4)
    metric = choose_metric("wer", lists)
    first, lm = Weights({FIRST_PASS: 1.0}), Weights({FIRST_PASS: 0.0, "lm": 1.0})
    decided = decide(
        metric, Dataset.of(lists), first, in_folds=InFolds([0, 1, 1, 0], [first, lm])
    )
    assert decided.texts == ["a b 0", "a c 1", "a c 2", "a b 3"]
    ranked = [nbest.hypotheses[0].text for nbest, _ in decided.sorted_lists()]
    assert ranked == decided.texts


def test_parts_are_decided_as_the_whole() -> None:
    lists = some_lists(10)
    metric = choose_metric("wer", lists)
    decision = Decision("mbr", 0.5)
    weights = Weights({FIRST_PASS: 0.4, "lm": 0.6}, decision=decision)
    parts = map(Dataset, [lists[:3], lists[3:4], lists[4:]])
    texts: list[str] = []
    for decided in decide_parts(metric, parts, weights):
        texts += decided.texts
    assert texts == decide(metric, Dataset.of(lists), weights).texts


def test_a_text_that_stands_twice_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    twice = [Hypothesis("a", {FIRST_PASS: -1.0}), Hypothesis("a", {FIRST_PASS: -2.0})]
    lists = [NbestList(f"u{place}", list(twice), ("a",)) for place in range(4)]
    metric = choose_metric("wer", lists)
    weights = Weights({FIRST_PASS: 1.0}, decision=Decision("mbr", 1.0))
    parts = [Dataset([nbest]) for nbest in lists]
    list(decide_parts(metric, parts, weights))
    assert [text for text in caplog.messages if "equal texts" in text] == [
        "lists contain equal texts with different"
        " scores (first: utterance u0); mbr"
        " adds their probabilities"
    ]


@pytest.mark.parametrize(
    ("scores", "is_told"),
    [
        ([(-1.0, 0.0), (-1.0, 0.0), (-1.0, 0.0)], False),
        ([(-1.0, 0.0), (-1.0, 0.0), (-2.0, 0.0)], False),
        ([(-1.0, 0.0), (-2.0, 0.0), (-2.0, 0.0)], True),
        ([(-1.0, -3.0), (-1.0, -4.0), (-1.0, 0.0)], True),
    ],
)
def test_equal_texts_with_equal_scores_are_not_told(
    scores: Sequence[tuple[float, float]],
    is_told: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hypotheses = []
    for text, (first, lm) in zip(["a", "a ", "b"], scores, strict=True):
        hypotheses.append(Hypothesis(text, {FIRST_PASS: first, "lm": lm}))
    lists = Dataset([NbestList("u", hypotheses, ("a",))])
    for weights in ({FIRST_PASS: 1.0, "lm": 1.0}, {FIRST_PASS: 1.0, "lm": 0.0}):
        caplog.clear()
        of_lm = weights["lm"] > 0 or scores[0][1] == scores[1][1]
        decided = Weights(weights, decision=Decision("mbr", 1.0))
        decide(choose_metric("wer", lists), lists, decided)
        assert ("equal texts" in caplog.text) is (is_told and of_lm)
