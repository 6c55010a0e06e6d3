"""Law: a list of names in a message has whole names only: `listed` cuts it behind a
name, and a message that is too long is cut between two words.
"""

from __future__ import annotations

import re

import pytest

from rescore.errors import LONGEST, LONGEST_WORD, UserError, listed, shortened
from rescore.parts import FORMATS
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


@pytest.mark.parametrize("length", range(1, LONGEST_WORD, 5))
def test_a_long_message_has_whole_names(length: int) -> None:
    """The unknown name is whole, too: it has no more letters than a word may have."""
    unknown = "n" * length
    with pytest.raises(UserError) as error:
        FORMATS.check(unknown)
    message = shortened(f"--format: {error.value} (see --help)")
    assert len(message) <= LONGEST
    _, _, shown = message.removesuffix(" (see --help)").partition(" is not one of ")
    names = re.split(", | ", shown)
    assert set(names) <= {*FORMATS.names, "..."}
    assert f"'{unknown}'" in message or length > LONGEST_WORD - 2


@pytest.mark.parametrize("most", [LONGEST_WORD, LONGEST, 3 * LONGEST])
def test_the_end_of_a_message_without_blanks_is_kept(most: int) -> None:
    """Text without blanks, such as Chinese, is cut in a word."""
    message = shortened(f"{'a' * most} {'b' * most} {'c' * most} give --ref")
    assert len(message) <= LONGEST
    assert message.startswith("a") and message.endswith("c give --ref")
    assert "..." in message and "a ... " not in message
