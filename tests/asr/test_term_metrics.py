"""Recall, precision and F1 of terms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rescore.asr.term_metrics import F1, Precision, Recall
from rescore.metrics.base import Input
from rescore.metrics.listed import WordList
from tests.conftest import Run, assert_one_line_error

LISTED = WordList(("New York", "New York Times", "york", "eva => Aoife"), "words")


def rate(
    name: str, hypotheses: list[str], references: list[str], listed: WordList = LISTED
) -> float:
    metric = {"recall": Recall, "precision": Precision, "F1": F1}[name](words=listed)
    rows = metric.statistics(hypotheses, [(text,) for text in references])
    return float(metric.values(rows.sum(axis=0)[None])[0])


def test_the_longest_term_counts() -> None:
    metric = Recall(words=LISTED)
    rows = metric.statistics(
        ["the new york times of york"], [("new york times york new york",)]
    )
    assert rows.tolist() == [[2, 3, 2]]


def test_recall_precision_f1() -> None:
    hypotheses, references = (
        ["aoife in york york", "york"],
        ["aoife in new york york", "paris"],
    )
    assert rate("recall", hypotheses, references) == pytest.approx(100 * 2 / 3)
    assert rate("precision", hypotheses, references) == pytest.approx(100 * 2 / 4)
    assert rate("F1", hypotheses, references) == pytest.approx(100 * 4 / 7)
    assert rate("recall", ["a"], ["b"]) == 100


def test_lists_by_utterance() -> None:
    listed = WordList(("u-1 york", "u-2 paris"), "words", by_utterance=True)
    metric = Recall(words=listed)
    rows = metric.statistics(
        [Input("u-1", "york paris"), Input("u-2", "york paris")], [("york paris",)] * 2
    )
    assert np.array_equal(rows, [[1, 1, 1], [1, 1, 1]])


def test_lists_of_other_utterances_are_refused(rescore: Run, tmp_path: Path) -> None:
    """Also where the file is a list of terms that begin with digits: the error names
    both readings.
    """
    (tmp_path / "terms").write_text("b2b platform\n3m\n")
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u1", "ref": "a b2b platform", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    both = (
        "utterance u1 is not in it; give each a line, `utterance word ...`",
        "write one of them as `term => term`",
    )
    for metric in ("recall", "precision", "f1", "bwer", "uwer"):
        assert_one_line_error(
            rescore("eval", "l.jsonl", "--metric", metric, "--words", "terms"),
            "terms: ",
            *both,
        )
    assert_one_line_error(
        rescore("run", "l.jsonl", "--words", "terms", "--boost", "1"), "terms: ", *both
    )


def test_a_rate_without_terms_says_what_lacks(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("no cat\n")
    (tmp_path / "ref").write_text("an owl\n")
    (tmp_path / "words").write_text("owl\n")
    done = rescore("eval", "out", "--ref", "ref", "--words", "words")
    assert (
        "precision is not defined (-): no listed term is in the output" in done.stderr
    )
    assert "references are empty" not in done.stderr
