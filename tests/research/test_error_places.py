"""Word errors by place and length: counted by hand, and as many as `eval` counts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescore.errors import UserError
from rescore.metrics import Normaliser
from rescore.metrics.wer import CharacterErrorRate, ErrorRate
from rescore.research.error_places import BINS, Output, error_places, measure
from tests.conftest import ROOT, Run, assert_one_line_error, some_lists, write_json

WORDS = st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a b c d e f", []),
        ("a x c d e f", [2]),  # a wrong word
        ("a b d e f", [3]),  # a missing word
        ("a b x c d e f", [2]),  # an inserted word, behind the second
        ("x a b c d e f", [1]),  # an inserted word at the beginning
        ("A b c d e f x", [6]),  # case is ignored; a word behind the end
        ("", [1, 2, 3, 4, 5, 6]),
    ],
)
def test_places_by_hand(text: str, places: list[int]) -> None:
    assert error_places(Normaliser(), "a b c d e f", text) == places


@given(WORDS, WORDS)
def test_there_are_as_many_errors_as_sclite_counts(reference: str, text: str) -> None:
    places = error_places(Normaliser(), reference, text)
    (counts,) = ErrorRate().statistics([text], [(reference,)])
    assert len(places) == counts[:3].sum()
    assert all(1 <= place <= max(1, len(reference.split())) for place in places)
    assert places == sorted(places)


def test_bins_by_hand() -> None:
    """Bins of two: of five words, two are in the first, two in the second, one in the
    third.
    """
    references = [("a b c d e",), ("a b",), ("a",)]
    first = Output("first", ["a b x d x", "a b", "x"], "")
    second = Output("second", ["a b c d e", "a x", "a"], "")
    report = measure(ErrorRate(), references, [first, second], width=2)
    places = [
        (each.range, each.utterances, each.words, each.errors) for each in report.places
    ]
    assert places == [
        ("1-2", 3, 5, (1, 1)),
        ("3-4", 1, 2, (1, 0)),
        ("5-6", 1, 1, (1, 0)),
    ]
    lengths = [
        (each.range, each.utterances, each.words, each.errors)
        for each in report.lengths
    ]
    assert lengths == [("1-2", 2, 3, (1, 1)), ("5-6", 1, 5, (2, 0))]
    assert report.whole.words == 8 and report.whole.errors == (3, 1)
    assert report.whole.rates == pytest.approx((100 * 3 / 8, 100 / 8))


def test_the_last_bin_is_open() -> None:
    reference = " ".join("a" * (3 * BINS))
    report = measure(ErrorRate(), [(reference,)], [Output("o", [""], "")], width=2)
    assert report.places[-1].range == f"{2 * BINS - 1} on"
    assert report.places[-1].words == BINS + 2
    assert [each.words for each in report.places[:-1]] == [2] * (BINS - 1)
    assert all(each.rates == (100.0,) for each in report.places)
    assert [each.range for each in report.lengths] == [f"{2 * BINS - 1} on"]


def test_the_reference_closest_to_the_first_output_counts() -> None:
    first = Output("first", ["a b c"], "")
    second = Output("second", ["x y"], "")
    report = measure(ErrorRate(), [("a b d", "x y")], [first, second])
    assert report.whole.words == 3 and report.whole.errors == (1, 3)


def test_other_metrics_have_no_places() -> None:
    with pytest.raises(UserError, match="CER has no errors of words"):
        measure(CharacterErrorRate(), [("a",)], [Output("o", ["a"], "")])


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """Lists whose second hypotheses are best under the column `lm`."""
    lines = []
    for number, (reference, first, second) in enumerate(
        [
            ("a b c d e f g", "a x c d e f g", "a b c d e f g"),
            ("a b", "a b", "a x b"),
            ("b c d", "b x d", "b y d"),
        ]
    ):
        hypotheses = [
            {"text": first, "score": -1.0, "scores": {"lm": -9.0}},
            {"text": second, "score": -2.0, "scores": {"lm": -1.0}},
        ]
        lines.append(
            json.dumps({"id": f"u{number}", "ref": reference, "hyps": hypotheses})
        )
    path = tmp_path / "lists.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_weights(rescore: Run, scored: Path, tmp_path: Path) -> None:
    """The texts under weights are those that `rerank` writes."""
    for name, lm in (("low", 0.0), ("high", 0.9)):
        tuned = rescore("tune", scored, "--column", "lm", "-o", f"{name}.json")
        assert tuned.returncode == 0, tuned.stderr
        weights = json.loads((tmp_path / f"{name}.json").read_text())
        weights["weights"] = {"s2s": 1 - lm, "lm": lm}
        write_json(tmp_path / f"{name}.json", weights)
    options = ["--weights", "low.json", "--weights", "high.json"]
    done = rescore(
        "errors", scored, *options, "-o", "e.json", "-o", "e.csv", "--plot", "e.svg"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "e.json").read_text())
    assert report["outputs"] == ["first pass", "low.json", "high.json"]
    assert report["whole"]["errors"] == [2, 2, 2]
    assert [each["errors"] for each in report["places"]] == [
        [2, 2, 2],
        [0, 0, 0],
    ]
    assert [(each["low"], each["errors"]) for each in report["lengths"]] == [
        (1, [1, 1, 2]),
        (6, [1, 1, 0]),
    ]
    rescore("rerank", scored, "--weights", "high.json", "--best", "high.trn")
    measured = rescore("eval", "high.trn", "--ref", scored, "--report", "r.json")
    assert measured.returncode == 0, measured.stderr
    (row,) = json.loads((tmp_path / "r.json").read_text())["systems"]
    assert report["whole"]["rates"][2] == pytest.approx(row["value"])
    rows = list(csv.reader((tmp_path / "e.csv").open(encoding="utf-8")))
    assert rows[0] == ["", "utterances", "words", "first pass", "low.json", "high.json"]
    assert rows[-1] == ["all", "3", "12", "16.67", "16.67", "16.67"]
    charts = ElementTree.parse(tmp_path / "e.svg").getroot()
    assert len(charts.findall("{http://www.w3.org/2000/svg}g")) == 2
    assert "WER|" in done.stdout and "lm=0.9" in done.stdout


def test_outputs(rescore: Run, tmp_path: Path) -> None:
    """Lists and a 1-best text, in another order, with the figures of `eval`."""
    lists = some_lists(tmp_path, "test", 12)
    rescore("rerank", lists, "--best", "best.trn")
    lines = (tmp_path / "best.trn").read_text(encoding="utf-8").splitlines()
    worse = [line.replace("the", "they") for line in lines[::-1]]
    (tmp_path / "worse.trn").write_text("\n".join(worse) + "\n", encoding="utf-8")
    outputs = [lists, "worse.trn"]
    done = rescore("errors", *outputs, "--ref", lists, "--style", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    measured = rescore("eval", *outputs, "--ref", lists, "--report", "r.json")
    assert measured.returncode == 0, measured.stderr
    rows = json.loads((tmp_path / "r.json").read_text())["systems"]
    assert report["whole"]["rates"] == pytest.approx([row["value"] for row in rows])
    for name in ("places", "lengths"):
        errors = [each["errors"] for each in report[name]]
        assert [sum(column) for column in zip(*errors, strict=True)] == report["whole"][
            "errors"
        ]
        words = sum(each["words"] for each in report[name])
        assert words == report["whole"]["words"]
    assert sum(each["utterances"] for each in report["lengths"]) == 12


def test_errors(rescore: Run, scored: Path, tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text("{}", encoding="utf-8")
    demo = ROOT / "data" / "test.json"
    done = rescore("errors", scored, demo)
    assert_one_line_error(done, "lacks 3 of 3 utterances that", "and has")
    done = rescore("errors", scored, scored, "--weights", "w.json")
    assert_one_line_error(done, "--weights choose from the lists of a single OUTPUT")
    done = rescore("errors", scored, "--metric", "cer")
    assert_one_line_error(done, "errors: CER has no errors of words", "--metric wer")
    done = rescore("errors", scored, "--plot", "e.png")
    assert_one_line_error(done, "--plot e.png: its ending is not .svg")
    (tmp_path / "empty.json").write_text('{"u": {"ref": "", "hyp_1": {"text": "a"}}}')
    assert_one_line_error(rescore("errors", "empty.json"), "references have no words")
