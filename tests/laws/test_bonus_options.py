"""Each option of a bonus, of the package or of a feature from outside, is refused as
`tune` where nothing is tuned, sets a weight as a number, and is tuned without any
language model; a line names the option if the tuned weight is 0.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

import rescore
from rescore import border, pipeline
from rescore.asked import ROADS, checked
from rescore.config import Bonus, RunConfig
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList
from rescore.options import Field, flattened

OWN = "number_bonus"
"""The option of the feature of examples/plugin."""
SHIPPED = [entry.name for entry in RunConfig.declared() if entry.hint == Bonus]
NAMES = [*SHIPPED, OWN]
COLUMNS = {"word_bonus": "words", "token_bonus": "tokens", "boost": "listed"} | {
    OWN: "numbers"
}


pytestmark = pytest.mark.usefixtures("plugin_feature")


def options() -> dict[str, Field]:
    every = flattened(RunConfig.declared())
    return {entry.name: entry for entry in every if entry.hint == Bonus}


def lists() -> list[NbestList]:
    """Lists whose right text is longer, has a digit, and has the worse score."""
    every = []
    for number in range(30):
        right = f"at {number} they went home"
        hypotheses = [
            Hypothesis("at some", {"s2s": -1.0, "tokens": 2.0, "listed": 0.0}),
            Hypothesis(right, {"s2s": -2.0, "tokens": 5.0, "listed": 1.0}),
        ]
        every.append(NbestList(f"u{number}", hypotheses, (right,)))
    return every


def test_the_law_has_every_bonus() -> None:
    assert list(options()) == NAMES
    assert set(COLUMNS) == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_tune_is_refused_where_nothing_is_tuned(name: str) -> None:
    config = border.config_of("run", **{name: True})
    with pytest.raises(UserError, match=f"{name.replace('_', '-')} tune needs --dev"):
        checked(ROADS["run"], config)


@pytest.mark.parametrize("name", NAMES)
def test_a_number_is_the_weight(name: str) -> None:
    config = border.config_of("run", **{name: 0.75})
    outcome = pipeline.run(lists(), config)
    assert outcome.weights.weights[COLUMNS[name]] == 0.75
    assert f"w:{COLUMNS[name]}=0.75" in str(outcome.results)


@pytest.mark.parametrize("name", NAMES)
def test_a_bonus_is_tuned_alone(name: str) -> None:
    """By `rescore.tune` as by `run`, which need no language model for it."""
    asked: dict[str, Any] = {name: True}
    alone = rescore.tune(lists(), **asked)
    outcome = pipeline.run(lists(), border.config_of("run", **asked), lists())
    assert alone.weights == outcome.weights.weights
    assert alone.weights[COLUMNS[name]] > 0.3
    assert rescore.texts(lists(), alone) == outcome.texts


def test_nothing_to_tune_is_still_refused() -> None:
    with pytest.raises(UserError, match="no column of LM scores"):
        rescore.tune(lists())
    with pytest.raises(UserError, match="no column of LM scores"):
        rescore.tune(lists(), **{OWN: False})


@pytest.mark.parametrize("bagging", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_tuned_bonus_of_0_is_told(
    name: str, bagging: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rescore")
    dev = lists()
    for nbest in dev:
        nbest.references = (nbest.hypotheses[0].text,)
    flag = options()[name].about.flag(name)
    gain = "no significant gain" if bagging else "no gain"
    line = f"has {gain} on dev: it is off; {flag} NUMBER sets it"
    config = border.config_of("run", bagging=bagging, **{name: True})
    outcome = pipeline.run(lists(), config, dev)
    assert not outcome.weights.weights.get(COLUMNS[name])
    assert caplog.text.count(line) == 1, caplog.text
    caplog.clear()
    pipeline.run(lists(), config, lists())
    assert "it is off" not in caplog.text
