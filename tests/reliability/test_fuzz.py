"""Short runs of the fuzzers; `make fuzz` runs long ones."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.reliability import limits, values
from tests.reliability.fuzz import cases, fuzz, grown


def test_mutated_inputs(tmp_path: Path) -> None:
    number = 12 * len(cases())
    outcomes, wrong = fuzz(number, seed=7, folder=tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    assert (
        outcomes.total() == number
        and outcomes["read"] > number / 20
        and outcomes["error"] > number / 4
    )


def test_hostile_values(tmp_path: Path) -> None:
    outcomes, wrong = values.explore(120, 7, tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    assert (
        outcomes.total() == 120 and outcomes["exit 0"] > 20 and outcomes["exit 2"] > 20
    )


def test_limits_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time and memory of a reader that takes too much of either are reported."""
    now = {"VmRSS": 900 << 20, "VmHWM": 900 << 20, "seconds": 7.0}
    monkeypatch.setattr(limits, "memory", lambda which: now[which])
    monkeypatch.setattr(time, "process_time", lambda: now["seconds"])
    spent = limits.Spent()
    assert not spent.too_much()
    now |= {"VmHWM": (901 << 20) + limits.BYTES, "seconds": 7.0 + limits.SECONDS}
    assert spent.too_much() == f"{(limits.BYTES >> 20) + 1} MiB"
    now["seconds"] += 1
    assert spent.too_much() == f"{limits.SECONDS + 1} s"


def test_grown_inputs_have_the_size_of_the_limits() -> None:
    contents = [
        grown(b'{"id": "u1"}\nu2 x\n', random.Random(seed)) for seed in range(50)
    ]
    assert all(
        limits.INPUT * 0.9 < len(content) <= limits.INPUT * 1.1 for content in contents
    )
    assert len({content[:200] for content in contents}) > 20
