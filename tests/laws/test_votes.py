"""The words of a vote depend on texts, votes and times, not on how lists hold them:
equal texts may be one hypothesis with all their votes or a hypothesis each.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from rescore.asr.rover import Rover
from rescore.asr.systems import combined
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.metrics.base import Metric
from rescore.metrics.wer import CharacterErrorRate, ErrorRate, MixedErrorRate
from rescore.nbest import Hypothesis, NbestList

Row = list[tuple[str, float, float]]
SETTINGS = {"no_word": 0.9}


def heard(chance: random.Random, systems: int) -> list[list[str]]:
    """The texts of systems for 100 utterances; many texts are equal."""
    rows = []
    for _ in range(100):
        words = chance.choices("abcdefgh", k=chance.randint(0, 7))
        texts = []
        for _ in range(systems):
            kept = [word for word in words if chance.random() > 0.1]
            for place in range(len(kept)):
                if chance.random() < 0.1:
                    kept[place] = chance.choice("abcdefgh")
            texts.append(" ".join(kept))
        rows.append(texts)
    return rows


@pytest.mark.parametrize("systems", [2, 3, 4, 7])
def test_combined_lists_and_plain_lists_have_the_same_words(systems: int) -> None:
    rows = heard(random.Random(systems), systems)
    outputs = {}
    for system in range(systems):
        own = []
        for place, texts in enumerate(rows):
            hypothesis = Hypothesis(texts[system], {FIRST_PASS: 0.0})
            own.append(NbestList(f"u{place}", [hypothesis]))
        outputs[f"s{system}"] = own
    plain = []
    for place, texts in enumerate(rows):
        every = [Hypothesis(text, {FIRST_PASS: 0.0}) for text in texts]
        plain.append(NbestList(f"u{place}", every))
    decision = Decision("rover", 1.0, SETTINGS)
    weights = {FIRST_PASS: 1.0}
    voted = Choice(weights, decision=decision).texts(
        ErrorRate(), Dataset.of(list(combined(outputs)))
    )
    assert voted == Choice(weights, decision=decision).texts(
        ErrorRate(), Dataset.of(plain)
    )
    assert len(set(voted)) > 30


def timed(row: Row) -> Hypothesis:
    """A text with the times of its words."""
    text = " ".join(word for word, _, _ in row)
    spans = tuple((start, end) for _, start, end in row)
    return Hypothesis(text, {FIRST_PASS: 0.0}, times=spans)


C, D, E = ("c", 3.6, 3.7), ("d", 3.7, 3.8), ("e", 3.8, 3.9)
F, G = ("f", 3.9, 3.95), ("g", 3.95, 4.0)
TIMES = [
    # the end of the demonstration of NIST's rover: f and g do not overlap
    ([[C, D, E, F], [C, D, G], [C, D, E, F, G]], "c d e f g"),
    # two systems lack a word, at different times
    ([[C, F], [C, D], [C, D, F]], "c d f"),
    # texts alone pair `x` with `y`, each of which stands alone
    ([[("x", 0.0, 0.5), C], [("y", 2.0, 2.5), C], [C]], "c"),
]


@pytest.mark.parametrize(("rows", "words"), TIMES)
@pytest.mark.parametrize("late", [0.0, 0.7])
def test_words_at_different_times_stand_apart(
    rows: list[Row], words: str, late: float
) -> None:
    """In any order, and also where the clock of a system is late."""
    for shift in range(len(rows)):
        every = [*rows[shift:], *rows[:shift]]
        every[0] = [(word, start + late, end + late) for word, start, end in every[0]]
        nbest = NbestList("u", [timed(row) for row in every])
        decision = Decision("rover", 1.0, SETTINGS)
        assert Choice({FIRST_PASS: 1.0}, decision=decision).texts(
            None, Dataset.of([nbest])
        ) == [words]


def test_a_pair_of_words_at_different_times_is_no_choice_between_them() -> None:
    """Two of three systems hear a word, at different times: no word has a majority."""
    first, second = ("x", 0.0, 0.5), ("y", 2.0, 2.5)
    rows = [[first, F], [second, F]]
    ballots = Rover().chooser(
        Dataset.of([NbestList("u", [timed(row) for row in rows])]), None
    )
    near = ballots.near([np.array([0.5, 0.5])])
    # beside the last word, which both hear
    assert near._networks[0].numbers.shape[1] == 2


@pytest.mark.parametrize("metric", [CharacterErrorRate(), MixedErrorRate()])
def test_a_text_without_blanks_is_voted_on_by_characters(metric: Metric) -> None:
    """Three texts with one error each, in different places, are corrected; words of a
    text with blanks stay whole.
    """
    for texts, voted in (
        (["天地人你", "天大人我", "上地人我"], "天地人我"),
        (["an odd bat", "one old bat", "an old cat"], "an old bat"),
    ):
        hypotheses = [Hypothesis(text, {FIRST_PASS: 0.0}) for text in texts]
        lists = [NbestList("u", hypotheses)]
        decision = Decision("rover", 1.0, SETTINGS)
        assert Choice({FIRST_PASS: 1.0}, decision=decision).texts(
            metric, Dataset.of(lists)
        ) == [voted]
