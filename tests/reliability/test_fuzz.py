"""Short runs of the fuzzers; `make fuzz` runs long ones."""

from __future__ import annotations

from pathlib import Path

from tests.reliability import values
from tests.reliability.fuzz import cases, fuzz


def test_mutated_inputs(tmp_path: Path) -> None:
    number = 60 * len(cases())
    outcomes, wrong = fuzz(number, seed=7, folder=tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    assert outcomes.total() == number and outcomes["read"] > number / 20 and outcomes["error"] > number / 4


def test_hostile_values(tmp_path: Path) -> None:
    outcomes, wrong = values.explore(120, 7, tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    assert outcomes.total() == 120 and outcomes["exit 0"] > 20 and outcomes["exit 2"] > 20
