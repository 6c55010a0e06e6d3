"""Names of sets and outputs in tables, and hints that name what to type next."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from rescore.cli.help import INSTEAD
from rescore.files import distinct
from rescore.reports.outputs import short_names
from rescore.set_names import name_of_set
from tests.conftest import ROOT, Run, assert_one_line_error, write_json


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/my.dev.csv", "my.dev"),
        ("a/my.test.csv", "my.test"),
        ("my.test-clean.csv.gz", "my.test-clean"),
        ("corpus.dev2014.en.txt", "corpus.dev2014"),
        ("test.tta.jsonl.gz", "test"),
        ("dev.json", "dev"),
        ("set.development.json", "set"),
        ("b/lists", "lists"),
        ("x.test", "x"),
    ],
)
def test_the_name_of_a_set_keeps_which_set_it_is(path: str, name: str) -> None:
    assert name_of_set(path) == name


def test_dev_and_test_of_one_corpus_have_two_names(
    rescore: Run, tmp_path: Path
) -> None:
    lists = {"u1": {"ref": "a b", "hyp_1": {"score": -1, "text": "a"}}}
    names = []
    for part in ("dev", "test"):
        write_json(tmp_path / f"my.{part}.json", lists)
        done = rescore(f"my.{part}.json", "--report", "r.json")
        assert done.returncode == 0, done.stderr
        names.append(json.loads(Path("r.json").read_text())["dataset"])
    assert names == ["my.dev", "my.test"]


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["exp/a/text", "exp/b/text"], ["a", "b"]),
        (["exp/a/x.trn", "exp/b/y.trn"], ["x.trn", "y.trn"]),
        (["a.trn", "b.trn"], ["a.trn", "b.trn"]),
        (["exp/a/text"], ["exp/a/text"]),
        (["a/1/x", "a/2/x", "b/1/x"], ["a/1/x", "a/2/x", "b/1/x"]),
    ],
)
def test_outputs_are_called_after_what_differs(
    names: list[str], short: list[str]
) -> None:
    assert list(short_names(names).values()) == short
    assert distinct([["x", "a"], ["x", "b"]]) == ("a", "b")


def test_eval_prints_short_names_and_reports_whole_ones(
    rescore: Run, tmp_path: Path
) -> None:
    for system in ("one", "two"):
        folder = tmp_path / "exp" / system
        folder.mkdir(parents=True)
        (folder / "text").write_text("u1 a b\nu2 c\n")
    (tmp_path / "ref").write_text("u1 a b\nu2 d\n")
    paths = ["exp/one/text", "exp/two/text"]
    done = rescore("eval", *paths, "--ref", "ref", "--report", "r.json")
    assert done.returncode == 0, done.stderr
    assert [row.split()[0] for row in done.stdout.splitlines()[1:3]] == ["one", "two"]
    report = json.loads(Path("r.json").read_text())
    assert [one["name"] for one in report["systems"]] == paths


def test_eval_says_where_tables_are_made(rescore: Run) -> None:
    done = rescore("eval", str(ROOT / "data" / "test.json"), "--table", "t.md")
    assert done.returncode == 2 and INSTEAD["eval", "--table"] in done.stderr


@pytest.mark.parametrize(
    "typed",
    [[], ["--case-sensitive"], ["--metric", "cer", "--split-characters"]],
)
def test_the_hint_of_combine_keeps_what_is_measured(
    typed: list[str], rescore: Run, tmp_path: Path
) -> None:
    for name, text in (("a", "the Cat"), ("b", "the cat"), ("ref", "the cat")):
        (tmp_path / name).write_text(f"u1 {text}\nu2 it\n")
    done = rescore("combine", "a", "b", "--ref", "ref", "-o", "l.jsonl", *typed)
    assert done.returncode == 0, done.stderr
    hint = done.stderr.rpartition("and the vote: rescore ")[2]
    words = shlex.split(hint)
    assert words[words.index("5") + 1 :] == typed


def test_models_say_which_to_take(rescore: Run) -> None:
    done = rescore("models")
    assert "take tta-large for accuracy" in done.stdout
    assert "tta-large" in rescore("run", "-h").stdout


def test_several_outputs_are_one_table_of_all_metrics(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "ref").write_text("u1 the old clock\nu2 a dog\n")
    (tmp_path / "a").write_text("u1 the odd clock\nu2 a dog\n")
    (tmp_path / "b").write_text("u1 the old clock\nu2 dog\n")
    (tmp_path / "words").write_text("clock\ndog\n")
    line = ("eval", "a", "b", "--ref", "ref", "--words", "words", "--report", "r.json")
    done = rescore(*line)
    assert done.returncode == 0, done.stderr
    report = json.loads(Path("r.json").read_text())
    table, signatures = done.stdout.splitlines(), [one["signature"] for one in report]
    assert len(report) == 6
    assert table[-6:] == signatures
    assert [tuple(row.split()[:3]) for row in table[1:-6] if "WER" in row] == [
        (one["metric"], system["name"], f"{system['value']:.2f}")
        for one in report
        for system in one["systems"]
        if "WER" in one["metric"]
    ]
    assert len(table) == 1 + 6 * 2 + 6
    Path("golden.json").write_text(Path("r.json").read_text())
    checked = rescore("check", "r.json", "--golden", "golden.json").stdout
    names = [row.split("  ")[0] for row in checked.splitlines()[1:-1]]
    assert names[:2] == ["a (WER)", "a (WER, utterances)"]
    assert len(set(names)) == len(names)


def test_a_report_is_written_in_several_styles(rescore: Run) -> None:
    """With one name of each output, as `eval` prints it, and one signature."""
    Path("ref").write_text("u1 the old clock\nu2 a dog\n")
    Path("new").mkdir()
    for name, text in (("a", "odd"), ("b", "old"), ("c", "cold")):
        Path(f"new/{name}").write_text(f"u1 the {text} clock\nu2 a dog\n")
    outputs = [f"new/{name}" for name in "abc"]
    assert rescore("eval", *outputs, "--ref", "ref", "--report", "e.json").stdout
    done = rescore("report", "e.json", "-o", "t.md", "-o", "t.tex", "-o", "-")
    assert done.returncode == 0, done.stderr
    assert Path("t.md").read_text().startswith("| dataset |")
    assert r"\begin{tabular}" in Path("t.tex").read_text()
    *rows, signature = done.stdout.splitlines()
    assert [row.split("  ")[0] for row in rows[1:4]] == ["e, a", "e, b", "e, c"]
    assert signature.startswith("e: WER|")
    done = rescore("report", "e.json", "-o", "t.md", "-o", "t.json")
    assert_one_line_error(done, "t.json", "--style")


@pytest.mark.parametrize("flags", ["-q", "--quiet", "-v", "-v -q"])
def test_options_of_logging_may_stand_before_the_command(
    flags: str, rescore: Run
) -> None:
    Path("a").write_text("u1 an owl\n")
    line = ["a", "--ref", "a"]
    before = rescore(*flags.split(), "eval", *line)
    behind = rescore("eval", *flags.split(), *line)
    assert before == behind and before.returncode == 0


def test_a_message_names_few_commands(rescore: Run) -> None:
    Path("l.jsonl").write_text('{"id": "u1", "ref": "a", "hyps": [{"text": "a"}]}\n')
    done = rescore("tune", "l.jsonl", "--lm", "tta", "-o", "w.json")
    assert_one_line_error(
        done, "tune takes no --lm; give it to run or score or compare"
    )
    assert "serve" not in done.stderr
