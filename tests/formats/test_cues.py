"""Subtitles of recordings on which systems voted: as people want them."""

from __future__ import annotations

import io
import random
from itertools import pairwise

import pytest

from rescore.asr.systems import header_of, one_list
from rescore.columns import FIRST_PASS
from rescore.formats.best import write_best
from rescore.formats.cues import LINE, LONGEST, SHORTEST, Said, cues
from rescore.formats.segments import PAUSE
from rescore.ids import piece_id
from rescore.metrics.normalise import EXACT
from rescore.nbest import Hypothesis, NbestList


def words_of(seed: int) -> list[Said]:
    """Words with sentence ends, pauses, two speakers and clocks that run backwards."""
    luck = random.Random(seed)
    said = []
    now = 0.0
    speaker = "a"
    for place in range(luck.randint(1, 120)):
        word = "x" * luck.randint(1, 12) + luck.choice(["", "", "", ",", "."])
        length = luck.choice([0.1, 0.3, 0.6])
        said.append(Said(f" {word}" if place else word, now, now + length, speaker))
        now += length + luck.choice([0.0, 0.0, 0.1, -0.3, 1.5])
        now = max(now, 0.0)
        if luck.random() < 0.05:
            speaker = "b" if speaker == "a" else "a"
    return said


@pytest.mark.parametrize("seed", range(100))
def test_every_cue_is_one_that_people_want(seed: int) -> None:
    words = words_of(seed)
    every = cues(words)
    texts = [" ".join(cue.lines) for cue in every]
    assert " ".join(texts) == "".join(word.text for word in words)
    place = 0
    for cue, text in zip(every, texts, strict=True):
        own = words[place : place + len(text.split())]
        place += len(own)
        assert len(cue.lines) <= 2 and max(map(len, cue.lines)) <= LINE
        assert cue.end - cue.start <= LONGEST + 1e-9
        assert len({word.speaker for word in own}) == 1
        gaps = [second.start - first.end for first, second in pairwise(own)]
        assert max(gaps, default=0.0) <= PAUSE
    for cue, behind in pairwise(every):
        assert cue.end <= behind.start
        assert cue.end - cue.start >= SHORTEST - 1e-9 or cue.end == behind.start


def test_letters_of_a_script_without_blanks() -> None:
    """A letter takes the room of two; no line begins with a mark."""
    letters = "今天很好" * 10 + "。"
    said = [Said(sign, 0.1 * at, 0.1 * at + 0.1) for at, sign in enumerate(letters)]
    every = cues(said)
    assert "".join("".join(cue.lines) for cue in every) == letters
    assert [len(line) for cue in every for line in cue.lines] == [20, 21]


@pytest.mark.parametrize("ending", ["srt", "vtt"])
def test_pieces_of_a_vote_are_one_text(ending: str) -> None:
    """A cue is not a piece: short pieces are one cue, and a pause ends it."""
    best = []
    for number, (text, start) in enumerate(
        [("a b", 0.0), ("c & d", 1.0), ("e", 9.0)], 1
    ):
        times = tuple((start + at, start + at + 0.5) for at in range(len(text.split())))
        heard = Hypothesis(text, {FIRST_PASS: 0.0}, times=times)
        own = one_list(
            {"x": NbestList(piece_id("r", number), [heard], recording="r")},
            EXACT,
            header_of("x"),
        )
        best.append((own, text))
    file = io.StringIO()
    write_best(f"o.{ending}", best, file)
    assert file.getvalue().count("-->") == 2
