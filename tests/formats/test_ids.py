"""The one rule of ids: two sides, and which utterance of one is which of the other."""

from __future__ import annotations

import pytest

from rescore.errors import UserError
from rescore.formats.ids import ALIKE_LINES, ByName, Side, Words, are_ids, paired
from rescore.ids import plain_id

# --- pairs ---------------------------------------------------------------------------

PAIRS = [
    (["a", "b"], ["b", "a"], [1, 0]),
    (["a", "b"], ["b", "c"], [None, 0]),
    (["1", "2", "10"], ["001", "010", "002"], [0, 2, 1]),
    (["1", "10"], ["01", "10"], [0, 1]),
    (["utt-1"], ["utt-01"], [0]),
    (["utt1", "A1"], ["A01", "utt001"], [1, 0]),
    (["u-1.05", "u-1.5"], ["u-1.50"], [None, None]),
    (["spk1/a", "spk2/a"], ["x/spk2/a", "x/spk1/a.wav"], [1, 0]),
    (["spk1/a"], ["spk2/a"], [None]),
    (["spk1/a.wav"], ["x/spk1/a"], [0]),
    (["talk"], ["spk/talk.mp4"], [0]),
    (["0"], ["000"], [0]),
    (["a.wav"], ["a"], [0]),
    (["a.wav"], ["/x/y/a.flac"], [0]),
    (["1.wav"], ["/x/001.wav"], [0]),
    (["x/a.wav", "y/a.wav"], ["/d/y/a.wav", "/d/x/a.wav"], [1, 0]),
    (["a.wav", "x/a.wav"], ["a.wav", "y/x/a.wav"], [0, 1]),
    (["x/a"], ["a"], [0]),
    (["A"], ["a"], [None]),
]
"""The ids of both sides, and the place of each partner of ours."""


@pytest.mark.parametrize(("ours", "theirs", "places"), PAIRS)
def test_pairs(ours: list[str], theirs: list[str], places: list[int | None]) -> None:
    pairing = paired(Side(ours), Side(theirs, "ref"))
    assert list(pairing.places) == places
    assert pairing.missing == [
        name for name, place in zip(ours, places, strict=True) if place is None
    ]
    assert [theirs.index(name) for name in pairing.left_out] == [
        place for place in range(len(theirs)) if place not in places
    ]
    partner = {}
    for name, place in zip(ours, places, strict=True):
        if place is not None:
            partner[theirs[place]] = name
    assert pairing.renamed == partner
    # the other way round, the same pairs
    back = paired(Side(theirs), Side(ours)).renamed
    assert {name: own for own, name in back.items()} == partner
    is_equal = all(own == name for name, own in partner.items())
    assert (pairing.note == "") is is_equal


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        (["a.wav"], ["x/a.wav", "y/a.wav"], "ref: x/a.wav and y/a.wav fit utterance a"),
        (["x/a.wav", "y/a.wav"], ["a"], "ref: a fits utterances x/a.wav and y/a.wav"),
        (["1"], ["01", "001"], "ref: 01 and 001 fit utterance 1"),
        (["01", "001"], ["1"], "ref: 1 fits utterances 01 and 001"),
    ],
)
def test_a_match_is_unique_on_both_sides(
    ours: list[str], theirs: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        paired(Side(ours), Side(theirs, "ref"))


def test_case_does_not_count_in_trn_alone() -> None:
    theirs = Side(["SPK-1", "u-a", "u-A", "x"], "ref.trn", ignores_case=True)
    pairing = paired(Side(["spk-1", "u-A", "u-a", "X"]), theirs)
    assert pairing.places == (0, 2, 1, 3) and pairing.note == ""
    unclear = Side(["U-a", "U-A"], ignores_case=True)
    assert paired(Side(["u-a"]), unclear).places == (None,)


LINES = Side(None, "out.txt", 3, unit="line")


@pytest.mark.parametrize(
    ("ids", "is_by_order"),
    [
        (None, True),
        (["0", "1", "2"], True),
        (["3", "19", "54"], True),
        (["19", "3", "54"], False),
        (["01", "02", "03"], False),
        (["a", "b", "c"], False),
    ],
)
def test_order_needs_two_sides_without_ids(
    ids: list[str] | None, is_by_order: bool
) -> None:
    other = Side(ids, "ref", 3)
    for ours, theirs in ((LINES, other), (other, LINES)):
        if is_by_order:
            pairing = paired(ours, theirs)
            assert pairing.places == (0, 1, 2)
            assert "its 3" in pairing.note and "in the order of" in pairing.note
        else:
            with pytest.raises(UserError, match=r"out.txt: its lines have no ids"):
                paired(ours, theirs)
    ordered = Side(None, "ref", 3, is_ordered=True)
    assert paired(Side(ids, number=3), ordered).places == (0, 1, 2)
    with pytest.raises(UserError, match=r"2 lines for 3 "):
        paired(other, Side(None, "out.txt", 2, unit="line"))


def test_values_are_asked_for_one_after_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    values = ByName({"001": "a", "/x/u.wav": "b", "v": "c"}, "words")
    assert values.get("v") == "c" and not caplog.messages
    assert [values.get(name) for name in ("1", "u", "none")] == ["a", "b", None]
    (line,) = caplog.messages
    assert line.startswith("words: 001 is taken for 1: ids are matched apart from")
    with pytest.raises(UserError, match=r"words: v fits utterances v and v.wav"):
        values.get("v.wav")
    taken = ByName({"a": 1}, "words")
    assert taken.get("x/a.wav") == 1
    with pytest.raises(UserError, match=r"fits utterances x/a.wav and a"):
        taken.get("a")


def test_what_is_compared_of_an_id() -> None:
    assert [plain_id(name) for name in ("007", "000", "x/007.wav", "utt-007")] == [
        "7",
        "0",
        "7",
        "utt-7",
    ]


# --- words ---------------------------------------------------------------------------

NUMBERS = ["001 a", "002 b", "010 c"]
NAMES = ["u-1 a", "u-2 b", "u-3 c"]
PLAIN = ["the cat", "a dog", "we go"]
LONG = [f"{chr(97 + number * 7 % 26)}x the cat" for number in range(ALIKE_LINES)]
SORTED = ["a b", "c d", "e f", "g h", "i j"]
TABS = ["anna\tgood morning", "bob\tgood evening"]
YEARS = ["1990 was", "2000 is", "2010 will"]


@pytest.mark.parametrize(
    ("lines", "ids", "expected"),
    [
        (NUMBERS, ["1", "2", "10"], True),
        (NUMBERS, ["1", "2", "3"], True),
        (NUMBERS, ["7", "8", "9"], True),
        (["1 cat", "two dogs"], ["1", "2"], False),
        (["1 cat", "1 dog"], ["0", "1"], False),
        (["54 percent"], ["1"], False),
        (["1 cat sat", "0 dogs ran"], ["0", "1"], True),
        (["the cat", "the dog", "54 percent"], ["3", "19", "54"], False),
        (YEARS, ["1", "2", "3"], True),
        (YEARS[:2], ["1", "2"], False),
        (NAMES, ["u-1", "u-2", "u-3"], True),
        (NAMES, ["1", "2", "3"], True),
        (NAMES, ["x", "y", "z"], True),
        (PLAIN, ["the", "a", "we"], True),
        (PLAIN, ["x", "y", "z"], False),
        (PLAIN, ["1", "2", "3"], False),
        (["anna_x a", "bob_y b", "carl_z c"], ["1", "2", "3"], True),
        (["anna a", "bob b"], ["anna.wav", "bob.wav"], True),
    ],
)
def test_the_first_words_of_a_text_beside_ids(
    lines: list[str], ids: list[str], expected: bool
) -> None:
    assert are_ids(Words(lines, "ref"), Side(ids)) is expected
    assert are_ids(Words(lines, "ref", "kaldi"), Side(ids))
    assert not are_ids(Words(lines, "ref", "plain"), Side(ids))


@pytest.mark.parametrize(
    ("lines", "others", "expected"),
    [
        (NAMES, NAMES, True),
        (NAMES, PLAIN, True),
        (PLAIN, NAMES, False),
        (NUMBERS, ["1 a", "2 b", "10 c"], True),
        (PLAIN, ["a cat", "dogs ran", "they go"], False),
        (["1 a", "2 b"], ["one a", "two b"], True),
        (["1990 a", "2000 b"], ["in 1990", "in 2000"], False),
        (["0 a", "1 b"], ["x", "y", "z"], False),
        (PLAIN, PLAIN, False),
        (PLAIN, ["the cat", "a dog", "we went"], False),
        (PLAIN, [*PLAIN, "they go"], False),
        (SORTED[:4], SORTED[:4], False),
    ],
)
def test_the_first_words_of_two_texts(
    lines: list[str], others: list[str], expected: bool
) -> None:
    assert are_ids(Words(lines, "out"), Words(others, "ref")) is expected


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        (PLAIN, ["the dog", "a cat", "we go"]),
        (SORTED, SORTED),
        (TABS, TABS),
        (LONG, LONG),
    ],
)
def test_words_that_begin_both_texts_may_be_ids(
    lines: list[str], others: list[str]
) -> None:
    """Texts that differ behind equal first words, sorted lines, tabs, many lines."""
    with pytest.raises(UserError, match=r"out: .* --ref-format kaldi .* plain"):
        are_ids(Words(lines, "out"), Words(others, "ref"))
