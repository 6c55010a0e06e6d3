"""Rows of several results have names of their own, made of what differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import rescore
from rescore import formats
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.figures import Shown
from rescore.reports.overview import espnet, render_overview, told_apart, with_dev
from rescore.reports.records import Record
from rescore.tuning import Weights
from rescore.tuning.record import TunedBy, Tuning
from tests.conftest import Run


def lists(name: str, number: int = 6) -> list[NbestList]:
    """Return lists in which the second hypothesis is right every second time."""
    every = []
    for rank in range(number):
        right = f"The {name} x{rank}"
        texts = [right, f"the {name} y"]
        if rank % 2:
            texts.reverse()
        hypotheses = []
        for place, text in enumerate(texts):
            hypotheses.append(Hypothesis(text, {FIRST_PASS: -float(place)}))
        every.append(NbestList(f"{name}{rank}", hypotheses, (right,)))
    return every


def result(name: str, dev: str | None = None, cased: bool = False) -> Record:
    """Return the results of a test set, with those of dev lists."""
    weights = {FIRST_PASS: 1.0}
    own = rescore.evaluate(lists(name), weights, case_sensitive=cased)
    own = replace(own, dataset=name, system="tta")
    if dev is None:
        return own
    of_dev = rescore.evaluate(lists("d", 4), weights, case_sensitive=cased)
    tuning = Tuning(TunedBy.DEV, dev, 4, value=50.0, first_pass=50.0)
    choice = replace(own.choice, tuning=tuning)
    return replace(own, choice=choice, dev=of_dev.metrics)


def names(results: list[Record]) -> list[str]:
    """Return the names of the rows of `report --dev`."""
    tables = espnet(told_apart(list(with_dev(results))))
    return [row[0] for rows in tables.values() for row in rows[1:]]


def test_the_same_dev_lists_stand_once() -> None:
    assert names([result("a", "dev.json"), result("b", "dev.json")]) == [
        *("dev, first pass", "dev, tta", "a, first pass", "a, tta"),
        *("b, first pass", "b, tta"),
    ]


def test_other_settings_are_named() -> None:
    rows = names([result("a", "dev.json"), result("a", "dev.json", cased=True)])
    assert len(set(rows)) == len(rows) == 8
    assert "dev (case:lc), tta" in rows and "a (case:mixed), first pass" in rows


def test_other_dev_lists_of_one_name() -> None:
    rows = names([result("a", "x/dev.json"), result("b", "y/dev.json")])
    assert "x/dev.json, tta" in rows and "y/dev.json, tta" in rows


@pytest.mark.parametrize("cased", [False, True])
def test_the_paper_layout_takes_them(cased: bool) -> None:
    results = [result("a", "dev.json"), result("a", "dev.json", cased=cased)]
    assert "dev" in render_overview(told_apart(list(with_dev(results))), "paper", "csv")


def test_tables_may_have_intervals_and_an_oracle() -> None:
    results = [result("a")]
    for layout, interval in (("paper", "(5.56-"), ("espnet", "95 % CI")):
        usual = render_overview(results, layout, "text")
        assert interval not in usual
        shown = Shown(intervals=True)
        assert interval in render_overview(results, layout, "text", shown)
        for wanted in (True, False):
            table = render_overview(results, layout, "csv", Shown(oracle=wanted))
            assert ("oracle" in table) == wanted
    latex = render_overview(results, "paper", "latex", Shown(intervals=True))
    assert "(5.56--" in latex and "by bootstrap" in latex


def test_the_digest_says_where_weights_were_tuned() -> None:
    """Not the number of lists."""
    dev = lists("dev")
    tuning = Tuning.on("dev", Dataset.of(dev)).in_folds(3, "utterance", {})
    weights = Weights({FIRST_PASS: 1.0}, tuning=tuning)
    assert weights.tuning.is_on(Dataset.of(dev))
    assert not weights.tuning.is_on(Dataset.of(lists("test")))


@pytest.mark.parametrize(
    ("paths", "called"),
    [
        (["a/x.jsonl", "b/x.jsonl"], ["a", "b"]),
        (["a/x.jsonl", "a/y.jsonl"], ["x.jsonl", "y.jsonl"]),
        (["x.jsonl", "a/y.jsonl"], ["x.jsonl", "y.jsonl"]),
        (["x.jsonl", "y.jsonl"], ["x.jsonl", "y.jsonl"]),
    ],
)
def test_groups_have_the_names_of_rows(
    paths: list[str], called: list[str], rescore: Run, tmp_path: Path
) -> None:
    """`eval` and `report` call outputs by what differs in their paths in all tables."""
    for path in paths:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        formats.write(lists("s"), str(tmp_path / path))
    by = ("--by", "^(.*)[0-9]$", "--report", "report.json")
    for done in (rescore("eval", *paths, *by), rescore("report", "report.json")):
        assert done.returncode == 0, done.stderr
        heads = [line for line in done.stdout.splitlines() if "WER " in line]
        assert any(all(f"WER {name}" in head for name in called) for head in heads)
        assert not any("/" in head for head in heads)
