"""Figures of texts: what is counted, and what is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rescore.dataset import Dataset
from rescore.metrics.base import Counts, text_statistics
from rescore.metrics.wer import WordErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.figures import Figures

TEXTS = (("a b", "a c", "a b"), ("d",))
"""The hypotheses of two lists."""
REFERENCES = ("a b c", "d e")


class Counting(WordErrorRate):
    """WER that keeps the texts that it counts."""

    def __init__(self, align: str) -> None:
        super().__init__(align=align)
        self.counted: list[str] = []

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Counts:
        self.counted += hypotheses
        return super().statistics(hypotheses, references)


@pytest.mark.parametrize("align", ["sclite", "jiwer"])
@pytest.mark.parametrize("texts", [("a b", "d"), ("a c", "new"), ("new", "other")])
def test_only_new_texts_are_counted_again(align: str, texts: Sequence[str]) -> None:
    """Reports count all texts again where they count in another way."""
    lists = []
    for place, (own, reference) in enumerate(zip(TEXTS, REFERENCES, strict=True)):
        hypotheses = [Hypothesis(text, {"s2s": 0.0}) for text in own]
        lists.append(NbestList(str(place), hypotheses, (reference,)))
    metric = Counting(align)
    figures = Figures(metric, Dataset.of(lists))
    metric.counted.clear()
    found = figures.of(texts)
    if align == "sclite":
        known = {text for own in TEXTS for text in own}
        assert metric.counted == [text for text in texts if text not in known]
    expected = text_statistics(WordErrorRate(align=align), lists, texts)
    assert [each.text for each in found] == list(texts)
    assert (np.array([each.counts for each in found]) == expected).all()
