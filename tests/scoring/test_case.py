"""A model of another case is noticed, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rescore import Hypothesis, NbestList, score
from rescore.lms import Question, TokenScores


class LowerCase:
    """A model that knows lower case alone."""

    name = model = "lower"
    fingerprint = "ab" * 32
    precision = "float64"

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        texts = [question.text for question in questions]
        return [
            TokenScores(
                text.split(),
                np.full(len(text.split()), -5.0 if text.islower() else -30.0),
            )
            for text in texts
        ]


@pytest.mark.parametrize(
    ("text", "told"),
    [("THE OLD CLOCK", True), ("the old clock", False), ("The OLD clock", False)],
)
def test_a_model_of_another_case(
    text: str, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    score([NbestList("u", [Hypothesis(text, {"s2s": -1.0})])], LowerCase())
    assert ("the lists are in upper case" in caplog.text) == told
    if told:
        assert "(25.0 nats a word)" in caplog.text
