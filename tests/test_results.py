"""docs/results, the README and the pages that quote them: each number with a decimal
point is one that a command wrote, or one that docs/results/others.json declares, with
the reason.

A table below `<!-- table FILE -->` is the table of this file, to the letter. A number
of a sentence, or of a table without a marker, is a figure of a file, rounded as
printed: sentences.json names the figures under the heading of their section, in the
order of the page. All other numbers stand in others.json in the same way: numbers of
papers, settings, and figures of versions whose training takes hours. Both also have the
paragraphs of other pages that link to docs/results or name a public set.

What this cannot see: whole numbers in sentences.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rescore.signature import parse
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
results = importlib.import_module("results")
sys.path.remove(str(ROOT / "benchmarks"))

PAGES = results.pages()
IDS = [page.stem for page in PAGES]
QUOTING = sorted((ROOT / "docs").glob("*.md"))
ALL = [*PAGES, *QUOTING]
ALL_IDS = [*IDS, *(f"docs/{page.stem}" for page in QUOTING)]
CODE = re.compile(r"```(?s:.*?)```|`[^`]*`|^    .*$|\]\([^)]*\)|<!--.*-->", re.M)
FROM_RESULTS = re.compile(
    r"^#|\]\(results/|LibriSpeech|IWSLT|Revolab|Earnings|test-other"
)
"""Paragraphs of other pages whose numbers are figures of docs/results; and headings."""
MARKER = re.compile(r"^<!-- run -->", re.M)
VERSION = re.compile(r"\b0\.\d\.\d\b")
TABLE = re.compile(r"(?:^\|.*\n)+", re.M)
NUMBER = re.compile(r"(?<![\w.])[\d,]*\d\.\d+(?!\.?\d)")


def read(page: Path) -> str:
    """A page; of a page that is not in docs/results, what quotes figures."""
    text = page.read_text(encoding="utf-8")
    if page not in QUOTING:
        return text
    paragraphs = re.split(r"\n\n+", text)
    return "\n\n".join(part for part in paragraphs if FROM_RESULTS.search(part))


def name_of(page: Path) -> str:
    """The name of a page in others.json and in sentences.json."""
    return f"docs/{page.stem}" if page.parent.name == "docs" else page.stem


def declared(page: Path) -> list[dict[str, Any]]:
    """What others.json has for a page: the section, the reason, the numbers, the
    version that measured them, if one did, and the page of docs/results that has them.
    """
    text = (results.FIGURES / "others.json").read_text(encoding="utf-8")
    records: list[dict[str, Any]] = json.loads(text).get(name_of(page), [])
    return records


def said(page: Path) -> dict[str, list[str]]:
    """The figures of the sentences of a page, by section."""
    text = (results.FIGURES / "sentences.json").read_text(encoding="utf-8")
    figures: dict[str, list[str]] = json.loads(text).get(name_of(page), {})
    return figures


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield the headings of a page, and what stands below them, without the tables that
    have a marker.
    """
    left = results.MARKED_TABLE.sub("\n", text)
    for part in re.split(r"^#+ ", left, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield heading, body


def numbers(text: str) -> list[str]:
    """The numbers with a decimal point, outside code and links; versions are none."""
    return [found.replace(",", "") for found in NUMBER.findall(CODE.sub(" ", text))]


def figure(name: str) -> float:
    """A figure of a file, such as `asr/other.json rows.2.value`."""
    file, _, keys = name.partition(" ")
    value = json.loads((results.FIGURES / file).read_text(encoding="utf-8"))
    for key in keys.split("."):
        value = value[int(key) if key.isdecimal() else key]
    return float(value)


def rounded(name: str, number: str) -> str:
    """A figure with as many places as a number has."""
    return f"{abs(figure(name)):.{len(number.partition('.')[2])}f}"


def unknown(page: Path, text: str) -> dict[str, list[str]]:
    """The numbers of each section that sentences.json does not have, and the figures
    of sentences.json that no sentence has.
    """
    found: dict[str, list[str]] = {}
    figures = said(page)
    for heading, body in sections(text):
        others, left = [], list(figures.get(heading, []))
        for number in numbers(body):
            if left and rounded(left[0], number) == number:
                left.pop(0)
            else:
                others.append(number)
        if others or left:
            found[heading] = others + left
    return found


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_tables_are_those_of_their_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert results.with_tables(text) == text


@pytest.mark.parametrize("page", ALL, ids=ALL_IDS)
def test_each_number_was_written_by_a_command_or_is_declared(page: Path) -> None:
    known = {each["section"]: each["numbers"].split() for each in declared(page)}
    assert unknown(page, read(page)) == known


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


@pytest.mark.parametrize("page", ALL, ids=ALL_IDS)
def test_a_changed_digit_is_found(page: Path) -> None:
    """Of a dozen numbers of the page, whoever declares them."""
    known = {each["section"]: each["numbers"].split() for each in declared(page)}
    left = results.MARKED_TABLE.sub("\n", read(page))
    text = CODE.sub(_blank, left)
    there = list(NUMBER.finditer(re.sub(r"^#.*", _blank, text, flags=re.M)))
    for number in there[:: len(there) // 12 + 1]:
        last = number.end() - 1
        digit = str((int(text[last]) + 3) % 10)
        assert unknown(page, text[:last] + digit + text[last + 1 :]) != known, number


def test_sentences_name_files_that_commands_write() -> None:
    text = (results.FIGURES / "sentences.json").read_text(encoding="utf-8")
    written = set(results.all_named())
    for page in json.loads(text).values():
        for figures in page.values():
            assert {name.partition(" ")[0] for name in figures} <= written


@pytest.mark.parametrize("page", QUOTING, ids=ALL_IDS[len(PAGES) :])
def test_a_quoted_number_stands_on_its_page(page: Path) -> None:
    for record in declared(page):
        if source := record.get("page"):
            text = (results.FIGURES / f"{source}.md").read_text(encoding="utf-8")
            assert set(record["numbers"].split()) <= set(numbers(text)), record


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_figures_of_another_version_say_so(page: Path) -> None:
    """Their own section names the version, not the introduction of the page alone."""
    said = dict(sections(page.read_text(encoding="utf-8")))
    for record in declared(page):
        version = record.get("version", "")
        assert version in said[record["section"]], record["section"]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_tables_of_several_versions_say_theirs(page: Path) -> None:
    """In a section with tables of several versions, the text before a table, from the
    last paragraph that starts in bold, names a version.
    """
    text = page.read_text(encoding="utf-8")
    known = {each["section"] for each in declared(page) if "version" in each}
    marked = {heading for heading, body in sections(text) if MARKER.search(body)}
    for heading, body in sections(text):
        several = heading in marked or len(set(VERSION.findall(body))) > 1
        if heading in known and several:
            for rows in TABLE.finditer(body):
                before = re.split(r"^\*\*", body[: rows.start()], flags=re.M)[-1]
                assert VERSION.search(before) or not numbers(rows[0]), rows[0]


def measured(name: str, kind: str, layer: str) -> dict[str, Any]:
    """A row of `rescore similarity -o`."""
    settings = f"kind:{kind}|layer:{layer}|pooling:mean"
    return {
        "name": name,
        "pairs": 9,
        "pearson": 64.31,
        "pearson_interval": [61.0, 67.0],
        "spearman": 65.0,
        "spearman_interval": [60.0, 70.0],
        "signature": f"r|{settings}|sig:2|rescore:0.3.0",
    }


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([("tta", "context", "last"), ("bilm", "context", "last")], ["tta", "bilm"]),
        (
            [("tta", "context", "last"), ("tta", "hidden", "last")],
            ["tta, kind context", "tta, kind hidden"],
        ),
        (
            [("tta", "context", "last"), ("tta", "hidden", "2")],
            ["tta, kind context, layer last", "tta, kind hidden, layer 2"],
        ),
    ],
)
def test_rows_of_several_files_say_what_differs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[str, str, str]],
    names: list[str],
) -> None:
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    files = []
    for row in rows:
        files.append(f"{len(files)}.json")
        (tmp_path / files[-1]).write_text(json.dumps([measured(*row)]))
    _, _, *shown = results.table(files).splitlines()
    assert shown == [
        f"| {name} | 64.3 | 61.0-67.0 | 65.0 | 60.0-70.0 |" for name in names
    ]


def test_an_object_of_objects_has_a_row_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    rows = {"full": {"A3T": 5.084, "mean": 6.6}, "l2": {"A3T": 5, "reversed": 7}}
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    head, _, *shown = results.table(["rows.json"]).splitlines()
    assert head == "|  | A3T | mean | reversed |"
    assert shown == ["| full | 5.08 | 6.60 |  |", "| l2 | 5.00 |  | 7.00 |"]


@pytest.mark.parametrize(
    ("module", "row", "shown"),
    [
        (
            "agreement",
            ("Compared", "calls", 200, 5.8, 5.3, 4.871, 34, 8, 0.99, 6.84),
            "| calls | 200 | 5.80 | 5.30 | 4.87 | 34 | 8 | 0.99 | 6.84 |",
        ),
        (
            "references",
            ("Needed", "calls", 16, 25, 8.771, 8.71, 9.87, 8.68, 8.65),
            "| calls | 16 | 25 | 8.77 | 8.71 | 9.87 | 8.68 | 8.65 |",
        ),
        (
            "tuned",
            ("Tuned", "three", 40, 31, 7, 2, 0.09, 1.5),
            "| three | 40 | 31 | 7 | 2 | 0.09 | 1.50 |",
        ),
    ],
)
def test_votes_on_random_subsets_have_a_table(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    row: tuple[Any, ...],
    shown: str,
) -> None:
    """Of several files, too."""
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    script = importlib.import_module(module)
    name, *values = row
    script.write_json([getattr(script, name)(*values)], tmp_path / "one.json")
    head, _, *rows = results.table(["one.json", "one.json"]).splitlines()
    assert rows == [shown, shown]
    assert head.count("|") == shown.count("|")


def test_rules_of_several_sets_stand_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    script = importlib.import_module("sureness")
    files = []
    for number, name in enumerate(("calls", "lines")):
        rules = [script.Rule("nowhere", 0, 5.3 + number, 0, 0)]
        rules.append(script.Rule("everywhere", 200, 4.87 + number, 34, 8))
        files.append(f"{name}.json")
        one = script.Sureness(name, 200, 71, 34, 30, rules)
        script.write_json([one], tmp_path / files[-1])
    assert results.table(files).splitlines() == [
        "| votes by agreement are taken | calls | lines |",
        "| --- | ---: | ---: |",
        "| nowhere | 5.30, 0, 0 | 6.30, 0, 0 |",
        "| everywhere | 4.87, 34, 8 | 5.87, 34, 8 |",
    ]


def test_a_table_has_the_intervals_that_its_marker_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    shutil.copy(ROOT / "data" / "golden.json", tmp_path)
    (usual, wide) = (
        results.table(["golden.json", *options]) for options in ([], ["--intervals"])
    )
    interval = re.compile(r"\(\d+\.\d\d-\d+\.\d\d")
    assert not interval.search(usual) and interval.search(wide)


def test_each_set_of_a_page_has_its_source() -> None:
    """Each folder that a marked command reads is made by the page's commands, is
    benchmarks/, data/ or examples/, or has a line in docs/measurements.md, with a link.
    """
    text = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## Public sets")
    known = set(
        re.findall(r"^\| `([\w-]+)` \|.*(?:\]\(https?://| the same )", section, re.M)
    )
    for page in PAGES:
        commands = "".join(results.blocks(page.read_text(encoding="utf-8")))
        read = set(re.findall(r"(?<![\w./$-])([a-z][\w-]*)/", commands))
        made = set(re.findall(r"(?:mkdir|--out) ([\w-]+)", commands))
        own = {"benchmarks", "data", "examples"}
        assert read - made - own <= known, page.stem


def test_a_page_is_made_from_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its commands run beside the public sets, and its tables and files are theirs; a
    new marker gets its first table.
    """
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    page = folder / "demo.md"
    block = "<!-- run -->\n\n    cp sets/golden.json \\\n        demo.json\n"
    page.write_text(
        f"# Demo\n\n{block}\n<!-- table demo/demo.json -->\n\nEnd: 14.03.\n",
        encoding="utf-8",
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sets").symlink_to(ROOT / "data")
    monkeypatch.setattr(results, "FIGURES", folder)
    monkeypatch.setattr(results, "pages", lambda: [page])
    line = ["results.py", "--data", str(tmp_path / "data")]
    monkeypatch.setattr(sys, "argv", [*line, "--work", str(tmp_path / "work")])
    results.main()
    assert capsys.readouterr().out.endswith(
        "changed: results/demo.md, demo/demo.json\n"
    )
    results.main()
    assert capsys.readouterr().out.endswith("no figure changed\n")
    monkeypatch.setattr(sys, "argv", [*line, "--page", "none"])
    with pytest.raises(SystemExit, match=r"no page none .* expected demo"):
        results.main()
    text = page.read_text(encoding="utf-8")
    assert "| tta | **14.03‡** |\n\nEnd: 14.03.\n" in text
    assert results.with_tables(text) == text
    golden = json.loads((ROOT / "data" / "golden.json").read_text(encoding="utf-8"))
    kept = json.loads((folder / "demo" / "demo.json").read_text(encoding="utf-8"))
    assert kept == results.without_times(golden)
    said = {"demo": {"Demo": ["demo/demo.json metrics.0.reranked"]}}
    (folder / "sentences.json").write_text(json.dumps(said), encoding="utf-8")
    assert unknown(page, text) == {}
    changed = text.replace("End: 14.03", "End: 14.08")
    missing = "demo/demo.json metrics.0.reranked"
    assert unknown(page, changed) == {"Demo": ["14.08", missing]}
    assert results.with_tables(text.replace("**14.03", "**14.08")) == text


@pytest.mark.parametrize(
    ("figures", "is_changed"),
    [
        ({"wer": 1.5, "rows": [{"name": "tta", "dev": None, "unit": None}]}, False),
        ({"wer": 1.5, "rows": [{"name": "tta"}]}, False),
        ({"wer": 1.6, "rows": [{"name": "tta", "dev": None}]}, True),
        ({"wer": None, "rows": [{"name": "tta", "dev": None}]}, True),
        ({"wer": 1.5, "rows": [{"name": "tta", "dev": 3}]}, True),
        ({"wer": 1.5, "rows": [{"name": "tta"}, None]}, True),
    ],
)
def test_a_file_is_written_where_a_figure_changed(
    tmp_path: Path, figures: Any, is_changed: bool
) -> None:
    """Not where a key with the value null came or went."""
    file = tmp_path / "demo" / "demo.json"
    results.keep({"wer": 1.5, "rows": [{"name": "tta", "dev": None}]}, file)
    before = file.read_text(encoding="utf-8")
    results.keep(figures, file)
    after = file.read_text(encoding="utf-8")
    assert (after != before) == is_changed
    assert json.loads(after) == (figures if is_changed else json.loads(before))


def test_signatures_of_the_results_are_whole() -> None:
    """Each is one that `rescore` reads; no page shows one itself."""
    text = (results.FIGURES / "others.json").read_text(encoding="utf-8")
    for records in json.loads(text).values():
        for record in records:
            for row, signature in record.get("signatures", {}).items():
                if "|w:" not in signature:
                    continue  # the form before weights of columns had their own fields
                read = parse(signature)
                assert read.versions["rescore"] and read.tuned and read.weights, row
    for page in PAGES[1:]:
        assert not re.search(r"\|tuned:\d+@", page.read_text(encoding="utf-8"))
