"""Results files of lists that several systems wrote: `report` shows each system that
`run` shows, and `check` compares each of them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rescore import formats
from rescore.asr.systems import combined
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.overview import LAYOUTS
from tests.conftest import Run, assert_one_line_error

SYSTEMS = {"good": "an old owl", "fair": "an old", "poor": "an"}
UTTERANCES = 4
CALLED = "votes by agreement, ROVER"
"""The name of the chosen texts."""
Values = dict[str, Any]


@pytest.fixture
def results(rescore: Run, tmp_path: Path) -> Values:
    """The results file of a run over lists of three systems, under two metrics."""
    every = {}
    for name, text in SYSTEMS.items():
        every[name] = [
            NbestList(f"u{number}", [Hypothesis(text, {"s2s": 0.0})], ("an old owl",))
            for number in range(UTTERANCES)
        ]
    formats.write(combined(every), str(tmp_path / "l.jsonl"))
    done = rescore(
        *("run", "l.jsonl", "--decide", "rover", "--metric", "wer", "--metric", "cer"),
        *("--report", "r.json"),
    )
    assert done.returncode == 0, done.stderr
    values: Values = json.loads((tmp_path / "r.json").read_text())
    return values


def test_report_has_the_rows_of_the_systems(rescore: Run, results: Values) -> None:
    table = rescore("report", "r.json", "r.json", "--style", "csv").stdout
    for metric in results["metrics"]:
        for row in metric["systems"]:
            line = f'"l, {row["name"]}",{UTTERANCES},'
            found = [each for each in table.splitlines() if each.startswith(line)]
            values = [each.split(",")[8] for each in found]
            assert f"{row['value']:.2f}" in values
            assert len(found) == len(results["metrics"]), "once a metric"


@pytest.mark.parametrize("name", ["fair", "new"])
@pytest.mark.parametrize("intervals", [False, True])
def test_each_layout_has_the_systems(
    name: str, intervals: bool, rescore: Run, results: Values, tmp_path: Path
) -> None:
    """They stand above the first pass, with their own figures and intervals; the method
    of another file may have the name of a system.
    """
    results["system"] = name
    (tmp_path / "s.json").write_text(json.dumps(results))
    typed = ["r.json", "s.json", "--layout", "paper", "--style", "csv"]
    if intervals:
        typed.append("--intervals")
    table = list(csv.reader(rescore("report", *typed).stdout.splitlines()))
    fair = "fair alone" if name == "fair" else "fair"
    above = ["good", fair, "poor", "mixture"]
    assert [row[0] for row in table] == ["method", *above, "oracle", CALLED, name]
    for place, metric in enumerate(results["metrics"], start=1):
        cells = {row[0]: row[place] for row in table}
        assert cells["method"] == f"l {metric['metric']}"
        for row, called in zip(metric["systems"], above, strict=False):
            low, high = row["interval"]
            interval = f" ({low:.2f}-{high:.2f})" if intervals else ""
            assert cells[called] == f"{row['value']:.2f}{interval}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_rows_of_systems_may_be_left_out(
    layout: str, rescore: Run, results: Values
) -> None:
    typed = ("report", "r.json", "--layout", layout, "--style", "csv")
    whole = rescore(*typed).stdout
    without = rescore(*typed, "--no-systems").stdout
    left_out = [line for line in whole.splitlines() if line not in without.splitlines()]
    tables = len(results["metrics"]) if layout == "espnet" else 1
    assert len(left_out) == len(SYSTEMS) * tables
    assert all(any(name in line for name in SYSTEMS) for line in left_out)


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ((), "votes by agreement"),
        (("--votes", "equal"), "equal votes"),
        (("--folds", "2"), "tuned votes"),
        (("--decide", "rover"), "votes by agreement, ROVER"),
        (("--decide", "mbr", "--scale", "1"), "votes by agreement, MBR"),
    ],
)
def test_votes_that_decide_alone_give_the_row_its_name(
    typed: tuple[str, ...], called: str, rescore: Run, results: Values
) -> None:
    """Of several systems nothing is called the first pass."""
    done = rescore("run", "l.jsonl", *typed, "--report", "v.json")
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith(called)]
    assert row.startswith(f"{called}  "), "the screen has this name"
    for layout in ("espnet", "paper"):
        table = rescore("report", "v.json", "--layout", layout, "--style", "csv").stdout
        cells = list(csv.reader(table.splitlines()))[-1]
        assert cells[0].removeprefix("l, ") == called
        assert "first pass" not in table


def system(values: Values, metric: int = 0) -> Values:
    """Return the second system under a metric."""
    row: Values = values["metrics"][metric]["systems"][1]
    return row


def renamed(values: Values) -> None:
    for metric in values["metrics"]:
        metric["systems"][1]["name"] = "new"


def without_systems(values: Values) -> None:
    for metric in values["metrics"]:
        del metric["systems"]


def raised(values: Values) -> None:
    system(values)["value"] -= 1


def agreeing(values: Values) -> None:
    values["hypotheses"] += 1


def agreeing_without_systems(values: Values) -> None:
    """Lists of one system: the number of hypotheses is a setting of the recogniser."""
    agreeing(values)
    without_systems(values)


def lowered(values: Values) -> None:
    system(values)["value"] += 1


def raised_cer(values: Values) -> None:
    system(values, metric=1)["value"] -= 1


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (dict, "passed\n"),
        (without_systems, "passed\n"),
        (agreeing, "passed\n"),
        (agreeing_without_systems, "FAILED: hypotheses\n"),
        (lowered, "passed; better than golden in systems.fair: "),
        (raised, "FAILED: systems.fair\n"),
        (raised_cer, "FAILED: CER.systems.fair\n"),
        (renamed, "FAILED: systems.new, CER.systems.new\n"),
    ],
)
def test_check_compares_each_system(
    change: Callable[[Values], object],
    verdict: str,
    rescore: Run,
    results: Values,
    tmp_path: Path,
) -> None:
    """A golden file is changed; without systems it is read as before."""
    change(results)
    (tmp_path / "golden.json").write_text(json.dumps(results))
    done = rescore("check", "r.json", "--golden", "golden.json")
    assert verdict in done.stdout, done.stdout
    assert done.returncode == int("FAILED" in verdict)
    added = len(results["metrics"]) if change is renamed else 0
    assert done.stdout.count("not in the golden file") == added


def test_a_number_of_texts_that_moved_is_told(
    rescore: Run, results: Values, tmp_path: Path
) -> None:
    agreeing(results)
    (tmp_path / "golden.json").write_text(json.dumps(results))
    table = rescore("check", "r.json", "--golden", "golden.json").stdout
    (row,) = [line for line in table.splitlines() if line.startswith("hypotheses ")]
    assert row.endswith("changed  not a failure by itself")


@pytest.mark.parametrize("change", [dict, raised, raised_cer])
def test_a_renamed_system_is_named(
    change: Callable[[Values], object], rescore: Run, results: Values, tmp_path: Path
) -> None:
    """The figures must be equal under all metrics, as those of outputs of `eval`."""
    change(results)
    renamed(results)
    (tmp_path / "golden.json").write_text(json.dumps(results))
    done = rescore("check", "r.json", "--golden", "golden.json")
    advice = "new is probably fair now: the figures are equal; give --renamed new=fair,"
    is_equal = change is dict
    assert (advice in done.stdout) == is_equal, done.stdout
    assert ("no such system" in done.stdout) != is_equal


def test_a_name_with_a_blank_is_quoted(
    rescore: Run, results: Values, tmp_path: Path
) -> None:
    for metric in results["metrics"]:
        metric["systems"][1]["name"] = "fair one"
    (tmp_path / "golden.json").write_text(json.dumps(results))
    done = rescore("check", "r.json", "--golden", "golden.json")
    assert "give --renamed 'fair one=fair'," in done.stdout, done.stdout


def test_a_system_has_a_new_name(rescore: Run, results: Values, tmp_path: Path) -> None:
    for metric in results["metrics"]:
        metric["systems"][1]["name"] = "old"
    (tmp_path / "golden.json").write_text(json.dumps(results))
    command = ("check", "r.json", "--golden", "golden.json", "--renamed")
    done = rescore(*command, "old=fair")
    assert done.returncode == 0 and "systems.old" in done.stdout, done.stdout
    assert_one_line_error(
        rescore(*command, "older=fair"),
        "--renamed: no system in the golden file is called older; the systems are",
    )


@pytest.mark.parametrize("best_p", [0.0002, 0.03, 0.4])
@pytest.mark.parametrize("reranked", [10.0, 50.0])
def test_the_p_value_is_against_the_best_system(
    best_p: float, reranked: float, rescore: Run, results: Values, tmp_path: Path
) -> None:
    """As on the screen, and each table says so."""
    for metric in results["metrics"]:
        metric["p_value"] = 0.007
        metric["reranked"] = reranked
        metric["best_system"] |= {"value": 30.0, "p_value": best_p}
    (tmp_path / "r.json").write_text(json.dumps(results))
    best = results["metrics"][0]["best_system"]["name"]
    worse = " worse" if reranked > 30 and best_p < 0.05 else ""
    table = rescore("report", "r.json", "--style", "markdown").stdout
    assert f"| {best_p:.4f}{worse} |\n" in table and "0.007" not in table
    assert f"\nl, {CALLED}: p of WER and CER against {best} alone\n" in table
    paper = rescore("report", "r.json", "--layout", "paper").stdout
    unmarked = f"\n{CALLED}: p >= 0.05 against the best system alone where there is no"
    assert (unmarked in paper) is (best_p >= 0.05)
    assert ("p < 0.05" in paper or "p < 0.01" in paper) is (best_p < 0.05)
    assert "the mixture" not in paper


def test_the_table_has_the_p_value_of_the_screen(rescore: Run, results: Values) -> None:
    done = rescore("run", "l.jsonl", "--decide", "rover", "--table", "t.csv")
    told = f" against {results['metrics'][0]['best_system']['name']} alone"
    (line,) = [each for each in done.stdout.splitlines() if each.endswith(told)]
    cells = list(csv.reader(Path("t.csv").read_text().splitlines()))[-1]
    assert cells[0] == f"l, {CALLED}"
    assert f", p = {cells[-1]} against" in line
