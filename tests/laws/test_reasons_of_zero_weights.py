"""Law: a sentence about weights of 0 is true of its own figures: the gain is the
difference of two figures, a model "does not help" only without a gain, and without a
test of significance no sentence speaks of significance.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from rescore import metrics
from rescore.columns import Column
from rescore.dataset import Dataset
from rescore.errors import counted
from rescore.formats.first_pass import rank_by_order
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import DECISIONS
from rescore.reports.summary import why_all_zero
from rescore.tuning import TuningOptions, Weights, tune_weights
from rescore.tuning.phrases import notes
from rescore.tuning.record import TunedBy, Tuning, Unproven
from rescore.tuning.search import errors_of_best
from tests.analyses import outlook_of

from .test_zero_weights import USELESS, Decision, lists

MODEL = Column("tta", "1234", "sum", "float32")
CASES = list(product(DECISIONS.shipped, (1, 2), (False, True)))
FIGURES = re.compile(r" is (\S+) for .*?, (\S+) with ")
GAIN = re.compile(r"the gain of (\S+) points")


def weights_of(rule: str, number: int, systems: bool, bagging: bool = True) -> Weights:
    """Return weights of useless columns.

    Args:
        rule: The decision.
        number: Number of useless columns.
        systems: Whether three systems wrote the lists.
        bagging: Whether gains are tested.
    """
    some = lists(systems)
    options = TuningOptions(decision=Decision(rule), bagging=bagging)
    return tune_weights(
        metrics.choose_metric("wer", some), Dataset.of(some), USELESS[:number], options
    )


def sentence(weights: Weights) -> str:
    """Return why all weights are 0; empty if one is not 0."""
    return " ".join(why_all_zero(weights, "WER", {}))


def without(unproven: Unproven | None = None) -> Weights:
    """Return weights of 0, tuned on 12 lists."""
    tuning = Tuning(TunedBy.DEV, "d", 12, value=5.0, first_pass=5.0, unproven=unproven)
    return Weights(dict.fromkeys("xyz", 0.0), tuning=tuning)


@pytest.mark.parametrize(("rule", "number", "systems"), CASES)
def test_the_reason_is_true_of_its_figures(
    rule: str, number: int, systems: bool
) -> None:
    weights = weights_of(rule, number, systems)
    told = sentence(weights)
    assert told
    assert not (systems and "first" in told), "several systems have votes"
    if weights.tuning.unproven is None:
        assert "no weight above 0" in told
        return
    found = FIGURES.search(told)
    assert found, told
    before, after = (float(figure) for figure in found.groups())
    unproven = weights.tuning.unproven
    assert unproven.alone is not None
    gain = unproven.alone - unproven.value
    assert gain == pytest.approx((unproven.low + unproven.high) / 2)
    assert before - after == pytest.approx(gain, abs=0.011)
    assert ("not help" in told) == (gain <= 0)
    shown = GAIN.search(told)
    assert shown is None or float(shown[1]) == pytest.approx(gain, abs=0.006)


def test_the_closest_of_single_models_is_named() -> None:
    some = lists(False)
    for nbest in some:
        for hypothesis in nbest.hypotheses:
            good = hypothesis.scores["good"]
            hypothesis.scores["z"] = good + 9 * hypothesis.scores["x"]
    metric = metrics.choose_metric("wer", some)
    unproven = tune_weights(
        metric, Dataset.of(some[:12]), ("x", "y", "z")
    ).tuning.unproven
    assert unproven is not None
    model = unproven.model_alone
    assert model is not None
    assert model.errors == errors_of_best(3)
    assert model.gained_errors < model.errors
    told = " ".join(why_all_zero(without(unproven), "WER", {}))
    assert (f"{model.name} comes closest" in told) == (model.gain > 0)
    gaining = replace(unproven, model_alone=replace(model, gain=0.5, error=0.3))
    told = " ".join(why_all_zero(without(gaining), "WER", {}))
    assert "gains 0.50 points, 1.6 standard errors of the 2.1 that it needs" in told


@pytest.mark.parametrize("rule", DECISIONS.shipped)
@pytest.mark.parametrize("systems", [False, True])
def test_nothing_is_significant_without_a_test(rule: str, systems: bool) -> None:
    weights = weights_of(rule, 2, systems, bagging=False)
    halved = {name: 0.5 * (name != "y") for name in weights.weights}
    assert weights.tuning.unproven is None
    told = [sentence(weights), *notes([halved], weights.tuning.columns)]
    said = " ".join(told)
    assert "signific" not in said and "chance" not in said


@pytest.mark.parametrize("deletions", [0, 5, 19, 20, 400])
@pytest.mark.parametrize("insertions", [0, 2])
@pytest.mark.parametrize("bonus", [False, True])
def test_a_word_bonus_is_tried_where_words_are_missing(
    deletions: int, insertions: int, bonus: bool
) -> None:
    """Another model is no advice to a first pass that lacks words."""
    weights = {"s2s": 1.0, "x": 0.0} | ({"words": 0.0} if bonus else {})
    counts = {"deletions": deletions, "insertions": insertions}
    tuning = replace(without().tuning, columns={"x": MODEL})
    choice = replace(without(), weights=weights, tuning=tuning)
    told = " ".join(why_all_zero(choice, "WER", counts))
    lacks = not bonus and deletions >= 10 * max(1, insertions)
    assert ("try --word-bonus tune" in told) is lacks
    assert ("try another LM" in told) is not lacks


@pytest.mark.parametrize("column", [None, Column.component("moses")])
@pytest.mark.parametrize("gain", [None, -1.0, 0.5])
@pytest.mark.parametrize("errors", [2.0, 2.4])
@pytest.mark.parametrize("held_out", [False, True])
def test_only_a_language_model_has_another_in_its_place(
    column: Column | None, gain: float | None, errors: float, held_out: bool
) -> None:
    """Parts of the toolkit's score, and the user's own columns, need more lists, also
    beside a language model.
    """
    unproven = None
    if gain is not None:
        unproven = Unproven(
            {"x": 0.5, "y": 0.5}, 5.0 - gain, gain - 1, gain + 1, errors=errors
        )
        unproven = replace(unproven, held_out=held_out)
    weights = {"s2s": 1.0, "x": 0.0, "y": 0.0}
    records = {"x": MODEL, "y": MODEL}
    others = {"x": MODEL} | ({"y": column} if column else {})
    told = []
    for columns in (records, others):
        tuning = replace(without(unproven).tuning, columns=columns)
        choice = replace(without(), weights=weights, tuning=tuning)
        told += why_all_zero(choice, "WER", {})
    of_models, of_columns = told
    assert "another LM" not in of_columns and "models" not in of_columns
    assert of_columns.count("tune on more lists") == 1
    is_other = gain is None or gain < 0 or held_out
    assert ("try another LM" in of_models) is is_other


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("scale", [0.0, 0.5])
@pytest.mark.parametrize(
    "rule", [name for name, rule in DECISIONS.loaded() if rule.uses_posteriors]
)
def test_at_scale_0_the_advice_is_another_scale(
    rule: str, scale: float, number: int
) -> None:
    """No model can help there: all hypotheses count alike."""
    some = Dataset.of(lists(False))
    metric = metrics.choose_metric("wer", some)
    options = TuningOptions(decision=Decision(rule, scale))
    weights = tune_weights(metric, some, USELESS[:number], options)
    told = sentence(weights)
    steps = outlook_of(metric, some, weights).next
    for advice in (told, steps):
        assert ("leave out --scale to tune it" in advice) is (scale == 0), advice
        assert ("count alike" in advice) is (scale == 0), advice
    if scale == 0:
        assert "LM" not in told + steps and "lists" not in told + steps
        assert all(name in told for name in USELESS[:number])


def test_lists_without_scores_are_told_beside_a_weight_of_0(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metric = metrics.choose_metric("wer", lists(False))
    for by_order in (False, True):
        caplog.clear()
        some = lists(False)
        if by_order:
            for nbest in some:
                rank_by_order(nbest)
        tuned = tune_weights(metric, Dataset.of(some), USELESS[:1])
        assert tuned.weights[USELESS[0]] == 0
        assert ("the lists have no scores" in caplog.text) is by_order


def with_silence(seed: int) -> list[NbestList]:
    """Lists with an empty text, which is right in the first two lists; the column x
    knows little.
    """
    random = Random(seed)
    some = []
    for number in range(12):
        hypotheses = []
        for rank, (text, bonus) in enumerate(
            [("a b d", 0.0), ("a b c", 0.5), ("", 0.3 if number < 6 else -1.0)]
        ):
            scores = {"s2s": -float(rank), "x": bonus + random.gauss(0, 1)}
            hypotheses.append(Hypothesis(text, scores))
        reference = "" if number < 2 else "a b c"
        some.append(NbestList(f"u{number}", hypotheses, (reference,)))
    return some


def test_the_reason_names_empty_texts_of_the_tested_weights() -> None:
    named = []
    for seed in range(30):
        some = with_silence(seed)
        weights = tune_weights(
            metrics.choose_metric("wer", some), Dataset.of(some), ["x"]
        )
        unproven = weights.tuning.unproven
        if unproven is None:
            continue
        share = unproven.weights["x"]
        empty = 0
        for nbest in some[2:]:
            best = max(
                nbest.hypotheses,
                key=lambda h: share * h.scores["x"] + (1 - share) * h.scores["s2s"],
            )
            empty += best.text == ""
        assert unproven.emptied == empty
        told = sentence(weights)
        assert ("--word-bonus tune favours" in told) == bool(empty)
        assert not empty or f"empty text in {counted(empty, 'list')} whose" in told
        named.append(bool(empty))
    assert set(named) == {False, True}


def test_a_bonus_that_was_tried_is_not_advised() -> None:
    unproven = Unproven({"x": 0.2, "words": 0.1}, 4.4, -0.1, 0.5, 5.0, emptied=1)
    told = sentence(without(unproven))
    assert "empty text in 1 list" in told and "--word-bonus" not in told
