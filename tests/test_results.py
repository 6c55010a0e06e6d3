"""docs/results and the README: each number with a decimal point is one that a command
wrote, or one that docs/results/others.json declares, with the reason.

A table below `<!-- table FILE -->` is the table of this file, to the letter. A number
of a sentence is a figure, rounded as printed, of a file that its page names. All other
numbers stand in others.json under the heading of their section, in the order of the
page: numbers of papers, settings, and figures of versions whose training takes hours.

What this cannot see: a figure in a sentence that another figure of the same page would
be, too, and whole numbers in sentences.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
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
CODE = re.compile(r"```(?s:.*?)```|`[^`]*`|^    .*$|\]\([^)]*\)|<!--.*-->", re.M)
NUMBER = re.compile(r"(?<![\w.])[\d,]*\d\.\d+(?!\.?\d)")

TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def declared(page: Path) -> list[dict[str, Any]]:
    """What others.json has for a page: the section, the reason, the numbers, and the
    version that measured them, if one did.
    """
    text = (results.FIGURES / "others.json").read_text(encoding="utf-8")
    records: list[dict[str, Any]] = json.loads(text).get(page.stem, [])
    return records


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


SHOWN = re.compile(r"(dev_)?(first_pass|oracle)|reranked|value|dev|(first_)?p_value")
"""The keys of figures that sentences name; tables show more."""


def written(value: Any, key: str = "") -> Iterator[float]:
    """The figures of a file."""
    if isinstance(value, float) and SHOWN.fullmatch(key):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from written(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from written(each)


@cache
def figures(page: Path) -> list[float]:
    """The figures of all files that a page names."""
    found: list[float] = []
    for name in results.named(page.read_text(encoding="utf-8")):
        found += written(json.loads((results.FIGURES / name).read_text("utf-8")))
    return found


@cache
def rounded(page: Path, places: int) -> set[str]:
    return {f"{figure:.{places}f}" for figure in figures(page)}


def unknown(page: Path, text: str) -> dict[str, list[str]]:
    """The numbers of each section that no file of the page has: all of a table without
    a marker, and those of sentences that are no figures.
    """
    found: dict[str, list[str]] = {}
    for heading, body in sections(text):
        for line in CODE.sub(" ", body).splitlines():
            for number in numbers(line):
                if line.startswith("|") or not is_figure(page, number):
                    found.setdefault(heading, []).append(number)
    return found


def is_figure(page: Path, number: str) -> bool:
    return number in rounded(page, len(number.partition(".")[2]))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_tables_are_those_of_their_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert results.with_tables(text) == text


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_number_was_written_by_a_command_or_is_declared(page: Path) -> None:
    known = {each["section"]: each["numbers"].split() for each in declared(page)}
    assert unknown(page, page.read_text(encoding="utf-8")) == known


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_figures_of_another_version_say_so(page: Path) -> None:
    """Their section, or the introduction of the page, names the version."""
    said = dict(sections(page.read_text(encoding="utf-8")))
    introduction = next(iter(said.values()))
    for record in declared(page):
        version = record.get("version", "")
        assert version in introduction + said[record["section"]], record["section"]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_a_changed_digit_is_found(page: Path) -> None:
    """A changed figure of a sentence is seldom another figure of the page: on most
    pages never, on the page of votes, with many figures of one digit, five of twelve.
    """
    text = TABLE.sub("\n", page.read_text(encoding="utf-8"))
    said = [number for number in numbers(text) if is_figure(page, number)]
    missed = []
    for number in said:
        other = number[:-1] + str((int(number[-1]) + 3) % 10)
        if is_figure(page, other):
            missed.append(number)
    assert len(missed) < len(said) / 2 or not said, missed


def test_a_page_is_made_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands run beside the public sets, and its tables and files are theirs."""
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    page = folder / "demo.md"
    block = "<!-- run -->\n\n    cp sets/golden.json \\\n        demo.json\n"
    page.write_text(
        f"# Demo\n\n{block}\n<!-- table demo/demo.json -->\n\n| |\n\nEnd: 14.03.\n",
        encoding="utf-8",
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sets").symlink_to(ROOT / "data")
    monkeypatch.setattr(results, "FIGURES", folder)
    monkeypatch.setattr(results, "pages", lambda: [page])
    line = ["results.py", "--data", str(tmp_path / "data")]
    monkeypatch.setattr(sys, "argv", [*line, "--work", str(tmp_path / "work")])
    results.main()
    text = page.read_text(encoding="utf-8")
    assert "| tta | **14.03‡** |\n\nEnd: 14.03.\n" in text
    assert results.with_tables(text) == text
    golden = json.loads((ROOT / "data" / "golden.json").read_text(encoding="utf-8"))
    kept = json.loads((folder / "demo" / "demo.json").read_text(encoding="utf-8"))
    assert kept == results.without_times(golden)
    (folder / "others.json").write_text("{}", encoding="utf-8")
    assert unknown(page, text) == {}
    changed = text.replace("End: 14.03", "End: 14.08")
    assert unknown(page, changed) == {"Demo": ["14.08"]}
    assert results.with_tables(text.replace("**14.03", "**14.08")) == text


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
