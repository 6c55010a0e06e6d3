"""Language models, or the outputs of systems, side by side."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any, NamedTuple

import numpy as np

from rescore.dataset import Dataset
from rescore.deciding import Decided
from rescore.errors import UserError, counted
from rescore.metrics import Metric
from rescore.metrics.base import is_better, text_value, warn_of_unspaced
from rescore.metrics.significance import BY_SPEAKER, PairedTest
from rescore.nbest import FIRST_PASS, WORDS, NbestList, units
from rescore.parts import STYLES, TESTS
from rescore.reports.details import details
from rescore.reports.figures import (
    FIRST,
    MIXTURE,
    ORACLE,
    SHORT,
    SIGNIFICANT,
    Figures,
    Row,
    sign,
)
from rescore.reports.markup import (
    as_frame,
    as_json,
    html,
    latex_note,
    mark_best,
    signature_lines,
)
from rescore.reports.results import Dev, zero
from rescore.styles import marked_worse, p_value, text
from rescore.tuning.phrases import bonus_phrases, notes
from rescore.tuning.tuned import Tuned, TunedBy
from rescore.tuning.weights import FIRST_PASS_ALONE, Weights

log = logging.getLogger(__name__)

FEWEST = 6
"""Units from which on a p-value can be below 0.05: of the 2^n exchanges of n units, two
are as extreme as a set where all units prefer the same system.
"""
JSON = "json"
"""Beside `STYLES`: all figures, in full precision."""


@dataclass(slots=True)
class Compared(Row):
    """One model, or several together, on test lists."""

    dev: float = 0.0
    """The metric on dev, in percent."""
    gain: float = 0.0
    """The improvement of the first pass on test, in percent of it; a loss is negative,
    for every metric.
    """
    speed: float | None = None
    """Hypotheses scored a second; None where scores were looked up."""
    others: dict[str, float] = field(default_factory=dict)
    """Further metrics on test, in percent, by name."""
    against: str = FIRST
    """The name of the row that the p-value compares with: the first pass, or all models
    where one is left out.
    """
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that may not win."""
    notes: list[str] = field(default_factory=list)
    """Why weights are 0."""


@dataclass(slots=True)
class Comparison:
    """Language models on the same lists."""

    metric: str
    higher_is_better: bool
    source: str
    """Path or name of the test lists."""
    dev_source: str
    """Path or name of the dev lists."""
    utterances: int
    """Test lists."""
    hypotheses: int
    """Hypotheses in them."""
    oracle: float
    """The metric of the best hypothesis of each test list, in percent."""
    dev_oracle: float
    first_pass: float
    """The metric of the first pass on test, in percent."""
    dev_first_pass: float
    signature: str
    """Of the first pass."""
    others: dict[str, float] = field(default_factory=dict)
    """Further metrics of the first pass on test, in percent, by name."""
    rows: list[Compared] = field(default_factory=list)
    baseline: str = FIRST
    """The first pass as the table names it; of several systems it is their mixture."""

    @property
    def about(self) -> str:
        """The sets, and what p-values compare, in one line."""
        without = [row for row in self.rows if row.against != self.baseline]
        about = (
            f"{self.source}: {counted(self.utterances, 'utterance')},"
            f" {counted(self.hypotheses, 'hypothesis')}; weights tuned on"
            f" {self.dev_source}; p against the {self.baseline}"
        )
        if without:
            about += "; rows `without MODEL` have p against all models"
        return about + (
            ", and a word bonus as all models have"
            if any(WORDS in row.weights for row in without)
            else ""
        )

    def _repr_html_(self) -> str:
        """For notebooks."""
        return f"{html(_cells(self))}<p>{escape(self.about)}</p>"

    def to_frame(self) -> Any:
        """A DataFrame of the table, with unrounded figures: a row for each model, after
        oracle and first pass.

        Raises:
            UserError: neither pandas nor polars is installed.
        """
        return as_frame(_records(self))


class Entry(NamedTuple):
    """What is compared: one model, or several together, with weights tuned on dev."""

    name: str
    decided: Decided
    """The test lists with the text chosen for each."""
    dev: float
    """The metric on dev, in percent."""
    speed: float | None
    """Hypotheses scored a second; None where scores were looked up."""
    ablation: bool = False
    """Whether something is left out of all together: the row is compared with that, and
    no other row with it.
    """


def compare(
    metric: Metric,
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    entries: Iterable[Entry],
    test: PairedTest,
    sources: tuple[str, str] = ("test", "dev"),
    also: Sequence[Metric] = (),
) -> Comparison:
    """The figures of entries on the same lists, each with a p-value against the first
    pass.

    The p-value of an ablation is against the entry before the ablations: all models
    together.

    Args:
        sources: names of test and dev lists. also: further metrics to report.
    """
    warn_of_unspaced(metric, lists)
    warn_of_few(test, metric, lists)
    figures, dev_figures = Figures(metric, lists, test), Figures(metric, dev)
    first = figures.first
    result = Comparison(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        source=sources[0],
        dev_source=sources[1],
        utterances=len(lists),
        hypotheses=sum(len(nbest.hypotheses) for nbest in lists),
        oracle=figures.oracle,
        dev_oracle=dev_figures.oracle,
        first_pass=figures.value(first),
        dev_first_pass=dev_figures.value(dev_figures.first),
        signature=str(sign(metric, lists, FIRST_PASS_ALONE, test=test)),
        others={
            each.name: text_value(each, lists, [text.text for text in first])
            for each in also
        },
        baseline=MIXTURE if Dataset.of(lists).header.systems else FIRST,
    )
    together, name = first, result.baseline
    direction = 1 if metric.higher_is_better else -1
    for entry in entries:
        lists = entry.decided.lists
        texts = entry.decided.texts
        weights = entry.decided.weights
        chosen = figures.of(texts)
        row = Compared(
            **asdict(
                figures.row(
                    entry.name, chosen, together if entry.ablation else first, False
                )
            )
        )
        row.weights = weights.weights
        row.excluded = weights.exclusions
        row.signature = str(sign(metric, lists, weights, test=test))
        row.gain = (
            100 * direction * (row.value / result.first_pass - 1)
            if result.first_pass
            else 0.0
        )
        row.dev, row.speed = entry.dev, entry.speed
        row.others = {each.name: text_value(each, lists, texts) for each in also}
        row.against = name if entry.ablation else result.baseline
        if not entry.ablation:
            together, name = chosen, entry.name
            about = Dev.of(weights)
            with_all, reached = (
                (about.with_all, about.reranked) if about else (None, None)
            )
            row.notes = [*notes([weights.weights], weights.columns, with_all, reached)]
            row.notes += zero(
                about, weights.weights, metric.name, weights.decision.name
            )
        result.rows.append(row)
    return result


def render(comparison: Comparison, style: str) -> str:
    """The whole comparison in one of `STYLES`, or `json`.

    Text and Markdown have the signature of every row below the table; a note under a
    LaTeX table says what p compares.
    """
    if style == JSON:
        return as_json(comparison)
    table, about = (
        STYLES[style](_cells(comparison, marked=style != "csv")),
        comparison.about,
    )
    if style == "csv":
        return table
    if style == "latex":
        return f"{table}\n{latex_note(about.partition('; ')[2])}"
    signatures = signature_lines(
        [(row.name, row.signature) for row in comparison.rows], style
    )
    why = signature_lines(
        [(row.name, note) for row in comparison.rows for note in row.notes], "text"
    )
    return "\n".join(
        [
            table,
            "",
            *([f"{about}.", *why, ""] if style == "markdown" else [about, *why]),
            *signatures,
        ]
    )


def _records(comparison: Comparison) -> list[dict[str, Any]]:
    """The unrounded table: None where a row has no figure."""
    dev, test = f"dev {comparison.metric}", comparison.metric
    none = dict.fromkeys((*comparison.others, "relative gain %", "p", "hyp/s"))
    oracle = {
        "name": ORACLE,
        "weight": "",
        dev: comparison.dev_oracle,
        test: comparison.oracle,
    }
    first = {
        "name": comparison.baseline,
        "weight": "",
        dev: comparison.dev_first_pass,
        test: comparison.first_pass,
    }
    rows: list[dict[str, Any]] = [oracle | none, first | none | comparison.others]
    for row in comparison.rows:
        models = {
            name: weight
            for name, weight in row.weights.items()
            if name != FIRST_PASS and name not in units()
        }
        weights = [f"{weight:z.3f}" for weight in models.values()]
        if len(models) > 1:
            weights = [
                f"{name} {weight:z.3f}" for name, weight in models.items() if weight
            ] or ["0.000"]
        weights += bonus_phrases(row.weights, "+z.2f", row.excluded)
        figures = {
            "name": row.name,
            "weight": ", ".join(weights),
            dev: row.dev,
            test: row.value,
        }
        rows.append(
            figures
            | row.others
            | {
                "relative gain %": row.gain,
                "p": row.p_value,
                "hyp/s": row.speed,
            }
        )
    return rows


def _cells(comparison: Comparison, marked: bool = True) -> list[list[str]]:
    """The rows of the table; `marked`: a gain says that it is a significant loss."""
    records = _records(comparison)
    rows = [["", *list(records[0])[1:]]]
    tested = {
        row.name
        for row in comparison.rows
        if row.against == comparison.baseline and (row.p_value or 1) < SIGNIFICANT
    }
    for record in records:
        name, weights, *figures, gain, p, speed = record.values()
        is_worse = is_better(
            comparison.first_pass,
            record[comparison.metric],
            comparison.higher_is_better,
        )
        change = (
            ""
            if gain is None
            else marked_worse(f"{gain:+z.1f}", marked and is_worse and name in tested)
        )
        values = ("" if figure is None else f"{figure:.2f}" for figure in figures)
        rows.append(
            [
                name,
                weights,
                *values,
                change,
                p_value(p),
                "" if speed is None else f"{speed:,.0f}",
            ]
        )
    mark_best(rows[3:], 3, comparison.higher_is_better)
    return rows


@dataclass(slots=True)
class Systems:
    """Outputs under one metric."""

    metric: str
    test: str | None
    """The significance test and its settings; of a single output what intervals draw,
    None for utterances.
    """
    signature: str
    utterances: int
    rows: list[Row] = field(default_factory=list)
    """Each output; p-values are against the first output."""
    oracles: list[float | None] = field(default_factory=list)
    """The metric of the best hypothesis of each list; None for an output whose lists
    have one hypothesis.
    """


Output = tuple[str, Sequence[NbestList]]
"""The name of an output, and its lists."""


def compare_outputs(
    outputs: Sequence[Output], metric: Metric, test: PairedTest | None = None
) -> Systems:
    """The figures of several outputs for the same utterances, each with a p-value
    against the first.

    Raises:
        UserError: an output lacks an utterance that the first has, or has one more, or
        has another reference of one.
    """
    test = test or PairedTest()
    several, (base, base_lists) = len(outputs) > 1, outputs[0]
    warn_of_unspaced(metric, base_lists)
    # Nobody knows how a text was chosen: weights are those of lists alone.
    are_lists = [
        any(len(nbest.hypotheses) > 1 for nbest in lists) for _, lists in outputs
    ]
    weights = FIRST_PASS_ALONE if all(are_lists) else Weights({}, Tuned(TunedBy.TEXTS))
    used = test.signature if several else BY_SPEAKER if test.by_speaker else None
    signature = replace(sign(metric, base_lists, weights), test=used)
    systems = Systems(metric.name, used, str(signature), len(base_lists))
    first = None
    for (name, lists), has_choices in zip(outputs, are_lists, strict=True):
        figures = Figures(metric, in_order(name, lists, base, base_lists), test)
        systems.rows.append(figures.row(name, figures.first, first))
        systems.oracles.append(figures.oracle if has_choices else None)
        first = first or figures.first
    if several or test.by_speaker:
        warn_of_few(test, metric, base_lists)
    return systems


def output_details(metric: Metric, first: Output, last: Output) -> list[dict[str, Any]]:
    """A row per utterance of two outputs, as `rescore.reports.details` makes them; the
    first is the first pass.
    """
    texts = [
        [chosen.text for chosen in Figures(metric, lists).first]
        for lists in (first[1], in_order(*last, *first))
    ]
    return details(metric, in_order(*last, *first), *texts)


def warn_of_few(test: PairedTest, metric: Metric, lists: Sequence[NbestList]) -> None:
    """Say so where there are too few units for a low p-value."""
    number = len(test.by_unit(lists, [np.zeros(1, dtype=np.int64)] * len(lists)))
    if number >= FEWEST or not TESTS[test.name].by_units:
        return
    whole = all(nbest.recording == nbest.id for nbest in lists)
    unit = "speaker" if test.by_speaker else "recording" if whole else "utterance"
    words = metric.unit == "word" and not test.by_speaker
    log.warning(
        "only %s: randomisation gives no p-value below about %g%s",
        *(counted(number, unit), 2.0 ** (1 - number)),
        "; give --test mapsswe, which compares segments" if words else "",
    )


def in_order(
    name: str, lists: Sequence[NbestList], base: str, base_lists: Sequence[NbestList]
) -> list[NbestList]:
    """The lists of an output in the order of those of the first output, `base`."""
    of_id = {nbest.id: nbest for nbest in lists}
    if differing := sorted(of_id.keys() ^ {nbest.id for nbest in base_lists}):
        raise UserError(
            f"{name}: utterance {differing[0]} is in one of {base} and {name} only;"
            " compare the same set"
        )
    for expected in base_lists:
        if (
            expected.recording != expected.id
            and of_id[expected.id].references != expected.references
        ):
            raise UserError(
                f"{name}: utterance {expected.id} has another reference than in {base};"
                " compare outputs for the same references, such as one --ref FILE"
            )
    return [of_id[expected.id] for expected in base_lists]


def records_of(every: Sequence[Systems]) -> Any:
    """What JSON has of outputs: one object; of several metrics a list of them."""
    records = []
    for systems in every:
        rows = []
        for row, oracle in zip(systems.rows, systems.oracles, strict=True):
            low, high = row.interval or (None, None)
            rows.append(
                {
                    "name": row.name,
                    "value": row.value,
                    "counts": row.counts,
                    "utterances": systems.utterances,
                }
                | {"low": low, "high": high, "oracle": oracle, "p_value": row.p_value}
            )
        about = {
            "metric": systems.metric,
            "signature": systems.signature,
            "test": systems.test,
        }
        records.append(about | {"systems": rows})
    return records[0] if len(records) == 1 else records


def render_systems(systems: Systems) -> str:
    """A row an output, then the signature."""
    names = list(systems.rows[0].counts)
    rows = [
        [
            "",
            systems.metric,
            "95 % CI",
            "oracle",
            *(SHORT.get(name, name) for name in names),
            "utterances",
            "p",
        ]
    ]
    for row, oracle in zip(systems.rows, systems.oracles, strict=True):
        name, value, bounds, *counts = row.cells(names)
        best = "" if oracle is None else f"{oracle:.2f}"
        rows.append(
            [
                name,
                value,
                bounds,
                best,
                *counts,
                f"{systems.utterances:,}",
                p_value(row.p_value),
            ]
        )
    if len(systems.rows) == 1:
        rows = [row[:-1] for row in rows]
    if not any(oracle is not None for oracle in systems.oracles):
        rows = [row[:3] + row[4:] for row in rows]
    return f"{text(rows)}\n{systems.signature}"
