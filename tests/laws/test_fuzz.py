"""A short run of random command lines breaks no law; `make fuzz` runs long ones."""

from __future__ import annotations

import shlex

import pytest

from tests.conftest import Done
from tests.laws import fuzz

NUMBER = 40


def test_random_lines() -> None:
    judge = fuzz.fuzz(NUMBER, seed=7)
    assert not judge.broken, "\n".join(judge.broken[:5])
    assert judge.outcomes["exit 0"] > NUMBER / 4
    assert judge.outcomes["exit 2"] > NUMBER / 8


LINE = fuzz.Line("run", ("l.jsonl",))
BROKEN = {
    "number": fuzz.Outcome(Done(0, "WER nan", ""), {}),
    "status": fuzz.Outcome(Done(1, "", ""), {}),
    "error": fuzz.Outcome(Done(2, "", "rescore: error: " + "x" * 500), {}),
    "traceback": fuzz.Outcome(Done(-1, "", ""), {}, "IndexError"),
    "slow": fuzz.Outcome(Done(0, "", ""), {}, seconds=1e3),
}
"""An outcome that breaks each law of a single line."""


@pytest.mark.parametrize("law", BROKEN)
def test_the_judge_sees_a_broken_law(law: str) -> None:
    judge = fuzz.Judge()
    judge.see(LINE, BROKEN[law])
    assert len(judge.broken) == 1 and judge.outcomes[law] == 1


def test_equal_signatures_have_equal_figures() -> None:
    judge = fuzz.Judge()
    for value, broken in ((1, 0), (1, 0), (2, 1)):
        report = f'{{"signature": "s", "metrics": [{{"reranked": {value}}}]}}'
        judge.see(LINE, fuzz.Outcome(Done(0, "", ""), {"o.json": report.encode()}))
        assert judge.outcomes["signature"] == broken


def test_every_command_is_drawn() -> None:
    """With options of its own; what lists a command reads is known."""
    with fuzz.plugins():
        assert fuzz.BASES.keys() == set(fuzz.COMMANDS)
        assert fuzz.OF_LISTS.keys() <= set(fuzz.COMMANDS)
    for line in fuzz.BASES.values():
        shlex.split(line)
