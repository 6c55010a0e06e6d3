"""All hypotheses of a list against all, at once: the same as pair by pair, and as the
aggregate's definition.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.metrics.base import Metric
from rescore.metrics.mt import Bleu, Chrf, ChrfPlusPlus
from rescore.nbest import Hypothesis, NbestList
from tests.decision.plain import losses

WORDS = st.sampled_from(["a", "the", "clock", "old", ",", "it's", "été", "."])
TEXTS = st.lists(st.lists(WORDS, max_size=9).map(" ".join), min_size=1, max_size=7)
METRICS: list[Metric] = [
    Bleu(tokenise="none"),
    Bleu(tokenise="13a"),
    Chrf(),
    ChrfPlusPlus(),
]


@pytest.mark.parametrize(
    "metric", METRICS, ids=["bleu-none", "bleu-13a", "chrf", "chrf++"]
)
@settings(max_examples=40, deadline=None)
@given(texts=TEXTS)
def test_pairs_at_once_are_pairs_one_by_one(metric: Metric, texts: list[str]) -> None:
    pairs = [(one, other) for one in texts for other in texts]
    slow = metric.losses(
        metric.statistics([one for one, _ in pairs], [(other,) for _, other in pairs])
    )
    places = np.arange(len(texts))
    found = metric.pair_losses and metric.pair_losses(texts)(places, places)
    assert found is not None
    np.testing.assert_allclose(found, slow.reshape(len(texts), -1), atol=1e-9)
    # one text comes twice
    nbest = NbestList("u", [Hypothesis(text) for text in [*texts, texts[0]]])
    np.testing.assert_allclose(losses(metric, [nbest])[0][:-1, :-1], found, atol=1e-9)
