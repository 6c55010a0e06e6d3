"""Lists of words as other toolkits write them: each form gives the words of a plain
list, and what is left out is said.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from rescore.asr.correct import correct
from rescore.errors import UserError
from rescore.formats.wordlists import biased_texts
from rescore.metrics.listed import WordList
from tests.conftest import run_main

TERMS = ("Alibaba", "Goldman Sachs")
SAME = {
    "plain": "{}",
    "FunASR": "{} 20",
    "FunASR with a tab": "{}\t7",
    "FunASR with decimals": "{} 2.5",
    "sherpa": "{} :3.5",
    "sherpa, a negative score": "{} :-1.0",
    "a keyword of sherpa": "{} :1.5 #0.25",
    "a threshold": "{} #.3",
    "a named keyword": "x y :1.5 #0.25 @{}",
    "a named keyword alone": "x y @{}",
}


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", SAME)
def test_each_form_gives_the_words_of_a_plain_list(
    form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = []
    for number, term in enumerate(TERMS):
        name = term.replace(" ", "_") if "@" in SAME[form] else term
        lines.append(SAME[form].format(name).replace("x y", f"x{number} y"))
    with caplog.at_level(logging.INFO, "rescore"):
        listed = WordList.load(written(tmp_path / "hot.txt", lines))
    assert listed == WordList(TERMS, str(tmp_path / "hot.txt"))
    said = "only the words are used" in caplog.text
    assert said == (form != "plain")
    for words in (tmp_path / "hot.txt", lines):
        (corrected,) = correct(["ask gold man sacks"], words)
        assert corrected.text == "ask Goldman Sachs"


def test_some_lines_have_scores(tmp_path: Path) -> None:
    lines = ["PAN LEFT :10.0", "ZOOM", "boeing 747", "▁GO L D ▁MAN :2", "me @home"]
    listed = WordList.load(written(tmp_path / "hot.txt", lines))
    assert listed.terms == ["GOLD MAN", "PAN LEFT", "ZOOM", "boeing 747", "home"]


NO_WEIGHTS = {
    "a line without a number": ["windows 11", "linux"],
    "a number too large for a weight": ["boeing 747", "airbus 20"],
    "terms that differ by their numbers": ["windows 10", "windows 11"],
    "a line with an arrow": ["windows 11 => windows 11", "area 51"],
    "handles": ["mail @anna", "anna"],
    "numbers with a sign": ["c #5", "pier #39"],
}


@pytest.mark.parametrize("case", NO_WEIGHTS)
def test_a_term_keeps_its_number(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = NO_WEIGHTS[case]
    listed = WordList.load(written(tmp_path / "list.txt", lines))
    assert listed.lines == tuple(sorted(lines))
    assert "only the words" not in caplog.text


def test_names_with_digits_and_weights_are_no_utterances(tmp_path: Path) -> None:
    listed = WordList.load(written(tmp_path / "hot.txt", ["B2B 20", "C3PO 30"]))
    assert listed.terms == ["B2B", "C3PO"] and not listed.by_utterance
    listed = WordList.load(written(tmp_path / "own.txt", ["u1 a 20", "u2 b 30"]))
    assert listed.terms_of == {"u1": ["a", "20"], "u2": ["b", "30"]}


def test_words_behind_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The form of fbai-speech: BWER and UWER are those of its own script."""
    rows = [
        ("a-1", "the cat was mated", ["mated"], ["mated", "foo"]),
        ("a-2", "no rare words", [], ["bar"]),
        ("a-3", "zwingli met banti's dog", ["banti's", "zwingli"], ["x"]),
    ]
    lines = [
        "\t".join((name, text, json.dumps(own), json.dumps(more)))
        for name, text, own, more in rows
    ]
    ref = written(tmp_path / "ref.tsv", lines)
    hyps = ["a-1\tthe cat was made", "a-2\t", "a-3\tzwingli met banti's dog x"]
    hyp = written(tmp_path / "hyp.tsv", hyps)
    with caplog.at_level(logging.INFO, "rescore"):
        listed = WordList.load(ref)
    assert listed.terms_of == {name: own for name, _, own, _ in rows}
    assert "distractors" in caplog.text
    measured = {}
    for name in ("wer", "bwer", "uwer"):
        done = run_main(
            "eval", str(hyp), "--ref", str(ref), "--words", str(ref), "--metric", name
        )
        assert done.returncode == 0, done.stderr
        row = done.stdout.splitlines()[1].split()
        measured[name] = list(map(int, row[-5:-1]))  # sub del ins words
    assert measured == {
        "wer": [1, 3, 1, 11],
        "bwer": [1, 0, 0, 3],
        "uwer": [0, 3, 1, 8],
    }


def test_lists_of_python_and_lines_that_are_none() -> None:
    (text,) = biased_texts(["u1\ta b\t['b', \"c's\"]"], "f") or []
    assert text == ("u1", "a b", ("b", "c's"), False)
    for line in ("u1\ta b\t[noise]", "u1\ta b", "u1\t[1, 2]", "u1\ta\t[1, 2]"):
        assert biased_texts([line], "f") is None
    with pytest.raises(UserError, match=r"f: line 3: expected `utterance<TAB>text"):
        biased_texts(["u1\ta b\t['b']", "", "u2\ta b"], "f")


def test_an_utterance_has_one_list(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="utterance u1 is duplicated"):
        WordList.load(written(tmp_path / "ref.tsv", ["u1\ta\t['a']", "u1\tb\t[]"]))
