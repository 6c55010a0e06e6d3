"""Terms and the spans that sound like them: lists, retrieval beside a slow definition,
possessives, exact terms.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from rapidfuzz.distance import Levenshtein

from rescore.asr import terms
from rescore.asr.terms import (
    CUTOFF,
    MOST_EDITS,
    PER_SPAN,
    Term,
    TermIndex,
    read_terms,
    sounds,
    split,
)
from rescore.errors import UserError
from rescore.metrics.listed import WordList
from tests.conftest import ROOT

TEXT = "ask gold man sacks about the monroe inks call and post gress"
TERMS = ["Goldman Sachs", "Monro Inc", "Postgres", "Mongo", "BI", "3M", "Gold"]


def spans(text: str, terms: list[str]) -> set[tuple[str, str, int]]:
    index = TermIndex([Term(term) for term in terms])
    words = split(text)
    return {
        (
            text[words[span.first].start : words[span.last - 1].end],
            terms[span.term],
            span.distance,
        )
        for span in index.spans(text, words)
    }


def test_spans_are_those_of_the_definition() -> None:
    words = TEXT.split()
    expected = set()
    for first in range(len(words)):
        for last in range(first + 1, min(len(words), first + 5) + 1):
            heard = " ".join(words[first:last])
            sound = sounds(heard)
            near = []
            for term in TERMS:
                edits = Levenshtein.distance(sound, sounds(term))
                most = min(MOST_EDITS, 42 * len(sound) // 58, max(1, len(sound) - 1))
                if edits <= most and edits <= CUTOFF * max(
                    len(sound), len(sounds(term))
                ):
                    near.append(
                        (edits / max(len(sound), len(sounds(term))), heard, term, edits)
                    )
            assert len(near) <= PER_SPAN
            expected |= {
                (heard, term, edits)
                for _, heard, term, edits in near
                if heard.lower() != term.lower()
            }
    assert spans(TEXT, TERMS) == expected
    assert {
        ("gold man sacks", "Goldman Sachs", 0),
        ("post gress", "Postgres", 0),
    } <= expected


def test_what_is_written_as_listed_is_no_candidate() -> None:
    heard = {text for text, _, _ in spans("goldman sachs", ["Goldman Sachs"])}
    assert "goldman sachs" not in heard
    assert spans("a b i team", ["BI"]) >= {("b i", "BI", 0)}


def test_spans_do_not_cross_punctuation() -> None:
    assert not any(
        heard.startswith("gold")
        for heard, _, _ in spans("some gold. man sacks it", ["Goldman Sachs"])
    )


def test_possessive_of_the_heard_words() -> None:
    text = "gold man sack's call"
    index = TermIndex([Term("Goldman Sack")])
    found = {
        (span.first, span.last, span.possessive)
        for span in index.spans(text, split(text))
        if not span.distance
    }
    assert (0, 3, True) in found


def test_lists(tmp_path: Path) -> None:
    path = tmp_path / "terms.txt"
    path.write_text(
        "kubectl\neefa => Aoife\nEva => Aoife\nGoldman Sachs\n", encoding="utf-8"
    )
    terms = read_terms(WordList.load(path))
    assert {term.text for term in terms} == {"kubectl", "Aoife", "Goldman Sachs"}
    assert {term.text: term.heard for term in terms}["Aoife"] == {"eefa", "eva"}
    assert set(WordList.load(path).terms) == {"kubectl", "Aoife", "Goldman Sachs"}


def test_lines_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no word"):
        read_terms(WordList(("a => ,",), "terms.txt"))
    for line, what in (("a => b => c", "two arrows"), ("mp3\t1.5", "a tab")):
        with pytest.raises(UserError, match=f"has {what}; expected"):
            read_terms(WordList((line,), "terms.txt"))
    with pytest.raises(
        UserError,
        match=(
            "one list for all utterances; if the lines are terms, write one of them as"
        ),
    ):
        read_terms(
            WordList(("a-1 Aoife", "a-2 Postgres"), "terms.txt", by_utterance=True)
        )
    (tmp_path / "terms.txt").write_text("kubectl\nAoife\t1.5\n", encoding="utf-8")
    with pytest.raises(
        UserError,
        match=r"terms\.txt: line 2: has a tab; expected `term` or `heard => term`",
    ):
        WordList.load(tmp_path / "terms.txt")


def test_chinese_names_are_heard_by_pinyin_without_blanks() -> None:
    pytest.importorskip("pypinyin")
    names = (ROOT / "tests/data/names.zh.txt").read_text(encoding="utf-8").split()
    assert len(names) == 50
    assert ("章维", "张伟", 0) in spans("请章维明天来", names)


@pytest.mark.parametrize(
    "text", ["カスタマーのがっこう", "ガス", "ฉันใช้กิน", "あ kubectl"]
)
def test_kana_and_thai_have_sounds(text: str) -> None:
    assert sounds(text)
    assert list(TermIndex([Term(text)]).occurrences(split(f"a {text}")))


def test_marks_belong_to_their_letters() -> None:
    """Thai vowels and voiced kana tell words apart, also where they are written as
    marks of their own.
    """
    assert sounds("กิน") != sounds("กัน") and sounds("ガス") == sounds(
        "カ\u3099ス"
    ) != sounds("カス")
    assert [word.text for word in split("กิน ガス")] == ["กิ", "น", "ガ", "ス"]


def test_forms_that_contradict_each_other() -> None:
    for lines in (
        ("eefa => Ifa", "Eefa. => Aoife"),
        ("wi-fi => Wifi", "wi fi => WLAN"),
    ):
        with pytest.raises(
            UserError,
            match=rf"{lines[0]}' and '{lines[1]}' have the same words on the left",
        ):
            read_terms(WordList(lines, "terms.txt"))
    (term,) = read_terms(
        WordList(("eefa => Aoife", "EEFA => Aoife", "Aoife"), "terms.txt")
    )
    assert term.heard == {"eefa"}


def test_a_list_has_no_order() -> None:
    lines = ("york", "Monro", "eefa => Aoife", "Goldman Sachs", "Eva => Aoife")
    assert read_terms(WordList(lines, "x")) == read_terms(WordList(lines[::-1], "x"))


def test_one_function_reads_a_line() -> None:
    """The arrow of a list stands in one function of the package; the reader of terms
    refuses a second arrow.
    """
    places = [
        (path.name, function.name)
        for path in (ROOT / "rescore").rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Constant) and node.value == "=>"
    ]
    assert set(places) == {
        ("wordlists.py", "form_and_term"),
        ("terms.py", "read_terms"),
    }


def test_a_chinese_letter_in_a_text_needs_no_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chinese terms do."""
    monkeypatch.setitem(sys.modules, "pypinyin", None)
    monkeypatch.setattr(terms, "find_spec", lambda name: None)
    terms._of_spoken.cache_clear()
    try:
        assert terms.sounds("ask \u56db").endswith("\u56db")
        with pytest.raises(UserError, match="words: the term"):
            terms.read_terms(WordList(("\u56db\u4e94",), "words"))
    finally:
        terms._of_spoken.cache_clear()
