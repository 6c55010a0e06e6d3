"""Law: `rescore check` compares the reports of each command that writes figures with
--report: a report passes against itself, and fails against a report with fewer errors
or of other references.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import pytest

from rescore import formats
from rescore.cli.main import cli
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error

ROADS = {
    "run": "run {lists}",
    "rerank": "rerank {lists}",
    "eval": "eval {lists}",
    "eval of 1-best texts": "eval {texts} --ref {ref}",
    "eval of two metrics": "eval {texts} --ref {ref} --metric wer --metric cer",
    "eval of two outputs": "eval now.txt now.ref --ref now.ref",
}
OTHERS = {
    "combine": "writes lists",
}
"""Commands whose --report has no figures, and why."""


def write_sets() -> None:
    """Write lists and texts: with one error, with two errors, of one utterance, and
    with two errors against other references of as many words.
    """
    texts = {
        "one": ("a b c", "d x f"),
        "two": ("a b y", "d x f"),
        "short": ("a b c",),
        "other": ("a b y", "d x f"),
    }
    for name, best in texts.items():
        lists = []
        lines = []
        references = []
        for number, text in enumerate(best):
            hypotheses = [
                Hypothesis(text, {"s2s": 0.0}),
                Hypothesis("z z z", {"s2s": -1.0}),
            ]
            expected = ("a b q", "d q f") if name == "other" else ("a b c", "d e f")
            reference = expected[number]
            lists.append(NbestList(f"u{number}", hypotheses, (reference,)))
            lines.append(f"u{number} {text}\n")
            references.append(f"u{number} {reference}\n")
        formats.write(lists, f"{name}.jsonl")
        Path(f"{name}.txt").write_text("".join(lines))
        Path(f"{name}.ref").write_text("".join(references))


def test_all_commands_with_reports_are_here() -> None:
    group = cli
    context = click.Context(group)
    writing = set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if any("--report" in option.opts for option in command.params):
            writing.add(name)
    here = {line.partition(" ")[0] for line in ROADS.values()}
    assert writing - here <= OTHERS.keys(), writing


@pytest.mark.parametrize("road", ROADS)
def test_reports(road: str, rescore: Run) -> None:
    write_sets()
    for name in ("one", "two", "short", "other"):
        paths = {
            "lists": f"{name}.jsonl",
            "texts": f"{name}.txt",
            "ref": f"{name}.ref",
        }
        # outputs are matched by their names
        shutil.copy(paths["texts"], "now.txt")
        shutil.copy(paths["ref"], "now.ref")
        line = ROADS[road].format(**paths)
        done = rescore(*line.split(), "--report", f"{name}.json")
        assert done.returncode == 0, done.stderr
    check = ("check", "two.json", "--golden")
    same = rescore(*check, "two.json")
    assert same.returncode == 0 and same.stdout.endswith("passed\n"), same.stdout
    worse = rescore(*check, "one.json")
    assert worse.returncode == 1 and "FAILED" in worse.stdout, worse.stderr
    assert rescore(*check, "one.json", "--tolerance", "99").returncode == 0
    assert rescore(*check, "short.json", "--tolerance", "99").returncode == 1
    better = rescore("check", "one.json", "--golden", "two.json")
    assert better.returncode == 0 and "better than golden" in better.stdout
    other = rescore("check", "other.json", "--golden", "two.json")
    assert other.returncode == 1 and "FAILED: references" in other.stdout, other.stdout
    older = json.loads(Path("two.json").read_text())
    for record in older if isinstance(older, list) else [older]:
        del record["references"]
    Path("older.json").write_text(json.dumps(older))
    assert rescore("check", "other.json", "--golden", "older.json").returncode == 0


def test_a_second_reference(rescore: Run) -> None:
    """The figure may only fall, but it is another figure."""
    write_sets()
    line = "eval two.txt --ref two.ref --report"
    assert rescore(*line.split(), "first.json").returncode == 0
    both = rescore(*line.split(), "both.json", "--ref", "other.ref")
    assert both.returncode == 0
    done = rescore("check", "both.json", "--golden", "first.json")
    assert done.returncode == 1 and "FAILED: references" in done.stdout, done.stdout


def test_a_loss_beyond_the_tolerance_is_shown_with_enough_digits(rescore: Run) -> None:
    write_sets()
    for name, places in (("one", 1), ("two", 2)):
        done = rescore("eval", f"{name}.txt", "--ref", "one.ref", "--report", "e.json")
        assert done.returncode == 0
        report = json.loads(Path("e.json").read_text())
        report["systems"][0]["name"] = "output"
        report["systems"][0]["value"] = 10 + 0.0512 * places
        Path(f"{name}.json").write_text(json.dumps(report))
    table = rescore(
        "check", "two.json", "--golden", "one.json", "--tolerance", "0.05"
    ).stdout
    assert "+0.051 " in table, table
    assert "the tolerance is 0.05" in table


def test_reports_of_different_commands(rescore: Run) -> None:
    write_sets()
    for command in ("run", "eval"):
        line = f"{command} one.jsonl --report {command}.json"
        assert rescore(*line.split()).returncode == 0
    for pair in (("run", "eval"), ("eval", "run")):
        done = rescore("check", f"{pair[0]}.json", "--golden", f"{pair[1]}.json")
        assert_one_line_error(done, "eval.json", "rescore eval --report")


def test_a_damaged_report(rescore: Run) -> None:
    write_sets()
    assert rescore("eval", "one.jsonl", "--report", "e.json").returncode == 0
    record = json.loads(Path("e.json").read_text())
    for key in ("value", "counts", "name"):
        damaged = {**record, "systems": [dict(record["systems"][0])]}
        damaged["systems"][0][key] = []
        Path("d.json").write_text(json.dumps(damaged))
        assert_one_line_error(
            rescore("check", "d.json", "--golden", "e.json"), "d.json", key
        )


def test_references_that_differ_in_blanks_alone_are_the_same(rescore: Run) -> None:
    for name, reference in (("one", "a b c"), ("two", "a  b\tc ")):
        lists = [NbestList("u", [Hypothesis("a b", {"s2s": 0.0})], (reference,))]
        formats.write(lists, f"{name}.jsonl")
        line = f"eval {name}.jsonl --report {name}.json"
        assert rescore(*line.split()).returncode == 0
    done = rescore("check", "two.json", "--golden", "one.json")
    assert done.returncode == 0, done.stdout


def test_alternatives_that_are_chosen_are_no_other_references(rescore: Run) -> None:
    """Each output has the alternatives of the reference that are closest to it."""
    Path("ref.stm").write_text("rec 1 a 0 1 the { colour / color } red\n")
    Path("plain.stm").write_text("rec 1 a 0 1 the colour red\n")
    for name in ("colour", "color"):
        Path(name).mkdir()
        Path(name, "rec.txt").write_text(f"the {name} red\n")
        for reference in ("ref", "plain"):
            line = f"eval {name} --whole --ref {reference}.stm --report"
            done = rescore(*line.split(), f"{name}.{reference}.json")
            assert done.returncode == 0, done.stderr
    done = rescore("check", "color.ref.json", "--golden", "colour.ref.json")
    assert done.returncode == 0, done.stdout
    report = json.loads(Path("color.ref.json").read_text())
    assert report["references"] is None
    plain = json.loads(Path("color.plain.json").read_text())
    assert plain["references"].startswith("1@")
    line = "eval colour color --whole --ref ref.stm --by recording"
    rows = [row.split() for row in rescore(*line.split()).stdout.splitlines()]
    assert ["rec", "1", "3", "0.00", "0.00"] in rows
