"""A set in little memory is a set."""

from __future__ import annotations

import numpy as np
import pytest

from rescore.formats.reading import IdSet


def test_seen_is_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescore.formats.reading.RECENT", 7)
    random = np.random.default_rng(0)
    seen, plain = IdSet(), set()
    for number in random.integers(0, 600, 2000).tolist():
        assert seen.add(str(number)) == (number not in plain)
        plain.add(number)
    assert len(seen) == len(plain)
