"""Law: steps of normalising keep each other's promises, and no word depends on where a
recording is cut.

Each step has texts that it makes equal. They stay equal with any other step, in all
pairs of steps; the pairs whose promises cannot both be kept are listed with the reason.
A step that does not look across words gives the words of a text one by one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import pytest

from rescore.errors import UserError
from rescore.metrics import Normaliser
from rescore.metrics.replacements import Replacements
from rescore.metrics.steps import STEPS, functions, ordered, step_of_function
from rescore.parts import STEPS as STEPS_OF_PACKAGES
from tests.conftest import Run

pytest.importorskip("text_to_num", reason="needs text2num")
pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")

RULES = Replacements(
    (("\\bgonna\\b", "going to"), ("%hesitation", ""), ("of owls", "of birds")), "rules"
)
ON: dict[str, Any] = {
    **dict.fromkeys([step.name for step in STEPS], True),
    "numbers": "en",
    "replace": RULES,
    "language": "tr",
    "answer": "[^#]*$",
}
"""The value that turns each step on."""
del ON["open_asr"]  # the leaderboard's code is no package
PROMISES: dict[str, list[tuple[str, ...]]] = {
    "answer": [("an eagle # or not #an owl", "an owl")],
    "drop_unknown": [("an <unk> owl", "an owl"), ("[UNK] owls \u2047", "owls")],
    "nfkc": [("\uff4fwl \u2461", "owl 2"), ("\uff0425 ow\u200bls", "$25 owls")],
    "replace": [("I'm Gonna go", "I'm going to go"), ("an %hesitation owl", "an owl")],
    "drop_marks": [
        ("\u0645\u064e\u062f\u0631\u0633\u0629", "\u0645\u062f\u0631\u0633\u0629"),
        ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    ],
    "language": [
        ("\u0130STANBUL I\u015eIK", "istanbul \u0131\u015f\u0131k"),
    ],
    "whisper_english": [("the colour isn't grey", "the color is not gray")],
    "split_hyphens": [
        ("a well-known owl", "a well known owl"),
        ("twenty-five-year-old owls", "twenty five year old owls"),
        ("from 19-20", "from 19 20"),
    ],
    "whisper_basic": [("owls, [laughs] they hoot.", "owls they hoot")],
    "unicode_basic": [
        (
            "\u0928\u092e\u0938\u094d\u0924\u0947\u0964",
            "\u0928\u092e\u0938\u094d\u0924\u0947",
        ),
        ("an owl\u2014twenty; five", "an owl twenty five"),
        ("1.5 owls", "1 5 owls"),
    ],
    "drop_punctuation": [
        ('"owls", two!', "owls two"),
        ("twenty, five owls", "twenty five owls"),
        ("-20.", "\u221220"),
    ],
    "numbers": [
        ("it cost $25", "it cost twenty five dollars", "it cost 25 dollars"),
        ("50% of them", "fifty percent of them", "fifty per cent of them"),
        ("1,000 owls", "one thousand owls", "1000 owls"),
        ("$1.5 million", "one point five million dollars"),
        ("3 hundred thousand owls", "three hundred thousand owls", "300,000 owls"),
        ("in nineteen ninety nine", "in nineteen ninety-nine", "in 1999"),
        ("the twenty first", "the twenty-first", "the 21st"),
        ("a twenty-five-year-old owl", "a 25-year-old owl"),
        ("five-hundred owls", "500 owls"),
    ],
    "drop_apostrophes": [("three o'clock", "three oclock")],
}
"""Texts that each step makes equal."""
CANNOT = {
    ("drop_apostrophes", "whisper_english"): "it's is it is: the apostrophe tells it",
}
"""Pairs whose first promise cannot be kept beside the second step, and why."""
CASES = [
    (first, second, texts)
    for first, second in permutations(ON, 2)
    for texts in PROMISES[first]
]


def words_with(*names: str, **values: Any) -> Normaliser:
    """Return a normaliser with steps that are on."""
    return Normaliser(**{name: ON[name] for name in names}, **values)


@pytest.mark.parametrize("first", ON)
def test_a_promise_holds_beside_every_step(first: str) -> None:
    broken = []
    for name, second, texts in CASES:
        if name == first and (name, second) not in CANNOT:
            both = words_with(first, second)
            if len({tuple(both(text)) for text in texts}) > 1:
                broken.append((second, [both(text) for text in texts]))
    assert not broken


def test_each_promise_is_the_steps_own() -> None:
    """Without the step, the texts differ."""
    assert PROMISES.keys() == ON.keys() and len(CASES) > 200
    for name, every in PROMISES.items():
        for texts in every:
            assert len({tuple(Normaliser()(text)) for text in texts}) > 1, texts
            assert len({tuple(words_with(name)(text)) for text in texts}) == 1, texts


OTHER_NUMBERS = (
    ("20", "-20"),
    ("20", "\u221220"),
    ("(20)", "(-20)"),
    ("3.5", "35"),
    ("5", ".5"),
    ("1,5", "15"),
    ("1,000", "1,0"),
    ("0,500", "0500"),
    ("1234,567", "1234567"),
    ("1/2", "12"),
    ("10:30", "1030"),
    ("50%", "50"),
    ("50 %", "50"),
    ("$5", "5"),
    ("-$5", "$5"),
    ("5\u20ac", "5"),
    ("$5", "\u20ac5"),
    ("1...2", "12"),
    ("5-6", "56"),
    ("5'10", "510"),
)
"""Texts that say different numbers, or amounts of different things."""
REMOVES_SIGNS = {
    "whisper_english": "as Whisper's normaliser does",
    "whisper_basic": "as Whisper's normaliser does",
    "unicode_basic": "every sign, as Whisper's normaliser does",
}
"""Steps that make different numbers equal, and why."""


@pytest.mark.parametrize("name", sorted(ON.keys() - REMOVES_SIGNS.keys() - {"answer"}))
def test_different_numbers_stay_different(name: str) -> None:
    equal = []
    for other in ("drop_punctuation", "numbers", name):
        words = words_with(name, other)
        equal += [pair for pair in OTHER_NUMBERS if words(pair[0]) == words(pair[1])]
    assert not equal


@pytest.mark.parametrize("name", REMOVES_SIGNS)
def test_steps_that_remove_signs_make_numbers_equal(name: str) -> None:
    words = words_with(name)
    assert [pair for pair in OTHER_NUMBERS if words(pair[0]) == words(pair[1])]


def test_marks_around_numbers_go() -> None:
    words = words_with("drop_punctuation")
    for text, bare in {
        '"3.5," (10:30). [50%]!': "3.5 10:30 50%",
        "1,000 12,345,678.90; 1,00,000": "1000 12345678.90 100000",
        "--20 owls--20 '20s -owl -": "20 owls--20 20s owl",
        "\u201c-5\u201d \u22125 -$5, U.S.A. C++": "-5 -5 -$5 usa c",
    }.items():
        assert words(text) == bare.split()


def test_the_table_stands_in_its_own_order() -> None:
    assert ordered(STEPS) == [*STEPS]
    assert sorted(step.signed for step in STEPS) == [*range(1, len(STEPS) + 1)]
    names = {step.name for step in STEPS}
    assert {name for step in STEPS for name in step.after + step.before} <= names


def test_each_need_is_a_promise() -> None:
    """Were a need left out of the table, and its steps run the other way round, texts
    that the table makes equal would differ."""
    needed = []
    for late in STEPS:
        for early in late.after:
            needed.append((early, late.name))
        for later in late.before:
            needed.append((late.name, later))
    kept = [pair for pair in needed if "open_asr" not in pair]
    assert len(kept) == 11
    assert not [pair for pair in kept if not _breaks(*pair)]


def _breaks(early: str, late: str) -> bool:
    """Whether a promise of two steps breaks if they run the other way round."""
    table = {step.name: step for step in STEPS}
    pair = [(table[name], ON[name]) for name in (late, early)]
    run = functions(pair, cased=False)
    for name in (early, late):
        for texts in PROMISES[name]:
            results = set()
            for text in texts:
                for function in run:
                    text = function(text)
                results.add(tuple(Normaliser()(text)))
            if len(results) > 1:
                return True
    return False


def test_a_step_of_a_package_stands_where_it_says(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crying(text: str) -> str:
        return text.replace("b", "b!")

    def bare(text: str) -> str:
        return text.replace("b!", "b")

    bare.after = ("crying",)  # type: ignore[attr-defined]
    bare.version = "1.0"  # type: ignore[attr-defined]
    for function in (bare, crying):
        monkeypatch.setitem(STEPS_OF_PACKAGES._parts, function.__name__, (function, ""))
    both = Normaliser(steps=("bare", "crying"))
    assert both("a b") == ["a", "b"] and Normaliser(steps=("crying",))("b") == ["b!"]
    assert both.settings["step"] == "crying,bare-1.0"
    crossed = replace(step_of_function(crying), after=("bare",))
    with pytest.raises(UserError, match="steps bare, crying: each has to run behind"):
        ordered([step_of_function(bare), crossed])
    (tmp_path / "hyp").write_text("u1 a b\n")
    (tmp_path / "ref").write_text("u1 a b!\n")
    done = rescore("eval", "hyp", "--ref", "ref", "--step", "crying")
    assert "|step:crying|" in done.stdout and "50.00" in done.stdout  # b!!
    done = rescore("eval", "hyp", "--ref", "ref", "--step", "cryin", "--step", "bare")
    assert done.returncode == 2 and "did you mean crying" in done.stderr


def test_own_substitutions(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "hyp").write_text("u1 I'm Gonna see Dr. Owl\n")
    (tmp_path / "ref").write_text("u1 I'm going to see doctor owl\n")
    (tmp_path / "rules").write_text("\\bgonna\\b\tgoing to\n\n(d)r\\.\t\\1octor\n")
    line = ("eval", "hyp", "--ref", "ref", "--replace", "rules")
    done = rescore(*line)
    digest = Replacements.load(tmp_path / "rules").digest
    assert " 0.00 " in done.stdout and f"|replace:{digest}|" in done.stdout
    assert " 66.67 " in rescore(*line, "--case-sensitive").stdout
    for text, message in {
        "": "rules: no line in it; expected `pattern<TAB>text`",
        "a\tb\nc d\n": "rules: line 2: 'c d'; expected `pattern<TAB>text`",
        "(\tb\n": "rules: line 1: missing ), unterminated subpattern at position 0;",
        "a\t\\1\n": "rules: line 1: invalid group reference 1 at position 1;",
    }.items():
        (tmp_path / "rules").write_text(text)
        done = rescore(*line)
        assert done.returncode == 2 and message in done.stderr, done.stderr


WHOLE = "gonna cost twenty five [laughs] of owls now"
"""A recording with something for each step that looks across words. A text in brackets
stands in one line: what stands between two pieces is none (tests/asr/test_whole.py).
"""


def cuts(words: list[str]) -> list[str]:
    """All ways to cut words into lines."""
    texts = []
    for ends in product((" ", " \n"), repeat=len(words) - 1):
        pieces = [word + end for word, end in zip(words, (*ends, ""), strict=True)]
        texts.append("".join(pieces))
    return texts


def test_no_word_depends_on_where_a_recording_is_cut() -> None:
    texts = cuts(WHOLE.split())
    assert len(texts) == 128
    for names in [(), *combinations(ON, 1), *(("numbers", name) for name in ON)]:
        normaliser = words_with(*names)
        found = {tuple(normaliser(text)) for text in texts}
        assert found == {tuple(normaliser(WHOLE))}, names


@pytest.mark.parametrize("form", ["one", "two", "ctm"])
def test_a_recording_has_one_figure_in_each_form(
    rescore: Run, tmp_path: Path, form: str
) -> None:
    words = ["there", "were", "twenty", "five", "owls"]
    (tmp_path / "ref").mkdir()
    (tmp_path / "ref" / "r.txt").write_text("there were 25 owls\n")
    (tmp_path / "hyp").mkdir()
    ends = [0.2, 0.5, 0.8, 3.0, 6.0]
    ctm = [
        f"r 1 {end - 0.1:.1f} 0.1 {word}\n"
        for end, word in zip(ends, words, strict=True)
    ]
    name, text = {
        "one": ("r.txt", " ".join(words)),
        "two": ("r.txt", "there were twenty\nfive owls\n"),
        "ctm": ("r.ctm", "".join(ctm)),
    }[form]
    (tmp_path / "hyp" / name).write_text(text)
    done = rescore("eval", "hyp", "--ref", "ref", "--whole", "--numbers", "en")
    assert " 0.00 " in done.stdout, done.stdout


@pytest.mark.parametrize("name", [step.name for step in STEPS if not step.across])
def test_a_step_that_does_not_look_across_words_takes_them_one_by_one(
    name: str,
) -> None:
    normaliser = words_with(name)
    assert not normaliser.looks_across
    for every in PROMISES.values():
        for text in {text for texts in every for text in texts}:
            apart = [part for word in text.split() for part in normaliser(word)]
            assert apart == normaliser(text), text
