"""A metric that keeps what it computed says the same, and computes it once."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rescore import comparing, formats, metrics
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.lms import TokenScores
from rescore.metrics import Metric, cached, list_statistics
from rescore.metrics.base import Counts
from rescore.metrics.cached import CachedMetric
from rescore.metrics.mt import Bleu
from rescore.nbest import NbestList
from tests.conftest import ROOT
from tests.decision.plain import losses


@pytest.fixture
def lists() -> list[NbestList]:
    return [
        replace(nbest, hypotheses=nbest.hypotheses[:5])
        for nbest in formats.read([ROOT / "data/dev.json"])[:30]
    ]


class Shorter:
    """A made-up model."""

    name, model, fingerprint, precision, reads_source = (
        "short",
        "short",
        "0" * 64,
        "float32",
        False,
    )

    def score(self, questions: Sequence[Any]) -> list[TokenScores]:
        return [
            TokenScores(one.text.split(), -np.ones(len(one.text.split())))
            for one in questions
        ]


@pytest.mark.parametrize("name", ["wer", "bleu", "ter"])
def test_the_same_values(lists: list[NbestList], name: str) -> None:
    plain = metrics.choose_metric(name, lists)
    kept = cached.remembered(plain)
    assert cached.remembered(kept) is kept and (kept.name, kept.settings) == (
        plain.name,
        plain.settings,
    )
    for _ in range(2):
        for one, other in zip(
            list_statistics(kept, lists), list_statistics(plain, lists), strict=True
        ):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(losses(kept, lists), losses(plain, lists), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_copies(copied: Callable[[Metric], Metric]) -> None:
    """Of an outcome, which has its metric."""
    found = copied(cached.remembered(metrics.choose_metric("wer", [])))
    assert found.name == "WER" and found.statistics(["a b"], [("a",)])[0].tolist()


@pytest.mark.parametrize("limit", ["TEXTS", "PAIRS"])
def test_what_exceeds_the_bounds_is_computed_again(
    lists: list[NbestList], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, limit, 40)
    plain = metrics.choose_metric("bleu", lists)
    kept = CachedMetric(plain)
    few, many = lists[:1], lists
    for some in (few, many, few):
        np.testing.assert_array_equal(
            np.concatenate(list_statistics(cached.remembered(kept), some)),
            np.concatenate(list_statistics(plain, some)),
        )
        for one, other in zip(
            losses(cached.remembered(kept), some), losses(plain, some), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    assert (
        len(kept._rows) <= cached.TEXTS
        and sum(one.size for one in kept._losses.values()) <= cached.PAIRS
    )


def test_comparing_counts_each_text_once(
    lists: list[NbestList], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under minimum Bayes risk, and every figure is what it is where nothing is
    kept.
    """
    test, dev = lists[:10], lists[10:]
    config = RunConfig(decide="mbr", metrics=("bleu",))

    def compare() -> Any:
        found = comparing.compare(
            Dataset.of(test), Dataset.of(dev), config, lambda: [Shorter(), Shorter()]
        )
        return [replace(row, speed=None) for row in found.rows]

    asked: Counter[Any] = Counter()

    def counting(
        self: Bleu, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Counts:
        asked.update(zip(hypotheses, map(tuple, references), strict=True))
        return statistics(self, hypotheses, references)

    def pairing(self: Bleu, texts: Sequence[str]) -> Any:
        asked[tuple(texts)] += 1
        return pair_losses(self, texts)

    statistics, pair_losses = Bleu.statistics, Bleu.pair_losses
    with monkeypatch.context() as patch:
        patch.setattr(Bleu, "statistics", counting)
        patch.setattr(Bleu, "pair_losses", pairing)
        rows = compare()
    assert len(rows) > 3 and set(asked.values()) == {1}

    def forgetful(metric: Metric) -> Metric:
        return metric

    monkeypatch.setattr("rescore.metrics.cached.remembered", forgetful)
    assert compare() == rows
