"""Where a weight may lie follows from what its column is, not from the option that
names the column: parts of the toolkit's score and counts have no bounds, scores of all
other kinds have weights from 0 to 1 unless --allow-negative names them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescore.columns import Column, Role
from rescore.config import RunConfig
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.plan import resolve

WITHOUT_BOUNDS = {
    Role.FIRST_PASS: False,
    Role.LM: False,
    Role.COUNT: True,
    Role.CHANNEL: True,
    Role.COMPONENT: True,
    Role.MEASUREMENT: False,
    Role.SYSTEM: False,
}
NAMED = RunConfig(columns=("x",), word_bonus=False, token_bonus=False)
OPTIONS = {
    "--column": NAMED,
    "--allow-negative": replace(NAMED, negative=("x",)),
    "--components": replace(NAMED, columns=(), components=True),
    "--components --column": replace(NAMED, components=True),
}


def has_bounds(role: Role, config: RunConfig) -> bool:
    """Return whether the weight of a column of a role has bounds."""
    header = Header(records={"x": Column("made", "", "sum", "", role)})
    hypotheses = [Hypothesis("a", {"s2s": -1.0, "x": -1.0})]
    lists = [NbestList("u", hypotheses, ("a",), header=header)]
    plan = resolve(config, dev=lists)
    assert "x" in (*plan.tuned_columns, *plan.tuning.bonuses)
    return "x" not in (*plan.tuning.negative, *plan.tuning.bonuses)


def test_every_role_has_a_rule() -> None:
    assert {*WITHOUT_BOUNDS} == {*Role}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("role", Role)
def test_bounds_follow_from_the_role(role: Role, option: str) -> None:
    if option == "--components" and role is not Role.COMPONENT:
        pytest.skip("the option names parts of the toolkit's score alone")
    if option == "--components --column" and role is not Role.COMPONENT:
        pytest.skip("the lists have no parts of the toolkit's score")
    expected = not WITHOUT_BOUNDS[role] and option != "--allow-negative"
    assert has_bounds(role, OPTIONS[option]) == expected
