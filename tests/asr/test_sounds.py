"""Sounds: what sounds alike has the same sounds, or nearly."""

from __future__ import annotations

import pytest
from rapidfuzz.distance import Levenshtein

from rescore.asr.terms import joined, sounds, spoken


@pytest.mark.parametrize(
    ("one", "other", "most"),
    [
        ("Goldman Sachs", "gold man sacks", 0),
        ("Postgres", "post gress", 0),
        ("Claude Code", "cloud code", 1),
        ("kubectl", "cube cuttle", 2),
        ("Aoife", "eefa", 1),
        ("Schnitzer", "schnitser", 0),
        ("knight", "nite", 0),
        ("phone", "fone", 0),
        ("Škoda", "skoda", 0),
    ],
)
def test_alike(one: str, other: str, most: int) -> None:
    assert Levenshtein.distance(sounds(one), sounds(other)) <= most


def test_different() -> None:
    assert Levenshtein.distance(sounds("Goldman"), sounds("apple")) > 4


def test_sounds_of_words_are_joined() -> None:
    words = ["gold", "man", "news"]
    assert joined(map(sounds, words)) == sounds(" ".join(words)) == sounds("goldmanews")


def test_digits_and_signs_are_spoken() -> None:
    assert spoken("3M & AT&T") == "three m and at and t"


def test_chinese_is_pinyin_without_tones() -> None:
    pytest.importorskip("pypinyin")
    assert sounds("张伟") == sounds("章维") != sounds("李娜")
