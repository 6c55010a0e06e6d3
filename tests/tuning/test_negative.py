"""A weight without bounds: an internal LM is subtracted where that helps (density
ratio).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rescore import formats, metrics
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import TuningOptions, tune_weights
from tests.conftest import Run, assert_one_line_error


def lists(number: int = 300) -> list[NbestList]:
    """Lists of four. The first pass is what was heard + an LM of the wrong domain; the
    best is s2s - in + out.
    """
    random = np.random.default_rng(4)
    found = []
    for index in range(number):
        heard, inner, outer = random.normal(size=(3, 4)) * [[1.0], [2.0], [1.0]]
        right = int(np.argmax(heard + outer))
        found.append(
            NbestList(
                f"u{index}",
                [
                    Hypothesis(
                        "a b" if rank == right else f"a x{rank}",
                        {
                            "s2s": float(heard[rank] + inner[rank]),
                            "in": float(inner[rank]),
                            "out": float(outer[rank]),
                        },
                    )
                    for rank in range(4)
                ],
                ("a b",),
            )
        )
    return found


@pytest.mark.parametrize("decide", [Decision(), Decision("mbr")])
def test_it_finds_what_is_to_be_subtracted(decide: Decision) -> None:
    some = lists()
    metric = metrics.choose_metric("wer", some)
    free = tune_weights(
        metric,
        Dataset.of(some),
        ["in", "out"],
        options=TuningOptions((), negative=("in",), decision=decide),
    )
    without = tune_weights(
        metric,
        Dataset.of(some),
        ["in", "out"],
        options=TuningOptions((), decision=decide),
    )
    assert free.value < without.value - 10 and free.value < 3
    ratio = np.array([free.weights["in"], free.weights["out"]]) / free.weights["s2s"]
    np.testing.assert_allclose(ratio, [-1.0, 1.0], rtol=0.1)


def test_it_reranks_and_says_so(rescore: Run, tmp_path: Path) -> None:
    entries = [
        {
            "id": nbest.id,
            "ref": "a b",
            "hyps": [
                {"text": one.text, "scores": one.scores} for one in nbest.hypotheses
            ],
        }
        for nbest in lists(200)
    ]
    (tmp_path / "dev.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in entries)
    )
    tuned = rescore("tune", "dev.jsonl", "--allow-negative", "in", "-o", "w.json")
    assert tuned.returncode == 0 and "in -" in tuned.stderr, tuned.stderr
    assert json.loads((tmp_path / "w.json").read_text())["weights"]["in"] < 0
    done = rescore(
        "rerank",
        "dev.jsonl",
        "--weights",
        "w.json",
        "--report",
        "r.json",
        "-o",
        "x.txt",
    )
    assert done.returncode == 0, done.stderr
    table = rescore("report", "r.json")
    assert "dev, out - in" in table.stdout, table.stdout
    wrong = rescore("tune", "dev.jsonl", "--allow-negative", "nobody", "-o", "w2.json")
    assert_one_line_error(wrong, "nobody", "in, out")


@pytest.mark.parametrize("name", ["best", "mbr", "rover"])
def test_what_is_impossible_stays_so(name: str) -> None:
    """Wrong hypotheses with -inf in the column that is subtracted: under a negative
    weight they do not win.
    """
    some = lists(60)
    for nbest in some:
        wrong = next(one for one in nbest.hypotheses if one.text != "a b")
        wrong.text, wrong.scores["in"] = "never", -np.inf
    metric = metrics.choose_metric("wer", some)
    found = tune_weights(
        metric,
        Dataset.of(some),
        ["in", "out"],
        options=TuningOptions((), negative=("in",), decision=Decision(name)),
    )
    assert found.weights["in"] < 0 and found.value < 10
    assert not any("never" in text for text in found.texts(metric, Dataset.of(some)))


def test_a_range_is_told_of_a_weight_that_has_one(rescore: Run, tmp_path: Path) -> None:
    """Only a single weight from 0 to 1 is looked at from 0 to 1; one that is subtracted
    is not.
    """
    some = [
        replace(
            nbest,
            hypotheses=[
                replace(one, scores={"s2s": one.scores["s2s"], "in": one.scores["in"]})
                for one in nbest.hypotheses
            ],
        )
        for nbest in lists(200)
    ]
    formats.write(some, str(tmp_path / "dev.jsonl"))
    tuned = rescore("tune", "dev.jsonl", "--allow-negative", "in")
    assert tuned.returncode == 0 and json.loads(tuned.stdout)["weights"]["in"] < 0
    assert "the same from" not in tuned.stderr
    formats.write(lists(200), str(tmp_path / "both.jsonl"))
    assert "the same from" in rescore("tune", "both.jsonl", "--column", "out").stderr


def test_an_unknown_column_is_told() -> None:
    some = lists(5)
    with pytest.raises(UserError, match="not a column"):
        tune_weights(
            metrics.choose_metric("wer", some),
            Dataset.of(some),
            ["out"],
            options=TuningOptions(negative=("in",)),
        )
