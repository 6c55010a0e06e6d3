"""The objective: its gradient, its standard columns, and columns that gain nothing
beside others.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

from rescore.columns import WORDS
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.metrics.wer import ErrorRate
from rescore.tuning import TuningOptions, tune_weights
from rescore.tuning.climb import gradient
from rescore.tuning.objective import TuningObjective, by_content, spreads
from tests.tuning.test_invariance import WER, noisy


def test_the_gradient_is_that_of_the_expected_loss() -> None:
    objective = TuningObjective.of(WER, noisy(3), ["s2s", "x", "a"])
    point = np.array([0.5, 0.3, 0.2])

    def expected(at: np.ndarray) -> float:
        losses = WER.losses(
            objective.statistics.reshape(-1, objective.statistics.shape[-1])
        )
        return float(
            (objective.posteriors(at) * losses.reshape(objective.present.shape)).sum()
        )

    for place, slope in enumerate(gradient(objective, point)):
        step = 1e-5 * np.eye(3)[place]
        assert -slope == pytest.approx(
            (expected(point + step) - expected(point - step)) / 2e-5, rel=1e-4
        )


def test_standard_columns_have_no_unit_and_their_order_no_name() -> None:
    objective = TuningObjective.of(WER, noisy(3), ["s2s", "x", "a"], standardise=False)
    units = np.array([3.7, 0.01, 2.0])
    np.testing.assert_allclose(
        spreads(objective.features * units, objective.present) / objective.units,
        spreads(objective.features, objective.present) * units,
    )
    order = by_content(objective.features * units, objective.present)
    turned = by_content(
        objective.features[:, ::-1][..., [0, 2, 1]], objective.present[:, ::-1]
    )
    assert [[0, 2, 1][place] for place in turned] == order


@pytest.mark.long
@pytest.mark.parametrize("decide", ["best", "mbr"])
@pytest.mark.parametrize("negative", [False, True])
def test_noise_beside_a_useful_column_gets_no_weight(
    decide: str, negative: bool
) -> None:
    """As a further model, as an internal LM, and with the word bonus that comes with a
    second column.
    """
    kept = useful = 0
    for seed in range(4):
        lists, random = noisy(seed, 150), np.random.default_rng(seed)
        for nbest in lists:
            reference = nbest.references[0].split()
            for hypothesis in nbest.hypotheses:
                errors = sum(map(str.__ne__, hypothesis.text.split(), reference))
                hypothesis.scores |= {
                    "x": float(random.normal(-errors)),
                    "noise": float(random.normal()),
                }
        options = TuningOptions(
            (WORDS,), negative=("noise",) if negative else (), decision=Decision(decide)
        )
        weights = tune_weights(
            ErrorRate(), Dataset.of(lists), ["x", "noise"], options=options
        )
        useful += bool(weights.weights["x"])
        kept += bool(weights.weights["noise"]) + bool(weights.weights.get(WORDS))
    # the consensus of these lists leaves little to gain
    assert kept <= 1 and (useful >= 3 or decide == "mbr")


def test_a_vote_is_tested_by_its_own_texts(caplog: pytest.LogCaptureFixture) -> None:
    """The first pass alone keeps the scale of its own vote, and the record has the
    figures of the vote.
    """
    lists, random = noisy(1, 60), np.random.default_rng(1)
    for nbest in lists:
        for hypothesis in nbest.hypotheses:
            hypothesis.scores["noise"] = float(random.normal())
    options = TuningOptions(decision=Decision("rover"))
    with caplog.at_level(logging.WARNING):
        weights = tune_weights(WER, Dataset.of(lists), ["noise"], options=options)
        alone = tune_weights(WER, Dataset.of(lists), [], options=options)
    assert (
        weights.weights == {"s2s": 1.0, "noise": 0.0}
        and weights.decision == alone.decision
    )
    assert weights.value == alone.value and (
        weights.tuning.unproven is None or weights.tuning.unproven.alone == alone.value
    )
