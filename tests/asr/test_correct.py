"""Correction: what is chosen, what stays, and how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

import rescore
from rescore.asr.correct import (
    FEATURES,
    Correction,
    Corrector,
    Finder,
    TermChange,
    Trees,
    choose,
    log_odds,
)
from rescore.asr.documents import Text
from rescore.errors import UserError
from tests.conftest import ROOT

DATA = ROOT / "tests" / "data"


def corrected(text: str, *terms: str, threshold: float | None = None) -> str:
    return rescore.correct([text], terms, threshold=threshold)[0].text


def test_the_sentences_of_users() -> None:
    terms = DATA / "terms.txt"
    texts = [
        "Run cube cuttle get pods.",
        "I used cloud code yesterday.",
        "Ask eefa about it.",
        "gold man sacks called",
    ]
    assert [text.text for text in rescore.correct(texts, terms, threshold=0.15)] == [
        "Run kubectl get pods.",
        "I used Claude Code yesterday.",
        "Ask Aoife about it.",
        "Goldman Sachs called",
    ]


def test_ordinary_sentences_stay() -> None:
    lines = (DATA / "harmless.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 200
    harmed = [row for row in rescore.correct(lines, DATA / "terms.txt") if row.changes]
    assert len(harmed) <= 2, harmed


def test_what_is_ordered_is_always_corrected() -> None:
    assert (
        corrected("eva came, and eva's dog", "eva => Aoife", threshold=0.99)
        == "Aoife came, and Aoife's dog"
    )


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        ("dr. pepper => Dr Pepper", "a dr. pepper now", "a Dr Pepper now"),
        ("dr. pepper => Dr Pepper", "a dr pepper now", "a Dr Pepper now"),
        ("u.s. bank => US Bank", "the u.s. bank.", "the US Bank."),
        ("a b c d e f => Abcdef", "x a b c d e f y", "x Abcdef y"),
        ("eefa => Aoife", "ask eefa's dog", "ask Aoife's dog"),
        ("eefa's => Aoife's", "ask eefa's dog", "ask Aoife's dog"),
        ("wi fi => Wi-Fi", "a wi fi, wi-fi", "a Wi-Fi, Wi-Fi"),
        ("401 k => 401(k)", "my 401 k.", "my 401(k)."),
        ("401(k) => 401k", "my 401(k).", "my 401k."),
        ("inc. => Inc.", "acme inc. rose", "acme Inc. rose"),
        ("dr => Dr.", "dr. pepper", "Dr. pepper"),
        (".net => .NET", "use .net 8", "use .NET 8"),
        ("aitch => H", "an aitch", "an H"),
        ("zhang wei => 张伟", "ask zhang wei", "ask 张伟"),
        ("かすたま => カスタマー", "あかすたまい", "あカスタマーい"),
    ],
)
def test_forms_are_found_by_their_words(line: str, text: str, expected: str) -> None:
    if "张" in line:
        pytest.importorskip("pypinyin")
    assert corrected(text, line, "York", threshold=0.99) == expected


def test_forms_come_before_shorter_terms_and_sounds() -> None:
    terms = ["new york => Nyc", "York", "New York Times"]
    assert (
        corrected("new york, the new york times, york", *terms)
        == "Nyc, the New York Times, york"
    )
    assert corrected("in new. york is", *terms) == "in new. york is"
    assert (
        corrected("ask gold man sacks", "gold man => Goldman", "Goldman Sachs")
        == "ask Goldman sacks"
    )


def test_a_list_by_utterance_is_no_list_of_terms() -> None:
    with pytest.raises(
        UserError, match="a line begins with the utterance talk-1; terms need one list"
    ):
        Corrector(["talk-1 eefa => Aoife"])([Text("talk-1", "talk", "eefa came")])
    assert (
        corrected("our b2b at 7-eleven stor", "b2b => Business", "7-Eleven store")
        == "our Business at 7-Eleven store"
    )


def test_work_is_linear_in_the_length_of_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spans are compared with their neighbours only, and gains are looked at once for
    each candidate.
    """
    compared = []
    share = Finder.share
    monkeypatch.setattr(
        Finder, "share", lambda self, span: compared.append(1) or share(self, span)
    )
    numbers = []
    for times in (20, 40):
        compared.clear()
        text = "ask gold man sacks about the monroe inks call and eefa " * times
        (row,) = rescore.correct(
            [text], ["Goldman Sachs", "Monro Inc", "eefa => Aoife"]
        )
        assert len(row.changes) >= 2 * times
        numbers.append(len(compared))
    assert numbers[1] <= 2.2 * numbers[0]


def test_right_words_stay() -> None:
    assert (
        corrected("ask Goldman Sachs, goldman sachs", "GOLDMAN SACHS")
        == "ask Goldman Sachs, goldman sachs"
    )


@pytest.mark.parametrize(
    ("text", "listed", "expected"),
    [
        ("the teams met", "Teams", "the teams met"),  # an ordinary word
        (
            "to do it is what they have to do",
            "To Do\nIt Is",
            "to do it is what they have to do",
        ),
        (
            "ask goldman sachs, Goldman sachs",
            "Goldman Sachs",
            "ask Goldman Sachs, Goldman Sachs",
        ),
        ("an iphone case", "iPhone", "an iPhone case"),
        # the list has no capitals: it may begin a sentence
        ("Kubectl gets pods", "kubectl", "Kubectl gets pods"),
        # no case in this list
        (
            "ask goldman sachs now. Thanks.",
            "GOLDMAN SACHS",
            "ask goldman sachs now. Thanks.",
        ),
        ("ASK GOLDMAN SACHS", "Goldman Sachs", "ASK GOLDMAN SACHS"),
        (
            "ask the bank of america",
            "OF AMERICA\nBank of America",
            "ask the Bank of America",
        ),
    ],
)
def test_case_alone(text: str, listed: str, expected: str) -> None:
    terms = listed.split("\n")
    assert rescore.correct([text], terms)[0].text == expected
    assert rescore.correct([text], terms, case=False)[0].text == text
    assert rescore.correct([text], terms, threshold=0.95)[0].text == text


def test_case_of_text_and_list() -> None:
    assert (
        corrected("ASK GOLD MAN SACKS NOW", "Goldman Sachs") == "ASK GOLDMAN SACHS NOW"
    )
    assert (
        corrected("Ask gold man sacks now.", "GOLDMAN SACHS")
        == "Ask Goldman Sachs now."
    )
    assert (
        corrected("ask gold man sacks now", "GOLDMAN SACHS") == "ask goldman sachs now"
    )


def test_choice_is_the_best_of_all_sets() -> None:
    """The search beside trying every set of candidates."""
    generator = np.random.default_rng(0)
    for _ in range(50):
        candidates = []
        for number in range(8):
            first = int(generator.integers(0, 8))
            last = first + int(generator.integers(1, 4))
            change = TermChange(str(number), 0, 0, "", "", float(generator.normal()))
            candidates.append(Correction(first, last, change))

        def gain(chosen: Sequence[Correction]) -> float:
            places = [
                place for first, last, _ in chosen for place in range(first, last)
            ]
            return (
                sum(c.change.log_odds - 0.2 for c in chosen)
                if len(set(places)) == len(places)
                else -np.inf
            )

        sets = [
            chosen for size in range(9) for chosen in combinations(candidates, size)
        ]
        best = choose(candidates, 0.2)
        assert sum(change.log_odds - 0.2 for change in best) == pytest.approx(
            max(map(gain, sets))
        )


def test_trees_are_walked_as_defined() -> None:
    tree = (
        (0.0, 0.5, 1.0, 2.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, -1.0),
        (1.0, 3.0, 3.0, 4.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 2.0),
        (0.0, 0.0, 0.0, 0.0, 5.0),
    )
    trees = Trees(FEATURES, 0.25, (tree, tree), 0.5, "")
    table = np.zeros((3, len(FEATURES)))
    table[:, 0], table[:, 1] = [0.5, 0.6, 0.6], [9.0, 3.0, 4.0]
    assert trees(table).tolist() == [-1.75, 4.25, 10.25]


def test_the_recording_counts() -> None:
    """A term that was recognised elsewhere in the recording is a better candidate."""
    alone = Corrector(["Monro Forward"]).candidates(
        [Text("1", "a", "our monroe forwards plan")]
    )
    rest = Text("2", "a", "the monro forward plan and the monro forward goal")
    together = Corrector(["Monro Forward"]).candidates(
        [Text("1", "a", "our monroe forwards plan"), rest]
    )
    assert together[0][0].change.log_odds > alone[0][0].change.log_odds


def test_recordings_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trees are walked once for all recordings, whose candidates are those of each
    recording alone.
    """
    corrector = Corrector(["Monro Forward", "Aoife"])
    lines = ["our monroe forwards plan", "no name", "ask eefa", "monro forward"]
    texts = [
        Text(str(number), recording, lines[number % 4])
        for number, recording in enumerate("aabbcc")
    ]
    alone = [
        found
        for name in "abc"
        for found in corrector.candidates(
            [text for text in texts if text.recording == name]
        )
    ]
    walked: list[int] = []
    walk = Trees.__call__
    monkeypatch.setattr(
        Trees,
        "__call__",
        lambda trees, table: walked.append(len(table)) or walk(trees, table),
    )
    assert corrector.candidates(texts) == alone and len(walked) == 1 and any(alone)
    assert corrector.candidates([]) == []


def test_log_odds() -> None:
    assert log_odds(0.5) == 0 and log_odds(1.0) == np.inf and log_odds(0.0) == -np.inf


def test_chinese_names_in_text_without_blanks() -> None:
    """Homophones of 50 names become the names; right names and other sentences stay."""
    pinyin = pytest.importorskip("pypinyin").lazy_pinyin
    names = (DATA / "names.zh.txt").read_text(encoding="utf-8").split()
    letters = [
        bytes([row, cell]).decode("gb2312")
        for row in range(0xB0, 0xD7)
        for cell in range(0xA1, 0xFA)
    ]
    alike: dict[str, list[str]] = {}
    for letter in letters:
        alike.setdefault(pinyin(letter)[0], []).append(letter)
    heard = []
    for number, name in enumerate(names):
        others = [
            [other for other in alike[pinyin(letter)[0]] if other != letter] or [letter]
            for letter in name
        ]
        heard.append("".join(choice[number % len(choice)] for choice in others))
    frames = ["请{}明天来开会。", "这个问题要问{}才知道", "我昨天在公司见到了{}。"]
    meant = [frames[number % 3].format(name) for number, name in enumerate(names)]
    misheard = [frames[number % 3].format(name) for number, name in enumerate(heard)]
    plain = [
        "今天天气很好我们去公园吧",
        "会议改到下午三点",
        "火车站离这里很远",
        "老师正在上课",
        "请问洗手间在哪里",
    ]
    rows = [row.text for row in rescore.correct([*misheard, *meant, *plain], names)]
    assert sum(text == right for text, right in zip(rows, meant, strict=False)) >= 45
    assert rows[50:] == [*meant, *plain]
