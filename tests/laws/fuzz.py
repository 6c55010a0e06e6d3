"""Random command lines, judged by the laws.

    python -m tests.laws.fuzz --number 2000 --seed 1

A command line has a command of the table of commands, an input of any reader (those of
`examples/plugin` too), and options with values that their declarations or the scenarios
of `test_options` give. The judge sees after each line:

- exit status 0, 1 (`check`) or 2; an error is one short line, and leaves no output;
- no traceback, no RuntimeWarning or FutureWarning, no nan or inf in an output;
- equal signatures have equal figures, over all lines on the same input.

and on samples of the lines:

- each option is left out once: an option that never changes an output in several lines
  is listed with these lines;
- the same figures where the lists stand in another order;
- the same figures of the written lists, when they are read back.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import random
import re
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest

from rescore import formats
from rescore.cli.bridge import entry_of
from rescore.cli.main import COMMANDS
from rescore.errors import UserError
from rescore.files import PACKED
from rescore.formats.best import RECORDS
from rescore.formats.times import TIMED
from rescore.lms.lexicon import Lexicon
from rescore.metrics import significance
from rescore.options import Field
from rescore.parts import (
    DECISIONS,
    EXPANSIONS,
    FEATURES,
    FORMATS,
    KINDS,
    LESSONS,
    METRICS,
    STEPS,
    STYLES,
    TESTS,
    Registry,
)
from rescore.research import correlation, similarity
from rescore.service import app as service
from rescore.values import kind_of
from tests import stand_ins
from tests.conftest import ROOT, Done, fewer_samples, parameters_of, run_main
from tests.laws import test_options
from tests.laws.test_conservation import FORMS, Entry, Form, lines
from tests.laws.test_round_trip import LISTS as ROUND_TRIPS

PLUGIN = ROOT / "examples" / "plugin"
TABLES: tuple[Registry[Any], ...] = (
    *(FORMATS, KINDS, LESSONS, EXPANSIONS, FEATURES, METRICS, DECISIONS, TESTS),
    *(STYLES, COMMANDS, STEPS),
)
SECONDS = 30
"""Time of the processor that a line may take."""
LENGTH = 400
"""Characters of an error line."""

# --- inputs --------------------------------------------------------------------------

PIPES = Form(
    lines(
        "pipes",
        lambda one: "".join(
            f"{one.id}|{-1.0 - rank}|{text}\n" for rank, text in enumerate(one.texts)
        ),
    )
)
"""The form of the reader of examples/plugin."""


@dataclass(frozen=True)
class Lists:
    """Files of one reader."""

    name: str
    test: str
    dev: str
    """Lists of the same utterances with other texts."""
    shuffled: str
    """The lists of `test` in another order, or nothing where order makes the ids."""
    how: tuple[str, ...]
    """Options with which the files are read."""
    ref: str
    has_references: bool
    renamed: str = ""
    """The lists of `test` with ids that sort otherwise."""
    renamed_ref: str = ""
    has_infinite: bool = False


ODD = (
    *("it's", "its", "well-known", "A", "Um", "colour", "<unk>", "\u56db\u4e94"),
    *("\uff46ull", "&amp;", "R&D", "\u2581a", "a@@", "<space>", "@", "{", "}", "/"),
    *("%hes", "\u0130", "stra\u00dfe", "e\u0301", "\u200b", "100", "1.5", "(noise)"),
    *("\u0e01\u0e32", "</s>", "<eos>", "\u2047", "-", "--", "#", "*", "$5", "a."),
)
"""Words in which some reader, writer or normaliser sees something."""


def id_of(form: Form, number: int) -> str:
    """Return an id that files of a form can hold."""
    if "plain" in form.ids:
        return f"s{number % 3}-{number:02}"
    if "numbers" in form.ids:
        return str(number)
    return f"spk{number % 2}/u{number:02}.wav"


def some_entries(
    form: Form, seed: int, number: int, words: int, odd: bool
) -> list[Entry]:
    """Return utterances with references and hypotheses with errors.

    Args:
        form: The form of the file.
        seed: Chooses the errors; references are the same for all seeds.
        number: Number of utterances.
        words: Least number of words of a text.
        odd: Whether texts have odd words.
    """
    right_words: Sequence[str] = "abcd"
    wrong_words: Sequence[str] = "xy0"
    if odd:
        right_words = wrong_words = ODD
    said = random.Random(0)
    heard = random.Random(seed)
    size = 1
    if "same" in form.sizes:
        size = 2
    entries = []
    for index in range(number):
        reference = [said.choice(right_words) for _ in range(words + said.randrange(2))]
        most = size + heard.randrange(4) * ("mixed" in form.sizes)
        texts = []
        for _ in range(most):
            text = list(reference)
            for place in range(len(text)):
                if heard.random() < 0.3:
                    text[place] = heard.choice(wrong_words)
            if words == 2:  # as lattices have them here
                text = text[:2]
            texts.append(" ".join(text))
        right = " ".join(reference)
        source = right.upper()
        entries.append(Entry(id_of(form, index), tuple(texts), right, source))
    return entries


def written_lists(name: str, number: int, form: Form, odd: bool) -> Lists:
    """Write the files of a form, and return them.

    Raises:
        UserError: The reader refuses odd words.
    """
    words = 2 if name == "lattice" else 4
    how: tuple[str, ...] = ()
    if form.options:
        size = "9" if name == "lattice" else "2"
        how = ("--format", name, "--nbest-size", size)
    paths = {}
    refs = {}
    read = {}
    place = Path("../readers") / f"{name}{number}{'odd' * odd}"
    for part, seed in (("test", 1), ("dev", 2), ("shuffled", 1), ("renamed", 1)):
        entries = some_entries(form, seed, 10, words, odd)
        if part == "shuffled":
            random.Random(4).shuffle(entries)
        if part == "renamed":
            entries = [replace(one, id=renamed(one.id)) for one in entries]
        folder = place / part
        folder.mkdir(parents=True)
        paths[part] = str(form.write(entries, folder))
        lists = formats.read([paths[part]], format_name=name, options=form.options)
        read[part] = {one.id: [each.text for each in one.hypotheses] for one in lists}
        refs[part] = str(place / f"{part}.ref")
        rights = [one.reference for one in entries]
        told = [
            f"{key} {right}\n" for key, right in zip(read[part], rights, strict=False)
        ]
        Path(refs[part]).write_text("".join(told))
    kept = {}
    for part, same in (
        ("shuffled", read["test"] == read["shuffled"]),
        ("renamed", [*read["test"].values()] == [*read["renamed"].values()]),
    ):
        kept[part] = paths[part] if same else ""
    return Lists(
        place.name,
        paths["test"],
        paths["dev"],
        kept["shuffled"],
        how,
        refs["test"],
        form.references,
        kept["renamed"],
        refs["renamed"],
    )


def renamed(name: str) -> str:
    """Return an id that sorts otherwise, of the same form."""
    folder, slash, base = name.rpartition("/")
    if name.isdigit():
        return name
    stem, dot, ending = base.partition(".")
    digest = sha256(name.encode()).hexdigest()[:6]
    speaker, dash, _ = stem.rpartition("-")
    return f"{folder}{slash}{speaker}{dash}u{digest}{dot}{ending}"


@cache
def plugin_parts() -> list[tuple[Registry[Any], str, str]]:
    """Return the table, the name and the place of each part of examples/plugin."""
    about = tomllib.loads((PLUGIN / "pyproject.toml").read_text())
    groups = about["project"]["entry-points"]
    parts = []
    for table in TABLES:
        for name, place in groups.get(table._group, {}).items():
            parts.append((table, name, place))
    assert len(parts) == sum(map(len, groups.values()))
    return parts


@contextmanager
def plugins() -> Iterator[None]:
    """The parts of examples/plugin, as if the package were installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGIN))
        for table, name, place in plugin_parts():
            module = importlib.import_module(place.partition(":")[0])
            table.register(name, place, (module.__doc__ or "").partition("\n")[0])
        try:
            yield
        finally:
            for table, name, _ in plugin_parts():
                table.remove(name)


@contextmanager
def folder_in(top: Path) -> Iterator[None]:
    """Stand in a new folder."""
    (top / "work").mkdir()
    with chdir(top / "work"):
        yield


@contextmanager
def world() -> Iterator[list[Lists]]:
    """Stand in a new folder with all inputs, and yield the inputs of readers."""
    with (
        tempfile.TemporaryDirectory() as folder,
        folder_in(Path(folder)),
        plugins(),
        pytest.MonkeyPatch.context() as patch,
    ):
        stand_ins.install(patch)
        patch.setattr(Lexicon, "load", cache(Lexicon.load))
        fewer_samples(patch)
        patch.setattr(significance, "SAMPLES", 40)
        for module in (correlation, similarity):
            patch.setattr(module, "TRIALS", 40)
        patch.setattr("rescore.pace.FIRST", float("inf"))
        patch.setattr(service, "server", test_options.OneRequest)
        test_options.write_files()
        test_options.write_models()
        for line in test_options.PREPARING:
            done = run_main(*shlex.split(line))
            assert done.returncode == 0, done.stderr
        readers = []
        for name, forms in {**FORMS, "pipes": [PIPES]}.items():
            for number, form in enumerate(forms):
                readers.append(written_lists(name, number, form, False))
                with suppress(UserError):
                    readers.append(written_lists(name, number, form, True))
        for number, (name, lists) in enumerate(ROUND_TRIPS.items()):
            path = f"../readers/round{number}.jsonl"
            formats.write(lists, path)
            ref = f"../readers/round{number}.ref"
            Path(ref).write_text("".join(f"{one.id} a b\n" for one in lists))
            has = all(one.references for one in lists)
            infinite = "Infinity" in Path(path).read_text()
            about = Lists(name, path, path, "", (), ref, has, has_infinite=infinite)
            readers.append(about)
        yield readers


# --- lines ---------------------------------------------------------------------------

Unit = tuple[str, ...]
"""An option with its value."""


@dataclass(frozen=True)
class Line:
    """A command line."""

    command: str
    base: Unit
    """The arguments and the options that the command needs."""
    units: tuple[Unit, ...] = ()
    """Options that are chosen by chance."""
    lists: Lists | None = None

    def words(self) -> list[str]:
        every = [self.command, *self.base]
        for unit in self.units:
            every += unit
        return every

    def __str__(self) -> str:
        return shlex.join(self.words())


OF_LISTS: dict[str, Sequence[str]] = {
    "run": ("", "--dev DEV --lm ngram:one", "--lm ngram:one --weight 0.4", "--folds 2"),
    "score": ("--lm ngram:one -o out.jsonl", "--lm ngram:two"),
    "tune": ("--decide mbr", "--word-bonus --no-bagging", "--decide rover"),
    "rerank": ("--report out.json", "--decide mbr --scale 0.5 --report out.json"),
    "confidence": ("-o out.jsonl", "-o out.jsonl --dev DEV", "-o out.ctm --scale 1"),
    "eval": ("", "DEV"),
    "analyse": ("", "--weights plain.json"),
    "compare": ("--dev DEV --lm ngram:one --no-bagging", "--dev DEV --lm ngram:one"),
    "convert": ("", "-o out.jsonl"),
    "errors": ("", "--weights plain.json"),
    "correlate": ("--lm ngram:one -o out.json",),
    "combine": ("DEV", "DEV -o out.jsonl"),
    "words": ("",),
}
"""What stands behind the lists of a command that reads lists: one of these."""
WITHOUT_REFERENCES = ("score", "convert", "confidence", "words")
BASES = {**test_options.BASES, "words": "test.jsonl"}
BASES["train"] = "--lm ngram --text text --out new --discount-fallback"
RARE = ("serve", "train", "recipe", "models", "init", "probe", "bench", "correlate")
"""Commands without lists, or that take a while."""
ENDINGS = tuple(
    dict.fromkeys(
        [
            *(".json", ".jsonl", ".csv", ".tsv", ".moses", ".txt", ".trn", ".md", ""),
            *(*RECORDS, *TIMED, ".tex", ".html", ".svg", ".npy", ".pipes"),
        ]
    )
)
SLOW = {"--engine": ("ray",)}
"""Values of options that start processes."""


def draw_value(entry: Field, parameter: click.Option, draw: random.Random) -> Unit:
    """Return an option with a value that its declaration gives; nothing if it gives
    none.
    """
    flag = max(parameter.opts, key=len)
    if parameter.is_flag:
        return (draw.choice([flag, *parameter.secondary_opts]),)
    about = entry.about
    if about.writes:
        ending = draw.choice(ENDINGS) + draw.choice(["", "", "", *PACKED])
        return (flag, draw.choice([f"out{len(flag)}{ending}"] * 9 + ["-"]))
    if about.reads:
        return ()
    names: list[str] = []
    if about.table is not None:
        names = list(about.table)
    elif isinstance(about.choices, tuple):
        names = list(about.choices)
    if names:
        chosen = draw.choice(names)
        return () if chosen in SLOW.get(flag, ()) else (flag, chosen)
    kind = kind_of(entry.hint).type
    if about.parse:
        return ()
    if kind is int:
        return (flag, str(draw.choice([0, 1, 2, 3, 7, int(about.low or 0)])))
    if kind is float:
        values = [0, 0.3, 1, 2.5, about.low or 0, about.high or 1, -1, 1e6]
        return (flag, f"{draw.choice(values):g}")
    return ()


def scenario_value(command: str, flag: str, draw: random.Random) -> list[Unit]:
    """Return an option with its value in the scenarios, after what it needs."""
    scenarios = test_options.SCENARIOS.get(flag)
    if scenarios is None:
        return []
    beside, _, line = scenarios.get(command, scenarios["*"]).partition("|")
    units = [tuple(shlex.split(line))]
    if not beside.startswith("!") and beside.strip() and draw.random() < 0.8:
        units.insert(0, tuple(shlex.split(beside)))
    return units


def draw_units(command: str, draw: random.Random) -> list[Unit]:
    """Return some options of a command."""
    parameters = []
    for parameter in parameters_of(command):
        if isinstance(parameter, click.Option) and entry_of(parameter):
            parameters.append(parameter)
    units: list[Unit] = []
    if not parameters:
        return units
    for _ in range(draw.choice([0, 1, 1, 2, 2, 3, 4])):
        parameter = draw.choice(parameters)
        entry = entry_of(parameter)
        assert entry is not None
        flag = max(parameter.opts, key=len)
        if flag in ("--dev", "--weights") and draw.random() < 0.5:
            continue
        made: list[Unit] = []
        if draw.random() < 0.6:
            made = scenario_value(command, flag, draw)
        if not made:
            made = [draw_value(entry, parameter, draw)]
        if flag == "--stop-words":
            made = [(flag, "words")]
        units += [unit for unit in made if unit]
    if command in ("run", "rerank", "eval", "compare") and draw.random() < 0.5:
        units.append(("--report", "out.json"))
    if command in ("run", "rerank") and draw.random() < 0.3:
        name = draw.choice([*formats.written_formats()])
        units.append(("-o", f"out{draw.choice(['', '.gz'])}.{name}"))
    return without_repeats(units)


def without_repeats(units: Sequence[Unit]) -> list[Unit]:
    """Return options without those whose first word came before."""
    kept: list[Unit] = []
    seen = set()
    for unit in units:
        flags = {word for word in unit if word.startswith("-")}
        if flags & seen:
            continue
        seen |= flags
        kept.append(unit)
    return kept


def draw_line(readers: Sequence[Lists], draw: random.Random) -> Line:
    """Return a random command line."""
    command = draw.choice([*COMMANDS, *OF_LISTS, *OF_LISTS])
    if command in RARE and draw.random() < 0.6:
        command = draw.choice(["run", "eval", "combine"])
    units = draw_units(command, draw)
    if command not in OF_LISTS or draw.random() < 0.4:
        base = tuple(shlex.split(BASES[command]))
        return Line(command, base, tuple(beside(base, units)))
    lists = draw.choice(readers)
    more = draw.choice(OF_LISTS[command]).replace("DEV", lists.dev)
    words = [lists.test, *shlex.split(more), *lists.how]
    if not lists.has_references and command not in WITHOUT_REFERENCES:
        words += ["--ref", lists.ref]
        if "--dev" in words and command != "confidence":
            words += ["--dev-ref", lists.ref]
    base = tuple(words)
    return Line(command, base, tuple(beside(base, units)), lists)


def beside(base: Unit, units: Sequence[Unit]) -> list[Unit]:
    """Return the options that do not stand in the base."""
    flags = {word for word in base if word.startswith("-")}
    return [unit for unit in units if not flags & set(unit)]


# --- running -------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a line left behind."""

    done: Done
    files: dict[str, bytes]
    wrong: str = ""
    """A traceback or a warning."""
    seconds: float = 0.0

    def seen(self) -> Any:
        """What is printed on stdout and written, without times."""
        return test_options.seen((self.done, self.files))


def state() -> dict[Path, tuple[int, int]]:
    """Return the files below the working folder, with size and time."""
    there = {}
    for path in Path().rglob("*"):
        if path.is_file():
            about = path.stat()
            there[path] = (about.st_size, about.st_mtime_ns)
    return there


def run_line(line: Line, keep: bool = False) -> Outcome:
    """Run a line, and remove what it writes.

    Args:
        line: The line.
        keep: Whether written files stay.
    """
    before = state()
    folders = {path for path in Path().rglob("*") if path.is_dir()}
    wrong = ""
    start = time.process_time()
    done = Done(-1, "", "")
    logging.getLogger("rescore").setLevel(logging.NOTSET)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            done = run_main(*line.words())
        except Exception:
            wrong = traceback.format_exc()
    for one in caught:
        if issubclass(one.category, RuntimeWarning | FutureWarning) and not wrong:
            wrong = f"{one.category.__name__}: {one.message} ({one.filename})"
    seconds = time.process_time() - start
    files = {}
    for path, about in sorted(state().items()):
        if before.get(path) != about:
            files[str(path)] = path.read_bytes()
            if path in before:
                wrong = wrong or f"overwrites {path}"
            elif not keep:
                path.unlink()
    if not keep:
        for path in sorted(Path().rglob("*"), reverse=True):
            if path.is_dir() and path not in folders:
                shutil.rmtree(path)
    return Outcome(done, files, wrong, seconds)


# --- the judge -----------------------------------------------------------------------

TOLD = ("ranks of equal", "translations", "marks", "none of its hypotheses")
"""Losses that are told, and that change figures."""
NO_NUMBER = re.compile(r"(?<![\w./\\-])[+-]?(?:nan|NaN|inf|Infinity)(?![\w./])")


@dataclass
class Judge:
    """Sees lines and their outcomes, and collects what breaks a law."""

    broken: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    figures: dict[Any, tuple[Any, str]] = field(default_factory=dict)
    """By input and signature: figures, and the line that gave them."""
    unchanged: dict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By command and option: the lines in which the option changed nothing."""
    acts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def tell(self, law: str, line: object, what: str) -> None:
        self.broken.append(f"[{law}] rescore {line}\n    {what[-700:]}")
        self.outcomes[law] += 1

    def see(self, line: Line, outcome: Outcome) -> None:
        """Judge one line by itself."""
        done = outcome.done
        self.outcomes[f"exit {done.returncode}"] += 1
        if outcome.wrong:
            self.tell("traceback", line, outcome.wrong)
            return
        if outcome.seconds > SECONDS:
            self.tell("slow", line, f"{outcome.seconds:.0f} s")
        if done.returncode == 2:
            self._see_error(line, outcome)
        elif done.returncode not in (0, *[1] * (line.command == "check")):
            self.tell("status", line, f"exit {done.returncode}: {done.stderr}")
        else:
            self._see_numbers(line, outcome)
            self._see_signatures(line, outcome)

    def _see_error(self, line: Line, outcome: Outcome) -> None:
        errors = []
        for told in outcome.done.stderr.splitlines():
            if told.startswith("rescore: error: "):
                errors.append(told)
            elif not told.startswith("rescore: ") and line.command != "train":
                self.tell("error", line, f"no message: {told}")
        if len(errors) != 1 or len(errors[0]) > LENGTH:
            self.tell("error", line, outcome.done.stderr)
        if outcome.done.stdout:
            self.tell("error", line, f"stdout: {outcome.done.stdout}")
        if outcome.files:
            self.tell("error", line, f"leaves {list(outcome.files)}: {errors}")

    def _see_numbers(self, line: Line, outcome: Outcome) -> None:
        texts = {"stdout": outcome.done.stdout, "stderr": outcome.done.stderr}
        for name, content in outcome.files.items():
            texts[name] = content.decode(errors="replace")
        for name, text in texts.items():
            found = NO_NUMBER.search(text)
            if found and not (line.lists and line.lists.has_infinite):
                near = text[max(0, found.start() - 60) : found.end() + 40]
                self.tell("number", line, f"{name}: {near}")

    def _see_signatures(self, line: Line, outcome: Outcome) -> None:
        for name, figures in figures_of(outcome).items():
            key = (line.base[0] if line.base else "", name)
            known, first = self.figures.setdefault(key, (figures, str(line)))
            if known != figures:
                what = f"{name}\n    {known} of rescore {first}\n    {figures}"
                self.tell("signature", line, what)

    def see_option(self, line: Line, outcome: Outcome, unit: Unit) -> None:
        """Drop one option, and see whether an output changes."""
        flag = unit[0]
        rest = tuple(other for other in line.units if other is not unit)
        less = Line(line.command, line.base, rest, line.lists)
        without = run_line(less)
        if without.wrong:
            self.see(less, without)
            return
        pair = (line.command, flag)
        if without.seen() != outcome.seen():
            self.acts[pair] += 1
        else:
            self.unchanged[pair].append(f"{' '.join(unit)}: {line}")

    def see_order(self, line: Line, outcome: Outcome) -> None:
        """Read the lists in another order, and with other ids, and compare figures."""
        lists = line.lists
        assert lists is not None
        for law, path, ref in (
            ("order", lists.shuffled, lists.ref),
            ("ids", lists.renamed, lists.renamed_ref),
        ):
            words = " ".join(line.words())
            if not path or "--speaker" in words or "plain" in words:
                continue
            if law == "ids" and (lists.dev in line.base or "test." in words):
                continue
            there = {lists.test: path, lists.ref: ref}
            base = tuple(there.get(word, word) for word in line.base)
            other = run_line(replace(line, base=base))
            ours = ordered(outcome, lists.test)
            theirs = ordered(other, path)
            if ours != theirs:
                what = f"{differing(ours, theirs)} {other.done.stderr[-300:]}"
                self.tell(law, line, what)

    def see_written(self, line: Line, outcome: Outcome) -> None:
        """Read what is written back, and compare the figures."""
        told = outcome.done.stderr
        if any(loss in told for loss in TOLD):
            return
        ref = ["--ref", reference_of(line)]
        results = [name for name in outcome.files if name.endswith("json")]
        results = [name for name in results if reports_of({name: outcome.files[name]})]
        ours = sorted(chosen(outcome.files, "reranked"))
        metrics: list[str] = []
        if "--metric" not in line.words():
            for name in dict.fromkeys(metric for metric, _ in ours):
                metrics += ["--metric", name.lower()]
        readers: list[list[str]] = []
        if line.command in ("run", "rerank") and results:
            for name in (output_of(line, "--output", "-o"), output_of(line, "--best")):
                is_timed = any(ending in name for ending in TIMED)
                if name and ref[1] and not is_timed and not detokenised(line):
                    more = [*metrics, *measuring(line), "--report", "again.json"]
                    readers.append(["eval", name, *ref, *more])
        for name in results * (line.command in ("run", "rerank")):
            readers.append(["report", name])
            readers.append(["report", name, "--layout", "paper", "--dev"])
            readers.append(["check", name, "--golden", name])
        if not readers:
            return
        run_line(line, keep=True)
        try:
            for words in readers:
                read = Line(words[0], tuple(words[1:]))
                again = run_line(read)
                self._see_numbers(replace(read, lists=line.lists), again)
                said = shlex.join(words)
                if again.wrong or again.done.returncode:
                    what = again.wrong or again.done.stderr
                    self.tell("written", line, f"{said}: {what}")
                elif words[0] == "eval":
                    theirs = sorted(chosen(again.files, "value"))
                    if ours != theirs:
                        self.tell("written", line, f"{said}\n    {ours} {theirs}")
        finally:
            clean(outcome.files)

    def silent(self, least: int) -> list[str]:
        """Return the options that were dropped often and never changed an output."""
        told = []
        for pair, lines_of in sorted(self.unchanged.items()):
            if not self.acts[pair] and len(lines_of) >= least:
                shown = "\n    ".join(lines_of[:3])
                told.append(f"[silent] {' '.join(pair)}: {len(lines_of)}\n    {shown}")
        return told


def differing(ours: Any, theirs: Any) -> str:
    """Return the first lines in which two values differ."""
    one, other = (
        json.dumps(value, indent=0, sort_keys=True, default=str).splitlines()
        for value in (ours, theirs)
    )
    for a, b in zip(one, other, strict=False):
        if a != b:
            return f"{a[:300]} | {b[:300]}"
    return f"{len(one)} lines | {len(other)} lines"


def reports_of(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return the results in the files that are results files."""
    results = []
    for name, content in files.items():
        if not name.endswith("json"):
            continue
        try:
            value = json.loads(content)
        except ValueError:
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and "signature" in one:
                results.append(one)
    return results


FIGURES = ("metric", "value", "first_pass", "reranked", "oracle", "low", "high")


def figures_of(outcome: Outcome) -> dict[str, Any]:
    """Return the figures of results files by signature."""
    found = {}
    for result in reports_of(outcome.files):
        for row in result.get("metrics", result.get("systems", [])):
            signature = f"{row.get('signature')} / {result['signature']}"
            if "name" in row:
                signature += f" {row['name']}"
            found[signature] = [row.get(name) for name in FIGURES]
    return found


def ordered(outcome: Outcome, path: str) -> Any:
    """Return what does not depend on the order of lists: exit status, figures,
    weights.
    """
    if outcome.done.returncode:
        return outcome.done.returncode
    kept = []
    for result in reports_of(outcome.files):
        rows = []
        for row in result.get("metrics", result.get("systems", [])):
            named = {**row, "name": str(row.get("name", "")).replace(path, "")}
            rows.append(named)
        for row in rows:
            row.pop("seconds", None)
        kept.append((rows, [result.get(name) for name in ("weights", "signature")]))
    return kept


def chosen(files: dict[str, bytes], name: str) -> list[tuple[str, float]]:
    """Return the figures of one name in results files, with their metrics."""
    found = []
    for result in reports_of(files):
        for row in result.get("metrics", result.get("systems", [])):
            if row.get(name) is not None:
                metric = row.get("metric") or result["metric"]
                found.append((metric, row[name]))
    return found


def measuring(line: Line) -> list[str]:
    """Return the options of a line that say how figures are measured."""
    flags = {"--metric", "--stop-words", "--allow-missing", "--src", "--ref-format"}
    flags |= {*test_options.OF_METRICS.values()}
    kept: list[str] = []
    for unit in line.units:
        is_kept = False
        for word in unit:
            if word.startswith("--"):
                is_kept = word in flags
            if is_kept:
                kept.append(word)
    return kept


def clean(files: dict[str, bytes]) -> None:
    """Remove written files, with their folders."""
    for name in files:
        path = Path(name)
        path.unlink(missing_ok=True)
        if len(path.parts) > 1:
            shutil.rmtree(path.parts[0], ignore_errors=True)


def output_of(line: Line, *flags: str) -> str:
    """Return the file that a line writes with an option."""
    words = line.words()
    for flag in flags:
        if flag in words:
            name = words[words.index(flag) + 1]
            return "" if name == "-" else name
    return ""


def reference_of(line: Line) -> str:
    """Return the file of references of a line; empty if there is none."""
    named = output_of(line, "--ref")
    if named:
        return named
    if line.lists and line.lists.has_references:
        return line.lists.test
    if line.base and line.base[0] in ("test.jsonl", "dev.jsonl"):
        return line.base[0]
    return ""


def detokenised(line: Line) -> bool:
    return "--detokenize" in line.words()


def fuzz(number: int, seed: int, tell: Callable[[str], object] = str) -> Judge:
    """Run random lines, and return the judge that saw them.

    Args:
        number: Number of lines.
        seed: Chooses the lines.
        tell: Gets each broken law when it is seen.
    """
    judge = Judge()
    with world() as readers:
        for index in range(number):
            draw = random.Random(f"{seed}.{index}")
            line = draw_line(readers, draw)
            before = len(judge.broken)
            judge_line(judge, line, draw)
            for broken in judge.broken[before:]:
                tell(f"{seed}.{index} {broken}")
    return judge


def judge_line(judge: Judge, line: Line, draw: random.Random) -> None:
    """Run a line, and judge it by the laws that suit it. A line that is refused is run
    again without one of its options, until it is not.
    """
    outcome = run_line(line)
    judge.see(line, outcome)
    while not outcome.wrong and outcome.done.returncode == 2 and line.units:
        less = draw.randrange(len(line.units))
        for place, unit in enumerate(line.units):
            if unit[0] in outcome.done.stderr:
                less = place
        kept = [unit for place, unit in enumerate(line.units) if place != less]
        line = replace(line, units=tuple(kept))
        outcome = run_line(line)
        judge.see(line, outcome)
    if outcome.wrong or outcome.done.returncode:
        return
    for unit in line.units:
        judge.see_option(line, outcome, unit)
    if line.lists and reports_of(outcome.files):
        judge.see_order(line, outcome)
    judge.see_written(line, outcome)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    judge = fuzz(options.number, options.seed, lambda told: print(told, flush=True))
    for told in judge.silent(least=3):
        print(told)
    print(dict(judge.outcomes))
    sys.exit(bool(judge.broken))


if __name__ == "__main__":
    main()
