"""docs/results, the README and the pages that quote them: each number with a decimal
point is one that a command wrote, or one that docs/results/others.json declares, with
a kind and the reason.

A table below `<!-- table FILE -->` is the table of this file, to the letter. A number
of a sentence, or of a table without a marker, is a figure of a file, rounded as
printed: sentences.json names the figures under the heading of their section, in the
order of the page. All other numbers stand in others.json, in records of a kind
(`others.Kind`: numbers of papers, settings, figures of versions whose training takes
hours, times, quotes of other pages), and the page keeps what the kind promises. Both
files also have the paragraphs of other pages that link to docs/results or name a public
set.

What this cannot see: whole numbers in sentences.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rescore.errors import UserError
from rescore.signature import parse
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
results = importlib.import_module("results")
others = importlib.import_module("others")
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
RESULT = re.compile(r"(?:^|\|)[^A-Za-z`|]*")
PLACE = re.compile(r"\b(?:[Tt]able|[Ff]igure|[Ss]ection|[Cc]hapter|[Ee]quation)s? \d")
"""A place in a paper."""
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


@cache
def parsed(text: str) -> Any:
    """What a text of JSON says: many tests ask for the same."""
    return json.loads(text)


def declared(name: str) -> list[Any]:
    """The records that others.json has for a page (`others.Declared`)."""
    records: dict[str, list[Any]] = others.read(results.FIGURES / "others.json")
    return records.get(name, [])


def said(page: Path) -> dict[str, list[str]]:
    """The figures of the sentences of a page, by section."""
    text = (results.FIGURES / "sentences.json").read_text(encoding="utf-8")
    figures: dict[str, list[str]] = parsed(text).get(name_of(page), {})
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
    value = parsed((results.FIGURES / file).read_text(encoding="utf-8"))
    for key in keys.split("."):
        value = value[int(key) if key.isdecimal() else key]
    return float(value)


def is_shown(entry: str, number: str) -> bool:
    """Whether a number of a page is the one that an entry of sentences.json or of
    others.json stands for: the figure, rounded as the page has it, or the number.
    """
    if " " not in entry:
        return entry == number
    places = len(number.partition(".")[2])
    return f"{abs(figure(entry)):.{places}f}" == number


def sources(page: Path) -> dict[str, list[list[str]]]:
    """The lists that the numbers of a section come from, by section: the figures of
    sentences.json, and the numbers of each record of others.json.
    """
    lists = {heading: [figures] for heading, figures in said(page).items()}
    for record in declared(name_of(page)):
        lists.setdefault(record.section, []).append(record.numbers.split())
    return lists


def after(
    places: tuple[int, ...], number: str, lists: list[list[str]]
) -> set[tuple[int, ...]]:
    """The places in the lists behind a number, for each list that has it next."""
    behind = set()
    for which, entries in enumerate(lists):
        place = places[which]
        if place < len(entries) and is_shown(entries[place], number):
            behind.add((*places[:which], place + 1, *places[which + 1 :]))
    return behind


def mismatch(shown: list[str], lists: list[list[str]]) -> str:
    """What is wrong with the numbers of a section, or nothing. Each number is the next
    of one of the lists, and no list has more numbers.
    """
    reached = {(0,) * len(lists)}
    for number in shown:
        behind = {each for places in reached for each in after(places, number, lists)}
        if not behind:
            following = remaining(max(reached), lists)
            return f"{number}; expected {' or '.join(following) or 'no number'}"
        reached = behind
    missing = remaining(max(reached), lists)
    return f"no {' and no '.join(missing)}" if missing else ""


def remaining(places: tuple[int, ...], lists: list[list[str]]) -> list[str]:
    """The next entry of each list that is not at its end."""
    left = (entries[place:] for place, entries in zip(places, lists, strict=True))
    return [entries[0] for entries in left if entries]


def unknown(page: Path, text: str) -> dict[str, str]:
    """What is wrong with the numbers of a page, by section."""
    lists = sources(page)
    bodies: dict[str, str] = {}
    for heading, body in sections(text):
        bodies[heading] = bodies.get(heading, "") + body
    wrong = {}
    for heading in bodies | lists:
        shown = numbers(bodies.get(heading, ""))
        if message := mismatch(shown, lists.get(heading, [])):
            wrong[heading] = message
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_tables_are_those_of_their_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert results.with_tables(text) == text


@pytest.mark.parametrize("page", ALL, ids=ALL_IDS)
def test_each_number_was_written_by_a_command_or_is_declared(page: Path) -> None:
    assert unknown(page, read(page)) == {}


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


@pytest.mark.parametrize("page", ALL, ids=ALL_IDS)
def test_a_changed_digit_is_found(page: Path) -> None:
    """Of a dozen numbers of the page, whoever declares them."""
    left = results.MARKED_TABLE.sub("\n", read(page))
    text = CODE.sub(_blank, left)
    there = list(NUMBER.finditer(re.sub(r"^#.*", _blank, text, flags=re.M)))
    for number in there[:: len(there) // 12 + 1]:
        last = number.end() - 1
        digit = str((int(text[last]) + 3) % 10)
        assert unknown(page, text[:last] + digit + text[last + 1 :]), number


def test_sentences_name_files_that_commands_write() -> None:
    text = (results.FIGURES / "sentences.json").read_text(encoding="utf-8")
    written = set(results.all_named())
    for page in json.loads(text).values():
        for figures in page.values():
            assert {name.partition(" ")[0] for name in figures} <= written


def without_results(text: str) -> str:
    """A text without the results of its tables: from the second column on, what a
    cell has before its first letter.
    """

    def kept(table: re.Match[str]) -> str:
        head, _, *rows = table[0].splitlines()
        split = [row[1:].partition("|") for row in rows]
        words = [first + RESULT.sub(" ", rest) for first, _, rest in split]
        return "\n".join([head, *words]) + "\n"

    return TABLE.sub(kept, text)


def has_keys_of_its_kind(record: Any) -> bool:
    """Whether a record of others.json has the keys that its kind needs, and no keys of
    another kind.
    """
    keys = {key for keys in others.KEYS.values() for key in keys}
    present = {key for key in keys if getattr(record, key)}
    return present == set(others.KEYS[record.kind])


def absent(words: list[str], text: str) -> str:
    """A message if a text does not have each of some words, or nothing."""
    missing = [each for each in words if each not in text]
    return f"not named: {' and '.join(missing)}" if missing else ""


def quotable(name: str) -> set[str]:
    """The numbers that a page declares, but not as quotes of another page."""
    own = [each for each in declared(name) if each.kind != others.Kind.QUOTED]
    return {number for record in own for number in record.numbers.split()}


def broken(record: Any, name: str, text: str) -> str:
    """What a record of others.json promises (`others.Kind`) and its page does not
    keep, or nothing.

    Args:
        record: The record.
        name: The name of its page.
        text: The text of its page.
    """
    if not has_keys_of_its_kind(record):
        return f"{record.kind} needs {others.KEYS[record.kind]}, and no key of others"
    body = dict(sections(text)).get(record.section, "")
    section = " ".join(f"{record.section}\n{body}".split())
    shown = set(record.numbers.split())
    match record.kind:
        case others.Kind.CITED if not PLACE.search(record.source):
            return f"{record.source}: no table, figure, section or chapter"
        case others.Kind.CITED:
            return absent([record.source], section)
        case others.Kind.FORMER if name != "docs/upgrade":
            return "only docs/upgrade compares versions"
        case others.Kind.HOURS | others.Kind.FORMER:
            return absent([record.version], section)
        case others.Kind.TIME:
            return absent([record.version, record.machine], text)
        case others.Kind.SETTING:
            results_alone = shown - set(numbers(without_results(body)))
            return f"results: {results_alone}" if results_alone else ""
        case _:
            unquotable = shown - quotable(record.page)
            what = "name a figure of a file in sentences.json"
            return f"not declared: {unquotable}; {what}" if unquotable else ""


@pytest.mark.parametrize("page", ALL, ids=ALL_IDS)
def test_each_record_keeps_the_promise_of_its_kind(page: Path) -> None:
    name, text = name_of(page), read(page)
    messages = {
        (record.section, record.numbers): broken(record, name, text)
        for record in declared(name)
    }
    assert {place: said for place, said in messages.items() if said} == {}


PAPER = """# A page

The rows of version 0.2.0 beside Table 3 of
the paper, on two cores of a CPU, with the level 0.5.

| lambda | WER |
| --- | ---: |
| 0.3 | 14.7 (`tta`) |
"""
CITED = {"kind": "cited", "numbers": "14.7"}
SETTING = {"kind": "setting", "numbers": "0.5 0.3"}
HOURS = {"kind": "hours", "numbers": "14.7"}
TIME = {"kind": "time", "numbers": "14.7"}
QUOTED = {"kind": "quoted", "numbers": "14.7"}
CPU = {"version": "0.2.0", "machine": "two cores of a CPU"}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (CITED | {"source": "Table 3 of the paper"}, ""),
        (CITED, "cited needs"),
        (CITED | {"source": "the paper"}, "the paper: no table"),
        (CITED | {"source": "Table 4 of the paper"}, "not named: Table 4"),
        (SETTING, ""),
        (SETTING | {"version": "0.2.0"}, "setting needs"),
        (SETTING | {"numbers": "0.3 14.7"}, "results: {'14.7'}"),
        (HOURS | {"version": "0.2.0"}, ""),
        (HOURS | {"version": "0.1.0"}, "not named: 0.1.0"),
        (HOURS | {"kind": "former", "version": "0.2.0"}, "only docs/upgrade"),
        (TIME | CPU, ""),
        (TIME | CPU | {"machine": "H200"}, "not named: H200"),
        (QUOTED | {"page": "own"}, ""),
        (QUOTED | {"page": "second"}, "not declared: {'14.7'}"),
        (QUOTED | {"page": "none"}, "not declared: {'14.7'}"),
    ],
)
def test_a_broken_promise_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record: dict[str, str],
    message: str,
) -> None:
    place = {"section": "A page", "reason": "a test"}
    own = place | HOURS | {"version": "0.2.0"}
    second = place | QUOTED | {"page": "own"}
    pages = {"own": [own], "second": [second], "demo": [place | record]}
    (tmp_path / "others.json").write_text(json.dumps(pages), encoding="utf-8")
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    said = broken(declared("demo")[0], "demo", PAPER)
    assert said.startswith(message) and bool(said) == bool(message)


def test_a_record_without_a_kind_says_what_to_add(tmp_path: Path) -> None:
    file = tmp_path / "others.json"
    record = {"section": "Top", "reason": "settings", "numbers": "0.5"}
    file.write_text(json.dumps({"demo": [record]}), encoding="utf-8")
    with pytest.raises(UserError, match=r"demo, section 'Top': .* add one of cited, "):
        others.read(file)


def test_declared_numbers_are_counted_by_page_and_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    top = {"section": "Top"}
    pages = {"one": [top | SETTING, top | QUOTED], "two": [top | SETTING]}
    (tmp_path / "others.json").write_text(json.dumps(pages), encoding="utf-8")
    monkeypatch.setattr(results, "FIGURES", tmp_path)
    monkeypatch.setattr(sys, "argv", ["results.py", "--declared"])
    results.main()
    assert capsys.readouterr().out == (
        "| page | cited | setting | hours | former | time | quoted |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| one |  | 2 |  |  |  | 1 |\n"
        "| two |  | 2 |  |  |  |  |\n"
        "| all |  | 4 |  |  |  | 1 |\n"
    )


@pytest.mark.parametrize(
    ("shown", "lists", "message"),
    [
        ("1.0 2.0 3.0", ["1.0 3.0", "2.0"], ""),
        ("1.0 2.0 1.0 3.0", ["1.0 3.0", "1.0 2.0"], ""),
        ("1.0 3.0 1.0 2.0", ["1.0 2.0", "1.0 3.0"], ""),
        ("2.0 1.0", ["1.0 2.0"], "2.0; expected 1.0"),
        ("1.0 4.0", ["1.0 2.0", "3.0"], "4.0; expected 2.0 or 3.0"),
        ("1.0", [], "1.0; expected no number"),
        ("1.0", ["1.0 2.0", "3.0"], "no 2.0 and no 3.0"),
    ],
)
def test_numbers_of_a_section_are_those_of_its_lists(
    shown: str, lists: list[str], message: str
) -> None:
    """Each list in its order, and the lists among each other in any order."""
    assert mismatch(shown.split(), [each.split() for each in lists]) == message


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_tables_of_several_versions_say_theirs(page: Path) -> None:
    """In a section with tables of several versions, the text before a table of an
    earlier version, from the last paragraph that starts in bold, names a version.
    """
    text = page.read_text(encoding="utf-8")
    known: dict[str, set[str]] = {}
    for record in declared(name_of(page)):
        if record.version:
            known.setdefault(record.section, set()).update(record.numbers.split())
    marked = {heading for heading, body in sections(text) if MARKER.search(body)}
    for heading, body in sections(text):
        several = heading in marked or len(set(VERSION.findall(body))) > 1
        if heading in known and several:
            for rows in TABLE.finditer(body):
                before = re.split(r"^\*\*", body[: rows.start()], flags=re.M)[-1]
                is_earlier = not known[heading].isdisjoint(numbers(rows[0]))
                assert VERSION.search(before) or not is_earlier, rows[0]


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
    rows = {
        "full": {"A3T": 5.084, "mean": 6.6, "words": 1852},
        "l2": {"A3T": 5, "reversed": 7, "words": 3},
        "speed": {"A3T": 12600.3, "mean": 0.000014, "reversed": 0.0, "words": 0},
    }
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    head, _, *shown = results.table(["rows.json"]).splitlines()
    assert head == "|  | A3T | mean | words | reversed |"
    assert shown == [
        "| full | 5.08 | 6.60 | 1,852 |  |",
        "| l2 | 5.00 |  | 3 | 7.00 |",
        "| speed | 12,600 | 1.4e-05 | 0 | 0.00 |",
    ]


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
    script.write_json(tmp_path / "one.json", [getattr(script, name)(*values)])
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
        script.write_json(tmp_path / files[-1], [one])
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
    """Each folder that a marked command reads is made by the page's commands, is a
    folder of this project, or has a line in docs/measurements.md, with a link.
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
        assert read - made - set(results.OWN) <= known, page.stem


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
    (folder / "others.json").write_text("{}", encoding="utf-8")
    assert unknown(page, text) == {}
    changed = text.replace("End: 14.03", "End: 14.08")
    expected = "14.08; expected demo/demo.json metrics.0.reranked"
    assert unknown(page, changed) == {"Demo": expected}
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
    for records in others.read(results.FIGURES / "others.json").values():
        for record in records:
            for row, signature in record.signatures.items():
                if "|w:" not in signature:
                    continue  # the form before weights of columns had their own fields
                read = parse(signature)
                assert read.versions["rescore"] and read.tuned and read.weights, row
    for page in PAGES[1:]:
        assert not re.search(r"\|tuned:\d+@", page.read_text(encoding="utf-8"))
