"""The noisy channel: its probabilities against a slow definition, its estimation, its
file.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.asr.channel import (
    BLOCK,
    Channel,
    align,
    blocks,
    collect,
    framed,
    learn,
    spans,
)
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList

WORDS = st.text("abc'é", min_size=1, max_size=4)
PAIRS = Counter(
    {
        ("any where", "anywhere"): 5,
        ("inhale", "inhal"): 4,
        ("bake", "back"): 3,
        ("cab", "cab"): 50,
    }
)


def slow(channel: Channel, meant: str, heard: str) -> float:
    """The definition: the best way to cut both texts into blocks."""

    @cache
    def rest(ours: str, theirs: str) -> float:
        if not ours and not theirs:
            return 0.0
        found = [-math.inf]
        for i in range(min(BLOCK, len(ours)) + 1):
            for j in range(min(BLOCK, len(theirs)) + 1):
                if i or j:
                    left, right = ours[:i], theirs[:j]
                    unknown = len(left) == len(right) == 1 and not {left, right} & set(
                        channel.letters
                    )
                    found.append(
                        (0.0 if unknown else channel.log_prob(left, right))
                        + rest(ours[i:], theirs[j:])
                    )
        return max(found)

    return rest(framed(meant), framed(heard))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
def test_against_the_definition(pairs: list[tuple[str, str]]) -> None:
    """Texts of several lengths at once; no letter outside the alphabet is unlike
    another one.
    """
    channel = learn(PAIRS)
    found = channel.log_probs(
        [meant for meant, _ in pairs], [heard for _, heard in pairs]
    )
    assert found == pytest.approx([slow(channel, *pair) for pair in pairs], rel=1e-4)


def test_what_was_heard_is_likelier() -> None:
    channel = learn(PAIRS)
    silent, other = channel.log_probs(["lake", "lake"], ["lak", "lek"])
    # the e at the end was left out before, an a was never heard as e
    assert silent > other
    joined, parted = channel.log_probs(["so where", "some"], ["sowhere", "so me"])
    assert joined > parted  # blanks were lost, none was ever added


def test_an_alignment_of_words() -> None:
    found = list(
        spans(["we", "inhale", "any", "where", "now"], ["we", "in", "hal", "anywhere"])
    )
    assert found == [("we", "we"), ("inhale any where now", "in hal anywhere")]
    # nothing stands for b
    assert list(spans(["a", "b", "c"], ["a", "c"])) == [("a", "a"), ("c", "c")]


def test_an_alignment_of_letters_follows_the_counts() -> None:
    """Of two alignments with as many edits the one that was seen is taken."""
    assert align("bake", "bak", None)[-1] == ("e", "")
    assert list(blocks([("a", "b"), ("c", "")])) == [("a", "b"), ("ac", "b"), ("c", "")]


def test_lists_need_references() -> None:
    with pytest.raises(UserError, match="utterance u: no reference"):
        collect([NbestList("u", [Hypothesis("a")])])


def test_other_words_are_not_misheard_ones() -> None:
    lists = [
        NbestList(
            "u",
            [Hypothesis("he SAID sox"), Hypothesis("he said xylophone")],
            ("he said socks",),
        )
    ]
    assert set(collect(lists)) == {("he", "he"), ("said", "said"), ("socks", "sox")}
    assert collect(lists)["said", "said"] == 2


def test_the_file(tmp_path: Path) -> None:
    channel = learn(PAIRS, "12 lists")
    channel.save(tmp_path)
    again = Channel.load(tmp_path)
    assert again == channel and again.source == "12 lists"
    meant, heard = ["any where", "lake"], ["anywhere", "lak"]
    np.testing.assert_allclose(
        again.log_probs(meant, heard), channel.log_probs(meant, heard)
    )
    assert again.digest == Channel.load(tmp_path).digest
    path = tmp_path / "channel.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"block": 7}))
    with pytest.raises(UserError, match=r"channel.json: has blocks of 7 letters"):
        Channel.load(tmp_path)
    content["counts"]["e"] = {"": 1e9}
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"counts of 'e' do not match"):
        Channel.load(tmp_path)
    path.write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        Channel.load(tmp_path)
