"""The outputs of systems for the same utterances, side by side."""

from __future__ import annotations

import logging
import math
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rescore.content import hash_of_set, references_hash
from rescore.dataset import Dataset
from rescore.deciding import first_pass
from rescore.errors import UserError, counted
from rescore.files import distinct, distinct_in_each
from rescore.formats.ids import Pairing, Side, paired, some
from rescore.formats.pairs import paired_outputs, tell_numbered
from rescore.metrics import Metric
from rescore.metrics.significance import PairedTest
from rescore.metrics.texts import warn_of_texts
from rescore.nbest import with_left_out
from rescore.parts import TESTS
from rescore.reports.details import details
from rescore.reports.figures import (
    SHORT,
    Figures,
    MeasuredRow,
    sign,
    signed,
)
from rescore.reports.groups import Groups, grouped, render
from rescore.signature import Conditions, Signature, number_of
from rescore.styles import figure, p_value, text
from rescore.tuning.weights import FIRST_PASS_ALONE, OF_TEXTS, Weights

log = logging.getLogger(__name__)

FEWEST = 6
"""Units from which on a p-value can be below 0.05: of the 2^n exchanges of n units, two
are as extreme as a set where all units prefer the same system.
"""


@dataclass(slots=True)
class Output:
    """The figures of an output."""

    name: str
    value: float | None
    """In percent; None if it is not defined."""
    counts: dict[str, int | float]
    """What the value is computed from."""
    utterances: int
    low: float | None = None
    """The lower end of the 95 % confidence interval, in percent."""
    high: float | None = None
    """The upper end of this interval."""
    oracle: float | None = None
    """The metric of the best hypothesis of each list, in percent; None for lists of one
    hypothesis.
    """
    p_value: float | None = None
    """Two-sided, of the difference to the first output."""
    sentence_errors: int | None = None
    """Utterances with an error; for error rates only."""
    mean_of_samples: MeasuredRow | None = None
    """The mean of all hypotheses, where a metric takes each text as one answer."""

    @classmethod
    def of(cls, row: MeasuredRow, utterances: int, oracle: float | None) -> Output:
        """Return a measured row as an output.

        Args:
            row: The row.
            utterances: Number of lists.
            oracle: The metric of the best hypotheses; None if there is no choice.
        """
        low, high = row.interval or (None, None)
        return cls(
            row.name,
            row.value,
            row.counts,
            utterances,
            low,
            high,
            oracle,
            row.p_value,
            row.wrong,
        )

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval, in percent."""
        if self.low is None or self.high is None:
            return None
        return self.low, self.high

    def row(self, metric: str) -> MeasuredRow:
        """Return the output as a row of tables.

        Args:
            metric: The name of the metric.
        """
        value = math.nan if self.value is None else self.value
        return MeasuredRow(
            self.name,
            metric,
            value,
            self.counts,
            self.interval,
            self.p_value,
            wrong=self.sentence_errors,
        )


@dataclass(slots=True)
class MeasuredOutputs:
    """Outputs under one metric: a report of `rescore eval`."""

    metric: str
    signature: str
    higher_is_better: bool
    """Whether a higher value is the better one."""
    systems: list[Output]
    """Each output; p-values are against the first output."""
    conditions: Conditions
    """How the metric was measured."""
    test: str | None = None
    """The significance test and its settings; of a single output what intervals draw,
    None for utterances.
    """
    groups: Groups | None = None
    """Figures of groups of utterances; None if nothing is grouped."""
    references: str | None = None
    """The number of references, and a hash of their texts; None in older reports."""

    @property
    def signed(self) -> Signature:
        """The signature that the record makes."""
        have_choices = [output.oracle is not None for output in self.systems]
        return signed(self.metric, deciding(have_choices), {}, self.conditions)


def deciding(have_choices: Iterable[bool]) -> Weights:
    """Return what decided outputs whose first pass counts.

    Args:
        have_choices: Whether each output has lists of several hypotheses. Nobody knows
            how other texts were chosen.
    """
    return FIRST_PASS_ALONE if all(have_choices) else OF_TEXTS


NamedLists = tuple[str, Dataset]
"""The name of an output, and its lists."""


def compare_outputs(
    outputs: Sequence[NamedLists],
    metric: Metric,
    test: PairedTest | None = None,
    by: str | None = None,
) -> MeasuredOutputs:
    """Return the figures of several outputs for the same utterances, each with a
    p-value against the first.

    Args:
        outputs: The outputs.
        metric: The metric.
        test: The significance test; None for approximate randomisation.
        by: What the figures of groups are grouped by; None for no groups.

    Raises:
        UserError: An output lacks an utterance that the first has, or has one more, or
            has another reference of one.
    """
    test = test or PairedTest()
    base, base_lists = outputs[0]
    for _, lists in outputs:
        warn_of_texts(metric, lists)
    have_choices = [lists.have_choices for _, lists in outputs]
    weights = deciding(have_choices)
    used = _test_of(test, len(outputs))
    signature = replace(
        sign(metric, base_lists, weights), test=used, lists=_content(outputs)
    )
    measured: list[Output] = []
    first = None
    texts_of_output: dict[str, list[str]] = {}
    lists_of_output: dict[str, Dataset] = {}
    for (name, lists), has_choices in zip(outputs, have_choices, strict=True):
        figures = Figures(metric, in_order(name, lists, base, base_lists), test)
        texts = first_pass(figures.lists).texts
        texts_of_output[name] = texts
        lists_of_output[name] = figures.lists
        own = figures.of(texts)
        oracle = figures.oracle if has_choices else None
        row = figures.row(name, own, first)
        output = Output.of(row, len(base_lists), oracle)
        output.mean_of_samples = figures.mean_of_samples()
        measured.append(output)
        first = first or own
    if used is not None:
        warn_of_few_units(test, metric, base_lists)
    groups = None
    if by is not None:
        groups = grouped(by, [metric], base_lists, texts_of_output, lists_of_output)
    return MeasuredOutputs(
        metric.name,
        str(signature),
        metric.higher_is_better,
        measured,
        signature.conditions,
        used,
        groups,
        references_hash(base_lists),
    )


def _content(outputs: Sequence[NamedLists]) -> str:
    """Return the number of lists, and the hash of the content of all outputs, for the
    signature.
    """
    _, base_lists = outputs[0]
    hashes = [lists.content_hash for _, lists in outputs]
    if len(hashes) > 1:
        hashes = [hash_of_set(hashes)]
    return f"{number_of(base_lists)}@{hashes[0]}"


def _test_of(test: PairedTest, outputs: int) -> str | None:
    """Return the signature of a test of several outputs; of a single output what its
    interval draws, None for utterances.
    """
    if outputs > 1:
        return test.signature
    return test.units if test.by_speaker else None


def output_details(
    metric: Metric, first: NamedLists, last: NamedLists
) -> list[dict[str, Any]]:
    """Return a row per utterance of two outputs, as `rescore.reports.details` makes
    them; the first output is the first pass.
    """
    lists = in_order(*last, *first)
    before = first_pass(first[1]).texts
    after = first_pass(lists).texts
    return details(metric, lists, before, after)


def warn_of_few_units(test: PairedTest, metric: Metric, lists: Dataset) -> None:
    """Say so where there are too few units for a low p-value."""
    number = len(test.by_unit(lists, [np.zeros(1, dtype=np.int64)] * len(lists)))
    if number >= FEWEST or not getattr(TESTS[test.name], "exchanges", False):
        return
    whole = all(nbest.recording == nbest.id for nbest in lists)
    unit = "speaker" if test.by_speaker else "recording" if whole else "utterance"
    words = metric.unit == "word" and not test.by_speaker
    log.warning(
        "only %s: randomisation gives no p-value below about %g%s",
        counted(number, unit),
        2.0 ** (1 - number),
        _instead(test, words),
    )


def _instead(test: PairedTest, words: bool) -> str:
    """Return the end of the warning of few units: what to do."""
    if test.by_speaker:
        return "; leave out --by-speaker and --speaker"
    return "; give --test mapsswe, which compares segments" if words else ""


def in_order(name: str, lists: Dataset, base: str, base_lists: Dataset) -> Dataset:
    """Return the lists of an output in the order of the lists of the first output.

    Args:
        name: The name of the output.
        lists: The lists of the output.
        base: The name of the first output.
        base_lists: The lists of the first output.

    Raises:
        UserError: The outputs have different utterances or references.
    """
    pairing = _pairing(name, lists, base, base_lists)
    missing, others = pairing.missing, pairing.left_out
    if missing:
        raise _not_the_same(name, missing, others, base, len(base_lists))
    if others:
        raise _not_the_same(base, others, missing, name, len(lists))
    pairing.tell()
    ordered = []
    for expected, own in zip(base_lists, pairing.of(lists), strict=True):
        is_whole = expected.recording == expected.id
        if not is_whole and own.references != expected.references:
            raise UserError(
                f"{name}: utterance {expected.id} has another reference than in {base};"
                " compare outputs for the same references, such as one --ref FILE"
            )
        ordered.append(own if own.id == expected.id else replace(own, id=expected.id))
    return lists.with_lists(ordered)


def _pairing(name: str, lists: Dataset, base: str, base_lists: Dataset) -> Pairing:
    """Return which list of an output is which of the first; the arguments are those of
    `in_order`.
    """
    pairing = paired_outputs(base_lists, lists, (base, name))
    if pairing is not None:
        if pairing.is_by_number:
            tell_numbered([base, name])
        return pairing
    ours = Side([nbest.id for nbest in base_lists], base)
    return paired(ours, Side([nbest.id for nbest in lists], name))


def in_common(
    outputs: Sequence[NamedLists],
) -> list[NamedLists]:
    """Return the outputs without the utterances that one of them lacks. A line says how
    many these are, and signatures have the number of all (`Header.left_out`).

    Args:
        outputs: The outputs, of which the first names the utterances.

    Raises:
        UserError: No utterance is in all outputs.
    """
    (base, base_lists), *others = outputs
    common = {nbest.id for nbest in base_lists}
    names = [{name: name for name in common}]
    for name, lists in others:
        renamed = _pairing(name, lists, base, base_lists).renamed
        names.append(renamed)
        common &= set(renamed.values())
    kept = []
    for (name, lists), renamed in zip(outputs, names, strict=True):
        own = [nbest for nbest in lists if renamed.get(nbest.id) in common]
        if not own:
            raise UserError(
                f"{name}: has no utterance that all outputs have; compare outputs of"
                " the same set"
            )
        absent = len(lists) - len(own)
        if absent:
            log.warning(
                "%s: %s of %s left out: another output lacks them",
                name,
                f"{absent:,}",
                counted(len(lists), "utterance"),
            )
            own = with_left_out(own, absent)
        kept.append((name, Dataset(own)))
    return kept


def _not_the_same(
    name: str,
    missing: Sequence[str],
    others: Sequence[str],
    other: str,
    number: int,
) -> UserError:
    """Return the error about an output that lacks utterances of another.

    Args:
        name: The output.
        missing: The utterances that it lacks.
        others: The utterances that it alone has.
        other: The other output.
        number: The number of utterances of the other output.
    """
    absent = f"{len(missing):,} of {counted(number, 'utterance')}"
    beside = f", and has {some(others)}" if others else ""
    return UserError(
        f"{name}: lacks {absent} that {other} has ({some(missing)}){beside}; compare"
        " outputs of the same set, or leave these utterances out: --allow-missing"
    )


def report_of(every: Sequence[MeasuredOutputs]) -> Any:
    """Return what JSON has of outputs: one object; of several metrics a list of
    objects.

    Args:
        every: The outputs under each metric.
    """
    return every[0] if len(every) == 1 else list(every)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return how tables call outputs: a path in a folder by the part in which all
    paths differ, other names whole.

    Args:
        names: The name of each output.
    """
    found = None
    if len(names) > 1 and any("/" in name for name in names):
        found = distinct(_parts(names))
    return dict(zip(names, found or names, strict=True))


def names_in_each(reports: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the names by which outputs of several reports are the same output: the
    part in which the paths of each report differ, at the same place in all reports.
    Without such a part: the paths below the folder that all outputs of a report are in.

    Args:
        reports: The name of each output of each report.
    """
    found = distinct_in_each([_parts(names) for names in reports])
    if found is not None:
        return list(found)
    return [_below_common_folder(names) for names in reports]


def _parts(names: Sequence[str]) -> list[list[str]]:
    """Return the parts of paths, from the file up."""
    return [posixpath.normpath(name).split("/")[::-1] for name in names]


def _below_common_folder(names: Sequence[str]) -> list[str]:
    """Return paths without the folders that all of them are in."""
    paths = [parts[::-1] for parts in _parts(names)]
    shared = 0
    for folders in zip(*[path[:-1] for path in paths], strict=False):
        if len(set(folders)) > 1:
            break
        shared += 1
    return ["/".join(path[shared:]) for path in paths]


def render_systems(every: Sequence[MeasuredOutputs]) -> str:
    """Return a table with a row for each output, then the signature. Several metrics
    are one table with a row for each output under each metric.

    Args:
        every: The outputs under each metric.
    """
    if len(every) > 1 and len(every[0].systems) == 1:
        return "\n\n".join(render_systems([systems]) for systems in every)
    tables = [text(list(_rows(every)))]
    for systems in every:
        if systems.groups is not None:
            names = short_names([output.name for output in systems.systems])
            tables.append(f"\n{render(systems.groups.called(names))}\n")
    return "\n".join([*tables, *(systems.signature for systems in every)])


def _rows(every: Sequence[MeasuredOutputs]) -> Iterator[list[str]]:
    """Yield the cells of the table of `render_systems`: the head line, then the rows.
    A metric lacks counts that another metric has.
    """
    rows = [(systems.metric, output) for systems in every for output in systems.systems]
    names: dict[str, None] = {}
    for _, output in rows:
        names |= dict.fromkeys(output.counts)
    has_oracles = any(output.oracle is not None for _, output in rows)
    is_tested = len(every[0].systems) > 1
    first = ["", every[0].metric] if len(every) == 1 else ["", "", "value"]
    oracle = ["oracle"] if has_oracles else []
    counts = [SHORT.get(name, name) for name in names]
    last = ["p"] if is_tested else []
    yield [*first, "95 % CI", *oracle, *counts, "utterances", *last]
    shortened = short_names([output.name for output in every[0].systems])
    for metric, output in rows:
        _, value, bounds, *counts = output.row(metric).cells(list(names))
        first = [shortened[output.name], value, bounds]
        if len(every) > 1:
            first.insert(0, metric)
        oracle = [figure(output.oracle)] if has_oracles else []
        last = [p_value(output.p_value)] if is_tested else []
        yield [*first, *oracle, *counts, f"{output.utterances:,}", *last]
