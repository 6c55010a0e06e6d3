"""`rescore train --lm channel`, and the lexicon beside every model."""

from __future__ import annotations

from pathlib import Path

from rescore.expansion import Channel, Lexicon
from tests.conftest import ROOT, Run, assert_one_line_error


def test_from_lists(rescore: Run, tmp_path: Path) -> None:
    found = rescore("train", "--lm", "channel", "--text", ROOT / "data" / "dev.json", "--out", "channel")
    assert found.returncode == 0 and "117 lists" in found.stderr
    channel = Channel.load(tmp_path / "channel")
    assert channel.source.startswith("117 lists, ")
    again = rescore("models", "channel:channel")
    meant, heard, count, _ = channel.confusions(1)[0]
    assert f"[{meant}]" in again.stdout and f"[{heard}]" in again.stdout and f"{count:.0f}" in again.stdout


def test_what_does_not_apply(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the clock\n")
    lists = ROOT / "data" / "dev.json"
    assert_one_line_error(rescore("train", "--lm", "channel", "--text", lists, "--out", "c", "--steps", "1"), "--steps")
    assert_one_line_error(rescore("train", "--lm", "tta", "--text", "a.txt", "--ref", "a.txt", "--out", "c"), "--ref")
    normal = rescore("train", "--lm", "channel", "--text", lists, "--out", "c", "--normalize", "text")
    assert_one_line_error(normal, "--normalize is for tta, bilm")
    assert_one_line_error(rescore("train", "--lm", "channel", "--out", "c"), "no lists to learn a channel from")


def test_the_lexicon_of_a_network(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The clock's old. Ticked, café!\n" * 3 + "once 1848\n" * 3 + "rare\n")
    assert rescore("train", "--lm", "tta", "--text", "a.txt", "--out", "lm", "--steps", "0").returncode == 0
    found = Lexicon.load(tmp_path / "lm" / "lexicon.txt.xz")
    assert found.counts == {"the": 3, "clock's": 3, "old": 3, "ticked": 3, "cafe": 3, "once": 3}
    assert found.total == 22
