"""Recall, precision and F1 of terms."""

from __future__ import annotations

import numpy as np
import pytest

from rescore.asr.term_metrics import F1, Precision, Recall
from rescore.metrics.base import Input
from rescore.metrics.listed import WordList

LISTED = WordList(("New York", "New York Times", "york", "eva => Aoife"), "words")


def rate(name: str, hypotheses: list[str], references: list[str], listed: WordList = LISTED) -> float:
    metric = {"recall": Recall, "precision": Precision, "F1": F1}[name](listed)
    rows = metric.statistics(hypotheses, [(text,) for text in references])
    return float(metric.values(rows.sum(axis=0)[None])[0])


def test_the_longest_term_counts() -> None:
    metric = Recall(LISTED)
    rows = metric.statistics(["the new york times of york"], [("new york times york new york",)])
    assert rows.tolist() == [[2, 3, 2]]


def test_recall_precision_f1() -> None:
    hypotheses, references = ["aoife in york york", "york"], ["aoife in new york york", "paris"]
    assert rate("recall", hypotheses, references) == pytest.approx(100 * 2 / 3)
    assert rate("precision", hypotheses, references) == pytest.approx(100 * 2 / 4)
    assert rate("F1", hypotheses, references) == pytest.approx(100 * 4 / 7)
    assert rate("recall", ["a"], ["b"]) == 100


def test_lists_by_utterance() -> None:
    listed = WordList(("u-1 york", "u-2 paris"), "words", by_utterance=True)
    metric = Recall(listed)
    rows = metric.statistics([Input("u-1", "york paris"), Input("u-2", "york paris")], [("york paris",)] * 2)
    assert np.array_equal(rows, [[1, 1, 1], [1, 1, 1]])
