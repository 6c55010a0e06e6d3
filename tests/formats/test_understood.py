"""Every command says in one line what it read: how many lists of which format, and
where scores, references and sources come from. `-q` silences the line.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rescore import formats
from rescore.formats.likely_ids import MOST_LISTS, LikelyIds
from rescore.formats.rows import Row
from rescore.formats.shapes import records
from rescore.formats.source import InputWarnings
from rescore.formats.understood import Understood
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run
from tests.formats.samples import SAMPLES
from tests.formats.test_toolkits import write

pytestmark = pytest.mark.usefixtures("told_what_is_read")

ROWS = [("u1", "a b", 1.5, 0.5, "a b"), ("u1", "a c", 2.5, 0.25, "a b")]
ROWS += [("u2", "d", 1.0, 0.125, "d")]
NAMES = ("clip", "hyp", "cost", "qe", "truth")
FIELD = ["id=clip", "score=-cost", "ref=truth"]
READ = re.compile(r": [\d,]+ (lists? of .* hypothes[ie]s \(|texts?(,|$))")
FOUND = (
    "ids from clip, texts from hyp, scores from cost (lower is better), references"
    " from truth, columns qe"
)


def table(name: str, names: tuple[str, ...] = NAMES) -> None:
    """Write the rows as CSV, TSV or JSON Lines."""
    path = Path(name)
    if path.suffix == ".json":
        objects = [dict(zip(names, row, strict=True)) for row in ROWS]
        path.write_text("".join(json.dumps(one) + "\n" for one in objects))
        return
    delimiter = {".csv": ",", ".tsv": "\t"}[path.suffix]
    lines = [delimiter.join(map(str, row)) for row in (names, *ROWS)]
    path.write_text("\n".join([*lines, ""]))


def told(stderr: str) -> list[str]:
    """Return the lines that say what was read, without the name of the program."""
    lines = []
    for line in stderr.splitlines():
        if READ.search(line):
            lines.append(line.removeprefix("rescore: "))
    return lines


@pytest.mark.parametrize(
    ("name", "format_name"), [("t.csv", "CSV"), ("t.tsv", "TSV"), ("t.json", "JSON")]
)
def test_a_table_says_under_which_names_it_found_what(
    rescore: Run, name: str, format_name: str
) -> None:
    table(name)
    fields = [f"--field={pair}" for pair in [*FIELD, "qe=qe"]]
    done = rescore("convert", name, *fields, "-o", "x.jsonl")
    assert done.returncode == 0, done.stderr
    line = f"{name}: 2 lists of 1 to 2 hypotheses ({format_name}), {FOUND}"
    assert told(done.stderr) == [line]
    assert not rescore("convert", name, *fields, "-o", "x.jsonl", "-q").stderr


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.json"])
def test_names_that_say_it_themselves_are_not_told(rescore: Run, name: str) -> None:
    table(name, ("id", "text", "score", "qe", "ref"))
    done = rescore("convert", name, "--field", "qe=qe", "-o", "x.jsonl")
    (line,) = told(done.stderr)
    assert line.partition("), ")[2] == "with references, columns qe"


def test_the_first_pass_of_the_call_is_told(rescore: Run) -> None:
    table("t.csv", ("id", "text", "score", "qe", "ref"))
    for s2s, said in (("qe", "scores from qe"), ("rank", "scores from the order")):
        done = rescore("convert", "t.csv", "--s2s", s2s, "-o", "x.jsonl")
        assert said in told(done.stderr)[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_is_named_with_the_number_of_its_lists(
    rescore: Run, tmp_path: Path, name: str
) -> None:
    path = write(tmp_path, SAMPLES[name])
    lists = list(formats.iterate([path]))
    done = rescore("convert", path, "-o", "x.jsonl")
    (line,) = told(done.stderr)
    shown = {"csv": "CSV", "tsv": "TSV", "json": "JSON"}.get(name, name)
    number = "1 list" if len(lists) == 1 else f"{len(lists)} lists"
    assert f": {number} of " in line and f"({shown})" in line
    sizes = sorted(len(nbest.hypotheses) for nbest in lists)
    size = "one" if sizes[-1] == 1 else str(sizes[-1])
    assert f"{size} hypothes" in line


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ("u1 a b\nu2 d\n", " (Kaldi text)"),
        ("a b (u1)\nd (u2)\n", " (trn)"),
        ("a b\nd\n", " (lines in order)"),
        ("id,ref\nu1,a b\nu2,d\n", ""),
    ],
)
def test_files_of_references_and_sources_are_told(
    rescore: Run, content: str, form: str
) -> None:
    table("t.csv", ("id", "text", "score", "qe", "more"))
    ending = ".csv" if "," in content else ".txt"
    Path(f"ref{ending}").write_text(content)
    Path("src").write_text("u1 x\nu2 y\n")
    command = ["run", "t.csv", "--ref", f"ref{ending}", "--src", "src"]
    if form == " (lines in order)":  # the lists have ids
        command += ["--ref-format", "plain"]
    done = rescore(*command)
    assert done.returncode == 0, done.stderr
    (line,) = told(done.stderr)
    assert f", references from ref{ending}{form}, sources from src" in line


def test_references_that_replace_those_of_the_lists_are_told(rescore: Run) -> None:
    hyps = '"hyps": [{"text": "an owl"}, {"text": "an elk"}]'
    Path("ref.trn").write_text("an elk (u)\n")
    Path("owns.jsonl").write_text(f'{{"id": "u", {hyps}, "ref": "an owl"}}\n')
    Path("lacks.jsonl").write_text(f'{{"id": "u", {hyps}}}\n')
    Path("texts.trn").write_text("an owl (u)\n")
    for name in ("owns.jsonl", "lacks.jsonl", "texts.trn"):
        done = rescore("eval", name, "--ref", "ref.trn")
        replaced = "ref.trn (trn), not from the lists" in done.stderr
        assert replaced == (name == "owns.jsonl"), done.stderr


def test_each_set_has_a_line_in_each_command(rescore: Run) -> None:
    for name in ("dev.csv", "test.csv"):
        table(name, ("id", "text", "score", "qe", "ref"))
    for name in ("a.txt", "b.txt"):
        Path(name).write_text("u1 a b\nu2 d\n")
    commands = {
        "run test.csv --dev dev.csv": ["test.csv", "dev.csv"],
        "tune dev.csv -o w.json": ["dev.csv"],
        "rerank test.csv --weights w.json -o out.jsonl": ["test.csv"],
        "rerank test.csv --weights w.json --best out.text -q": [],
        "eval test.csv dev.csv": ["test.csv", "dev.csv"],
        "analyse test.csv --weights w.json": ["test.csv"],
        "confidence test.csv --weights w.json -o c.jsonl": ["test.csv"],
        "combine a.txt b.txt -o both.jsonl": ["a.txt", "b.txt"],
        "eval out.text --ref test.csv": ["out.text"],
    }
    for command, names in commands.items():
        done = rescore(*command.split())
        assert done.returncode == 0, done.stderr
        lines = told(done.stderr)
        assert [line.partition(":")[0] for line in lines] == names, command
        assert not told(rescore(*command.split(), "-q").stderr), command


def test_many_paths_are_not_all_named() -> None:
    understood = Understood([f"part{number}.jsonl" for number in range(2_000)])
    nbest = NbestList("u", [Hypothesis("a", {"s2s": 0.0})])
    for _ in range(2_000):
        understood.add(nbest)
    understood.formats["native"] = None
    line = str(understood)
    start = "part0.jsonl, part1.jsonl, part2.jsonl, ...: "
    assert line == f"{start}2,000 lists of one hypothesis (native)"


def test_a_set_is_read_once(rescore: Run) -> None:
    """Standard input can be read only once, and is told as well."""
    done = rescore("convert", "-", "-o", "x.jsonl", input="id,text,score\nu,a,1\n")
    assert told(done.stderr) == ["<stdin>: 1 list of one hypothesis (CSV)"]


def test_correct_says_how_many_texts_of_which_format(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "terms.txt").write_text("kubectl\n")
    (tmp_path / "a.trn").write_text("run cube (a-0)\nask (a-1)\n\n")
    done = rescore("correct", "a.trn", "--words", "terms.txt")
    assert done.stderr == "rescore: a.trn: 2 texts (trn)\n"
    assert rescore("correct", "a.trn", "--words", "terms.txt", "-q").stderr == ""
    (tmp_path / "b.txt").write_text("hello\n")
    done = rescore("correct", "a.trn", "b.txt", "--words", "terms.txt", "-o", "new")
    assert done.stderr == "rescore: a.trn, b.txt: 3 texts (trn, plain)\n"


USUAL = (*records()["json"].id, *records()["json"].id_else)
WIDE = ("t.csv", "t.tsv", "t.jsonl")


def wide(name: str, column: str, ids: tuple[str, ...]) -> None:
    """Write a table with a column for each of two hypotheses."""
    rows = []
    for number, utterance in enumerate(ids):
        language = "en" if number < len(ids) / 2 else "de"
        rows.append((utterance, language, f"owl {number}", f"elk {number}"))
    names = (column, "lang", "h1", "h2")
    if name.endswith(".jsonl"):
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        Path(name).write_text("".join(json.dumps(one) + "\n" for one in objects))
        return
    delimiter = "," if name.endswith(".csv") else "\t"
    lines = [delimiter.join(row) for row in (names, *rows)]
    Path(name).write_text("\n".join([*lines, ""]))


def converted(rescore: Run, name: str) -> tuple[list[str], str]:
    """Return the ids of a wide table, and what the command says."""
    done = rescore("convert", name, "--field", "text=h*", "-o", "x.jsonl")
    assert done.returncode == 0, done.stderr
    return [nbest.id for nbest in formats.read(["x.jsonl"])], done.stderr


@pytest.mark.parametrize("name", WIDE)
def test_each_usual_column_of_ids_is_told(rescore: Run, name: str) -> None:
    ids = ("a_1.wav", "a_2.wav", "a_3.wav", "a_4.wav")
    for column in USUAL:
        wide(name, column, ids)
        found, said = converted(rescore, name)
        assert found == list(ids), column
        assert (f"ids from {column}," in said) == (column != "id"), column


@pytest.mark.parametrize("name", WIDE)
def test_the_order_gives_ids_where_no_column_is_known(rescore: Run, name: str) -> None:
    """A line names the column whose values look like ids, if there is one."""
    columns = {
        ("talk", "a_1", "a_2", "a_3", "a_4"): True,
        ("talk", "a.wav", "b.wav", "c.wav", "d.wav"): True,
        ("talk", "a_1", "a_1", "a_2", "a_2"): False,
        ("talk", "a 1", "a 2", "a 3", "a 4"): False,
        ("mood", "glad", "sad", "calm", "cross"): False,
        ("speaker", "s_1", "s_2", "s_3", "s_4"): False,
        ("model", "m_1", "m_2", "m_3", "m_4"): False,
        ("item", "4", "3", "2", "1"): False,
    }
    for (column, *ids), is_named in columns.items():
        wide(name, column, tuple(ids))
        found, said = converted(rescore, name)
        assert found == ["1", "2", "3", "4"]
        assert "ids from the order," in said
        assert (f"if {column} has the ids: --field id={column}" in said) == is_named
        assert "of one hypothesis" not in said, column


def test_lists_behind_many_single_texts_are_not_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    ids = LikelyIds(["talk"])
    row = Row("", "t.jsonl, line 1", "a text")
    for number in range(MOST_LISTS + 1):
        ids.add({"talk": f"a_{number}"}, row, is_list=False)
    for last in ("b_1", "a_0"):
        ids.add({"talk": last}, row, is_list=True)
    ids.tell(InputWarnings(), "t.jsonl")
    assert "--field id=talk" in caplog.text


def test_ids_are_looked_for_in_the_first_lists_alone(rescore: Run) -> None:
    """What is kept of a long file does not grow with it."""
    for last in ("b_1", "a_0"):  # a copy behind the first lists says nothing
        wide("t.csv", "talk", (*(f"a_{n}" for n in range(MOST_LISTS)), last))
        assert "--field id=talk" in converted(rescore, "t.csv")[1]
