"""What chance alone does stays within what tests, intervals and tuning promise; figures
in docs/results/tuning.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.reliability import chance


@pytest.mark.parametrize("name", chance.TESTS)
def test_equal_systems_are_rarely_called_different(name: str) -> None:
    """At most three standard deviations above the level."""
    sets = 400 if name == "mapsswe" else 600
    share = chance.rejected(chance.TESTS[name], sets, 40, 200)
    assert 0 < share <= chance.at_most(sets)


def test_intervals_hold_the_truth() -> None:
    rate, difference = chance.covered(150, 100)
    assert min(rate, difference) >= 1 - chance.at_most(150)


def test_noise_does_no_harm() -> None:
    """The default finds nothing in noise; the plain optimum does, and pays for it on
    other lists.
    """
    weighed, mean, worst = chance.harmed(12, 60, 2)
    assert weighed <= 0.25 and mean <= 0.1 and worst <= 1.0
    assert chance.harmed(12, 60, 2, bagging=False)[0] >= 0.5


def test_the_figures_of_a_table_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each simulation, and in each row the same columns."""
    file = tmp_path / "nulls.json"
    line = ["chance", "nulls", "--sets", "1", "--null", "rover", "-o"]
    monkeypatch.setattr(sys, "argv", [*line, str(file)])
    chance.main()
    (row,) = json.loads(file.read_text(encoding="utf-8")).items()
    assert row == ("rover", dict(chance.of_nulls(1, ["rover"]))["rover"])
    assert capsys.readouterr().out.startswith("rover: other texts ")
    for rows in (dict(chance.of_tests(1)), dict(chance.of_noise(1))):
        assert len(rows) >= 3 and len(set(map(tuple, rows.values()))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("utterances", [20, 100, 500])
@pytest.mark.parametrize("name", chance.TESTS)
def test_equal_systems_in_many_sets(name: str, utterances: int) -> None:
    sets = 2_000 if name != "mapsswe" else 40_000 // utterances
    share = chance.rejected(chance.TESTS[name], sets, utterances, 1_000, seed=1)
    # Normal approximations of few segments reject a little more than they say:
    # docs/results/tuning.md has by how much.
    assert share <= chance.at_most(sets, 0.08 if utterances == 20 else 0.06)


@pytest.mark.slow
def test_noise_does_no_harm_in_many_sets() -> None:
    for columns in (1, 3):
        weighed, mean, _ = chance.harmed(100, 100, columns, seed=1)
        assert weighed <= chance.at_most(100) and mean <= 0.02
