"""A short run of the fuzzer; `make fuzz` runs a long one."""

from __future__ import annotations

from pathlib import Path

from tests.reliability.fuzz import cases, fuzz


def test_mutated_inputs(tmp_path: Path) -> None:
    number = 60 * len(cases())
    outcomes, wrong = fuzz(number, seed=7, folder=tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    assert outcomes.total() == number and outcomes["read"] > number / 20 and outcomes["error"] > number / 4
