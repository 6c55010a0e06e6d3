"""Law: a list of names in a message ends with a whole name: `listed` alone cuts it."""

from __future__ import annotations

import re

import pytest

from rescore.errors import listed
from tests.conftest import ROOT

NAMES = [f"avg_logprob_{number}" for number in range(12)]
CUT = re.compile(r"""["'](?:, | or | and )["']\.join\(.*\)\[:\w+\]""")
"""A line that joins names and cuts them at any letter."""


@pytest.mark.parametrize("between", [", ", " or "])
@pytest.mark.parametrize("number", range(13))
@pytest.mark.parametrize("room", [1, 20, 60, 200])
def test_names_are_whole(number: int, room: int, between: str) -> None:
    line = listed(NAMES[:number], room=room, between=between)
    *shown, last = line.split(between)
    is_cut = last == "..."
    shown += [] if is_cut or not last else [last]
    assert shown == NAMES[: len(shown)]
    assert is_cut is (len(shown) < number)
    assert len(shown) <= 1 or len(between.join(shown)) <= room


def test_no_message_cuts_names_itself() -> None:
    cut = []
    for path in sorted((ROOT / "rescore").rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if CUT.search(line):
                cut.append(f"{path.name}: {line.strip()}")
    assert not cut
    assert CUT.search("', '.join(names)[:80]")
