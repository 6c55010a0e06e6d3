"""Law: words that differ only in how a number is spelled, or in marks that are no part
of a word, are the same words for every metric of words and every normaliser of texts.

Numbers: each way to write an integer, an ordinal, a year or an amount of money gives
the same words under `--numbers`, in any sentence. Scripts: `--unicode-basic`
removes punctuation and keeps every vowel mark, in each script that has such marks.
"""

from __future__ import annotations

import random
import unicodedata

import pytest

from rescore.errors import UserError
from rescore.metrics import METRICS, Normaliser, choose_metric
from rescore.metrics.base import MetricOptions
from rescore.metrics.steps import STEPS
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import OF_TEXTS

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
SUFFIXES = {1: "st", 2: "nd", 3: "rd"}
AROUND = ("{}", "on {} dogs", "It was {}.", "no one had {}, he said", "A {} B")


def spelled(number: int, hyphen: str = "-", joint: str = " and ") -> str:
    """Return an integer below a billion in English words."""
    if number < 20:
        return ONES[number]
    if number < 100:
        rest = f"{hyphen}{ONES[number % 10]}" if number % 10 else ""
        return TENS[number // 10 - 2] + rest
    scales = {10**6: "million", 1000: "thousand", 100: "hundred"}
    unit = next(unit for unit in scales if number >= unit)
    words = f"{spelled(number // unit, hyphen, joint)} {scales[unit]}"
    if number % unit:
        between = joint if number % unit < 100 else " "
        words += between + spelled(number % unit, hyphen, joint)
    return words


def ordinal(number: int) -> tuple[str, str]:
    """Return an ordinal in words and in digits."""
    words = spelled(number)
    head = words[: len(words) - len(words.replace("-", " ").split()[-1])]
    last = words[len(head) :]
    if last in ORDINALS:
        last = ORDINALS[last]
    else:
        last = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    is_teen = number % 100 in (11, 12, 13)
    suffix = "th" if is_teen else SUFFIXES.get(number % 10, "th")
    return head + last, f"{number}{suffix}"


def ways() -> dict[str, list[str]]:
    """Return spellings that are equal, by a name."""
    draw = random.Random(1)
    numbers = [*range(101), *(draw.randrange(10**9) for _ in range(60))]
    numbers += [draw.randrange(10**4) for _ in range(40)]
    equal = {}
    for number in numbers:
        forms = [str(number), f"{number:,}"]
        for hyphen in "- ":
            for joint in (" ", " and "):
                forms.append(spelled(number, hyphen, joint))
        equal[f"number {number}"] = [*forms, forms[-1].upper()]
    for number in (*range(1, 100), 101, 112, 1000):
        equal[f"ordinal {number}"] = list(ordinal(number))
    for year in range(1110, 2100, 17):
        half = spelled(year % 100) if year % 100 > 9 else f"oh {ONES[year % 10]}"
        if 2000 <= year < 2010 or year % 100 == 0:
            half = ""
        if half:
            equal[f"year {year}"] = [str(year), f"{spelled(year // 100)} {half}"]
    for number in (2, 25, 117, 1500):
        words = spelled(number)
        equal[f"money {number}"] = [f"${number}", f"{number:,} dollars"]
        equal[f"money {number}"] += [f"${number:,}", f"{words} dollars"]
        equal[f"part {number}"] = [f"{number}%", f"{words} percent"]
        equal[f"part {number}"] += [f"{number} per cent", f"{number} %"]
    equal["scaled"] = ["$1.5 million", "1.5 million dollars", "1,500,000 dollars"]
    equal["scaled"] += ["one point five million dollars"]
    equal["one"] = ["$1", "1 dollar", "one dollar"]
    return equal


WAYS = ways()
KINDS = ("number", "ordinal", "year", "money", "part", "scaled", "one")
UNKNOWN = {"ordinal 60"}
"""The package does not know `sixtieth`."""


def words_of(text: str, **switches: object) -> list[str]:
    """Return the words of a text, without punctuation around them."""
    switches.setdefault("drop_punctuation", True)
    return Normaliser(**switches)(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_spellings_of_a_number_are_equal(kind: str) -> None:
    pytest.importorskip("text_to_num", reason="needs text2num")
    tried = 0
    for name, forms in WAYS.items():
        if name.partition(" ")[0] != kind or name in UNKNOWN:
            continue
        tried += 1
        for around in AROUND:
            found = {
                tuple(words_of(around.format(form), numbers="en")) for form in forms
            }
            assert len(found) == 1, (name, found)
    assert tried


def test_numbers_that_differ_stay_different() -> None:
    pytest.importorskip("text_to_num", reason="needs text2num")
    words = {
        name: tuple(words_of(forms[0], numbers="en")) for name, forms in WAYS.items()
    }
    kinds = {"number", "ordinal", "money", "part"}
    distinct = [one for name, one in words.items() if name.split()[0] in kinds]
    names = {name for name in words if name.split()[0] in kinds}
    assert len(set(distinct)) == len(names)
    for name in names:
        assert words[name] != tuple(words_of("owl", numbers="en"))


def test_text_without_numbers_is_left_alone() -> None:
    pytest.importorskip("text_to_num", reason="needs text2num")
    for text in ("an owl hoots", "it's o'clock", "Caf\u00e9 \u4e2d\u6587", "", "a, b"):
        assert words_of(text, numbers="en") == words_of(text)


@pytest.mark.parametrize("language", ["de", "english", "EN", "xx"])
def test_another_language_is_refused_by_name(language: str) -> None:
    with pytest.raises(UserError, match=f"^--numbers {language}: .*give en"):
        Normaliser(numbers=language)("a")
    with pytest.raises(UserError, match=f"^--numbers {language}: "):
        _ = Normaliser(numbers=language).settings


WORD_METRICS = [
    name
    for name, part in METRICS.loaded()
    if name in OF_TEXTS
    and any(entry.name == "normaliser" for entry in part.Options.declared())
]
EQUAL = {
    "numbers": ("en", "twenty-five owls", "25 owls"),
    "unicode_basic": (True, "\u0928\u092e\u0938\u094d\u0924\u0947\u0964", None),
    "whisper_english": (True, "an owl.", "an owl"),
    "whisper_basic": (True, "an owl.", "an owl"),
}
"""A value and two equal texts for each normaliser of whole texts; None for the first
text without its last character.
"""
ELSEWHERE = {"open_asr", "replace", "language", "answer"}
"""These need the leaderboard's code (tests/metrics/test_open_asr.py), a file
(tests/laws/test_steps.py), letters of Turkish (tests/metrics/test_scripts.py), and an
expression (tests/metrics/test_exact.py).
"""


def test_each_normaliser_has_texts() -> None:
    versions = {step.name for step in STEPS if step.version_of}
    assert EQUAL.keys() | ELSEWHERE == versions


@pytest.mark.parametrize("switch", EQUAL)
@pytest.mark.parametrize("metric", WORD_METRICS)
def test_a_normaliser_acts_on_both_sides_and_is_signed(
    metric: str, switch: str
) -> None:
    if switch != "unicode_basic":
        pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")
    value, text, other = EQUAL[switch]
    other = other or text[:-1]
    normaliser = Normaliser(**{switch: value})
    options = {"normaliser": normaliser}
    words = METRICS[metric].Options
    if any(entry.name == "words" for entry in words.declared()):
        pytest.skip("needs a list of words: tests/metrics/test_word_list.py")
    for hypothesis, reference in ((text, other), (other, text)):
        nbest = NbestList("u", [Hypothesis(hypothesis, {})], (reference,))
        made = choose_metric(metric, [nbest], MetricOptions(**options))
        counts = made.statistics([hypothesis], [(reference,)])
        assert made.losses(counts).tolist() == [0.0]
        name = switch.replace("_", "-")
        assert "." in made.settings[name]
        plain = choose_metric(metric, [nbest], MetricOptions())
        assert name not in plain.settings


def scripts_with_marks() -> dict[str, list[str]]:
    """Return, by script, each combining mark of the scripts whose vowels are marks."""
    marks: dict[str, list[str]] = {}
    for code in range(0x900, 0x1A00):
        letter = chr(code)
        if unicodedata.category(letter) in ("Mn", "Mc"):
            marks.setdefault(unicodedata.name(letter).split()[0], []).append(letter)
    return marks


SCRIPTS = scripts_with_marks()


@pytest.mark.parametrize("script", SCRIPTS)
def test_marks_of_every_script_stay(script: str) -> None:
    base = "\u0915"
    for mark in SCRIPTS[script]:
        text = f"{base}{mark} \u0967"
        kept = unicodedata.normalize("NFC", text).split()
        assert words_of(text, unicode_basic=True, drop_punctuation=False) == kept


@pytest.mark.parametrize("category", ["Pc", "Pd", "Pe", "Pi", "Po", "Ps", "Sc", "Sk"])
def test_punctuation_of_every_script_goes(category: str) -> None:
    marks = []
    for code in range(0x11000):
        if unicodedata.category(chr(code)) == category:
            marks.append(chr(code))
    assert marks
    for mark in marks:
        # a mark that is composed with its neighbour is a letter afterwards
        found = words_of(f"1{mark}1 {mark}", unicode_basic=True, drop_punctuation=False)
        assert found == ["1", "1"], hex(ord(mark))


def test_joiners_and_apostrophes() -> None:
    basic = Normaliser(unicode_basic=True)
    for joiner in "\u200c\u200d\u00ad\u200b\u2060\ufeff":
        assert basic(f"\u0915\u094d{joiner}\u0937") == ["\u0915\u094d\u0937"]
    assert basic("it's 'its' owls' it\u2019s") == ["it's", "its", "owls", "it's"]
    composed = unicodedata.normalize("NFC", "caf\u00e9")
    assert basic(unicodedata.normalize("NFD", composed)) == [composed]
