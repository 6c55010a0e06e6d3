"""`rescore train --lm channel`, and the lexicon beside every model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rescore.asr import channel
from rescore.asr.channel import Channel, learn
from rescore.lms.lexicon import Lexicon
from tests.conftest import ROOT, Run, assert_one_line_error


def test_from_lists(rescore: Run, tmp_path: Path) -> None:
    found = rescore(
        "train",
        "--lm",
        "channel",
        "--text",
        ROOT / "data" / "dev.json",
        "--out",
        "channel",
    )
    assert found.returncode == 0 and "117 lists" in found.stderr
    loaded = Channel.load(tmp_path / "channel")
    assert loaded.source.startswith("117 lists, ")
    assert len(loaded.counts) > 20 and loaded.totals[""] > 1000


def test_what_does_not_apply(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the clock\n")
    lists = ROOT / "data" / "dev.json"
    assert_one_line_error(
        rescore(
            "train", "--lm", "channel", "--text", lists, "--out", "c", "--steps", "1"
        ),
        "--steps",
    )
    assert_one_line_error(
        rescore(
            "train", "--lm", "tta", "--text", "a.txt", "--ref", "a.txt", "--out", "c"
        ),
        "--ref",
    )
    normal = rescore(
        "train", "--lm", "channel", "--text", lists, "--out", "c", "--normalize", "text"
    )
    assert_one_line_error(normal, "--lm channel takes no", "--normalize")
    assert_one_line_error(
        rescore("train", "--lm", "channel", "--out", "c"),
        "no lists to learn a channel from",
    )


def test_the_lexicon_of_a_network(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "The clock's old. Ticked, café!\n" * 3 + "once 1848\n" * 3 + "rare\n"
    )
    assert (
        rescore(
            "train", "--lm", "tta", "--text", "a.txt", "--out", "lm", "--steps", "0"
        ).returncode
        == 0
    )
    found = Lexicon.load(tmp_path / "lm" / "lexicon.txt.xz")
    assert found.counts == {
        "the": 3,
        "clock's": 3,
        "old": 3,
        "ticked": 3,
        "cafe": 3,
        "once": 3,
    }
    assert found.total == 22


def test_many_letters_need_no_table_of_their_fourth_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hangul has thousands of letters; the rarest are alike where there are more than
    the table holds.
    """
    words = [chr(0xAC00 + number) + chr(0xAC01 + number) for number in range(400)]
    pairs = Counter(
        {(word, word): 9 for word in words} | {(one, one[0] + "x"): 4 for one in words}
    )
    whole = learn(pairs)
    assert whole.table.shape[0] < 2_500
    likely, unlikely = whole.log_probs(
        [words[3], words[3]], [words[3][0] + "x", words[7]]
    )
    assert likely > unlikely
    monkeypatch.setattr(channel, "MAX_BLOCKS", 90)
    few = learn(pairs)
    assert len(few.letters) == 45 and few.table.shape == (90, 90)
    assert (
        few.log_probs([words[0]], [words[0]])[0] > few.log_probs([words[0]], ["xxx"])[0]
    )
