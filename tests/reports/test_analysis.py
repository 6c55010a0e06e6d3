"""An analysis of lists small enough to count by hand, and as a command."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rescore.decision import Decision
from rescore.metrics.mt import Bleu
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.analysis import Changes, Confusion, Length, Position, analyse
from rescore.reports.outlook import Depth
from rescore.tuning import FIRST_PASS_ALONE, Weights
from tests.conftest import Run, write_json


def hypothesis(text: str, s2s: float, lm: float) -> Hypothesis:
    return Hypothesis(text, {"s2s": s2s, "lm": lm})


LISTS = [
    # corrected: "b" for "x"
    NbestList("one", [hypothesis("a x c", -1, -9), hypothesis("a b c", -2, -1)], ("a b c",)),
    # broken: "b" became nothing
    NbestList("two", [hypothesis("a", -3, -1), hypothesis("a b", -1, -9)], ("a b",)),
    # moved, but as wrong as before
    NbestList("three", [hypothesis("y", -1, -9), hypothesis("z", -2, -1)], ("a",)),
    # stays
    NbestList("four", [hypothesis("a b c d e f", -1, -1), hypothesis("a", -2, -2)], ("a b c d e f",)),
]


HALF = Weights({"s2s": 0.5, "lm": 0.5}, "given")


def test_counts_by_hand() -> None:
    found = analyse(ErrorRate(), LISTS, HALF)
    assert found.moves == Changes(moved=3, better=1, worse=1, same=1)
    assert found.by_depth == [Depth(1, pytest.approx(100 * 2 / 12)), Depth(2, pytest.approx(100 * 1 / 12))]
    assert found.by_length == [
        Length(0, 5, 3, pytest.approx(100 * 2 / 6), pytest.approx(100 * 2 / 6)),
        Length(5, 10, 1, 0.0, 0.0),
    ]
    assert found.by_position[:3] == [Position(1, 4, 1, 1), Position(2, 3, 1, 1), Position(3, 2, 0, 0)]
    assert found.corrected == [Confusion("b", "x", 1)] and found.broken == [Confusion("b", "", 1)]


def test_lengths_are_in_words_as_the_metric_counts_them() -> None:
    lists = [NbestList("u", [hypothesis("ab-cd ef", -1, -1)], ("ab-cd eg",))]
    for options, to in (
        (Normaliser(), 5),
        (Normaliser(split_hyphens=True, drop_unknown=True), 5),
        (Normaliser(split_characters=True), 10),
    ):
        (length,) = analyse(ErrorRate(normaliser=options), lists, FIRST_PASS_ALONE).by_length
        assert length.to == to
    fillers = [NbestList("u", [hypothesis("a", -1, -1)], ("a " + "<unk> " * 9,))]
    (length,) = analyse(ErrorRate(normaliser=Normaliser(drop_unknown=True)), fillers, FIRST_PASS_ALONE).by_length
    assert (length.above, length.to) == (0, 5)


def test_all_references_count() -> None:
    """Each report compares with the reference that is closest, as WER does."""
    references = ("x y z w v u", "a b c")
    lists = [NbestList("u", [hypothesis("a b c", -1, -1), hypothesis("a b", -2, -2)], references)]
    found = analyse(ErrorRate(), lists, FIRST_PASS_ALONE)
    assert [(one.words, one.first_pass) for one in found.by_position] == [(1, 0)] * 3
    assert found.by_length[0].to == 5 and found.by_length[0].first_pass == 0
    assert analyse(ErrorRate(), lists, FIRST_PASS_ALONE, texts=["a b"]).broken == [Confusion("c", "", 1)]


def test_insertions_count_with_the_word_before() -> None:
    lists = [NbestList("u", [hypothesis("x a y b", -1, -1)], ("a b",))]
    found = analyse(ErrorRate(), lists, FIRST_PASS_ALONE)
    assert [(one.position, one.first_pass) for one in found.by_position] == [(1, 2), (2, 0)]


def test_the_texts_of_the_decision_count() -> None:
    """Minimum Bayes risk: two hypotheses that agree, together, beat the one with the best score."""
    texts = ("a b c d", "x y z", "x y")
    lists = [NbestList("u", [hypothesis(text, -1 - rank / 9, 0) for rank, text in enumerate(texts)], ("x y z",))]
    mbr = replace(FIRST_PASS_ALONE, decision=Decision("mbr", 1.0))
    assert analyse(ErrorRate(), lists, mbr).moves == Changes(moved=1, better=1, worse=0, same=0)
    assert "|decide:mbr,1|" in analyse(ErrorRate(), lists, mbr).signature
    assert analyse(ErrorRate(), lists, FIRST_PASS_ALONE).moves.moved == 0
    assert analyse(ErrorRate(), lists, FIRST_PASS_ALONE, ["x y q"]).broken == []  # a text of no hypothesis
    assert analyse(ErrorRate(), lists, FIRST_PASS_ALONE, ["x y"]).moves.better == 1


def test_other_metrics_have_no_words() -> None:
    found = analyse(Bleu("none"), LISTS, HALF)
    assert found.moves.moved == 3 and not found.by_position and not found.corrected


def test_command(rescore: Run, tmp_path: Path) -> None:
    table = {
        one.id: {
            "ref": one.references[0],
            **{
                f"hyp_{rank}": {"text": each.text, "score": each.scores["s2s"], "scores": {"lm": each.scores["lm"]}}
                for rank, each in enumerate(one.hypotheses, 1)
            },
        }
        for one in LISTS
    }
    write_json(tmp_path / "lists.json", table)
    write_json(tmp_path / "w.json", {"weights": {"s2s": 0.5, "lm": 0.5}, "origin": "given"})
    done = rescore("analyse", "lists.json", "--weights", "w.json", "-o", "a.json")
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "a.json").read_text())
    assert written == json.loads(json.dumps(asdict(analyse(ErrorRate(), LISTS, HALF))))
    assert "better 1, worse 1, as many errors 1" in done.stdout and "corrected: x -> b 1" in done.stdout
