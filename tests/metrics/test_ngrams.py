"""All hypotheses of a list against all, at once: the same as pair by pair, and as the aggregate's definition."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.decision.rules import losses
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.metrics.mt import Bleu, Chrf, ChrfPlusPlus, Ter
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import DECISIONS
from tests.conftest import ROOT, Run, assert_one_line_error

WORDS = st.sampled_from(["a", "the", "clock", "old", ",", "it's", "été", "."])
TEXTS = st.lists(st.lists(WORDS, max_size=9).map(" ".join), min_size=1, max_size=7)
METRICS: list[Metric] = [Bleu("none"), Bleu("13a"), Chrf(), ChrfPlusPlus()]


@pytest.mark.parametrize("metric", METRICS, ids=["bleu-none", "bleu-13a", "chrf", "chrf++"])
@settings(max_examples=40, deadline=None)
@given(texts=TEXTS)
def test_pairs_at_once_are_pairs_one_by_one(metric: Metric, texts: list[str]) -> None:
    pairs = [(one, other) for one in texts for other in texts]
    slow = metric.losses(metric.statistics([one for one, _ in pairs], [(other,) for _, other in pairs]))
    found = metric.pair_losses(texts)
    assert found is not None
    np.testing.assert_allclose(found, slow.reshape(len(texts), -1), atol=1e-9)
    nbest = NbestList("u", [Hypothesis(text) for text in [*texts, texts[0]]])  # one text comes twice
    np.testing.assert_allclose(losses(metric, [nbest])[0][:-1, :-1], found, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(texts=TEXTS, data=st.data())
def test_the_aggregate_is_expected_counts(texts: list[str], data: st.DataObject) -> None:
    weights = np.array(data.draw(st.lists(st.floats(0.1, 1), min_size=len(texts), max_size=len(texts))))
    posteriors = weights / weights.sum()
    metric = Bleu("none")
    split = [text.split() for text in texts]
    rows = []
    for words in split:
        row: list[float] = []
        for order in range(1, 5):
            grams = [Counter(zip(*(one[k:] for k in range(order)), strict=False)) for one in split]
            expected: defaultdict[tuple[str, ...], float] = defaultdict(float)
            for counts, share in zip(grams, posteriors, strict=True):
                for gram, count in counts.items():
                    expected[gram] += count * share
            own = Counter(zip(*(words[k:] for k in range(order)), strict=False))
            row.append(sum(min(count, expected[gram]) for gram, count in own.items()))
        totals = [max(0, len(words) - order) for order in range(4)]
        rows.append([*row, *totals, len(words), float(np.dot(posteriors, [len(one) for one in split]))])
    np.testing.assert_allclose(metric.aggregated(texts)(posteriors), metric.losses(np.array(rows)), atol=1e-9)


def test_a_single_certain_reference_is_the_reference() -> None:
    texts = ["the old clock ticked on", "the clock ticked", "an old clock ticked on and on"]
    for metric in METRICS:
        pairs, aggregated = metric.pair_losses(texts), metric.aggregated(texts)
        assert pairs is not None and aggregated is not None
        for rank in range(3):
            np.testing.assert_allclose(aggregated(np.eye(3)[rank]), pairs[:, rank], atol=1e-9)


def test_aggregates_are_for_n_grams() -> None:
    rule = DECISIONS["mbr-aggregate"]()
    with pytest.raises(UserError, match="for BLEU and chrF, not for TER"):
        rule.prepare([NbestList("u", [Hypothesis("a")])], Ter())


def test_on_the_command_line(rescore: Run, tmp_path: Path) -> None:
    lists = formats.read([ROOT / "data" / "dev.json"])[:12]
    formats.write(lists, str(tmp_path / "dev.jsonl"))
    done = rescore("dev.jsonl", "--dev", "dev.jsonl", "--decide", "mbr-aggregate", "--metric", "bleu", "-o", "x.txt")
    assert done.returncode == 0 and "mbr-aggregate" in done.stderr + done.stdout, done.stderr
    assert_one_line_error(rescore("dev.jsonl", "--decide", "mbr-aggregate", "--scale", "1", "--metric", "wer"), "WER")
