"""Weights and scale together, for minimum Bayes risk."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from rescore import formats, metrics
from rescore.asr.features import RESPELLED
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.decision import choice as choices
from rescore.decision.risk import compared
from rescore.metrics.base import text_value
from rescore.metrics.cached import remembered
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import TuningOptions, Weights, tune_weights
from rescore.tuning.objective import TuningObjective
from rescore.tuning.pattern import deciding_by, likely
from rescore.tuning.scale import tune_scale
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def lists() -> list[NbestList]:
    """The demo's, with a made-up column that knows a little of the truth, and lists of
    different lengths.
    """
    random = np.random.default_rng(0)
    found = formats.read([ROOT / "data" / "dev.json"])[:40]
    for place, nbest in enumerate(found):
        del nbest.hypotheses[3 + place % 8 :]
        for hypothesis in nbest.hypotheses:
            right = hypothesis.text == nbest.references[0]
            hypothesis.scores["lm"] = float(random.normal() + 2 * right)
    return found


@pytest.mark.parametrize("name", ["wer", "bleu"])
@pytest.mark.parametrize("theta", [(1.0, 0.0), (0.3, 2.0), (8.0, 0.1)])
def test_the_value_is_that_of_the_decision(
    lists: list[NbestList], name: str, theta: tuple[float, float]
) -> None:
    """All lists at once, in arrays, against the decision one list after another."""
    metric = metrics.choose_metric(name, lists)
    objective = TuningObjective.of(metric, lists, ["s2s", "lm"], standardise=False)
    fast = deciding_by(compared, objective, lists).value(np.array(theta))
    scale = sum(theta)
    weights = Weights({"s2s": theta[0] / scale, "lm": theta[1] / scale})
    texts = replace(weights, decision=Decision("mbr", scale)).texts(
        metric, Dataset.of(lists)
    )
    assert fast == pytest.approx(text_value(metric, lists, texts))


@pytest.mark.parametrize("name", ["wer", "bleu"])
def test_never_worse_than_one_after_the_other(
    lists: list[NbestList], name: str
) -> None:
    metric = metrics.choose_metric(name, lists)
    before = {"s2s": 0.5, "lm": 0.5}
    tuned = tune_weights(
        metric,
        Dataset.of(lists),
        ["lm"],
        options=TuningOptions(bagging=False, decision=Decision("mbr")),
    )
    weights, scale, value = tuned.weights, tuned.decision.scale, tuned.value
    assert sum(weights.values()) == pytest.approx(1.0) and all(
        one >= 0 for one in weights.values()
    )
    texts = Choice(weights, decision=Decision("mbr", scale)).texts(
        metric, Dataset.of(lists)
    )
    assert value == pytest.approx(text_value(metric, lists, texts))
    old, _ = tune_scale(
        Choice(before, decision=Decision("mbr")), metric, Dataset.of(lists)
    )
    sequential = text_value(
        metric, lists, Choice(before, decision=old).texts(metric, Dataset.of(lists))
    )
    sign = 1 if metric.higher_is_better else -1
    assert sign * value >= sign * sequential - 1e-9


def test_the_first_pass_alone_respells_nothing() -> None:
    """Else all spellings of a hypothesis, each with its first-pass score, would vote
    for one another.
    """
    spellings = [
        Hypothesis(text, {"s2s": -1.0, "edits": 1.0}, RESPELLED)
        for text in ("a b x", "a b y", "a b z")
    ]
    right = Hypothesis("a c d", {"s2s": -0.9, "edits": 0.0})
    lists = [
        NbestList(str(number), [right, *spellings], ("a c d",)) for number in range(9)
    ]
    metric = metrics.choose_metric("wer", lists)
    tuned = tune_weights(
        metric,
        Dataset.of(lists),
        [],
        options=TuningOptions(("edits",), decision=Decision("mbr")),
    )
    assert (
        tuned.weights == {"s2s": 1.0}
        and tuned.excluded == {RESPELLED}
        and tuned.value == 0.0
    )
    assert tuned.texts(metric, Dataset.of(lists)) == ["a c d"] * 9


@pytest.mark.parametrize("name", ["wer", "bleu"])
def test_accidents_of_the_lists_get_no_weight(
    lists: list[NbestList], name: str
) -> None:
    """A column that helps in two lists only improves these lists, and others not: the
    first pass alone is kept.
    """
    metric = metrics.choose_metric(name, lists)
    for place, nbest in enumerate(lists):
        for hypothesis in nbest.hypotheses:
            right = hypothesis.text == nbest.references[0]
            hypothesis.scores |= {
                "accident": float(place in (11, 25) and right),
                "true": 3.0 * right,
            }

    def tuned(*columns: str, bagging: bool = True) -> Weights:
        return tune_weights(
            metric,
            Dataset.of(lists),
            columns,
            options=TuningOptions(bagging=bagging, decision=Decision("mbr")),
        )

    assert tuned("accident", bagging=False).weights["accident"] > 0
    alone, kept = tuned(), tuned("accident")
    assert (
        kept.weights == {"s2s": 1.0, "accident": 0.0}
        and kept.tuning.unproven is not None
    )
    assert (kept.decision.scale, kept.value) == pytest.approx(
        (alone.decision.scale, alone.value)
    )
    assert kept.tuning.unproven.alone == alone.value
    assert tuned("true").weights["true"] > 0.1


def test_a_sample_is_the_lists_as_often_as_they_were_drawn(
    lists: list[NbestList],
) -> None:
    metric = metrics.choose_metric("bleu", lists)
    whole = deciding_by(
        compared,
        TuningObjective.of(metric, lists, ["s2s", "lm"], standardise=False),
        lists,
    )
    theta, sample = np.array([1.0, 0.5]), whole.sample(np.random.default_rng(3))
    assert sample.times.sum() == len(lists) and (sample.times == 0).any()
    drawn = [
        nbest
        for nbest, times in zip(lists, sample.times, strict=True)
        for _ in range(times)
    ]
    drawn_risk = deciding_by(
        compared,
        TuningObjective.of(metric, drawn, ["s2s", "lm"], standardise=False),
        drawn,
    )
    assert sample.value(theta) == pytest.approx(drawn_risk.value(theta))


def test_tune_uses_it(lists: list[NbestList]) -> None:
    metric = metrics.choose_metric("wer", lists)
    weights = tune_weights(
        metric,
        Dataset.of(lists),
        ["lm"],
        options=TuningOptions((), decision=Decision("mbr")),
    )
    assert weights.decision.name == "mbr" and weights.decision.scale is not None
    texts = weights.texts(metric, Dataset.of(lists))
    assert weights.tuning.first_pass is not None
    assert weights.value == pytest.approx(text_value(metric, lists, texts))
    assert weights.value <= weights.tuning.first_pass
    fixed = tune_weights(
        metric,
        Dataset.of(lists),
        ["lm"],
        options=TuningOptions((), decision=Decision("mbr", 2.0)),
    )
    assert fixed.decision.scale == 2.0


def test_long_lists_are_pruned_for_tuning(lists: list[NbestList]) -> None:
    weights = {"s2s": 0.2, "lm": 0.8}
    assert likely(lists, weights) is None
    few = likely(lists, weights, pairs=len(lists) * 9)
    assert few
    for places, whole in zip(few, lists, strict=True):
        kept = [whole.hypotheses[place].text for place in places]
        assert len(kept) == min(3, len(whole.hypotheses))
        best = sorted(
            whole.hypotheses,
            key=lambda one: -(0.2 * one.scores["s2s"] + 0.8 * one.scores["lm"]),
        )[:3]
        assert sorted(kept) == sorted(one.text for one in best)
        # in the order of the list
        assert kept == [one.text for one in whole.hypotheses if one.text in kept]


@pytest.mark.parametrize("name", ["wer", "bleu"])
def test_folds_share_losses_of_whole_lists(
    lists: list[NbestList], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of each fold are those of losses that are computed for its likely
    hypotheses alone.
    """
    monkeypatch.setattr("rescore.tuning.pattern.LONG", 3)
    monkeypatch.setattr("rescore.decision.risk.SHORT", 3)
    monkeypatch.setattr("rescore.tuning.pattern.likely", partial(likely, pairs=30 * 25))
    metric, options = (
        remembered(metrics.choose_metric(name, lists)),
        TuningOptions(bagging=False, decision=Decision("mbr")),
    )
    folds = [lists[:30], lists[10:]]
    shared = [
        tune_weights(metric, Dataset.of(fold), ["lm"], options=options)
        for fold in folds
    ]
    monkeypatch.setattr("rescore.tuning.pattern.SHARED", 0)
    alone = [
        tune_weights(
            metrics.choose_metric(name, lists),
            Dataset.of(fold),
            ["lm"],
            options=options,
        )
        for fold in folds
    ]
    assert shared == alone and shared[0].weights != shared[1].weights


@pytest.mark.parametrize("name", ["mbr", "rover", "best"])
def test_choices_do_not_depend_on_portions(
    lists: list[NbestList], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = metrics.choose_metric("wer", lists)
    decide = Decision(name, None if name == "best" else 1.5)
    whole = Choice({"s2s": 1.0}, decision=decide).texts(metric, Dataset.of(lists))
    monkeypatch.setattr(choices, "PAIRS", 60)
    assert Choice({"s2s": 1.0}, decision=decide).texts(
        metric, Dataset.of(lists)
    ) == whole and len(whole) == len(lists)
