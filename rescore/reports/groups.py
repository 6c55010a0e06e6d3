"""Figures of groups of utterances, such as accents, channels or speakers: `--by`.

`labels` says to which group each utterance belongs. `grouped` measures each group;
`cells` makes the rows of the table, with the mean over the groups in the last row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from os.path import isfile
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.formats.id_groups import groups_of_ids
from rescore.formats.ids import Side, paired
from rescore.formats.text import table
from rescore.metrics import Metric, value
from rescore.metrics.base import Counts, text_statistics
from rescore.metrics.cached import remembered
from rescore.metrics.folds import (
    SPEAKER,
    SPEAKERS,
    UNNAMED,
    check_no_scores,
    fields_of_lists,
    labels_of_field,
)
from rescore.parts import STYLES
from rescore.reports.markup import html
from rescore.styles import figure

MACRO = "macro mean"
"""Name of the row with the mean over the groups."""
_NAME = re.compile(r"[\w. -]+")
"""The name of a field: a text without the marks of a regular expression."""

Values = dict[str, dict[str, float | None]]
"""The value of each metric, in percent, for each output; None if it is undefined."""


@dataclass(slots=True)
class Group:
    """The figures of one group of utterances."""

    name: Annotated[
        str, Meta(description="The value of the field, or the cut of the id.")
    ]
    utterances: Annotated[int, Meta(description="Utterances of the group.")]
    words: Annotated[
        int,
        Meta(
            description="Words in their references, as counted by the first metric that"
            " counts words."
        ),
    ]
    values: Annotated[
        Values,
        Meta(description="Each metric of each output, in percent; null if undefined."),
    ]


@dataclass(slots=True)
class Groups:
    """The figures of all groups of a set."""

    by: Annotated[str, Meta(description="The field or the regular expression.")]
    groups: Annotated[list[Group], Meta(description="In the order of their names.")]
    macro_mean: Annotated[
        Values,
        Meta(description="The mean of the values of the groups, each with weight 1."),
    ]

    def called(self, names: Mapping[str, str]) -> Groups:
        """Return the groups with other names of outputs.

        Args:
            names: The new name of each output.
        """
        every = []
        for group in self.groups:
            every.append(replace(group, values=_called(group.values, names)))
        return Groups(self.by, every, _called(self.macro_mean, names))


def _called(values: Values, names: Mapping[str, str]) -> Values:
    """Return the values of outputs by other names of the outputs."""
    renamed = {}
    for metric, outputs in values.items():
        renamed[metric] = {names[name]: value for name, value in outputs.items()}
    return renamed


def labels(by: str, lists: Dataset) -> list[str]:
    """Return the group of each utterance.

    Args:
        by: A field of the lists, a file with an id and its group in each line,
            `speaker`, or a regular expression whose first group is cut from the id.
        lists: The lists.

    Raises:
        UserError: No list has the field, or it is a column of scores; the file has no
            group of any utterance; the expression is invalid, has no group, or does not
            match an id.
    """
    if of_field := labels_of_field(lists, by):
        return of_field
    ids = [nbest.id for nbest in lists]
    if isfile(by):  # noqa: PTH113 (pathlib raises an error for a long expression)
        return _of_file(by, ids)
    of_file = "give --by FILE, a file with an id and its group in each line"
    check_no_scores(by, lists, "--by", of_file)
    if by == SPEAKERS:
        return groups_of_ids(ids, SPEAKER, "--by speaker")
    if _NAME.fullmatch(by):
        raise UserError(
            f"--by {by}: no list has this field with one value for all its hypotheses"
            f" (found: {fields_of_lists(lists)}); give a field, or a regular expression"
            " whose first group is a part of the id, such as '^(.+?)-'"
        )
    return groups_of_ids(ids, by, f"--by {by}", needs_group=True)


def _of_file(path: str, ids: Sequence[str]) -> list[str]:
    """Return the group of each utterance, as the lines of a file say it.

    Args:
        path: A file with an id and its group in each line, as Kaldi's utt2spk.
        ids: The utterances.

    Raises:
        UserError: The file has no group of any utterance, or an id twice.
    """
    groups = table(Path(path))
    pairing = paired(Side(ids), Side(list(groups), path))
    if not pairing.found:
        pairing.check("group")
    pairing.tell()
    by_id = dict(zip(pairing.found, pairing.of(list(groups.values())), strict=True))
    return [by_id.get(name) or UNNAMED for name in ids]


def grouped(
    by: str,
    metrics: Sequence[Metric],
    lists: Dataset,
    outputs: Mapping[str, Sequence[str]],
    lists_of: Mapping[str, Dataset] | None = None,
) -> Groups:
    """Return the figures of each group.

    Args:
        by: What `labels` takes.
        metrics: The metrics.
        lists: Lists with references.
        outputs: One text for each list, by the name of the output.
        lists_of: The lists of outputs that have references of their own; None if all
            outputs have the references of `lists`.

    Raises:
        UserError: The lists have no such groups.
    """
    list_indices: dict[str, list[int]] = {}
    for index, label in enumerate(labels(by, lists)):
        list_indices.setdefault(label, []).append(index)
    groups = [
        Group(name, len(list_indices[name]), 0, {}) for name in sorted(list_indices)
    ]
    counted: dict[str, int] = {}
    for metric in metrics:
        reporting = remembered(metric.for_reports)
        for group in groups:
            group.values[metric.name] = {}
        for output, texts in outputs.items():
            own = (lists_of or {}).get(output, lists)
            rows = text_statistics(reporting, own, texts)
            for group in groups:
                sums = rows[list_indices[group.name]].sum(axis=0)
                group.values[metric.name][output] = _value(metric, sums)
                counts = metric.details(sums)
                if "ref_words" in counts:
                    # the first metric that counts words, and its first output
                    counted.setdefault(group.name, int(counts["ref_words"]))
    for group in groups:
        own = lists.with_lists(lists[index] for index in list_indices[group.name])
        words = counted.get(group.name)
        group.words = reference_words(own, metrics) if words is None else words
    return Groups(by, groups, _macro_mean(groups))


def reference_words(lists: Dataset, metrics: Sequence[Metric] = ()) -> int:
    """Return the number of words in the references, in the first of each list.

    Args:
        lists: Lists with references.
        metrics: The metrics; the first with a normaliser says what a word is.
    """
    of_words = [metric for metric in metrics if metric.words is not None]
    total = 0
    for nbest in lists:
        reference = nbest.references[0]
        cut_words = nbest.header.cut_words
        if of_words:
            reference = of_words[0].said(reference)
            cut_words = of_words[0].words or cut_words
        total += len(cut_words(reference))
    return total


def _value(metric: Metric, sums: Counts) -> float | None:
    """Return the value of a metric, in percent; None if it is not defined."""
    measured = value(metric, sums)
    return float(measured) if math.isfinite(measured) else None


def _macro_mean(groups: Sequence[Group]) -> Values:
    """Return the mean of the values that are defined."""
    means: Values = {}
    for metric, outputs in groups[0].values.items():
        means[metric] = {}
        for output in outputs:
            values = [group.values[metric][output] for group in groups]
            defined = [value_of for value_of in values if value_of is not None]
            means[metric][output] = float(np.mean(defined)) if defined else None
    return means


def cells(groups: Groups) -> list[list[str]]:
    """Return the rows of the table: a row for each group, and the mean over groups.

    Args:
        groups: The figures.
    """
    head = [groups.by, "utterances", "words"]
    for metric, outputs in groups.macro_mean.items():
        head += [f"{metric} {output}" for output in outputs]
    rows = [head]
    for group in groups.groups:
        row = [group.name, f"{group.utterances:,}", f"{group.words:,}"]
        rows.append([*row, *_figures(group.values)])
    utterances = sum(group.utterances for group in groups.groups)
    words = sum(group.words for group in groups.groups)
    last = [MACRO, f"{utterances:,}", f"{words:,}"]
    return [*rows, [*last, *_figures(groups.macro_mean)]]


def _figures(values: Values) -> list[str]:
    """Return the cells of values."""
    figures = []
    for outputs in values.values():
        for measured in outputs.values():
            figures.append(figure(math.nan if measured is None else measured))
    return figures


def render(groups: Groups | None, style: str = "text") -> str | None:
    """Return the table in one of `STYLES`; None without groups.

    Args:
        groups: The figures; None if nothing is grouped.
        style: The name of the style.
    """
    if groups is None:
        return None
    table: str = STYLES[style](cells(groups))
    return table


def as_html(groups: Groups | None) -> str:
    """Return the table as HTML with a heading; without groups the text is empty.

    Args:
        groups: The figures; None if nothing is grouped.
    """
    if groups is None:
        return ""
    return f"<h2>By {escape(groups.by)}</h2>{html(cells(groups))}"
