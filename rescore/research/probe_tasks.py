"""The tasks of `rescore probe`: pairs of sentences or words, with their classes.

A task declares its options in a class `Options`, and makes its examples of a file. The
table `PROBES` has the tasks; a task from outside is registered there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.formats.sentences import read_lines
from rescore.formats.source import Source
from rescore.metrics.significance import SEED
from rescore.options import Declared, OptionValues, option, read_file
from rescore.parts import Registry
from rescore.research.words_in_context import FOLDS, folds, read_word_pairs

TRAINING_SETS = ("TRAIN", "TRIAL")
"""The parts of SICK that are trained on."""
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Side:
    """The first or the second texts of pairs."""

    texts: list[str]
    places: list[int] | None = None
    """The place of a word in each text, counted in words from 0, if the vectors of
    words are classified; None for vectors of sentences.
    """


@dataclass(frozen=True, slots=True)
class Examples:
    """Pairs of texts and their classes."""

    first: Side
    second: Side
    labels: list[str]
    tested: Flags | None = None
    """Flags (pairs,) of the examples that are tested, while the others are trained on;
    None for ten folds.
    """

    def parts(self) -> list[Flags]:
        """Return flags (pairs,) of what is tested: the test part, or each of the ten
        folds in turn.
        """
        if self.tested is not None:
            return [self.tested]
        return folds(len(self.labels))

    @property
    def trained(self) -> int:
        """Number of pairs that are trained on in one epoch, of all parts together."""
        return sum(int((~tested).sum()) for tested in self.parts())


class ProbeTask(Protocol):
    """A task of `rescore probe`."""

    Options: type[Declared]

    def examples(self, path: Path, options: Any) -> Examples:
        """Return the examples of a file.

        Args:
            path: The file.
            options: An object of the class `Options`.

        Raises:
            UserError: The file has another form.
        """
        ...


PROBES: Registry[Callable[[], ProbeTask]] = Registry(
    "task",
    {
        "sick": (
            "rescore.research.probe_tasks:Entailment",
            "entailment of the sentence pairs in SICK.txt",
        ),
        "wic": (
            "rescore.research.probe_tasks:WordsInContext",
            "whether a word means the same in two sentences",
        ),
        "order": (
            "rescore.research.probe_tasks:Order",
            "which of two lines of a text comes first",
        ),
    },
)


class Entailment:
    """SICK: entailment, neutral or contradiction. The test part is tested, or ten folds
    if the file has no column of parts.
    """

    COLUMNS = ("sentence_A", "sentence_B", "entailment_label")
    PART = "SemEval_set"

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        """There are none."""

    def examples(self, path: Path, options: Options) -> Examples:
        """Return the sentence pairs of SICK.txt."""
        columns = self._columns(path)
        tested = None
        if self.PART in columns:
            flags = [part not in TRAINING_SETS for part in columns[self.PART]]
            if any(flags) and not all(flags):
                tested = np.array(flags)
        first, second, labels = (columns[name] for name in self.COLUMNS)
        return Examples(Side(first), Side(second), labels, tested)

    def _columns(self, path: Path) -> dict[str, list[str]]:
        """Return the cells of the columns that are read, by the name of the column. The
        column of parts is absent if the file has none.
        """
        rows = [(place, line.split("\t")) for place, line in Source(path).filled()]
        head = rows[0][1] if rows else []
        if not set(self.COLUMNS) <= set(head) or len(rows) == 1:
            raise UserError(
                f"{path}: expected SICK, with a header line that has"
                f" {', '.join(self.COLUMNS)}"
            )
        names = list(self.COLUMNS)
        if self.PART in head:
            names.append(self.PART)
        numbers = [head.index(name) for name in names]
        columns: dict[str, list[str]] = {name: [] for name in names}
        for place, row in rows[1:]:
            if len(row) <= max(numbers):
                raise UserError(
                    f"{place}: has {counted(len(row), 'column')}, the header line"
                    f" {len(head)}"
                )
            for name, number in zip(names, numbers, strict=True):
                columns[name].append(row[number])
        return columns


class WordsInContext:
    """WiC: whether a word means the same in two sentences. Ten folds are tested."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        common = True

        gold: str | None = read_file(None, "wic: the answers, T or F, one per line.")

    def examples(self, path: Path, options: Options) -> Examples:
        """Return the sentence pairs of a WiC file, with the places of the word."""
        if options.gold is None:
            raise UserError(
                f"{path}: has no answers (T or F); give their file with --gold FILE"
            )
        pairs = read_word_pairs(path, options.gold)
        first = Side([pair.first for pair in pairs], [pair.places[0] for pair in pairs])
        second = Side(
            [pair.second for pair in pairs], [pair.places[1] for pair in pairs]
        )
        labels = ["T" if pair.same else "F" for pair in pairs]
        return Examples(first, second, labels)


class Order:
    """Which of two consecutive lines of a text is first? Every second pair is swapped.

    With mean pooling this is the dissertation's sentence relation prediction (SRP,
    section 5.4.1). No line is in two pairs; the last fifth of the text is tested.
    """

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        common = True

        examples: int = option(
            5_000, "order: pairs, spread evenly over the text.", low=10
        )

    def examples(self, path: Path, options: Options) -> Examples:
        """Return pairs of consecutive lines of a text, every second pair swapped."""
        pairs = consecutive_pairs(path)
        if len(pairs) < FOLDS:
            raise UserError(
                f"{path}: {counted(len(pairs), 'pair')} of consecutive lines; at least"
                f" {FOLDS} are needed"
            )
        number = min(options.examples, len(pairs))
        chosen = np.linspace(0, len(pairs) - 1, number).astype(int)
        swapped = np.random.default_rng(SEED).permutation(number) % 2 == 1
        first = []
        second = []
        labels = []
        for place, swap in zip(chosen, swapped, strict=True):
            before, after = pairs[place]
            if swap:
                first.append(after)
                second.append(before)
                labels.append("swapped")
            else:
                first.append(before)
                second.append(after)
                labels.append("in order")
        tested = np.arange(number) >= number * 4 // 5
        return Examples(Side(first), Side(second), labels, tested)


def consecutive_pairs(path: Path) -> list[tuple[str, str]]:
    """Return pairs of consecutive lines of a text; an empty line ends a document, and
    no line is in two pairs.

    Args:
        path: The text.
    """
    pairs = []
    before = ""
    for line in read_lines(path, empty=True):
        if before and line:
            pairs.append((before, line))
            before = ""
        else:
            before = line
    return pairs


def read_examples(
    name: str, path: str | Path, values: OptionValues | None = None
) -> Examples:
    """Return the examples of a task.

    Args:
        name: A name in `PROBES`.
        path: The file of the task.
        values: The options of tasks that are set.

    Raises:
        UserError: An option belongs to another task, the file does not fit the task,
            there are too few examples, or all have the same class.
    """
    task = PROBES[name]()
    values = values or OptionValues()
    known = [entry.name for entry in fields(task.Options)]  # type: ignore[arg-type]
    for option_name in values.values:
        if option_name not in known:
            raise UserError(f"--{option_name} does not apply to {name}")
    examples = task.examples(Path(path), values.of(task.Options))
    if examples.tested is None and len(examples.labels) < FOLDS:
        raise UserError(
            f"{path}: {counted(len(examples.labels), 'pair')}, and no test part; at"
            f" least {FOLDS} are needed for ten folds"
        )
    labels = np.array(examples.labels)
    for tested in examples.parts():
        if len(np.unique(labels[~tested])) < 2:
            raise UserError(f"{path}: all training examples have the same class")
    return examples
