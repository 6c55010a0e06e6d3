"""Several results files in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rescore.errors import UserError
from rescore.parts import STYLES
from rescore.reports.figures import ORACLE, SIGNIFICANT, Row
from rescore.reports.markup import MARKS, latex_note, mark_best, signature_lines
from rescore.reports.results import Results
from rescore.styles import marked_worse, p_value

ERRORS = {"substitutions", "deletions", "insertions"}
"""What error rates count beside the words or characters of the references."""
UNITS = ("ref_words", "ref_characters")
"""Counts of the references in which error rates are shares."""
ERROR_HEAD = ["dataset", "Snt", "Wrd", "Corr", "Sub", "Del", "Ins", "Err", "S.Err", "p"]


def render_overview(results: Sequence[Results], layout: str, style: str) -> str:
    """The table, or one for each metric; where the style has room for text, the
    signature of each row below it.

    Args:
        layout: `espnet` or `paper`.

    Raises:
        UserError: the results do not fit the layout.
    """
    unused = [
        (_name(run), zeros)
        for run in results
        if (zeros := [n for n in run.columns if run.weights.get(n) == 0])
    ]
    if layout != "espnet":
        tables = [STYLES[style](paper(results, style != "csv"))]
        if style != "csv":
            of = " or the ".join(_baselines(results))
            legend = (
                f"{MARKS[0]} p < {SIGNIFICANT:g} against the {of}, {MARKS[1]} p <"
                f" {SIGNIFICANT / 5:g}"
            )
            tables.append(latex_note(legend) if style == "latex" else legend)
    else:
        metric_tables = espnet(results)
        plain = len(metric_tables) == 1
        heading = (
            {"markdown": "### {}\n\n", "text": "{}\n"}.get(style, "")
            if not plain
            else ""
        )
        tables = [
            heading.format(metric) + STYLES[style](rows)
            for metric, rows in metric_tables.items()
        ]
    signatures = [
        (_name(run), figures.signature) for run in results for figures in run.metrics
    ]
    if style in ("text", "markdown"):
        tables += [
            f"{name}: weight 0 of {', '.join(zeros)}, no significant gain on dev"
            for name, zeros in unused
        ]
    return "\n\n".join(
        [*tables, *filter(None, ["\n".join(signature_lines(signatures, style))])]
    )


def with_dev(results: Sequence[Results]) -> Iterator[Results]:
    """The results, each after those on its dev lists, if it has them."""
    for run in results:
        if (dev := run.dev) and dev.metrics:
            # weights know these lists
            untested = [replace(figures, p_value=None) for figures in dev.metrics]
            names = (
                Path(part).name.partition(".")[0] for part in dev.source.split(", ")
            )
            yield replace(
                run,
                dataset=next(names),
                metrics=untested,
                utterances=dev.utterances,
                ref_words=None,
            )
        yield run


def espnet(results: Sequence[Results]) -> dict[str, list[list[str]]]:
    """For each metric one row per output; error rates in percent of the reference's
    words or characters.

    The first pass of each set comes once, above its reranked outputs.
    """
    tables: dict[str, list[list[str]]] = {}
    seen = set()
    for run in results:
        for figures in run.metrics:
            first, reranked = figures.row("first_pass"), figures.row("reranked")
            head = (
                ERROR_HEAD
                if _counts_errors(first)
                else ["dataset", "Snt", figures.metric, "95 % CI", "p"]
            )
            rows = tables.setdefault(figures.metric, [head])
            p = marked_worse(p_value(figures.p_value), figures.is_worse)
            outputs = [
                (f"{run.dataset}, {first.name}", first, ""),
                (_name(run), reranked, p),
            ]
            key = (run.dataset, figures.metric, figures.first_pass, run.ref_words)
            for name, row, of_row in outputs[key in seen :]:
                cells = (
                    _shares(row, run.utterances)
                    if _counts_errors(row)
                    else row.cells([])[1:]
                )
                rows.append([name, f"{run.utterances}", *cells, of_row])
            seen.add(key)
    return tables


def _counts_errors(row: Row) -> bool:
    """Whether the value is the share of substitutions, deletions and insertions in the
    references.
    """
    return row.counts.keys() >= ERRORS and not row.counts.keys().isdisjoint(UNITS)


def _shares(row: Row, utterances: int) -> list[str]:
    """The cells of `ERROR_HEAD` from `Wrd` to `S.Err`."""
    units = next(row.counts[unit] for unit in UNITS if unit in row.counts)
    sub, dele, ins = (
        row.counts[kind] for kind in ("substitutions", "deletions", "insertions")
    )
    shares = [units - sub - dele, sub, dele, ins, sub + dele + ins]
    wrong = "" if row.wrong is None else f"{100 * row.wrong / max(utterances, 1):.2f}"
    return [
        f"{units}",
        *(f"{100 * share / max(units, 1):.2f}" for share in shares),
        wrong,
    ]


def paper(results: Sequence[Results], marked: bool) -> list[list[str]]:
    """One row per method, one column per set; first pass and oracle on top, the best
    method of each set marked.

    A figure has one of `MARKS` if it differs significantly from the first pass, and
    `worse` if it is worse then.

    Args:
        marked: whether figures have these marks.

    Raises:
        UserError: results of one set disagree about its first pass or oracle.
    """
    table: dict[tuple[str, str], float] = {}
    marks: dict[tuple[str, str], str] = {}
    higher: dict[str, bool] = {}
    for run in results:
        for figures in run.metrics:
            column, system = f"{run.dataset} {figures.metric}", str(run.system)
            higher[column] = figures.higher_is_better
            marks[system, column] = marked_worse(
                _mark(figures.p_value), figures.is_worse
            )
            for method, choice in (
                (figures.baseline, "first_pass"),
                (ORACLE, "oracle"),
                (system, "reranked"),
            ):
                value = getattr(figures, choice)
                known = table.setdefault((method, column), value)
                if known != value:
                    raise UserError(
                        f"{column}: {method} is {known:.2f} in one file and {value:.2f}"
                        " in another; give each set a name of its own with --dataset"
                    )
    rows = [["method", *higher]]
    methods = list(dict.fromkeys(str(run.system) for run in results))
    top = [*_baselines(results), ORACLE]
    for method in (*top, *methods):
        values = (table.get((method, column)) for column in higher)
        rows.append(
            [method, *("" if value is None else f"{value:.2f}" for value in values)]
        )
    for place, higher_is_better in enumerate(higher.values(), start=1):
        mark_best(rows[1 + len(top) :], place, higher_is_better)
    for row in rows[1 + len(top) :] if marked else ():
        named_cells = zip(higher, row[1:], strict=True)
        row[1:] = [
            type(cell)(cell + marks.get((row[0], column), ""))
            for column, cell in named_cells
        ]
    return rows


def _baselines(results: Sequence[Results]) -> list[str]:
    return list(
        dict.fromkeys(figures.baseline for run in results for figures in run.metrics)
    )


def _mark(p: float | None) -> str:
    return (
        ""
        if p is None or p >= SIGNIFICANT
        else MARKS[0]
        if p >= SIGNIFICANT / 5
        else MARKS[1]
    )


def told_apart(results: Sequence[Results]) -> list[Results]:
    """The results with `tta (2)` instead of `tta` for the second system of this name on
    a set.
    """
    times: Counter[tuple[str | None, ...]] = Counter()
    told = []
    for run in results:
        key = (run.dataset, run.system, run.metric)
        times[key] += 1
        told.append(
            run
            if times[key] == 1
            else replace(run, system=f"{run.system} ({times[key]})")
        )
    return told


def _name(results: Results) -> str:
    return f"{results.dataset}, {results.system}"
