"""Law: the cases of jiwer's own tests give jiwer's figures, but for the cases whose
difference is listed with a reason.

The cases are from the folder tests/ of the source distribution of jiwer 4.0.0. Left out
are the tests without a counterpart: the measures MER, WIL and WIP, the layout of
printed alignments, transformations that `rescore` does not have, and the two tests of
1,114,112 different words, which take minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import rescore
from rescore.metrics.alignment import align
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import (
    CharacterErrorRate,
    ErrorRate,
    WordErrorRate,
)
from tests.laws.suites.suite import REFUSED, Suite, numbered

Texts = str | list[str]
Pair = tuple[str | None, str | None]
Count = dict[Pair, int]


# --- questions ------------------------------------------------------------------------


def wer(reference: Texts, hypothesis: Texts) -> float:
    """Return the word error rate as a fraction, as jiwer gives it."""
    return rescore.wer(reference, hypothesis) / 100


def cer(reference: Texts, hypothesis: Texts) -> float:
    """Return the character error rate as a fraction."""
    return rescore.cer(reference, hypothesis) / 100


def _counts(metric: ErrorRate, references: Texts, hypotheses: Texts) -> list[int]:
    """Return the substitutions, deletions, insertions and hits of all texts.

    These are counted by rapidfuzz, as all hypotheses of lists are, not by jiwer.
    """
    ours = [hypotheses] if isinstance(hypotheses, str) else hypotheses
    theirs = [references] if isinstance(references, str) else references
    rows = metric.statistics(ours, [(text,) for text in theirs])
    substitutions, deletions, insertions, units = rows.sum(axis=0).tolist()
    hits = units - substitutions - deletions
    return [substitutions, deletions, insertions, hits]


def word_counts(references: Texts, hypotheses: Texts) -> list[int]:
    """Return the word errors in jiwer's alignment (`--align jiwer`)."""
    return _counts(WordErrorRate(align="jiwer"), references, hypotheses)


def character_counts(references: Texts, hypotheses: Texts) -> list[int]:
    """Return the character errors."""
    return _counts(CharacterErrorRate(), references, hypotheses)


def alignment(reference: str, hypothesis: str) -> list[list[str | None]]:
    """Return the words side by side, in sclite's alignment."""
    words = Normaliser()
    return [list(pair) for pair in align(words(reference), words(hypothesis))]


def word_pairs(references: list[str], hypotheses: list[str]) -> Count:
    """Return how often a word stands beside another word, or beside none."""
    pairs: Counter[Pair] = Counter()
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        for expected, heard in alignment(reference, hypothesis):
            if expected != heard:
                pairs[expected, heard] += 1
    return dict(pairs)


def words(options: dict[str, Any], text: str) -> list[str]:
    """Return the words of a text after normalising."""
    return Normaliser(**options)(text)


def characters(text: str) -> int:
    """Return the number of characters of a reference."""
    rows = CharacterErrorRate().statistics([""], [(text,)])
    return int(rows[0, 3])


# --- cases ----------------------------------------------------------------------------

TEST = "This is a test"


def every_form(rows: Sequence[tuple[str, str, float]]) -> list[Sequence[Any]]:
    """Return rows whose texts are given as text and as list of one text."""
    forms: list[Sequence[Any]] = []
    for reference_is_list in (False, True):
        for hypothesis_is_list in (False, True):
            for reference, hypothesis, expected in rows:
                ours = [reference] if reference_is_list else reference
                theirs = [hypothesis] if hypothesis_is_list else hypothesis
                forms.append((ours, theirs, expected))
    return forms


WER_FORMS = every_form([(TEST, TEST, 0), (TEST, "", 1), (TEST, "This test", 0.5)])
CER_FORMS = every_form([(TEST, TEST, 0), (TEST, "", 1), (TEST, "This test", 5 / 14)])
XY_WER = [
    ("X", "X", 0),
    ("X", "X X Y Y", 3),
    ("X Y X", "X Z", 2 / 3),
    ("X", "Y", 1),
    ("X", "Y Z", 2),
]
XY_CER = [
    ("X", "X", 0),
    ("X", "X X Y Y", 6),
    ("X Y X", "X Z", 3 / 5),
    ("X", "Y", 1),
    ("X", "Y Z", 3),
]
FEWER = (["hello", "this", "sentence", "is fractured"], ["this sentence"])
SHORT = "i am a short ground truth"
LONG = "i am a considerably longer and very much incorrect hypothesis"
MOVED = (["i", "am i good"], ["i am", "i good"])
SWAPPED = (["am i good", "i"], ["i good", "i am"])

SUB_REFERENCES = ["sub"] * 5 + ["this was", "del", "hit"]
SUB_HYPOTHESES = ["bus", "bus", "bus", "usb", "bsu", "this was ins", "", "hit"]
SUB_PAIRS = {
    ("sub", "bus"): 3,
    ("sub", "usb"): 1,
    ("sub", "bsu"): 1,
    (None, "ins"): 1,
    ("del", None): 1,
}

LEGS = "this is a test of skill"
NOISY = "this was a messy test"
RATE = "this test will  have a high word error rate"
NOT = "no it will not"
SPLIT = "this sentence could be split"
AI = "this sentence will be split by ai"


def numbers(n: int) -> str:
    """Return n words: the numbers from 0 on."""
    return " ".join(map(str, range(n)))


EMPTY_COUNTS = [([""] * n, [""] * n, [0, 0, 0, 0]) for n in range(1, 10)]
EMPTY_RATES = [([""] * n, [""] * n, 0) for n in range(1, 10)]

MEASURES = (
    numbered("contiguous", wer, WER_FORMS)
    | numbered("contiguous lengths", wer, [(*FEWER, 0.6), (SHORT, LONG, 7 / 6)])
    | numbered("contiguous known values", wer, XY_WER)
    | numbered("contiguous permutations", wer, [(*MOVED, 0.0), (*SWAPPED, 0.5)])
    | numbered("default", wer, WER_FORMS)
    | numbered("default lengths", wer, [(*FEWER, REFUSED)])
    | numbered("default known values", wer, XY_WER)
    | numbered("default permutations", wer, [(*MOVED, 0.5), (*SWAPPED, 0.5)])
    | numbered("characters", cer, CER_FORMS)
    | numbered("characters lengths", cer, [(*FEWER, REFUSED)])
    | numbered("characters known values", cer, XY_CER)
    | numbered("characters permutations", cer, [(*MOVED, 0.6), (*SWAPPED, 0.6)])
)

EMPTY = (
    numbered("empty both, counts", word_counts, [("", "", [0, 0, 0, 0]), *EMPTY_COUNTS])
    | numbered("empty both, rate", wer, [("", "", 0), *EMPTY_RATES])
    | numbered("empty reference, counts", word_counts, [("", "hello", [0, 0, 1, 0])])
    | numbered("empty reference, rate", wer, [("", "hello", 1)])
    | numbered(
        "empty reference more, counts",
        word_counts,
        [("", numbers(n), [0, 0, n, 0]) for n in range(2, 11)],
    )
    | numbered(
        "empty reference more, rate",
        wer,
        [("", numbers(n), n) for n in range(2, 11)],
    )
    | numbered("empty hypothesis, counts", word_counts, [("hello", "", [0, 1, 0, 0])])
    | numbered("empty hypothesis, rate", wer, [("hello", "", 1)])
    | numbered(
        "one empty reference, counts",
        word_counts,
        [
            (["hello world", ""], ["hello world", "done"], [0, 0, 1, 2]),
            (["hello world", ""], ["hello world", ""], [0, 0, 0, 2]),
        ],
    )
    | numbered(
        "one empty reference, rate",
        wer,
        [
            (["hello world", ""], ["hello world", "done"], 1 / 2),
            (["hello world", ""], ["hello world", ""], 0),
        ],
    )
    | numbered(
        "empty characters",
        cer,
        [("", "", 0), ("", "a", 1), ("", "abd", 3), ("a", "", 1), ("abc", "", 1)],
    )
)

PAIRS = numbered(
    "error pairs of words", word_pairs, [(SUB_REFERENCES, SUB_HYPOTHESES, SUB_PAIRS)]
) | numbered(
    "error pairs of characters, counts",
    character_counts,
    [(SUB_REFERENCES, SUB_HYPOTHESES, [6, 5, 6, 18])],
)

ALIGNMENTS = (
    numbered(
        "alignment of words",
        alignment,
        [
            (
                "this is a",
                "this is a test",
                [["this", "this"], ["is", "is"], ["a", "a"], [None, "test"]],
            ),
            (
                "this is a test",
                "this is a",
                [["this", "this"], ["is", "is"], ["a", "a"], ["test", None]],
            ),
            (
                "this is a test",
                "this was a test",
                [["this", "this"], ["is", "was"], ["a", "a"], ["test", "test"]],
            ),
            (
                LEGS,
                NOISY,
                [
                    ["this", "this"],
                    ["is", "was"],
                    ["a", "a"],
                    [None, "messy"],
                    ["test", "test"],
                    ["of", None],
                    ["skill", None],
                ],
            ),
            (
                RATE,
                NOT,
                [
                    ["this", "no"],
                    ["test", "it"],
                    ["will", "will"],
                    ["have", "not"],
                    ["a", None],
                    ["high", None],
                    ["word", None],
                    ["error", None],
                    ["rate", None],
                ],
            ),
            ("empty", "", [["empty", None]]),
            ("one", "1", [["one", "1"]]),
            ("two", "2", [["two", "2"]]),
            ("perfect", "perfect", [["perfect", "perfect"]]),
            ("", "", []),
            ("", "inserted", [[None, "inserted"]]),
            (
                SPLIT,
                AI,
                [
                    ["this", "this"],
                    ["sentence", "sentence"],
                    ["could", "will"],
                    ["be", "be"],
                    ["split", "split"],
                    [None, "by"],
                    [None, "ai"],
                ],
            ),
        ],
    )
    | numbered("alignment of words, counts", word_counts, [(RATE, NOT, [3, 5, 0, 1])])
    | numbered("alignment of words, rate", wer, [(RATE, NOT, 8 / 9)])
    | numbered(
        "alignment of characters, counts",
        character_counts,
        [
            ("this is a", "this is a test", [0, 0, 5, 9]),
            ("this is a test", "this is a", [0, 5, 0, 9]),
            ("this is a test", "this iz a test", [1, 0, 0, 13]),
            (LEGS, NOISY, [6, 4, 2, 13]),
            (RATE, NOT, [4, 29, 0, 10]),
            ("empty", "", [0, 5, 0, 0]),
            (["one", "two"], ["1", "2"], [2, 4, 0, 0]),
            ("", "", [0, 0, 0, 0]),
            ("", "inserted", [0, 0, 8, 0]),
            (SPLIT, AI, [3, 1, 6, 24]),
        ],
    )
)

VOCABULARY = numbered(
    "many words, counts",
    word_counts,
    [
        (
            ["same"] * 50 + ["ref_only"] * 50,
            ["same"] * 50 + ["hyp_only"] * 50,
            [50, 0, 0, 50],
        ),
        (
            ["a" * n for n in range(1, 1001)],
            ["b" * n for n in range(1, 1001)],
            [1000, 0, 0, 0],
        ),
    ],
) | numbered(
    "many words, rate",
    wer,
    [(["same"] * 50 + ["ref_only"] * 50, ["same"] * 50 + ["hyp_only"] * 50, 0.5)],
)

PUNCTUATION = {"drop_punctuation": True}
WHISPER = {"whisper_english": True}
TRANSFORMATIONS = (
    numbered(
        "words of a text",
        words,
        [
            ({}, "this is a test", ["this", "is", "a", "test"]),
            ({}, "", []),
            ({}, "this is one", ["this", "is", "one"]),
            ({}, "five six", ["five", "six"]),
        ],
    )
    | numbered(
        "characters of a text",
        characters,
        [("this is a test", 14), ("", 0), ("this is one", 11), ("five six", 8)],
    )
    | numbered(
        "white space",
        words,
        [
            ({}, "this is an example", ["this", "is", "an", "example"]),
            ({}, "hello\tworld\n\r", ["hello", "world"]),
            ({}, "this is   an   example ", ["this", "is", "an", "example"]),
            ({}, "  hello goodbye  ", ["hello", "goodbye"]),
            ({}, "  ", []),
            ({}, " this is an example ", ["this", "is", "an", "example"]),
            ({}, "                       ", []),
        ],
    )
    | numbered(
        "punctuation",
        words,
        [
            (PUNCTUATION, "this is an example!", ["this", "is", "an", "example"]),
            (PUNCTUATION, "hello. goodbye", ["hello", "goodbye"]),
            (
                PUNCTUATION,
                "this sentence has no punctuation",
                ["this", "sentence", "has", "no", "punctuation"],
            ),
            (PUNCTUATION, "word\u0f06\u2019'", ["word"]),
            (PUNCTUATION, "\u2018no\u2019", ["no"]),
            (PUNCTUATION, "\u201cyes\u201d", ["yes"]),
        ],
    )
    | numbered(
        "contractions",
        words,
        [
            (
                WHISPER,
                "she'll make sure you can't make it",
                ["she", "will", "make", "sure", "you", "can", "not", "make", "it"],
            ),
            (WHISPER, "let's party!", ["let", "us", "party!"]),
        ],
    )
    | numbered("case", words, [({}, "You're PRETTY", ["you're", "pretty"])])
    | numbered(
        "words of Kaldi",
        words,
        [({"drop_unknown": True}, "you <unk> like [laugh]", ["you", "like"])],
    )
)

WITHOUT_RATE = [
    *(f"empty both, rate {number}" for number in range(1, 11)),
    "empty reference, rate 1",
    *(f"empty reference more, rate {number}" for number in range(1, 10)),
    *(f"empty characters {number}" for number in range(1, 4)),
]

SUITE = Suite(
    tool="jiwer 4.0.0",
    cases=MEASURES | EMPTY | PAIRS | ALIGNMENTS | VOCABULARY | TRANSFORMATIONS,
    different={
        "references without words have no rate; their insertions are counted": (
            WITHOUT_RATE
        ),
        "utterances are not joined to one text": [
            "contiguous lengths 1",
            "contiguous permutations 1",
        ],
        "sclite's alignment puts the substitution elsewhere": ["alignment of words 5"],
        "several blanks count as one character": ["alignment of characters, counts 5"],
        "Whisper's normaliser also removes punctuation": ["contractions 2"],
        "--drop-unknown removes <unk> alone": ["words of Kaldi 1"],
    },
    within=1e-9,
)


@pytest.mark.parametrize("name", SUITE.cases)
def test_case(name: str) -> None:
    SUITE.check(name)
