"""The format `pipes`: what goes in comes out, and a damaged line is an error."""

from pathlib import Path

import pytest
from rescore_example.pipes import PIPES

from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source

LINES = "utt-1|-4|the old clock sticked\nutt-1|-4.5|the clock\nutt-2|-3|she red\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "lists.txt"
    file.write_text(LINES, encoding="utf-8")
    return file


def test_the_format_is_detected(path: Path) -> None:
    assert PIPES.sniff(Source(path))
    path.write_text("utt-1 a text with no pipe\n", encoding="utf-8")
    assert not PIPES.sniff(Source(path))


def test_what_goes_in_comes_out(path: Path) -> None:
    first, second = PIPES.read(Source(path), ReadOptions())
    assert [first.id, second.id] == ["utt-1", "utt-2"]
    assert [one.scores["s2s"] for one in first.hypotheses] == [-4.0, -4.5]
    PIPES.write([first, second], str(path))
    assert path.read_text(encoding="utf-8") == LINES


def test_a_damaged_line_is_an_error(path: Path) -> None:
    path.write_text(LINES + "utt-3|what\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"lists\.txt: line 4: expected utterance"):
        list(PIPES.read(Source(path), ReadOptions()))
