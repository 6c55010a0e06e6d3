"""What must not change a choice: the unit of scores, the order of columns, of
hypotheses and of lists.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rescore import formats
from rescore.asr.confidence import calibrate, networks
from rescore.asr.features import EDITS, RESPELLED
from rescore.asr.systems import combined
from rescore.content import content_key
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.decision.risk import compared
from rescore.decision.rules import posteriors
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList, without_copies
from rescore.tuning import TuningOptions, Weights, tune_weights
from rescore.tuning.objective import TuningObjective
from rescore.tuning.pattern import deciding_by
from rescore.tuning.scale import tune_scale, warn_at_end
from rescore.tuning.search import significantly_better
from tests.conftest import Run, fewer_samples

WER = ErrorRate()


def noisy(
    seed: int = 0, number: int = 40, unit: float = 1.0, spoken: str = ""
) -> list[NbestList]:
    """Lists of texts that agree with the reference more or less, with two columns that
    know a little of it.

    Args:
        seed: The seed of texts and scores.
        number: Number of lists.
        unit: The unit of the scores.
        spoken: Six letters, the reference of all lists; empty for random references.
    """
    random = np.random.default_rng(seed)
    lists = []
    for index in range(number):
        reference = random.choice(list("abcdef"), 6)
        if spoken:
            reference = np.array(list(spoken))
        hypotheses = []
        for _ in range(6):
            wrong = random.random(6) < 0.3
            text = np.where(wrong, random.choice(list("abcdef"), 6), reference)
            errors = float((text != reference).sum())
            scores = {
                name: unit * float(random.normal(-errors, spread))
                for name, spread in COLUMNS.items()
            }
            hypotheses.append(Hypothesis(" ".join(text), scores))
        lists.append(NbestList(f"u{index}", hypotheses, (" ".join(reference),)))
    return lists


COLUMNS = {"s2s": 2.0, "x": 2.0, "a": 3.0}


def test_a_copy_of_a_tied_hypothesis_does_not_move_it() -> None:
    hypotheses = [
        Hypothesis(text, {"s2s": 0.0, "x": score})
        for text, score in (("c", -9.0), ("a", 0.0), ("b", 0.0))
    ]
    hypotheses[0].scores["s2s"] = -1.0
    for copied in (hypotheses, [*hypotheses, hypotheses[1]]):
        lists = [NbestList(str(number), copied, ("a",)) for number in range(4)]
        assert without_copies(lists[0]).hypotheses == hypotheses
        assert (
            tune_weights(
                WER, Dataset.of(lists), ["x"], options=TuningOptions(bagging=False)
            ).value
            == 0.0
        )


@pytest.mark.parametrize("unit", [1000.0, 2.0, 3.7])
@pytest.mark.parametrize("rule", ["best", "mbr", "rover"])
def test_the_unit_of_scores_changes_nothing(rule: str, unit: float) -> None:
    assert choices_in(1.0, rule) == choices_in(unit, rule)


@cache
def choices_in(unit: float, rule: str) -> tuple[list[str], float]:
    """The chosen texts and the value on dev of lists whose scores have a unit."""
    dev, test = noisy(1, unit=unit), noisy(2, unit=unit)
    options = TuningOptions(decision=Decision(rule))
    weights = tune_weights(WER, Dataset.of(dev), ["x"], options=options)
    return weights.texts(WER, Dataset.of(test)), weights.value


@pytest.mark.parametrize("unit", [1000.0, 2.0, 3.7])
def test_the_unit_of_scores_changes_no_confidence(unit: float) -> None:
    confidences = []
    for factor in (1.0, unit):
        lists = noisy(3, 80, unit=factor)
        texts = Choice({"s2s": 1.0}).texts(WER, Dataset.of(lists))
        calibration = calibrate(lists, texts, Weights({"s2s": 1.0}), WER.words)
        found = networks(lists, texts, Choice({"s2s": 1.0}))
        confidences.append(
            np.concatenate([calibration.confidences(network) for network in found])
        )
    assert confidences[0] == pytest.approx(confidences[1], abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_hypotheses_changes_no_confidence(seed: int) -> None:
    """Not by a bit: a sum just below 1 may be on another level of the calibration."""
    choice = Choice({"s2s": 1.0})
    random = np.random.default_rng(seed)
    confidences = []
    lists = noisy(seed, 80)
    texts = choice.texts(WER, Dataset.of(lists))
    calibration = calibrate(lists, texts, Weights({"s2s": 1.0}), WER.words)
    for _ in range(3):
        found = networks(lists, texts, choice)
        confidences.append(
            np.concatenate([calibration.confidences(network) for network in found])
        )
        for nbest in lists:
            random.shuffle(nbest.hypotheses)
    assert confidences[0].tolist() == confidences[1].tolist() == confidences[2].tolist()


@pytest.mark.parametrize("decide", ["best", "mbr"])
def test_the_order_of_columns_changes_no_weight(decide: str) -> None:
    lists = noisy(4)
    options = TuningOptions(("words",), decision=Decision(decide))
    one, other = (
        tune_weights(WER, Dataset.of(lists), columns, options=options)
        for columns in (["x", "a"], ["a", "x"])
    )
    assert one.weights == other.weights and one.decision == other.decision
    assert list(one.weights)[:3] == ["s2s", "x", "a"] and list(other.weights)[:3] == [
        "s2s",
        "a",
        "x",
    ]


@pytest.mark.parametrize("rule", ["mbr", "rover"])
def test_copies_count_once_and_other_paths_of_a_text_add_up(rule: str) -> None:
    own = [Hypothesis("a x", {"s2s": -1.0}), Hypothesis("b x", {"s2s": -1.2})]
    copies = [Hypothesis("b x", {"s2s": -1.2}) for _ in range(5)]
    paths = [Hypothesis("b x", {"s2s": -1.2 - rank / 100}) for rank in range(1, 6)]
    texts = [
        Choice({"s2s": 1.0}, decision=Decision(rule, 1.0)).texts(
            WER, Dataset.of([NbestList("u", [*own, *more], ("a x",))])
        )[0]
        for more in ([], copies, paths)
    ]
    assert texts == ["a x", "a x", "b x"]
    confidences = [
        float(
            networks([NbestList("u", [*own, *more])], ["a x"], Choice({"s2s": 1.0}))[
                0
            ].confidences(1.0)[0]
        )
        for more in ([], copies, paths)
    ]
    assert confidences[0] == confidences[1] > confidences[2]


@pytest.mark.parametrize("rule", ["mbr", "rover"])
@pytest.mark.parametrize("copy", ["a c x", "a  c x", " a c x "])
def test_a_copy_is_no_further_vote(rule: str, copy: str) -> None:
    """Texts of several systems with equal votes have equal scores, as samples have."""
    texts = ["a b x", "a b y", "a c x"]
    systems = {}
    for name, text in zip("pqr", texts, strict=True):
        systems[name] = [NbestList("u", [Hypothesis(text, {"s2s": 0.0})])]
    (nbest,) = combined(systems)
    *_, last = nbest.hypotheses
    copies = [replace(last, text=copy) for _ in range(3)]
    copied = replace(nbest, hypotheses=[*nbest.hypotheses, *copies])
    choice = Choice({"s2s": 1.0}, decision=Decision(rule, 1.0))
    for lists in ([nbest], [copied]):
        assert choice.texts(WER, Dataset.of(lists)) == ["a b x"]


def test_double_blanks_draw_the_same_samples_and_folds() -> None:
    lists = noisy(5)
    spaced = []
    for nbest in lists:
        own = []
        for hypothesis in nbest.hypotheses:
            own.append(replace(hypothesis, text=hypothesis.text.replace(" ", "  ")))
        (reference,) = nbest.references
        references = (f" {reference.replace(' ', '   ')}",)
        spaced.append(replace(nbest, hypotheses=own, references=references))
    keys = [content_key(nbest) for nbest in lists]
    assert [content_key(nbest) for nbest in spaced] == keys
    assert len(set(keys)) == len(lists)


@pytest.mark.parametrize("seed", range(3))
def test_new_hypotheses_that_may_not_win_change_no_weight(seed: int) -> None:
    """Of lists with equal references, too, which their hypotheses alone put in order
    for the samples.
    """
    same = noisy(seed, 120, spoken="abcdef")
    respelled = []
    for number, nbest in enumerate(same):
        own = [
            replace(hypothesis, scores=hypothesis.scores | {EDITS: 0.0})
            for hypothesis in nbest.hypotheses
        ]
        wrong = replace(own[0], text=f"x{number} y z", origin=RESPELLED)
        wrong.scores[EDITS] = 1.0
        respelled.append(replace(nbest, hypotheses=[*own, wrong]))
    without = tune_weights(WER, Dataset.of(same), ["x", "a"])
    weights = tune_weights(
        WER, Dataset.of(respelled), ["x", "a"], TuningOptions(bonuses=(EDITS,))
    )
    assert weights.excluded == {RESPELLED}
    assert weights.weights == without.weights
    assert without.weighs("x")


@pytest.mark.parametrize("rule", ["mbr", "rover"])
def test_samples_count_as_often_as_they_were_drawn(rule: str) -> None:
    """With equal first-pass scores under any scale; with other scores under the scale
    0, where each counts equally.
    """
    drawn = ["b x", "a x", "a x", "c x", "a x", "d x"]
    likelier = {"a x": -3.0, "b x": -1.0, "c x": -2.0, "d x": -np.inf}
    for scores, scale, expected in (
        (dict.fromkeys(drawn, -5.0), 1.0, "a x"),
        (likelier, 0.0, "a x"),
        (likelier, 1.0, "b x"),
    ):
        lists = [
            NbestList(
                "u",
                [Hypothesis(text, {"s2s": scores[text]}) for text in drawn],
                ("a x",),
            )
        ]
        assert Choice({"s2s": 1.0}, decision=Decision(rule, scale)).texts(
            WER, Dataset.of(lists)
        ) == [expected]
    assert posteriors([np.array([-1.0, -np.inf, -7.0])], 0.0)[0].tolist() == [
        0.5,
        0.0,
        0.5,
    ]


@cache
@cache
def weights_in(unit: float, decide: str, bagging: bool) -> Mapping[str, float]:
    """The weights and the word bonus of lists whose scores have a unit."""
    lists = noisy(3, 80, unit=unit)
    for nbest in lists:
        for hypothesis in nbest.hypotheses[::2]:
            hypothesis.text = hypothesis.text[:-2]
    options = TuningOptions(
        ("words",), bagging=bagging, negative=("a",), decision=Decision(decide)
    )
    with pytest.MonkeyPatch.context() as patch:
        fewer_samples(patch)
        made = tune_weights(WER, Dataset.of(lists), ["x", "a"], options=options)
        return made.weights


@pytest.mark.parametrize("unit", [1000.0, 2.0, 3.7])
@pytest.mark.parametrize("decide", ["best", "mbr", "rover"])
def test_bonuses_are_in_units_of_the_scores(decide: str, unit: float) -> None:
    for bagging in (True, False):
        one = weights_in(1.0, decide, bagging)
        other = weights_in(unit, decide, bagging)
        assert (
            (one.get("words") or one["a"]) if bagging else (one["words"] and one["a"])
        )
        assert other.get("words", 0.0) == pytest.approx(unit * one.get("words", 0.0))
        assert other["a"] == pytest.approx(one["a"])


def test_one_list_is_no_evidence() -> None:
    better, worse = np.array([[0, 0, 0, 5]]), np.array([[5, 0, 0, 5]])
    assert not significantly_better(WER, better, worse)
    lists = [
        NbestList(
            "u",
            [
                Hypothesis("b", {"s2s": -1.0, "x": -9.0}),
                Hypothesis("a", {"s2s": -2.0, "x": 0.0}),
            ],
            ("a",),
        )
    ]
    weights = tune_weights(WER, Dataset.of(lists), ["x"])
    assert weights.weights == {"s2s": 1.0, "x": 0.0}


def test_tuning_begins_at_the_best_score_also_where_the_first_pass_has_no_weight() -> (
    None
):
    """A first pass that is noise, and a column that is right: the search has to begin
    at the column alone.
    """
    lists = noisy(5)
    for nbest in lists:
        for rank, hypothesis in enumerate(nbest.hypotheses):
            # nothing near 0 helps
            hypothesis.scores["s2s"] = 1e6 * float((rank * 7 + len(nbest.id)) % 6)
    objective = deciding_by(
        compared, TuningObjective.of(WER, lists, ["s2s", "x"]), lists
    )
    scales = [
        objective.value(np.array([0.0, scale]))
        for scale in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
    ]
    tuned = tune_weights(
        WER,
        Dataset.of(lists),
        ["x"],
        options=TuningOptions(bagging=False, decision=Decision("mbr")),
    )
    assert tuned.value <= min(scales)


def test_a_scale_at_the_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_at_end(1.0, [0.5, 1.0, 2.0], "x")
        assert not caplog.text
        warn_at_end(2.0, [0.5, 1.0, 2.0], "--decide rover")
    assert (
        "--decide rover: the best scale of the posteriors, 2, is at the end"
        in caplog.text
    )


def test_the_order_of_lists_and_hypotheses_changes_nothing() -> None:
    lists = noisy(6)
    turned = [
        replace(nbest, hypotheses=nbest.hypotheses[::-1]) for nbest in lists[::-1]
    ]
    for rule in ("mbr", "rover"):
        decisions = [
            tune_scale(
                Choice({"s2s": 1.0}, decision=Decision(rule)), WER, Dataset.of(some)
            )[0]
            for some in (lists, turned)
        ]
        assert decisions[0].scale == pytest.approx(decisions[1].scale)


def test_calibration_on_the_lists_themselves_is_said(
    rescore: Run, tmp_path: Path
) -> None:
    formats.write(noisy(7), str(tmp_path / "l.jsonl"))
    formats.write(
        [replace(nbest, id=f"other{nbest.id}") for nbest in noisy(8)],
        str(tmp_path / "dev.jsonl"),
    )
    for dev, said in (("l.jsonl", True), ("dev.jsonl", False)):
        done = rescore("confidence", "l.jsonl", "--dev", dev, "-o", "words.jsonl")
        assert (
            done.returncode == 0
            and ("40 of 40 test utterances are also in the dev lists" in done.stderr)
            == said
        )
