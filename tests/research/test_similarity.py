"""How well cosines tell a word's meanings, against all thresholds that there are."""

from __future__ import annotations

import numpy as np
import pytest

from rescore.research.similarity import classify


@pytest.mark.parametrize("seed", range(20))
def test_the_upper_bound_holds_where_cosines_are_equal(seed: int) -> None:
    random = np.random.default_rng(seed)
    cosines = random.integers(0, 4, 40) / 4
    same = random.random(40) < 0.3 + cosines / 3
    every = max(float(((cosines >= threshold) == same).mean()) for threshold in (0.0, 0.25, 0.5, 0.75, 1.0))
    assert classify("x", cosines, same.tolist(), "").best == pytest.approx(100 * every)
