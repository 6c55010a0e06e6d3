"""Law: a weight that the user gives as a number stands in the weights and in the
signature, and it decides, though weights are tuned on dev lists where it gains nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from rescore import border, pipeline
from rescore.asked import ROADS, checked
from rescore.asr.features import CHANNEL, EDITS, RESPELLED
from rescore.columns import Column, Role
from rescore.config import DECISION, FEATURE, WEIGHTS, Bonus, RunConfig
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList
from rescore.options import Field, flattened

COLUMNS = {
    "word_bonus": "words",
    "token_bonus": "tokens",
    "boost": "listed",
    "number_bonus": "numbers",
}
"""The column of each bonus; `number_bonus` is an option of examples/plugin."""
DECIDING = {"scale": ("mbr", "decide:mbr,30"), "no_word": ("rover", "no-word=30")}
"""The decision that takes a number, and what its signature says of the number 30."""
RULES = ("best", "mbr", "rover")


pytestmark = pytest.mark.usefixtures("plugin_feature")


def options() -> dict[str, Field]:
    """Return the options whose value may be the weight of something."""
    numeric = {}
    for entry in flattened(RunConfig.declared()):
        of_weights = entry.title in (WEIGHTS, FEATURE, DECISION)
        is_number = entry.hint in (Bonus, float | None, tuple[float, ...])
        if of_weights and is_number:
            numeric[entry.name] = entry
    return numeric


def lists(right: str, wrong: str) -> list[NbestList]:
    """Return lists whose first pass prefers the right text, by a little.

    Args:
        right: The right text, a word for each list.
        wrong: The other text, which has more of everything that is counted.
    """
    every = []
    for number in range(12):
        own = {"s2s": -1.0, "tokens": 1.0, "listed": 0.0}
        other = {"s2s": -2.0, "tokens": 3.0, "listed": 2.0}
        hypotheses = [Hypothesis(right, own), Hypothesis(wrong, other)]
        every.append(NbestList(f"u{number}", hypotheses, (right,)))
    return every


def outcome_of(decide: str, **given: Any) -> pipeline.Outcome:
    config = border.config_of("run", decide=decide, **given)
    return pipeline.run(lists("home", "he went 2"), config, lists("at", "so 1 is"))


def test_the_law_has_every_number() -> None:
    assert set(options()) == {*COLUMNS, *DECIDING, "weights"}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_bonus(name: str, rule: str) -> None:
    column = COLUMNS[name]
    usual = outcome_of(rule, **{name: True})
    assert set(usual.texts) == {"home"} and not usual.weights.weighs(column)
    outcome = outcome_of(rule, **{name: 5.0})
    assert outcome.weights.weights[column] == 5.0
    assert f"|w:{column}=5|" in str(outcome.results)
    assert set(outcome.texts) == {"he went 2"}


@pytest.mark.parametrize("name", DECIDING)
def test_a_number_of_a_decision(name: str) -> None:
    rule, signed = DECIDING[name]
    given: dict[str, Any] = {name: 30.0, "boost": True}
    if name != "scale":
        given["scale"] = 1.0
    outcome = outcome_of(rule, **given)
    assert signed in str(outcome.results)
    assert outcome.results.signature.count(signed) == 1
    decision = outcome.weights.decision
    assert 30.0 in (decision.scale, *decision.settings.values())


def test_weights_of_models_exclude_tuning() -> None:
    config = RunConfig(lms=("tta",), weights=(0.5,), dev="dev")
    with pytest.raises(UserError, match="--dev and --weight exclude each other"):
        checked(ROADS["run"], config)


def respelled(listed: bool) -> list[NbestList]:
    """Return lists whose second hypothesis has a new word for the last word of the
    first.

    Args:
        listed: Whether half of the new words are listed, and right.
    """
    records = {CHANNEL: Column("respell", "f", "l", "float32", Role.CHANNEL)}
    every = []
    for number in range(12):
        is_listed = listed and number % 2 == 0
        texts = [f"{number} at hoem", f"{number} at home", f"{number} of hoem"]
        columns = {CHANNEL: 0.0, EDITS: 0.0, "listed": 0.0}
        changed = {CHANNEL: -2.0, EDITS: 1.0, "listed": float(is_listed)}
        hypotheses = [
            Hypothesis(texts[0], {"s2s": -1.0, **columns}),
            Hypothesis(texts[1], {"s2s": -1.0, **changed}, RESPELLED),
            Hypothesis(texts[2], {"s2s": -4.0, **columns}),
        ]
        nbest = NbestList(f"u{number}", hypotheses, (texts[int(is_listed)],))
        nbest.header = nbest.header.with_records(records)
        every.append(nbest)
    return every


@pytest.mark.parametrize("bagging", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_a_boost_of_words_that_dev_lacks(rule: str, bagging: bool) -> None:
    """New words with a bonus win, and new words without a bonus do not."""
    config = border.config_of("run", decide=rule, boost=5.0, bagging=bagging)
    outcome = pipeline.run(respelled(listed=True), config, respelled(listed=False))
    assert outcome.weights.weights["listed"] == 5.0
    assert outcome.weights.excluded == frozenset()
    assert "|w:listed=5|" in str(outcome.results)
    assert outcome.texts == [nbest.references[0] for nbest in outcome.lists]
    without = border.config_of("run", decide=rule, boost=False, bagging=bagging)
    outcome = pipeline.run(respelled(listed=True), without, respelled(listed=False))
    assert outcome.texts == outcome.decided.first_pass_texts


def test_new_words_that_do_harm_without_a_bonus_have_a_cost() -> None:
    """A model prefers all new words, and dev shows that this is wrong."""
    dev = respelled(listed=False)
    test = respelled(listed=True)
    for nbest in [*dev, *test]:
        for hypothesis, score in zip(nbest.hypotheses, (-9, -1, -20), strict=True):
            hypothesis.scores["lm"] = float(score)
    for nbest in dev[:8]:  # here the model is right beside the first pass
        nbest.hypotheses[2].scores |= {"s2s": -0.5, "lm": -12.0}
    config = RunConfig(columns=("lm",), boost=5.0)
    plan = pipeline.resolve(config, test, dev)
    weights = pipeline.tune(plan, Dataset.of(dev))
    assert weights.weighs("lm") and weights.weights["listed"] == 5.0
    decided = pipeline.decide_all(plan, weights, Dataset.of(dev))
    assert decided.texts == [nbest.references[0] for nbest in dev]
