"""Is it worth it? By hand, on curves that are known, and from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rescore.metrics import list_statistics, oracle, total, value
from rescore.metrics.mt import Bleu
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList, ranking
from rescore.reports.outlook import Depth, by_depth, outlook, rows
from rescore.tuning import FIRST_PASS_ALONE, Weights
from rescore.tuning.tune import TuningOptions, tune
from tests.conftest import Run, write_json

HALF = Weights({"s2s": 0.5, "lm": 0.5}, "given")


def nbest(name: str, reference: str, *texts: str, lm: tuple[float, ...] = ()) -> NbestList:
    scores = lm or (0.0,) * len(texts)
    return NbestList(
        name,
        [
            Hypothesis(text, {"s2s": -rank, "lm": one})
            for rank, (text, one) in enumerate(zip(texts, scores, strict=True))
        ],
        (reference,),
    )


def test_gains_by_hand() -> None:
    lists = [
        nbest("mended", "a b c", "a x c", "a b c", lm=(0.0, 9.0)),
        nbest("absent", "d e f", "d y f", "d z f"),
        nbest("right", "g h", "g h", "g i"),
        nbest("apart", "j k", "x k", "j y"),
        nbest("deleted", "l m", "l", "q"),
    ]
    found = outlook(ErrorRate(), lists, HALF)
    assert found.first_pass == pytest.approx(100 * 4 / 12) and found.oracle == pytest.approx(100 * 3 / 12)
    assert found.gain == found.possible == pytest.approx(100 / 12) and found.share == pytest.approx(1.0)
    assert not found.certain and found.interval[0] == 0.0 and found.next.startswith("more lists to tune on")
    assert outlook(ErrorRate(), lists, FIRST_PASS_ALONE).next.startswith("score the lists with a language model: ")


def test_what_is_certain_is_called_so() -> None:
    lists = [nbest(str(index), "a b c", "a x c", "a b c", lm=(0.0, 9.0)) for index in range(40)]
    found = outlook(ErrorRate(), lists, HALF)
    assert found.certain and found.interval == (pytest.approx(100 / 3), pytest.approx(100 / 3))
    assert found.next == "nothing stands out: this LM reaches most of the possible gain"
    worse = [nbest(str(index), "a b c", "a b c", "a x c", lm=(0.0, 9.0)) for index in range(40)]
    found = outlook(ErrorRate(), worse, HALF)
    assert not found.certain and found.gain < 0 and found.interval[1] < 0


def test_depth_is_by_score_not_by_place() -> None:
    lists = [NbestList("u", [Hypothesis("a", {"s2s": -2.0}), Hypothesis("b", {"s2s": -1.0})], ("a",))]
    statistics = [ErrorRate().statistics(["a", "b"], [("a",), ("a",)])]
    assert by_depth(ErrorRate(), statistics, lists) == [Depth(1, 100.0), Depth(2, 0.0)]


def test_weights_do_not_flatter_themselves() -> None:
    """Scores that are noise: the best weight of these lists helps on them, and on others it does not."""
    random = np.random.default_rng(1)
    lists = [
        nbest(str(index), "a", *random.permutation(["a", "x", "y"]), lm=tuple(random.normal(0, 3, 3)))
        for index in range(60)
    ]
    weights = tune(ErrorRate(), lists, ["lm"], "dev", TuningOptions((), bagging=False))
    assert weights.tuned_for is not None and weights.tuned_for.first_pass is not None
    assert weights.value < weights.tuned_for.first_pass
    held_out, given = (
        outlook(ErrorRate(), lists, weights),
        outlook(ErrorRate(), lists, replace(weights, tuned="given")),
    )
    assert held_out.folds == 5 and not given.folds
    assert given.reranked == pytest.approx(weights.value) and held_out.gain < given.gain
    assert "5 folds" in dict(rows(held_out))[""] and "" not in dict(rows(given))


def test_at_the_command_line(rescore: Run, tmp_path: Path) -> None:
    table = {
        f"u{index}": {"ref": "a b c", **{f"hyp_{rank}": {"score": -rank, "text": text} for rank, text in enumerate(
            ["a x c", "a b", "b c", "a b c"], 1)}} for index in range(12)
    }  # fmt: skip
    write_json(tmp_path / "l.json", table)
    done = rescore("analyse", "l.json", "-o", "a.json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    start = lines.index("Is it worth it?")
    assert lines[start + 1] == "perfect LM    WER 33.33 -> 0.00, 33.33 points"  # there is none yet
    found = json.loads((tmp_path / "a.json").read_text())["outlook"]
    assert found["next"].startswith("score the lists")


def test_depth_by_depth_as_by_the_oracle_of_each() -> None:
    random = np.random.default_rng(2)
    lists = [
        NbestList(
            f"{n}",
            [
                Hypothesis("a b c d"[: 2 * size + 1], {"s2s": float(random.normal())})
                for size in random.integers(0, 4, 9)
            ],
            ("a b c d",),
        )
        for n in range(20)
    ]
    for nbest in lists[::3]:
        del nbest.hypotheses[5:]
    for metric in (ErrorRate(), Bleu()):
        statistics = list_statistics(metric, lists)
        ranked = [rows[ranking(nbest, nbest.column("s2s"))] for rows, nbest in zip(statistics, lists, strict=True)]
        cuts = [[rows[:n] for rows in ranked] for n in range(1, 10)]
        expected = [Depth(n, value(metric, total(cut, oracle(metric, cut)))) for n, cut in enumerate(cuts, 1)]
        assert by_depth(metric, statistics, lists) == expected
