"""Law: for any lists, a command gives figures that are numbers, or an error of one line
that names a file or an argument.

Each command that reads lists runs on each odd input, with all metrics and decisions.
Where nothing can be measured, a figure is `-`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescore.cli.main import COMMANDS
from rescore.metrics import significance
from rescore.parts import DECISIONS, METRICS
from rescore.research import correlation
from tests import conftest, test_roads
from tests.conftest import Done, run_main

pytestmark = pytest.mark.filterwarnings("error")

Lists = list[dict[str, Any]]
LONG = 400
"""An error has fewer characters."""
MANY = "word " * 400

# --- odd inputs ----------------------------------------------------------------------


def usual() -> Lists:
    """Return lists of words that the reference has, or has not."""
    draw = random.Random(1)
    lists = []
    for number in range(6):
        hyps = []
        for place in range(4):
            said = " ".join(draw.choice("abcdxy") for _ in range(4))
            hyps.append(
                {
                    "text": said,
                    "score": -1.0 - place / 3,
                    "scores": {"lm": -9 * draw.random()},
                }
            )
        lists.append({"id": f"u{number}", "ref": "a b c d", "hyps": hyps})
    return lists


def each_list(change: Callable[[dict[str, Any], int], None]) -> Lists:
    """Return lists, each of which was changed."""
    lists = usual()
    for number, entry in enumerate(lists):
        change(entry, number)
    return lists


def with_reference(*texts: str) -> Lists:
    """Return lists with these references in turn."""
    return each_list(lambda entry, number: entry.update(ref=texts[number % len(texts)]))


def with_texts(*texts: str) -> Lists:
    """Return lists whose hypotheses have these texts in turn."""

    def change(entry: dict[str, Any], number: int) -> None:
        for place, hyp in enumerate(entry["hyps"]):
            hyp["text"] = texts[place % len(texts)]

    return each_list(change)


def with_scores(*scores: float) -> Lists:
    """Return lists whose scores of the first pass and of the LM are these in turn."""

    def change(entry: dict[str, Any], number: int) -> None:
        for place, hyp in enumerate(entry["hyps"]):
            hyp["score"] = scores[place % len(scores)]
            hyp["scores"]["lm"] = scores[(place + 1) % len(scores)]

    return each_list(change)


def with_ids(*ids: Any) -> Lists:
    """Return lists whose ids begin with these in turn."""

    def change(entry: dict[str, Any], number: int) -> None:
        chosen = ids[number % len(ids)]
        if isinstance(chosen, str):
            entry["id"] = f"{chosen}{number}"
        else:
            entry["id"] = chosen + number

    return each_list(change)


def first(number: int) -> Lists:
    """Return lists with their first hypotheses."""
    return each_list(lambda entry, _: entry.update(hyps=entry["hyps"][:number]))


INPUTS: dict[str, Lists] = {
    "usual": usual(),
    "references empty": with_reference(""),
    "references of punctuation": with_reference("...", "?!"),
    "references partly empty": with_reference("", "", "", "", "", "a"),
    "an empty alternative": each_list(lambda entry, _: entry.update(refs=["", "a b"])),
    "texts empty": with_texts(""),
    "first texts empty": with_texts("", "a"),
    "texts of punctuation": with_texts("...", "!"),
    "texts and references empty": each_list(
        lambda entry, _: entry.update(ref="", hyps=[{"text": "", "score": -1.0}])
    ),
    "one list": usual()[:1],
    "one hypothesis": first(1),
    "no hypothesis": first(0),
    "scores huge": with_scores(-1.7e308, 1.7e308, 0.0),
    "scores equal": with_scores(-2.0),
    "scores minus infinite": with_scores(float("-inf"), -1.0),
    "scores all minus infinite": with_scores(float("-inf")),
    "scores infinite": with_scores(float("inf"), -1.0),
    "scores NaN": with_scores(float("nan"), -1.0),
    "ids of other scripts": with_ids("\u4e9c ", "\u00e9\u0301"),
    "ids numbers": with_ids(7, 7),
    "ids long": with_ids("x" * 5000),
    "no references, long ids": each_list(
        lambda entry, _: entry.update(id=entry["id"] + "x" * 6000, ref=[])
    ),
    "a long score": with_scores("1" * 6000),  # type: ignore[arg-type]
    "long names of columns": each_list(
        lambda entry, _: entry["hyps"][0]["scores"].update({"y" * 6000: 0.0})
    ),
    "ids paths": with_ids("../a/b.wav", "c d/"),
    "texts long": with_texts(MANY, "a"),
}
"""Lists by what is odd about them."""

# --- commands ------------------------------------------------------------------------


def reads_words(metric: str) -> bool:
    """Return whether a metric needs a list of words."""
    return "words" in METRICS[metric].Options.__dataclass_fields__


MEASURED = [name for name in conftest.OF_TEXTS if not METRICS[name].learned]
"""All metrics but trained models, which need files of their own."""
OF_TEXTS = " ".join(f"--metric {name}" for name in MEASURED if not reads_words(name))
OF_LISTED = " ".join(f"--metric {name}" for name in MEASURED if reads_words(name))


TUNED = "test.jsonl --dev dev.jsonl"
LINES: dict[str, list[str]] = {
    "run": [
        f"{TUNED} --components --word-bonus tune",
        f"{TUNED} --components --no-bagging --drop-punctuation --html o.html",
        "test.jsonl --lm ngram:one --folds 2 --details d.tsv --report o.json",
    ],
    "rerank": ["test.jsonl --weights given.json --report o.json --best b.trn"],
    "tune": [
        "test.jsonl --column lm",
        "test.jsonl --column lm --drop-punctuation --no-bagging",
    ],
    "eval": [
        f"test.jsonl {OF_TEXTS} --report o.json",
        f"test.jsonl other.jsonl {OF_TEXTS} --drop-punctuation",
        f"test.jsonl other.jsonl {OF_LISTED} --words words",
        "test.jsonl other.jsonl --test mapsswe",
    ],
    "analyse": ["test.jsonl --weights given.json", "test.jsonl --drop-punctuation"],
    "compare": [f"{TUNED} --lm ngram:one --lm ngram:two"],
    "confidence": [
        "test.jsonl --weights given.json -o c.jsonl --drop-punctuation",
        "test.jsonl --dev test.jsonl --weights given.json -o c.jsonl",
    ],
    "combine": ["test.jsonl other.jsonl -o c.jsonl"],
    "convert": ["test.jsonl -o c.jsonl"],
    "score": ["test.jsonl --lm ngram:one -o s.jsonl"],
    "errors": ["test.jsonl --weights given.json"],
    "correlate": ["test.jsonl --lm ngram:one -o x.json"],
    "correct": ["text --words words"],
}
"""Command lines without the command, by command."""
for decision in DECISIONS.shipped:
    LINES["run"].append(f"{TUNED} --components --decide {decision} --no-bagging")
    scale = " --scale 1" if DECISIONS[decision].uses_posteriors else ""
    LINES["run"].append(f"test.jsonl --decide {decision}{scale}")
for metric in MEASURED:
    chosen = f"--metric {metric}"
    if reads_words(metric):
        chosen += " --words words"
    LINES["tune"].append(f"test.jsonl --column lm --no-bagging {chosen}")
    LINES["run"].append(f"test.jsonl --decide mbr --scale 1 {chosen}")
WITHOUT_LISTS = {
    *("serve", "recipe", "models", "init", "report", "check", "train", "embed"),
    *("similarity", "probe", "accuracy", "bench", "frequencies"),
}
"""Commands that read no lists."""


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("numbers")
        patch.chdir(place)
        test_roads.fewer_samples(patch)
        patch.setattr(significance, "SAMPLES", 20)
        patch.setattr(correlation, "TRIALS", 60)
        patch.setattr("rescore.pace.FIRST", float("inf"))
        test_roads._models(place)
        Path("words").write_text("b\nd\n")
        write("usual.jsonl", usual())
        done = run_main(*["tune", "usual.jsonl", "--column", "lm", "-o", "given.json"])
        assert done.returncode == 0, done.stderr
        yield place


def write(path: str, lists: Lists) -> None:
    """Write lists as native lists; NaN and infinity stand as Python writes them."""
    Path(path).write_text("".join(json.dumps(entry) + "\n" for entry in lists))


def test_every_command_has_a_line() -> None:
    assert {*LINES, *WITHOUT_LISTS} == {*COMMANDS.shipped}


OF_TEXTS_ALONE = ("references", "texts", "first texts", "an empty")
"""Beginnings of the names of inputs that each metric may measure in another way; with
others, each command runs once.
"""
CASES = []
for command, lines in LINES.items():
    for rank, line in enumerate(lines):
        for name in INPUTS:
            if rank == 0 or name.startswith(OF_TEXTS_ALONE):
                CASES.append((command, line, name))
for decision in DECISIONS.shipped:
    for name in INPUTS:
        if name.startswith("scores"):
            line = f"{TUNED} --components --decide {decision} --no-bagging"
            CASES.append(("run", line, name))


@pytest.mark.parametrize(("command", "line", "name"), CASES)
def test_figures_are_numbers_or_an_error_says_why(
    command: str, line: str, name: str
) -> None:
    write("test.jsonl", INPUTS[name])
    write("dev.jsonl", [{**entry, "id": f"d{entry['id']}"} for entry in INPUTS[name]])
    other = [{**entry, "hyps": entry["hyps"][::-1]} for entry in INPUTS[name]]
    write("other.jsonl", other)
    said = []
    for entry in other:
        for hyp in entry["hyps"][:1]:
            said.append(f"{entry['id']} {hyp['text']}\n")
    Path("text").write_text("".join(said))
    judge(run_main(command, *line.split()))


NO_NUMBER = re.compile(r"\b(nan|inf|infinity)\b", re.IGNORECASE)


def judge(done: Done) -> None:
    """See that what a command left keeps the law."""
    assert done.returncode in (0, 2), done.stderr
    assert not NO_NUMBER.search(done.stdout), done.stdout
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert not NO_NUMBER.search(done.stderr), done.stderr
        return
    error = done.stderr.splitlines()[-1]
    assert error.startswith("rescore: error: ")
    assert len(error) < LONG, error
    assert re.search(r"\.jsonl|\btext\b|--\w|words", error), error


@pytest.mark.parametrize("name", INPUTS)
def test_results_are_read_back(name: str) -> None:
    """Also where a rate is not defined, which a results file has as null."""
    write("test.jsonl", INPUTS[name])
    report = Path("own.json")
    report.unlink(missing_ok=True)
    done = run_main("run", "test.jsonl", "--report", str(report))
    if done.returncode or not json.loads(report.read_text())["metrics"]:
        return
    readers = (
        ("report", "own.json"),
        ("report", "own.json", "own.json", "--layout", "paper"),
        ("check", "own.json", "--golden", "own.json"),
    )
    for words in readers:
        read = run_main(*words)
        assert read.returncode == 0, read.stderr
        assert not NO_NUMBER.search(read.stdout), read.stdout
