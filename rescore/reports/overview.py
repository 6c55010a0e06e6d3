"""Several results files in one table, in one of two layouts.

The layout `espnet` has a row for each output with its errors, as ESPnet and sclite
print them. The layout `paper` has a row for each method and a column for each test set.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rescore.errors import UserError, listed
from rescore.metrics.significance import SAMPLES
from rescore.parts import STYLES
from rescore.reports import groups
from rescore.reports.figures import (
    ORACLE,
    SIGNIFICANT,
    USUAL,
    MeasuredRow,
    Shown,
    interval_cell,
)
from rescore.reports.markup import (
    MARKS,
    BestCell,
    latex_note,
    mark_best,
    signature_lines,
)
from rescore.reports.records import MetricResult, Record
from rescore.set_names import name_of_set
from rescore.styles import figure, marked_worse, one_line, p_value

LAYOUTS = ("espnet", "paper")
"""A row for each output, or a row for each method and a column for each test set."""
ERRORS = {"substitutions", "deletions", "insertions"}
"""Counts of errors that error rates have."""
UNITS = ("ref_words", "ref_characters")
"""Counts of the references: error rates are shares of one of them."""
ERROR_HEAD = ["dataset", "Snt", "Wrd", "Corr", "Sub", "Del", "Ins", "Err", "S.Err", "p"]
"""The head line of error rates in the layout `espnet`."""


INTERVALS = f"in brackets 95 % confidence intervals, by bootstrap ({SAMPLES:,} samples)"
"""What the figures in brackets are."""


def render_overview(
    results: Sequence[Record],
    layout: str,
    style: str,
    shown: Shown = USUAL,
) -> str:
    """Return the table of several results, or a table for each metric.

    If the style has room for text, the signature of each row stands below the table.

    Results on the lists that the weights were tuned on have no p-value, and a line says
    so.

    Args:
        results: The results.
        layout: `espnet` or `paper`.
        style: A name in `rescore.parts.STYLES`.
        shown: What the table shows.

    Raises:
        UserError: The results do not fit the layout.
    """
    if layout not in LAYOUTS:
        raise UserError(f"layout {layout!r} is not one of {', '.join(LAYOUTS)}")
    results = [_without_flattery(run) for run in results]
    if layout == "espnet":
        blocks = _espnet_blocks(results, style, shown)
        notes = [*_compared(results)]
    else:
        blocks = _paper_blocks(results, style, shown)
        notes = [*_unmarked(results)]  # the legend of the marks says the rest
    blocks += _groups(results, style)
    notes += [*_unused_columns(results), *_untested(results)]
    if style == "latex":
        notes = [latex_note(note) for note in notes]
    if style != "csv":
        blocks += notes
    signatures: dict[str, str] = {}
    for run in results:
        for figures in run.metrics:  # outputs of one report have one signature
            name = _name(run)
            if figures.first_output is not None:
                name = str(run.dataset)
            signatures.setdefault(figures.signature, name)
    named = [(name, signature) for signature, name in signatures.items()]
    lines = signature_lines(named, style)
    if lines:
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _espnet_blocks(results: Sequence[Record], style: str, shown: Shown) -> list[str]:
    """Return a table for each metric; several tables have headings."""
    tables = espnet(results, shown)
    blocks = []
    for metric, rows in tables.items():
        table = STYLES[style](rows)
        if len(tables) > 1 and style == "markdown":
            table = f"### {metric}\n\n{table}"
        elif len(tables) > 1 and style == "text":
            table = f"{metric}\n{table}"
        blocks.append(table)
    return blocks


def _paper_blocks(results: Sequence[Record], style: str, shown: Shown) -> list[str]:
    """Return the table of methods and test sets, and the meaning of its marks."""
    if style == "csv":
        return [STYLES[style](paper(results, shown, marked=False))]
    rows = paper(results, shown, marked=True)
    blocks = [STYLES[style](rows)]
    legend = _legend(rows, _in_sentence(results))
    if shown.intervals:
        legend = "; ".join(filter(None, (legend, INTERVALS)))
    if legend and style == "latex":
        legend = latex_note(legend)
    if legend:
        blocks.append(legend)
    return blocks


def _legend(rows: Sequence[Sequence[str]], baselines: str) -> str:
    """Return the meaning of the marks in a table; empty if it has none."""
    marked = "".join("".join(row[1:]) for row in rows[1:])
    meanings = []
    for mark, level in zip(MARKS, (SIGNIFICANT, SIGNIFICANT / 5), strict=True):
        if mark in marked:
            meanings.append(f"{mark} p < {level:g}")
    if not meanings:
        return ""
    return f"{', '.join(meanings)} against {baselines}"


def _unmarked(results: Sequence[Record]) -> Iterator[str]:
    """Yield a line that names the methods with a tested figure that has no mark."""
    names: dict[str, None] = {}
    for run in results:
        for figures in run.metrics:
            p = figures.test.p_value
            if p is not None and not _mark(p):
                names[str(run.system)] = None
    if names:
        yield (
            f"{listed(names)}: p >= {SIGNIFICANT:g} against {_in_sentence(results)}"
            " where there is no mark"
        )


def _in_sentence(results: Sequence[Record]) -> str:
    """Return what p-values compare with, in a sentence: each first pass, the name of an
    output, or the best system.
    """
    phrases: dict[str, None] = {}
    for run in results:
        for figures in run.metrics:
            is_output = figures.first_output is not None
            article = "" if is_output else "the "
            phrase = f"{article}{figures.baseline}"
            if figures.test.against != figures.baseline:
                phrase = "the best system alone"
            phrases[phrase] = None
    return " or ".join(phrases)


def _compared(results: Sequence[Record]) -> Iterator[str]:
    """Yield what the p-values of several systems compare with; other p-values are
    against the first pass.
    """
    for run in results:
        metrics: dict[str, list[str]] = {}
        for figures in run.metrics:
            if figures.shows_systems and figures.test.p_value is not None:
                metrics.setdefault(figures.test.against, []).append(figures.metric)
        for against, names in metrics.items():
            yield f"{_name(run)}: p of {' and '.join(names)} against {against}"


def _without_flattery(run: Record) -> Record:
    """Return results without p-values if their weights were tuned on the same lists: a
    p-value would flatter.
    """
    if not run.on_tuning_lists:
        return run
    return replace(run, metrics=[each.untested() for each in run.metrics])


def _untested(results: Sequence[Record]) -> Iterator[str]:
    """Yield a line for each of the results on the lists of their tuning."""
    for run in results:
        if run.on_tuning_lists:
            yield f"{_name(run)}: no p-value; the weights were tuned on these lists"


def _groups(results: Sequence[Record], style: str) -> Iterator[str]:
    """Yield the table of the groups of each result that has groups, with a heading."""
    for run in results:
        table = groups.render(run.groups, style)
        if run.groups is None or table is None:
            continue
        heading = f"{_name(run)}, by {run.groups.by}"
        if style == "markdown":
            yield f"### {one_line(heading)}\n\n{table}"
        elif style == "latex":
            yield f"{table}\n{latex_note(heading)}"
        elif style == "csv":
            yield table
        else:
            yield f"{heading}\n{table}"


def _unused_columns(results: Sequence[Record]) -> Iterator[str]:
    """Yield a line for each of the results with models, or other columns that were
    tuned, of weight 0.
    """
    for run in results:
        unused = _unused(run)
        options = run.choice.tuning.options
        is_tested = options is None or options.bagging
        if unused:
            yield (
                f"{_name(run)}: weight 0 of {', '.join(unused)}, no"
                f" {'significant ' if is_tested else ''}gain on dev"
            )


def _unused(run: Record) -> list[str]:
    """Return the models, and the other columns that were tuned, of weight 0."""
    names = dict.fromkeys([*run.columns, *run.choice.tuned_columns])
    return [name for name in names if run.weights.get(name) == 0]


def without_systems(results: Sequence[Record]) -> list[Record]:
    """Return the results without the rows of several systems."""
    kept = []
    for run in results:
        metrics = [replace(figures, systems=[]) for figures in run.metrics]
        kept.append(replace(run, metrics=metrics))
    return kept


def with_dev(results: Sequence[Record]) -> Iterator[Record]:
    """Yield the results, each of them after the results on its dev lists; these once,
    where several results have the same.

    Args:
        results: The results; those without figures on dev lists stand alone.
    """
    names = _names_of_dev(results)
    known: list[tuple[str, str | None, list[MetricResult]]] = []
    for run in results:
        source = run.tuning.name
        if run.dev:
            key = (source, run.system, run.dev)
            if key not in known:
                known.append(key)
                yield replace(
                    run,
                    dataset=names[source],
                    metrics=run.dev,
                    utterances=run.tuning.lists,
                    ref_words=None,
                    groups=None,
                    on_tuning_lists=not run.choice.is_untuned,
                )
        yield run


def _names_of_dev(results: Sequence[Record]) -> dict[str, str]:
    """Return the name of the dev lists of each source: the file without its ending, or
    its path where other lists have this name.
    """
    sources = dict.fromkeys(run.tuning.name for run in results if run.dev)
    names = {source: name_of_set(_first(source)) for source in sources}
    times = Counter(names.values())
    tests = {run.dataset for run in results}
    for source, name in names.items():
        if times[name] > 1:
            names[source] = _first(source)
        elif name in tests:
            names[source] = f"{name} (dev)"
    return names


def _first(source: str) -> str:
    """Return the first of the files that a source names."""
    first_source, *_ = source.split(", ")
    return first_source


def espnet(
    results: Sequence[Record],
    shown: Shown = USUAL,
) -> dict[str, list[list[str]]]:
    """Return the cells of a table for each metric, with a row for each output.

    Error rates are in percent of the words or characters of the references. The first
    pass of each test set stands once, above its reranked outputs; the systems whose
    lists were combined stand above it.

    Args:
        results: The results.
    """
    tables: dict[str, list[list[str]]] = {}
    with_first_pass = set()
    for run in results:
        for figures in run.metrics:
            first = figures.row("first_pass")
            if figures.metric not in tables:
                head = ["dataset", "Snt", figures.metric, "95 % CI", "p"]
                if _counts_errors(first):
                    head = ERROR_HEAD
                    if shown.intervals:
                        head = [*head[:-1], "95 % CI", "p"]
                tables[figures.metric] = [head]
            rows = tables[figures.metric]
            key = (run.dataset, figures.metric, figures.first_pass, run.ref_words)
            if key not in with_first_pass:
                with_first_pass.add(key)
                for system in figures.systems:
                    alone = _figures(system, run.utterances, shown)
                    rows.append([f"{run.dataset}, {system.name}", *alone, ""])
                name = f"{run.dataset}, {first.name}"
                rows.append([name, *_figures(first, run.utterances, shown), ""])
                if shown.oracle and ORACLE in figures.counts:
                    best = _figures(figures.row(ORACLE), run.utterances, shown)
                    rows.append([f"{run.dataset}, {ORACLE}", *best, ""])
            if run.system == first.name:
                continue  # nothing was reranked
            test = figures.test
            p = marked_worse(p_value(test.p_value), test.is_worse)
            reranked = figures.row("reranked")
            rows.append([_name(run), *_figures(reranked, run.utterances, shown), p])
    return tables


def _figures(row: MeasuredRow, utterances: int, shown: Shown) -> list[str]:
    """Return the cells of a row between its name and its p-value."""
    if not _counts_errors(row):
        return [f"{utterances}", *row.cells([])[1:]]
    cells = [f"{utterances}", *_shares(row, utterances)]
    if shown.intervals:
        cells.append(interval_cell(row.interval))
    return cells


def _counts_errors(row: MeasuredRow) -> bool:
    """Return whether the value is an error rate: substitutions, deletions and
    insertions as a share of the references.
    """
    has_units = any(unit in row.counts for unit in UNITS)
    return has_units and row.counts.keys() >= ERRORS


def _shares(row: MeasuredRow, utterances: int) -> list[str]:
    """Return the cells of `ERROR_HEAD` from `Wrd` to `S.Err`."""
    units = next(row.counts[unit] for unit in UNITS if unit in row.counts)
    substitutions = row.counts["substitutions"]
    deletions = row.counts["deletions"]
    insertions = row.counts["insertions"]
    correct = units - substitutions - deletions
    errors = substitutions + deletions + insertions
    cells = [f"{units}"]
    for count in (correct, substitutions, deletions, insertions, errors):
        cells.append(_percent(count, units))
    if row.wrong is None:
        return [*cells, ""]
    return [*cells, _percent(row.wrong, utterances)]


def _percent(count: float, every: float) -> str:
    """Return a share of a count as a table shows it; a share of 0 is not defined."""
    share = math.nan
    if every:
        share = 100 * count / every
    return figure(share)


def paper(results: Sequence[Record], shown: Shown, marked: bool) -> list[list[str]]:
    """Return the cells of a table with a row for each method and a column for each test
    set and metric.

    The systems whose lists were combined, the first pass and the oracle stand on top.
    The best figure of each set, apart from the oracle, is a `BestCell`.
    A marked figure has one of `MARKS` if it differs significantly from the first pass,
    and `worse` if it is worse then.

    Args:
        results: The results.
        shown: What the table shows.
        marked: Whether figures have these marks.

    Raises:
        UserError: Results of one set disagree about its first pass or oracle.
    """
    figure_of = _figures_by_method(results)
    mark_of: dict[tuple[str, str], str] = {}
    columns: dict[str, bool] = {}
    for run in results:
        for figures in run.metrics:
            column = _column(run, figures)
            columns[column] = figures.higher_is_better
            mark = marked_worse(_mark(figures.test.p_value), figures.test.is_worse)
            mark_of[str(run.system), column] = mark
    top = [*_names_of_systems(results).values(), *_baselines(results)]
    if shown.oracle is not False and _has_oracle(results):
        top.append(ORACLE)
    systems = dict.fromkeys(str(run.system) for run in results)
    for name in (*top, ORACLE):
        systems.pop(name, None)  # nothing was reranked
    rows = []
    for method in [*top, *systems]:
        row = [method]
        for column in columns:
            row.append(figure(figure_of.get((method, column))))
        rows.append(row)
    of_systems = rows[len(top) :]
    choices = [row for row in rows if row[0] != ORACLE]
    for place, higher_is_better in enumerate(columns.values(), start=1):
        mark_best(choices, place, higher_is_better)
    if marked:
        _add_marks(of_systems, list(columns), mark_of)
    if shown.intervals:
        _add_marks(rows, list(columns), _intervals_by_method(results))
    return [["method", *columns], *rows]


def _add_marks(
    rows: Sequence[list[str]],
    columns: Sequence[str],
    marks: Mapping[tuple[str, str], str],
) -> None:
    """Put marks behind figures, by the name of the row and the column."""
    for row in rows:
        for place, column in enumerate(columns, start=1):
            row[place] = _with_mark(row[place], marks.get((row[0], column), ""))


def _with_mark(cell: str, mark: str) -> str:
    """Return a cell with a mark behind its figure; a `BestCell` stays a `BestCell`."""
    if isinstance(cell, BestCell):
        return BestCell(cell + mark)
    return cell + mark


def _column(run: Record, figures: MetricResult) -> str:
    """Return the name of a column: the test set and the metric."""
    return f"{run.dataset} {figures.metric}"


def _figures_by_method(results: Sequence[Record]) -> dict[tuple[str, str], float]:
    """Return the figure of each method in each column."""
    figure_of: dict[tuple[str, str], float] = {}
    names = _names_of_systems(results)
    for run in results:
        for figures in run.metrics:
            column = _column(run, figures)
            of_run = [
                (figures.baseline, figures.first_pass),
                (ORACLE, figures.oracle),
                (str(run.system), figures.reranked),
            ]
            of_run += [(names[row.name], row.value) for row in figures.systems]
            for method, value in of_run:
                known = figure_of.setdefault((method, column), value)
                are_undefined = math.isnan(known) and math.isnan(value)
                if known != value and not are_undefined:
                    raise UserError(
                        f"{column}: {method} is {figure(known)} in one file and"
                        f" {figure(value)} in another; give each set a name of its own"
                        " with --dataset (dev lists are called after their file)"
                    )
    return figure_of


def _intervals_by_method(
    results: Sequence[Record],
) -> dict[tuple[str, str], str]:
    """Return the confidence interval of each method in each column, where there is
    one, in brackets.
    """
    marks: dict[tuple[str, str], str] = {}
    names = _names_of_systems(results)
    for run in results:
        for figures in run.metrics:
            intervals = {
                figures.baseline: figures.intervals.get("first_pass"),
                str(run.system): figures.intervals.get("reranked"),
            }
            intervals |= {names[row.name]: row.interval for row in figures.systems}
            for method, interval in intervals.items():
                if interval is not None:
                    mark = f" ({interval_cell(interval)})"
                    marks[method, _column(run, figures)] = mark
    return marks


def _names_of_systems(results: Sequence[Record]) -> dict[str, str]:
    """Return the name of the row of each system whose lists were combined: its own
    name, or `NAME alone` where another row has this name.
    """
    others = {ORACLE, *_baselines(results), *(str(run.system) for run in results)}
    names = {}
    for run in results:
        for figures in run.metrics:
            for row in figures.systems:
                is_taken = row.name in others
                names[row.name] = f"{row.name} alone" if is_taken else row.name
    return names


def _has_oracle(results: Sequence[Record]) -> bool:
    """Return whether some lists have several hypotheses."""
    for run in results:
        if any(not math.isnan(figures.oracle) for figures in run.metrics):
            return True
    return False


def _baselines(results: Sequence[Record]) -> list[str]:
    """Return the names of the first passes, each once."""
    names: dict[str, None] = {}
    for run in results:
        names |= dict.fromkeys(figures.baseline for figures in run.metrics)
    return list(names)


def _mark(p: float | None) -> str:
    """Return the mark of a figure with a p-value; empty without significance."""
    if p is None or p >= SIGNIFICANT:
        return ""
    return MARKS[0] if p >= SIGNIFICANT / 5 else MARKS[1]


def told_apart(results: Sequence[Record]) -> list[Record]:
    """Return the results with different names.

    Test lists that were measured with several settings are called after the settings
    that differ, such as `demo (case:mixed)`. Systems of one name on a set are called
    after their columns of weight 0 if these differ, `tta` and `tta (ngram 0)`; else the
    second system `tta` is called `tta (2)`.

    Args:
        results: The results.
    """
    datasets = _datasets(results)
    zeros = [", ".join(f"{name} 0" for name in _unused(run)) for run in results]
    zeros_of: dict[tuple[str | None, ...], set[str]] = {}
    for run, dataset, zero in zip(results, datasets, zeros, strict=True):
        key = (dataset, run.system, run.metric)
        zeros_of.setdefault(key, set()).add(zero)
    times: Counter[tuple[str | None, ...]] = Counter()
    renamed = []
    for run, dataset, zero in zip(results, datasets, zeros, strict=True):
        system = run.system
        if zero and len(zeros_of[dataset, system, run.metric]) > 1:
            system = f"{system} ({zero})"
        key = (dataset, system, run.metric)
        times[key] += 1
        if times[key] > 1:
            system = f"{system} ({times[key]})"
        renamed.append(replace(run, dataset=dataset, system=system))
    return renamed


def _datasets(results: Sequence[Record]) -> list[str | None]:
    """Return the name of the test lists of each result, with the settings that differ
    from those of other results on lists of this name.
    """
    values: dict[tuple[str | None, str, str], set[str]] = {}
    for run in results:
        for place, value in _settings(run):
            values.setdefault((run.dataset, *place), set()).add(value)
    names: list[str | None] = []
    for run in results:
        differing: list[str] = []
        for (metric, setting), value in _settings(run):
            shown = f"{setting}:{value}"
            several = len(values[run.dataset, metric, setting]) > 1
            if several and shown not in differing:
                differing.append(shown)
        if differing:
            names.append(f"{run.dataset} ({', '.join(differing)})")
        else:
            names.append(run.dataset)
    return names


def _settings(run: Record) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the metric and the name of each setting, and its value."""
    for figures in run.metrics:
        for name, value in figures.conditions.settings.items():
            yield (figures.metric, name), value


def _name(results: Record) -> str:
    """Return the name of the row of reranked texts."""
    return f"{results.dataset}, {results.system}"
