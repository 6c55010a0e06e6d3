"""A column that is constant in every list is told in one line, by each road that tunes
its weight, and a column that differs is not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import pytest

import rescore
from rescore import pipeline
from rescore.columns import Column, Role
from rescore.config import RunConfig
from rescore.nbest import Header, Hypothesis, NbestList

LISTS = 12


def lists(name: str, constant: bool) -> list[NbestList]:
    """Lists with a column that is constant in each list, or differs in the last."""
    record = Column("m", "", "sum", "", ROLES[name])
    header = Header(records={} if name == "words" else {name: record})
    every = []
    for number in range(LISTS):
        other = 1.0 if constant or number < LISTS - 1 else 2.0
        longer = "we go home" if name != "words" or other == 1.0 else "go home"
        scores = [{"s2s": -1.0, "lm": -float(number)}, {"s2s": -2.0, "lm": -3.5}]
        if name != "words":
            scores[0][name] = number / 7
            scores[1][name] = number / 7 + (other - 1.0)
        texts = ("we went home", longer)
        hypotheses = [
            Hypothesis(text, own) for text, own in zip(texts, scores, strict=True)
        ]
        every.append(
            NbestList(f"u{number}", hypotheses, ("we go home",), header=header)
        )
    return every


ROLES = {"x": Role.LM, "part": Role.COMPONENT, "words": Role.COUNT}
OPTIONS = {
    "x": {"columns": ("lm", "x"), "word_bonus": False},
    "part": {"components": True, "word_bonus": False},
    "words": {"word_bonus": True},
}


def by_run(every: Sequence[NbestList], config: RunConfig) -> None:
    pipeline.run(every, config, every)


def in_folds(every: Sequence[NbestList], config: RunConfig) -> None:
    pipeline.run(every, RunConfig(**_fields(config), folds=3))


def by_tune(every: Sequence[NbestList], config: RunConfig) -> None:
    rescore.tune(every, **_fields(config))


def _fields(config: RunConfig) -> dict[str, object]:
    names = ("columns", "components", "word_bonus")
    values = {name: getattr(config, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, ())}


ROADS: dict[str, Callable[[Sequence[NbestList], RunConfig], None]] = {
    "run": by_run,
    "folds": in_folds,
    "tune": by_tune,
}


CASES = list(product(ROADS, OPTIONS))


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield


@pytest.mark.parametrize(("road", "name"), CASES)
def test_a_constant_column_is_told(
    road: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    ROADS[road](lists(name, constant=True), RunConfig(**OPTIONS[name]))
    lines = [line for line in caplog.messages if "the same for all hypotheses" in line]
    assert [line.partition(":")[0] for line in lines] == [name]


@pytest.mark.parametrize(("road", "name"), CASES)
def test_a_column_that_differs_once_is_not_told(
    road: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    ROADS[road](lists(name, constant=False), RunConfig(**OPTIONS[name]))
    assert "the same for all hypotheses" not in caplog.text


def test_lists_of_one_hypothesis_are_no_evidence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    single = lists("x", constant=False)
    for nbest in single:
        del nbest.hypotheses[1:]
    rescore.tune(single, ["lm", "x"])
    assert "the same for all hypotheses" not in caplog.text


def test_a_bonus_that_is_tuned_by_default_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    every = lists("x", constant=False)  # all texts have three words
    weights = rescore.tune(every, ["lm", "x"])
    assert weights.tuning.options is not None
    assert weights.tuning.options.bonuses == ("words",)
    assert "the same for all hypotheses" not in caplog.text
