"""Weights that hold on other lists."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rescore import metrics
from rescore.columns import WORDS
from rescore.dataset import Dataset
from rescore.deciding import decide
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.results import evaluate
from rescore.tuning import TuningOptions, tune_weights
from tests.conftest import ROOT, Run, some_lists


def lists(number: int, seed: int, help_: float) -> list[NbestList]:
    """Two hypotheses each, of which one is right; the LM prefers the right one by
    `help_` standard deviations.
    """
    random = np.random.default_rng(seed)
    found = []
    for index in range(number):
        right = bool(random.random() < 0.6)  # whether the first pass is
        scores = random.normal(size=2)
        scores[0 if right else 1] += help_
        found.append(
            NbestList(
                f"u{index}",
                [
                    Hypothesis(
                        "a b" if right else "x", {"s2s": -1.0, "lm": float(scores[0])}
                    ),
                    Hypothesis(
                        "x" if right else "a b", {"s2s": -2.0, "lm": float(scores[1])}
                    ),
                ],
                ("a b",),
            )
        )
    return found


def weight(some: list[NbestList], **options: bool) -> float:
    found = tune_weights(
        metrics.choose_metric("wer", some),
        Dataset.of(some),
        ["lm"],
        options=TuningOptions(**options),
    )
    return found.weights["lm"]


def test_noise_gets_no_weight() -> None:
    """The best weight of a set whose LM knows nothing is above 0 by accident, and harms
    another set.
    """
    seeds = [
        seed for seed in range(12) if weight(lists(60, seed, 0.0), bagging=False) > 0
    ]
    assert len(seeds) >= 4
    kept = [seed for seed in seeds if weight(lists(60, seed, 0.0)) > 0]
    assert len(kept) <= len(seeds) / 4


def test_help_gets_about_the_optimum() -> None:
    some = lists(300, 1, 2.0)
    assert weight(some) == pytest.approx(weight(some, bagging=False), abs=0.15)
    assert weight(some) == weight(some) > 0


def test_several_columns_and_a_bonus() -> None:
    some = lists(200, 2, 2.0)
    for nbest in some:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores["other"] = hypothesis.scores["lm"] / 2
    metric = metrics.choose_metric("wer", some)
    found = tune_weights(
        metric, Dataset.of(some), ["lm", "other"], options=TuningOptions((WORDS,))
    )
    assert set(found.weights) == {"s2s", "lm", "other", "words"}
    assert found.tuning.first_pass is not None
    assert found.value < found.tuning.first_pass
    assert sum(found.weights[name] for name in ("s2s", "lm", "other")) == pytest.approx(
        1.0
    )


def test_the_value_is_that_of_the_weights() -> None:
    some = lists(200, 3, 2.0)
    metric = metrics.choose_metric("wer", some)
    found = tune_weights(metric, Dataset.of(some), ["lm"])

    assert evaluate(
        [metric], decide(metric, Dataset.of(some), found)
    ).reranked == pytest.approx(found.value)
    about = found.tuning
    assert about.low is not None and about.high is not None
    assert about.low <= found.weights["lm"] <= about.high


@pytest.mark.long
def test_a_large_set_gets_a_token_bonus(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one command as by stages, for pseudo-log-likelihoods only."""
    test, dev = (some_lists(tmp_path, name, 50) for name in ("test", "dev"))
    lm = ("--lm", f"tta:{ROOT / 'models' / 'tta-small'}", "--cache", "cache")
    small = rescore(test, *lm, "--dev", dev)
    assert small.returncode == 0 and "tokens" not in small.stdout
    monkeypatch.setattr("rescore.features.length.LARGE_SET", 50)
    whole = rescore(
        test, *lm, "--dev", dev, "--no-bagging", "--report", "r.json"
    ).stdout
    assert "|w:tokens=" in whole
    assert (
        "tokens" not in rescore(test, *lm, "--dev", dev, "--token-bonus", "off").stdout
    )
    rescore("score", dev, *lm, "--count-tokens", "-o", "dev.jsonl")
    rescore("score", test, *lm, "--count-tokens", "-o", "test.jsonl")
    rescore("tune", "dev.jsonl", "--no-bagging", "-o", "w.json")
    rescore("rerank", "test.jsonl", "--weights", "w.json", "--report", "s.json")
    signatures = [
        json.loads((tmp_path / name).read_text())["signature"]
        for name in ("r.json", "s.json")
    ]
    assert signatures[0] == signatures[1]
    rescore("score", dev, "--lm", "unilm", "--count-tokens", "-o", "dev.jsonl")
    assert '"tokens"' not in rescore("tune", "dev.jsonl", "--no-bagging").stdout
