"""A warning says if only the texts, or only the references, look tokenised."""

from __future__ import annotations

import pytest

from rescore import metrics
from rescore.dataset import Dataset
from rescore.metrics.texts import warn_of_texts
from rescore.nbest import Hypothesis, NbestList

TOKENISED = "the clock , he said , ticked ."
PLAIN = "the clock, he said, ticked."


@pytest.mark.parametrize(
    ("text", "reference", "number", "warning"),
    [
        (PLAIN, TOKENISED, 3, "the references look tokenised"),
        (TOKENISED, PLAIN, 3, "the texts look tokenised"),
        (PLAIN, PLAIN, 3, ""),
        (TOKENISED, TOKENISED, 3, ""),
        (PLAIN, TOKENISED, 2, ""),
        ("no full stop", TOKENISED, 3, ""),
    ],
)
def test_both_are_tokenised_or_neither(
    text: str,
    reference: str,
    number: int,
    warning: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lists = []
    for index in range(number):
        hypothesis = Hypothesis(text, {"s2s": 0.0})
        lists.append(NbestList(f"u{index}", [hypothesis], (reference,)))
    warn_of_texts(metrics.choose_metric("bleu", lists), Dataset.of(lists))
    assert bool(warning) == bool(caplog.messages)
    assert warning in " ".join(caplog.messages)
    caplog.clear()
    warn_of_texts(metrics.choose_metric("wer", lists), Dataset.of(lists))
    assert not caplog.messages
