"""Words that no text has, and what stands in their place."""

from __future__ import annotations

import lzma
import math
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from rescore.asr.channel import learn
from rescore.asr.features import RESPELLED
from rescore.asr.respell import (
    CHANNEL_WEIGHT,
    EDIT_BONUS,
    LEXICON_WEIGHT,
    MAX_CANDIDATES,
    PRIOR,
    Candidate,
    Proposer,
    Respeller,
    cased,
)
from rescore.errors import UserError
from rescore.lms.lexicon import Lexicon
from rescore.metrics.listed import WordList, with_listed
from rescore.metrics.normalise import Normaliser
from rescore.nbest import Hypothesis, NbestList

CHANNEL = learn(
    Counter(
        {("inhale", "inhal"): 9, ("zodiac", "zodiag"): 5, ("how else", "howless"): 4}
    )
)
WORDS = (
    "inhale",
    "inhaled",
    "zodiac",
    "how",
    "else",
    "less",
    "the",
    "old",
    "clock",
    "ticked",
)
LEXICON = Lexicon(dict.fromkeys(WORDS, 100), 1000)


def listed(*texts: tuple[str, float]) -> NbestList:
    return NbestList(
        "u", [Hypothesis(text, {"s2s": score}) for text, score in texts], ("x",)
    )


def test_an_example() -> None:
    nbest = listed(("THE OLD ZODIAG", -1.0), ("the inhal", -2.0), ("the clock", -3.0))
    (found,) = Respeller(CHANNEL, LEXICON, 20)([nbest])
    assert [h.text for h in found.hypotheses[:3]] == [h.text for h in nbest.hypotheses]
    assert all(
        h.scores["channel"] == h.scores["edits"] == 0.0 for h in found.hypotheses[:3]
    )
    assert all(
        (h.origin == RESPELLED) == (rank >= 3)
        for rank, h in enumerate(found.hypotheses)
    )
    new = {h.text: h.scores for h in found.hypotheses[3:]}
    assert new["THE OLD ZODIAC"]["s2s"] == -1.0 and new["the inhale"]["s2s"] == -2.0
    assert new["THE OLD ZODIAC"]["channel"] == pytest.approx(
        CHANNEL.log_probs(["zodiac"], ["zodiag"])[0]
    )
    assert all(scores["edits"] == 1.0 for scores in new.values())


def test_several_words_of_one_hypothesis() -> None:
    (found,) = Respeller(CHANNEL, LEXICON, 20)([listed(("the old zodiag inhal", -1.0))])
    both = next(h for h in found.hypotheses if h.text == "the old zodiac inhale")
    assert both.scores["edits"] == 2.0
    alone = CHANNEL.log_probs(["zodiac", "inhale"], ["zodiag", "inhal"])
    assert both.scores["channel"] == pytest.approx(sum(alone))


@pytest.mark.parametrize("number", [1, 4, 8])
def test_the_chosen_against_all_that_candidates_make_up(number: int) -> None:
    """The best of a list by first pass, lexicon, channel and the number of respelled
    words.
    """
    nbest = listed(
        ("the old clock zodiag howless inhal", -1.0),
        ("the old clock zodiac howless inhal", -4.0),
    )
    proposed = Proposer(CHANNEL, LEXICON)(["zodiag", "howless", "inhal"])
    known = Candidate("", 0.0, 0.0)
    scores: dict[str, float] = {}
    for one in nbest.hypotheses:
        heard = one.text.split()
        for meant in product(*([known, *proposed.get(word, [])] for word in heard)):
            words = [new.text or word for new, word in zip(meant, heard, strict=True)]
            edits, channel = (
                sum(new is not known for new in meant),
                sum(new.channel for new in meant),
            )
            prior = sum(map(LEXICON.log_prob, " ".join(words).split()))
            score = (
                one.scores["s2s"]
                + LEXICON_WEIGHT * prior
                + CHANNEL_WEIGHT * channel
                + EDIT_BONUS * edits
            )
            scores[" ".join(words)] = max(score, scores.get(" ".join(words), -math.inf))
    for one in nbest.hypotheses:
        del scores[one.text]
    (found,) = Respeller(CHANNEL, LEXICON, number)([nbest])
    best = sorted(scores, key=lambda text: -scores[text])[:number]
    assert len(best) == number and [h.text for h in found.hypotheses[2:]] == best


def test_listed_words_are_counted_in_all_hypotheses() -> None:
    nbest = listed(
        ("THE OLD ZODIAC", -1.0), ("the zodiag zodiac", -2.0), ("the clock", -3.0)
    )
    respelled = Respeller(CHANNEL, LEXICON.with_words(["Zodiac"]), 20)([nbest])
    (found,) = with_listed(respelled, WordList(("Zodiac",), "words"), Normaliser())
    counts = {one.text: one.scores["listed"] for one in found.hypotheses}
    assert [counts[one.text] for one in nbest.hypotheses] == [1, 1, 0]
    assert counts["the zodiac zodiac"] == 2
    given = LEXICON.with_words(["clock"])  # as frequent as before, yet another column
    assert given.counts == LEXICON.counts and given.digest != LEXICON.digest


def test_what_is_known_stays() -> None:
    """Words of the lexicon, numbers and what is no word are left alone; and one more
    list does not change another.
    """
    nbest = listed(("the clock 12.30 ticked @x", -1.0), ("old clock", float("-inf")))
    (found,) = Respeller(CHANNEL, LEXICON, 20)([nbest])
    assert len(found.hypotheses) == 2
    (few,) = Respeller(CHANNEL, LEXICON, 1)([listed(("the old zodiag inhal", -1.0))])
    assert len(few.hypotheses) == 2


def test_it_is_a_stream() -> None:
    taken = 0

    def many() -> Iterator[NbestList]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield listed(("the zodiag", -1.0))

    next(Respeller(CHANNEL, LEXICON, 20)(many()))
    assert taken < 500


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.text("abcd", min_size=2, max_size=6), min_size=3, max_size=30, unique=True
    ),
    st.data(),
)
def test_candidates_against_trying_every_word(
    words: list[str], data: st.DataObject
) -> None:
    """The best by channel and lexicon, of all words that differ in three letters at
    most.
    """
    heard = data.draw(st.text("abcd", min_size=2, max_size=6))
    counts = {word: 3 + len(word) * rank for rank, word in enumerate(words)}
    lexicon = Lexicon(counts, 10**7)
    near = [word for word in counts if 0 < Levenshtein.distance(word, heard) <= 3]
    channel = learn(Counter({("abcd", "abdd"): 3, ("dab", "da"): 2}))
    scores = {
        word: channel.log_probs([word], [heard])[0] + PRIOR * lexicon.log_prob(word)
        for word in near
    }
    found = Proposer(channel, lexicon)([heard])[heard]
    assert [one.score for one in found] == pytest.approx(
        sorted(scores.values(), reverse=True)[:MAX_CANDIDATES], rel=1e-4
    )
    assert all(scores[one.text] == pytest.approx(one.score, rel=1e-4) for one in found)


@pytest.mark.parametrize(
    ("text", "like", "expected"),
    [
        ("zodiac", "ZODIAG", "ZODIAC"),
        ("how else", "Howless", "How else"),
        ("zodiac", "zodiag", "zodiac"),
    ],
)
def test_case_is_that_of_what_was_heard(text: str, like: str, expected: str) -> None:
    assert cased(text, like) == expected


def test_the_lexicon(tmp_path: Path) -> None:
    lexicon = Lexicon.count(
        [["the", "old"], ["the", "1848", "clock's"]] * 3 + [["once"]]
    )
    assert lexicon.counts == {"the": 6, "old": 3, "clock's": 3} and lexicon.total == 16
    path = tmp_path / "lexicon.txt.xz"
    lexicon.save(path)
    again = Lexicon.load(path)
    assert (
        again.counts == lexicon.counts
        and again.total == 16
        and again.digest == lexicon.digest
    )
    assert "zodiac" in again.with_words(["Zodiac"]) and "zodiac" not in again
    path.write_bytes(lzma.compress(b"16\nthe six\n"))
    with pytest.raises(
        UserError,
        match=r"lexicon.txt.xz: expected a total, then a word and its count per line",
    ):
        Lexicon.load(path)
