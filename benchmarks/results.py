"""The figures of docs/results: each is what a command of its page wrote.

    make results RESULTS=../data PAGE=translation

A page marks its commands and its tables with comments, which a reader does not see:

    <!-- run -->
        The next block of commands runs. RESULTS has a folder for each public set.
    <!-- table asr/other.json -->
        The next table shows what the block of docs/results/asr.md wrote into
        other.json: the table of `rescore compare -o`; of one or more results files, the
        table of `rescore report --layout paper --no-systems` (with its options `--dev`
        and `--intervals`); the table of `similarity`, `probe`, `accuracy`, `errors`,
        `score --text -o` or of estimates.py, agreement.py, sureness.py, references.py
        or tuned.py in benchmarks/: several files together have a row for each model and
        for each setting of its vectors; of the systems of `analyse -o`; or of an object
        of objects, as {row: {column: figure}}, a row for each object.
    <!-- figures asr/speed.json -->
        Sentences show figures of this file (sentences.json says which), and no table.

What the markers name stands in docs/results, as the commands wrote it, but for times.
tests/test_results.py holds each number of the pages against these files. Numbers that
no command wrote stand in others.json; `--declared` counts them by page and kind.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import subprocess
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import others
from agreement import Compared
from agreement import cells as cells_of_subsets
from common import ROOT, cells_of_figures, write_json
from estimates import Point
from estimates import cells as cells_of_points
from references import Needed
from references import cells as cells_of_references
from sureness import Sureness
from sureness import cells as cells_of_rules
from tuned import Tuned
from tuned import cells as cells_of_draws

from rescore.asr.vote_analysis import System
from rescore.asr.vote_analysis import cells as cells_of_systems
from rescore.files import parsed
from rescore.reports.comparison import Comparison
from rescore.reports.comparison import render as compared
from rescore.reports.figures import USUAL
from rescore.reports.files import read_each
from rescore.reports.markup import markdown
from rescore.reports.overview import (
    render_overview,
    told_apart,
    with_dev,
    without_systems,
)
from rescore.reports.perplexity import TextScore
from rescore.reports.perplexity import cells as cells_of_texts
from rescore.reports.records import Record
from rescore.research.accuracy import AccuracyReport
from rescore.research.error_places import ErrorReport
from rescore.research.probe import Probed
from rescore.research.probe import cells as cells_of_probes
from rescore.research.similarity import Correlations
from rescore.research.similarity import cells as cells_of_pairs
from rescore.research.speed import SpeedReport
from rescore.research.words_in_context import WordAccuracy
from rescore.research.words_in_context import cells as cells_of_words
from rescore.signature import parse
from rescore.styles import Cells

FIGURES = ROOT / "docs" / "results"
MARKED_BLOCK = re.compile(
    r"^<!-- run -->\n\n(?:```bash\n((?:.*\n)*?)```|((?:    .*\n|\n)+))", re.MULTILINE
)
MARKED_TABLE = re.compile(
    r"^(?P<marker><!-- table (?P<names>.*) -->\n\n)(?P<table>(?:\|.*\n)*)",
    re.MULTILINE,
)
NAMED = re.compile(r"^<!-- (?:table|figures) (.*) -->$", re.MULTILINE)
OPTIONS = ("--dev", "--intervals")
"""Options of `rescore report` that a marker may have."""
OWN = ("benchmarks", "data", "examples", "tests")
"""Folders of this project that commands read, beside the public sets."""
SCORES = "scores"
"""The cache of the commands, which stays between runs."""
ROWS: dict[type[Any], Callable[[Any], Cells]] = {
    Correlations: cells_of_pairs,
    WordAccuracy: cells_of_words,
    Probed: cells_of_probes,
    TextScore: cells_of_texts,
    Point: cells_of_points,
    Compared: cells_of_subsets,
    Needed: cells_of_references,
    Sureness: cells_of_rules,
    Tuned: cells_of_draws,
    System: partial(cells_of_systems, metric="WER"),
}
"""The rows of measurements that are written as a list: a row for each model."""
REPORTS: tuple[type[Any], ...] = (AccuracyReport, ErrorReport, SpeedReport)
"""Measurements that are written as one object, which makes its own table."""
VECTORS = ("kind", "layer", "pooling", "special", "centre")
"""Settings of vectors, as signatures have them."""
TIMES = ("seconds", "stages", "speed")
"""What differs from run to run."""
BY_NAME = ("speed",)
"""Pages that run only where `--page` names them: their figures are times, which need an
idle machine.
"""


def pages() -> list[Path]:
    """Return the pages that show figures: the README, and docs/results."""
    return [ROOT / "README.md", *sorted(FIGURES.glob("*.md"))]


def blocks(text: str) -> list[str]:
    """Return the marked blocks of commands of a page, each some lines of bash."""
    return [
        textwrap.dedent(fenced or indented)
        for fenced, indented in MARKED_BLOCK.findall(text)
    ]


def named(text: str) -> list[str]:
    """Return the files that the markers of a page name, such as `asr/other.json`."""
    files = []
    for words in NAMED.findall(text):
        files += [word for word in words.split() if word.endswith(".json")]
    return files


def table(words: Sequence[str]) -> str:
    """Return the table of a marker, as the command that made it prints it.

    Args:
        words: Files in docs/results, and perhaps some of `OPTIONS`.
    """
    paths = [FIGURES / word for word in words if word not in OPTIONS]
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    first = contents[0]
    for report in REPORTS:
        if _has_fields_of(report, first):
            return markdown(parsed(first, report, str(paths[0])).cells()) + "\n"
    for kind in ROWS:
        if isinstance(first, list) and _has_fields_of(kind, first[0]):
            rows = [_with_nan(row) for content in contents for row in content]
            measured = parsed(rows, list[kind], str(paths[0]))  # type: ignore[valid-type]
            return markdown(ROWS[kind](with_settings(measured))) + "\n"
    if _is_named_figures(first):
        return markdown(cells_of_figures(first)) + "\n"
    if "rows" in first:
        comparison = parsed(first, Comparison, str(paths[0]))
        text = compared(comparison, "markdown")
    else:
        results: list[Record] = []
        for path in paths:
            results += read_each(path)
        if "--dev" in words:
            results = list(with_dev(results))
        results = told_apart(without_systems(results))
        shown = replace(USUAL, intervals="--intervals" in words)
        text = render_overview(results, "paper", "markdown", shown)
    return text.partition("\n\n")[0] + "\n"


def _with_nan(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of figures; JSON has no NaN, so the commands write null for it."""
    return {name: math.nan if value is None else value for name, value in row.items()}


def _has_fields_of(kind: type[Any], content: Any) -> bool:
    """Return whether a JSON value has the fields of a dataclass, and no others."""
    names = {each.name for each in fields(kind)}
    return isinstance(content, dict) and set(content) == names


def _is_named_figures(content: Any) -> bool:
    """Return whether a JSON value is an object of objects of figures."""
    if not isinstance(content, dict):
        return False
    objects = [each for each in content.values() if isinstance(each, dict)]
    figures = [value for each in objects for value in each.values()]
    return len(objects) == len(content) and all(
        isinstance(value, (int, float)) for value in figures
    )


def with_settings(rows: Sequence[Any]) -> list[Any]:
    """Return the rows of a measurement; a name tells those settings of vectors that
    differ among the rows, such as `unilm, kind hidden`.
    """
    settings = [settings_of(row) for row in rows]
    named = []
    for row, own in zip(rows, settings, strict=True):
        differing = [
            f"{name} {own[name]}"
            for name in VECTORS
            if name in own and any(other.get(name) != own[name] for other in settings)
        ]
        if differing:
            row = replace(row, name=", ".join([row.name, *differing]))
        named.append(row)
    return named


def settings_of(row: Any) -> Mapping[str, str]:
    """Return the settings of a row, by its signature, if it has one."""
    signature = getattr(row, "signature", None)
    return parse(signature).settings if signature else {}


def with_tables(text: str) -> str:
    """Return a page whose marked tables are made again; a marker without a table gets
    its first one.
    """

    def made(found: re.Match[str]) -> str:
        below = "" if found["table"] else "\n"
        return found["marker"] + table(found["names"].split()) + below

    return MARKED_TABLE.sub(made, text)


def cells_of_declared(file: Path) -> Cells:
    """Return the head of a table, and a row for each page: how many numbers others.json
    declares, by kind.

    Args:
        file: others.json.
    """
    pages = {page: others.counts(each) for page, each in others.read(file).items()}
    pages["all"] = sum(pages.values(), Counter[others.Kind]())
    cells = [["page", *others.Kind]]
    for page, counted in pages.items():
        cells.append([page, *(str(counted[kind] or "") for kind in others.Kind)])
    return cells


def without_times(value: Any) -> Any:
    """Return a JSON value without what differs from run to run."""
    return _with_keys(value, lambda key, each: key not in TIMES)


def without_nulls(value: Any) -> Any:
    """Return a JSON value without the keys whose value is null."""
    return _with_keys(value, lambda key, each: each is not None)


def _with_keys(value: Any, is_kept: Callable[[str, Any], bool]) -> Any:
    """Return a JSON value with some of the keys of its objects.

    Args:
        value: The value.
        is_kept: Whether an object keeps a key, by the key and its value.
    """
    if isinstance(value, list):
        return [_with_keys(each, is_kept) for each in value]
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if is_kept(key, each)}
        return {key: _with_keys(each, is_kept) for key, each in kept.items()}
    return value


def keep(figures: Any, file: Path) -> None:
    """Write figures into a file, unless it has them already.

    A key with the value null says nothing: a newer version may write it or leave it
    out, and the figures are the same.
    """
    if file.exists():
        old = json.loads(file.read_text(encoding="utf-8"))
        if without_nulls(old) == without_nulls(figures):
            return
    file.parent.mkdir(exist_ok=True)
    write_json(file, figures)


def run(page: Path, data: Path, work: Path) -> None:
    """Run the marked commands of a page, and keep what markers name of their output.

    Args:
        page: The page.
        data: The folder of the public sets.
        work: The folder to run in, which is emptied first, but for the cache of scores.
    """
    work.mkdir(parents=True, exist_ok=True)
    for old in work.iterdir():
        if old.is_dir() and not old.is_symlink() and old.name != SCORES:
            shutil.rmtree(old)
        elif old.name != SCORES:
            old.unlink()
    own = [ROOT / name for name in OWN]
    for place in (*own, *data.resolve(strict=True).iterdir()):
        if place.is_dir():
            (work / place.name).symlink_to(place)
    for block in blocks(page.read_text(encoding="utf-8")):
        print(block, flush=True)
        done = subprocess.run(["bash", "-e", "-c", block], cwd=work)
        if done.returncode:
            raise SystemExit(f"{page.name}: a command failed (above), in {work}")
    for name in all_named():
        folder, _, file = name.partition("/")
        if folder == page.stem:
            content = json.loads((work / file).read_text(encoding="utf-8"))
            keep(without_times(content), FIGURES / name)


def all_named() -> list[str]:
    """Return the files that the markers of all pages name, each once."""
    files: dict[str, None] = {}
    for page in pages():
        files |= dict.fromkeys(named(page.read_text(encoding="utf-8")))
    return list(files)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the figures of docs/results.")
    parser.add_argument("--data", type=Path, help="the folder of the public sets")
    parser.add_argument(
        "--page", action="append", help="such as asr  [default: all but speed]"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "results")
    parser.add_argument("--tables", action="store_true", help="run no commands")
    parser.add_argument(
        "--declared", action="store_true", help="only count what others.json declares"
    )
    arguments = parser.parse_args()
    if arguments.declared:
        print(markdown(cells_of_declared(FIGURES / "others.json")))
        return
    runnable = [page for page in pages() if blocks(page.read_text(encoding="utf-8"))]
    known = [page.stem for page in runnable]
    for name in arguments.page or known:
        if name not in known:
            raise SystemExit(
                f"no page {name} whose figures commands make; expected"
                f" {', '.join(known)}"
            )
    usual = [name for name in known if name not in BY_NAME]
    before = _contents()
    for page in runnable:
        wanted = page.stem in (arguments.page or usual)
        if wanted and not arguments.tables:
            run(page, arguments.data, arguments.work / page.stem)
    for page in pages():
        text = page.read_text(encoding="utf-8")
        absent = [name for name in named(text) if not (FIGURES / name).exists()]
        if absent:
            print(f"{page.name}: tables stay; no file {', '.join(absent)} yet")
        else:
            page.write_text(with_tables(text), encoding="utf-8")
    changed = [name for name, text in _contents().items() if before.get(name) != text]
    print(f"changed: {', '.join(changed)}" if changed else "no figure changed")


def _contents() -> dict[str, str]:
    """Return the text of each page and of each file that pages name."""
    files = [*pages(), *(FIGURES / name for name in all_named())]
    texts = {}
    for file in files:
        if file.exists():
            name = f"{file.parent.name}/{file.name}"
            texts[name] = file.read_text(encoding="utf-8")
    return texts


if __name__ == "__main__":
    main()
