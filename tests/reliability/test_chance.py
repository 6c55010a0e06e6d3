"""What chance alone does stays within what tests, intervals and tuning promise; figures
in docs/results/tuning.md.
"""

from __future__ import annotations

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
