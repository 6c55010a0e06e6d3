"""Language models side by side: the table of `rescore compare`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rescore.columns import FIRST_PASS, WORDS, units
from rescore.dataset import Dataset
from rescore.deciding import Decided, first_pass
from rescore.errors import counted
from rescore.files import opened
from rescore.metrics import Metric
from rescore.metrics.base import is_better, text_value
from rescore.metrics.significance import PairedTest, ScoredTexts
from rescore.metrics.texts import warn_of_texts
from rescore.parts import STYLES
from rescore.reports import groups
from rescore.reports.figures import (
    FIRST,
    ORACLE,
    SIGNIFICANT,
    USUAL,
    Figures,
    MeasuredRow,
    Shown,
    interval_cell,
    sign,
    summed,
)
from rescore.reports.groups import Groups, grouped
from rescore.reports.markup import (
    as_frame,
    as_json,
    checked_name,
    checked_style,
    html,
    latex_note,
    mark_best,
    parted_signatures,
    signature_lines,
)
from rescore.reports.outputs import warn_of_few_units
from rescore.reports.summary import why_all_zero
from rescore.styles import figure, marked_worse, p_value
from rescore.tuning.phrases import bonus_phrases, notes
from rescore.tuning.weights import FIRST_PASS_ALONE, Weights

ABOVE = "above"
"""For --against: each row is compared with the row above it."""
BOLD = ("markdown", "latex")
"""Styles in which the best figures are bold."""
JSON = "json"
"""Beside `STYLES`: all figures, in full precision."""
NO_FIGURES: Mapping[str, float] = MappingProxyType({})
"""The further metrics of a comparison that has a single metric."""


@dataclass(slots=True)
class Compared(MeasuredRow):
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
    dev_others: dict[str, float] = field(default_factory=dict)
    """Further metrics on dev, in percent, by name."""
    against: str = FIRST
    """The name of the row that the p-value compares with: the first pass, or all models
    where one is left out.
    """
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that may not win."""
    notes: list[str] = field(default_factory=list)
    """Why weights are 0."""
    setting: float = 0.0
    """The value of the option whose values the rows have; 0 if rows are models."""
    is_best: bool = False
    """Whether the value is the best one of all rows, or does not differ significantly
    from it.
    """


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
    dev_others: dict[str, float] = field(default_factory=dict)
    """Further metrics of the first pass on dev, in percent, by name."""
    first_interval: tuple[float, float] | None = None
    """95 % confidence interval of the first pass on test, in percent."""
    first_p_value: float | None = None
    """Of the first pass against the row of --against; None without it."""
    against: str | None = None
    """The row that p-values compare with, or `above`; None if it is the first pass."""
    rows: list[Compared] = field(default_factory=list)
    groups: Groups | None = None
    """Figures of groups of test lists; None if nothing is grouped."""
    varied: str | None = None
    """The option whose values the rows have; None if rows are models."""
    baseline: str = FIRST
    """The first pass as the table names it."""

    @property
    def about(self) -> str:
        """The sets, and what p-values compare, in one line."""
        without = self._ablations
        about = (
            f"{self.source}: {counted(self.utterances, 'utterance')},"
            f" {counted(self.hypotheses, 'hypothesis')}; weights tuned on"
            f" {self.dev_source}; p against the {self._compared_with}"
        )
        if self.varied:
            about += f"; {self._best_on_dev}"
        if without:
            about += "; rows `without MODEL` have p against all models"
        return about + (
            ", and a word bonus as all models have"
            if any(WORDS in row.weights for row in without)
            else ""
        )

    @property
    def _best_on_dev(self) -> str:
        """The row with the best figure on dev; of equal rows, the smallest value."""
        values = [row.dev for row in self.rows]
        best = max(values) if self.higher_is_better else min(values)
        tied = [row for row in self.rows if row.dev == best]
        if len(tied) == 1:
            return f"best on dev: {tied[0].name}"
        smallest = min(tied, key=lambda row: row.setting)
        return (
            f"best on dev: {smallest.name} (the smallest of {len(tied)} values with"
            f" equal dev {self.metric})"
        )

    @property
    def p_header(self) -> str:
        """The head of the column of p-values, which says what rows compare with."""
        if self.against == ABOVE:
            return "p against row above"
        if self.against is not None:
            return f"p against {self.against}"
        if self._ablations:
            return f"p against {self.baseline} (without: all models)"
        return f"p against {self.baseline}"

    @property
    def _ablations(self) -> list[Compared]:
        """The rows that are compared with all models together."""
        if self.against is not None:
            return []
        return [row for row in self.rows if row.against != self.baseline]

    @property
    def _compared_with(self) -> str:
        """The words after "p against the "."""
        if self.against is None:
            return self.baseline
        return "row above" if self.against == ABOVE else f"row {self.against}"

    def __str__(self) -> str:
        """Return the table as text, with what p-values compare."""
        return render(self, "text")

    def _repr_html_(self) -> str:
        """For notebooks."""
        tables = html(_cells(self, USUAL)) + groups.as_html(self.groups)
        return f"{tables}<p>{escape(self.about)}</p>"

    def table(
        self, style: str = "text", intervals: bool = False, oracle: bool = True
    ) -> str:
        """Return the table of `rescore compare`.

        Args:
            style: A name in `rescore.parts.STYLES` (text, markdown, latex or csv), or
                `json` for all figures in full precision.
            intervals: Whether figures have their confidence intervals.
            oracle: Whether the oracle has a row.

        Raises:
            UserError: There is no such style.
        """
        return render(
            self, checked_name(style, JSON), Shown(intervals=intervals, oracle=oracle)
        )

    def save(self, path: str | Path) -> None:
        """Write the table, as `rescore compare -o` does.

        Args:
            path: The file; its ending is the style: .md, .csv, .tex, .txt or .json.

        Raises:
            UserError: There is no style of this ending, or the file cannot be written.
        """
        style = checked_style("path", str(path), [JSON])
        with opened(str(path)) as file:
            file.write(render(self, style) + "\n")

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
    """Whether a model is left out of all models together: the row is compared with the
    row of all models, and no other row with it.
    """
    dev_others: Mapping[str, float] = NO_FIGURES
    """Further metrics on dev, in percent, by name."""
    setting: float = 0.0
    """The value of the option whose values the entries have."""


def compare(
    metric: Metric,
    lists: Dataset,
    dev: Dataset,
    entries: Iterable[Entry],
    test: PairedTest,
    sources: tuple[str, str] = ("test", "dev"),
    also: Sequence[Metric] = (),
    by: str | None = None,
    against: str | None = None,
    varied: str | None = None,
) -> Comparison:
    """Return the figures of entries on the same lists, each with a p-value against the
    first pass, or against another row.

    The p-value of an ablation is against the entry before the ablations: all models
    together.

    Args:
        metric: The objective of tuning.
        lists: The test lists.
        dev: The dev lists.
        entries: What is compared.
        test: The significance test.
        sources: Names of test and dev lists.
        also: Further metrics to report.
        by: What the figures of groups are grouped by; None for no groups.
        against: The name of the row that p-values compare with, or `above` for the
            row above each; None for the first pass.
        varied: The option whose values the entries have; None if they are models.
    """
    warn_of_texts(metric, lists)
    warn_of_few_units(test, metric, lists)
    figures = Figures(metric, lists, test)
    dev_figures = Figures(metric, dev)
    first = figures.of(first_pass(lists).texts)
    dev_first = dev_figures.of(first_pass(dev).texts)
    first_texts = [text.text for text in first]
    dev_texts = [text.text for text in dev_first]
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
        dev_first_pass=dev_figures.value(dev_first),
        signature=str(sign(metric, lists, FIRST_PASS_ALONE, test=test)),
        others=text_values(also, lists, first_texts),
        dev_others=text_values(also, dev, dev_texts),
        first_interval=figures.row(figures.baseline, first).interval,
        baseline=figures.baseline,
        against=against,
        varied=varied,
    )
    texts = {result.baseline: first}
    together = result.baseline
    for entry in entries:
        chosen = figures.of(entry.decided.texts)
        texts[entry.name] = chosen
        measured = figures.row(entry.name, chosen)
        row = _compared(entry, measured, result)
        weights = entry.decided.weights
        row.signature = str(sign(metric, entry.decided.lists, weights, test=test))
        row.others = text_values(also, entry.decided.lists, entry.decided.texts)
        if entry.ablation:
            row.against = together
        else:
            together = entry.name
            row.notes = _notes(weights, metric, metric.details(summed(first)))
        result.rows.append(row)
    _add_p_values(result, figures, texts)
    _mark_as_good(result, figures, texts)
    if by is not None:
        rows = {}
        for name, output in texts.items():
            rows[name] = [chosen.text for chosen in output]
        result.groups = grouped(by, [metric], lists, rows)
    return result


def text_values(
    metrics: Iterable[Metric], lists: Dataset, texts: Sequence[str]
) -> dict[str, float]:
    """Return the value of each metric, in percent, by the name of the metric.

    Args:
        metrics: The metrics.
        lists: Lists with references.
        texts: The text that is chosen from each list.
    """
    return {each.name: text_value(each, lists, texts) for each in metrics}


def _add_p_values(
    result: Comparison, figures: Figures, texts: Mapping[str, ScoredTexts]
) -> None:
    """Test each row against the row that it is compared with."""

    def p_value(against: str, name: str) -> float:
        return figures.p_value(texts[against], texts[name])

    above = result.baseline
    for row in result.rows:
        if result.against == ABOVE:
            row.against = above
        elif result.against is not None:
            row.against = result.against
        if row.against != row.name:
            row.p_value = p_value(row.against, row.name)
        above = row.name
    if result.against is None or result.against == ABOVE:
        return
    if result.against != result.baseline:
        result.first_p_value = p_value(result.against, result.baseline)


def _mark_as_good(
    result: Comparison, figures: Figures, texts: Mapping[str, ScoredTexts]
) -> None:
    """Find the rows whose value is the best one, or does not differ significantly from
    it.
    """
    values = [row.value for row in result.rows if math.isfinite(row.value)]
    if not values:
        return
    best = max(values) if result.higher_is_better else min(values)
    winner = next(row for row in result.rows if row.value == best)
    for row in result.rows:
        p = 1.0
        if row.value != best:
            p = figures.p_value(texts[winner.name], texts[row.name])
        row.is_best = p >= SIGNIFICANT


def _compared(entry: Entry, measured: MeasuredRow, result: Comparison) -> Compared:
    """Return the row of an entry, from its measured texts."""
    row = Compared(**asdict(measured))
    row.weights = entry.decided.weights.weights
    row.excluded = entry.decided.weights.sorted_excluded
    row.dev = entry.dev
    row.dev_others = dict(entry.dev_others)
    row.setting = entry.setting
    row.speed = entry.speed
    row.against = result.baseline
    if result.first_pass and math.isfinite(result.first_pass):
        direction = 1 if result.higher_is_better else -1
        row.gain = 100 * direction * (row.value / result.first_pass - 1)
    return row


def _notes(weights: Weights, metric: Metric, counts: Mapping[str, float]) -> list[str]:
    """Return what a person does not expect of tuned weights.

    Args:
        weights: The weights.
        metric: The metric that they were tuned for.
        counts: The counts of errors of the first pass.
    """
    tuning = weights.tuning
    return [
        *notes([weights.weights], tuning.columns, tuning.with_all, tuning.value),
        *why_all_zero(weights, metric.name, counts),
    ]


def render(comparison: Comparison, style: str, shown: Shown = USUAL) -> str:
    """Return the whole comparison in one of `STYLES`, or as `json`.

    Text and Markdown have the signatures below the table: what all rows have in common,
    then what each row has beside it. A note under a LaTeX table says what p compares,
    and what is bold.

    Args:
        comparison: The comparison.
        style: The name of the style.
        shown: What the table shows; JSON has everything.
    """
    if style == JSON:
        return as_json(comparison)
    table: str = STYLES[style](_cells(comparison, shown, marked=style != "csv"))
    about = comparison.about
    differ = len({row.value for row in comparison.rows}) > 1
    if style in BOLD and differ and sum(row.is_best for row in comparison.rows) > 1:
        about += f"; bold: no significant difference to the best (p >= {SIGNIFICANT:g})"
    group_table = groups.render(comparison.groups, style)
    if group_table is not None:
        table += f"\n\n{group_table}"
    if style == "csv":
        return table
    if style == "latex":
        return f"{table}\n{latex_note(about.partition('; ')[2])}"
    signatures = [(row.name, row.signature) for row in comparison.rows]
    notes = [(row.name, note) for row in comparison.rows for note in row.notes]
    below = [about, *signature_lines(notes, "text")]
    if style == "markdown":
        below = [f"{about}.", *below[1:], ""]
    parted = parted_signatures(signatures)
    return "\n".join([table, "", *below, *signature_lines(parted, style)])


def _records(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the unrounded table: None where a row has no figure."""
    dev = f"dev {comparison.metric}"
    test = comparison.metric
    last = ("relative gain %", "p", "hyp/s")
    none = dict.fromkeys(last)
    no_others = dict.fromkeys(comparison.others)
    oracle = {
        "name": ORACLE,
        "weight": "",
        dev: comparison.dev_oracle,
        **_on_dev(no_others),
        test: comparison.oracle,
        **no_others,
    }
    first = {
        "name": comparison.baseline,
        "weight": "",
        dev: comparison.dev_first_pass,
        **_on_dev(comparison.dev_others),
        test: comparison.first_pass,
        **comparison.others,
    }
    of_first = none | {"p": comparison.first_p_value}
    rows: list[dict[str, Any]] = [oracle | none, first | of_first]
    for row in comparison.rows:
        record = {"name": row.name, "weight": _weight(row), dev: row.dev}
        record |= {**_on_dev(row.dev_others), test: row.value, **row.others}
        rows.append(
            record | dict(zip(last, (row.gain, row.p_value, row.speed), strict=True))
        )
    return rows


def _on_dev(others: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return further metrics under the heads of their columns for dev."""
    return {f"dev {name}": value for name, value in others.items()}


def _weight(row: Compared) -> str:
    """Return the cell of the weights: of a single model without its name."""
    bonuses = {FIRST_PASS, *units()}
    models = {
        name: weight for name, weight in row.weights.items() if name not in bonuses
    }
    if len(models) > 1:
        phrases = [f"{name} {weight:z.3f}" for name, weight in models.items()]
    else:
        phrases = [f"{weight:z.3f}" for weight in models.values()]
    phrases += bonus_phrases(row.weights, "+z.2f", row.excluded)
    return ", ".join(phrases)


def _cells(
    comparison: Comparison, shown: Shown, marked: bool = True
) -> list[list[str]]:
    """Return the rows of the table.

    Args:
        comparison: The comparison.
        shown: What the table shows.
        marked: Whether a gain says that it is a significant loss, and the head of p
            says what rows are compared with; else the head is `p`, for programs.
    """
    records = _records(comparison)
    head = list(records[0])[1:]
    if marked:
        head[head.index("p")] = comparison.p_header
    rows = [["", *head]]
    worse = _significantly_worse(comparison) if marked else set()
    for record in records:
        name, weights, *figures, gain, p, speed = record.values()
        values = list(map(figure, figures))
        change = ""
        if gain is not None:
            change = marked_worse(f"{gain:+z.1f}", name in worse)
        per_second = "" if speed is None else f"{speed:,.0f}"
        rows.append([name, weights, *values, change, p_value(p), per_second])
    as_good = [row.name for row in comparison.rows if row.is_best]
    place = head.index(comparison.metric) + 1
    mark_best(rows[3:], place, comparison.higher_is_better, as_good)
    if shown.intervals:
        of_rows = [row.interval for row in comparison.rows]
        for row, interval in zip(
            rows[2:], [comparison.first_interval, *of_rows], strict=True
        ):
            row.insert(place + 1, interval_cell(interval))
        rows[0].insert(place + 1, "95 % CI")
        rows[1].insert(place + 1, "")
    if shown.oracle is False:
        del rows[1]
    if marked and not any(row[-1] for row in rows[1:]):  # scores of the cache
        rows = [row[:-1] for row in rows]
    return rows


def _significantly_worse(comparison: Comparison) -> set[str]:
    """Return the names of rows that are significantly worse than the first pass."""
    names = set()
    for row in comparison.rows:
        is_tested = row.against == comparison.baseline
        is_worse = is_better(
            comparison.first_pass, row.value, comparison.higher_is_better
        )
        if is_tested and is_worse and (row.p_value or 1) < SIGNIFICANT:
            names.add(row.name)
    return names
