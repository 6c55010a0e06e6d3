"""What may have a weight is a part: a feature of one's own is weighed by every road."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import pytest

from rescore import nbest, pipeline, plan
from rescore.columns import (
    FIRST_PASS,
    Column,
    Reserved,
    Role,
    all_origins,
    comes_from_expansion,
    free_name,
    reserved_columns,
    units,
)
from rescore.config import RunConfig
from rescore.expansion import Expansion
from rescore.features import Feature, Situation, WeightedColumn, WeightKind
from rescore.metrics import Normaliser
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import FEATURES

QUESTIONS = "questions"


class CountQuestions(Expansion):
    """Adds the number of question marks."""

    @property
    def records(self) -> Mapping[str, Column]:
        return {QUESTIONS: Column("questions", "", "", "", Role.COUNT)}

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        for one in lists:
            for hypothesis in one.hypotheses:
                hypothesis.scores[QUESTIONS] = float(hypothesis.text.count("?"))
            yield one


class Questions(Feature):
    """A bonus for each question mark."""

    reserved_columns: ClassVar = {QUESTIONS: Reserved(Role.COUNT, "question")}
    new_words = ("asked",)

    def expansion(self, at: Situation, words: Normaliser) -> Expansion:
        return CountQuestions()

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        at.note("questions", "tuned", "they are asked")
        yield WeightedColumn(QUESTIONS, WeightKind.BONUS)


@pytest.fixture
def questions() -> Iterator[None]:
    FEATURES.register("questions", Questions)
    yield
    FEATURES.remove("questions")


def lists(number: int = 60) -> list[NbestList]:
    """Lists whose right text has a question mark and the worse score."""
    return [
        NbestList(
            f"u{place}",
            [
                Hypothesis("you are here", {FIRST_PASS: -1.0}),
                Hypothesis("are you here ?", {FIRST_PASS: -2.0}),
            ],
            ("are you here ?",),
        )
        for place in range(number)
    ]


def test_a_feature_of_ones_own_is_weighed(questions: None) -> None:
    outcome = pipeline.run(lists(), RunConfig(), lists())
    assert outcome.weights.weights[QUESTIONS] > 1.0
    assert set(outcome.texts) == {"are you here ?"}
    assert "a question" in str(outcome.results)
    reasons = [str(reason) for reason in outcome.plan.reasons]
    assert "questions: tuned (they are asked)" in reasons


def test_a_feature_keeps_its_names(questions: None) -> None:
    assert units()[QUESTIONS] == "question"
    assert free_name(QUESTIONS) == "questions.2"
    assert not comes_from_expansion(QUESTIONS), "no hypotheses come with it"
    own = Column("toolkit", "", "sum", "", Role.COUNT)
    assert not comes_from_expansion("n", own), "a count of a file is the file's own"
    assert "asked" in all_origins()


def test_a_feature_that_is_replaced_leaves_no_names(questions: None) -> None:
    class Others(Feature):
        reserved_columns: ClassVar = {"others": Reserved(Role.COUNT, "other")}

    assert QUESTIONS in reserved_columns()
    FEATURES.register("questions", Others)
    assert "others" in reserved_columns()
    assert QUESTIONS not in reserved_columns()


def test_names_of_a_feature_that_is_gone_are_free() -> None:
    assert QUESTIONS not in reserved_columns()
    assert "asked" not in all_origins()


def test_each_feature_has_a_line_in_the_table() -> None:
    for name, feature in FEATURES.loaded():
        assert issubclass(feature, Feature)
        assert FEATURES.about(name)


def test_the_plan_and_the_data_model_name_no_feature() -> None:
    for module in (plan, nbest):
        text = inspect.getsource(module)
        for name, _ in FEATURES.loaded():
            address = FEATURES.target(name).partition(":")[0]
            assert not address or address not in text
    for name in ("LISTED", "COMPONENT", "respell", "recombin", "edits"):
        assert name not in inspect.getsource(nbest)
        assert name not in inspect.getsource(plan)
