"""Tables of cells as Markdown, CSV, LaTeX and HTML; records as JSON and as a
DataFrame.

The styles are parts (`rescore.parts.STYLES`): functions that make one text of a table.
The library tabulate is not used: it pads the cells of Markdown and LaTeX, so that a
longer figure changes every line of a file, and it has no bold figures, dashes of
intervals or marks of significance.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, is_dataclass
from html import escape
from importlib import import_module
from typing import Any

from rescore.errors import OptionError, UserError
from rescore.files import ending_of, opened, unpacked_name
from rescore.parts import STYLES
from rescore.styles import UNDEFINED, Cells, one_line

MARKS = ("†", "‡")
"""Marks of figures with a significant difference, and with significance at a fifth of
the level.
"""


class BestCell(str):
    """A cell with the best figure of its column: bold where a style can."""


def mark_best(
    rows: Sequence[list[str]],
    column: int,
    higher_is_better: bool,
    as_good: Collection[str] = (),
) -> None:
    """Make the best figure of a column a `BestCell`, in each row that has it.

    No figure is the best one if all rows have the same figure.

    Args:
        rows: Rows of cells; they are changed. An empty cell, or `-`, has no figure.
        column: The place of the column in the rows.
        higher_is_better: Whether the highest figure is the best one.
        as_good: Names of rows (their first cells) whose figure does not differ
            significantly from the best one; it becomes a `BestCell`, too.
    """
    figures = []
    for row in rows:
        cell = row[column]
        figures.append(float(cell) if cell not in ("", UNDEFINED) else math.nan)
    distinct = {figure for figure in figures if not math.isnan(figure)}
    if len(distinct) < 2:
        return
    best = max(distinct) if higher_is_better else min(distinct)
    for row, figure in zip(rows, figures, strict=True):
        if figure == best or row[0] in as_good:
            row[column] = BestCell(row[column])


def markdown(rows: Cells) -> str:
    """Return a table as GitHub's pipe table.

    Args:
        rows: The head line, then the rows.
    """
    head, *body = [[_markdown_cell(cell) for cell in row] for row in rows]
    rule = ["---"] + ["---:"] * (len(head) - 1)
    lines = [f"| {' | '.join(line)} |" for line in [head, rule, *body]]
    return "\n".join(lines)


def _markdown_cell(cell: str) -> str:
    """Return a cell, none of it a mark of Markdown."""
    escaped = one_line(cell).replace("\\", "\\\\").replace("|", "\\|")
    if isinstance(cell, BestCell):
        return f"**{escaped}**"
    return escaped


def comma_separated(rows: Cells) -> str:
    """Return a table as CSV with a head line (RFC 4180).

    Args:
        rows: The head line, then the rows.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for row in rows:
        writer.writerow([one_line(cell) for cell in row])
    return file.getvalue().rstrip("\n")


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # The default fonts print other signs for these letters.
    "<": "$<$",
    ">": "$>$",
    "<=": r"$\leq$",
    ">=": r"$\geq$",
    "|": "$|$",
}
"""Letters and signs that LaTeX writes with a command; others need a backslash."""


BOOKTABS = r"% needs \usepackage{booktabs}"
"""The comment above each table in LaTeX."""


def latex(rows: Cells) -> str:
    """Return a table as a tabular with the rules of booktabs.

    Args:
        rows: The head line, then the rows.
    """
    lines = []
    for name, *figures in rows:
        cells = [escape_latex(name)] + [_latex_figure(figure) for figure in figures]
        lines.append(" & ".join(cells) + r" \\")
    head, *body = lines
    columns = "l" + "r" * (len(rows[0]) - 1)
    begin = rf"\begin{{tabular}}{{{columns}}}"
    table = [BOOKTABS, begin, r"\toprule", head, r"\midrule", *body]
    table += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(table)


def latex_note(note: str) -> str:
    """Return a line of text that stands under a table in LaTeX."""
    return rf"\par\smallskip{{\footnotesize {_latex_figure(note)}\par}}"


def _latex_figure(cell: str) -> str:
    """Return a cell behind the first: intervals with a dash, a minus, marks raised, the
    best figure bold.
    """
    escaped = re.sub(r"(?<=\d)-(?=\d)", "--", escape_latex(cell))
    escaped = re.sub(r"(?<![\d-])-(?=\d)", "$-$", escaped)
    escaped = escaped.replace(MARKS[0], r"$^{\dagger}$")
    escaped = escaped.replace(MARKS[1], r"$^{\ddagger}$")
    if isinstance(cell, BestCell):
        return rf"\textbf{{{escaped}}}"
    return escaped


def escape_latex(cell: str) -> str:
    """Return the text of a cell, none of it a command of LaTeX."""
    escaped = re.sub(r"[<>]=|[\\~^&%$#_{}<>|]", _latex_letter, one_line(cell))
    # A bracket behind the `\\` of the row above would be an option of that command.
    if escaped.startswith("["):
        return "{}" + escaped
    return escaped


def _latex_letter(match: re.Match[str]) -> str:
    """Return how LaTeX writes a letter, or a sign of two letters, that has a meaning
    there.
    """
    letter = match[0]
    return _LATEX.get(letter, f"\\{letter}")


def html(rows: Cells) -> str:
    """Return a table for notebooks and pages: columns of words to the left, figures to
    the right.

    Args:
        rows: The head line, then the rows.
    """
    head, *body = rows
    of_words = {0}
    for row in body:
        of_words |= {place for place, cell in enumerate(row) if _is_words(cell)}
    lines = [_html_row("th", head, of_words)]
    lines += [_html_row("td", row, of_words) for row in body]
    return f"<table>{''.join(lines)}</table>"


def _html_row(tag: str, row: Sequence[str], of_words: Collection[int]) -> str:
    """Return a row of a table; `of_words` has the places of columns of words."""
    cells = []
    for place, cell in enumerate(row):
        style = ""
        if place in of_words:
            style = ' style="text-align:left"'
        elif cell.endswith(" worse"):
            style = ' class="worse"'
        content = escape(cell)
        if isinstance(cell, BestCell):
            content = f"<b>{content}</b>"
        cells.append(f"<{tag}{style}>{content}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"


def _is_words(cell: str) -> bool:
    """Return whether a cell has letters and is no figure that is marked as worse."""
    if cell.endswith(" worse"):
        return False
    return any(letter.isalpha() for letter in cell)


def signature_lines(signatures: Iterable[tuple[str, str]], style: str) -> list[str]:
    """Return the lines of signatures that stand below a table.

    Args:
        signatures: Pairs of the name of a row and its signature.
        style: The style of the table. Only `text` and `markdown` have such lines.
    """
    if style == "text":
        return [f"{name}: {signature}" for name, signature in signatures]
    if style == "markdown":
        return [f"- {name}: `{signature}`" for name, signature in signatures]
    return []


def parted_signatures(signatures: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return what the signatures of rows have in common, as the signature of `all
    rows`, then what each row has beside it.

    Args:
        signatures: Pairs of the name of a row and its signature. They are returned as
            they are if they are fewer than two, or of different metrics.
    """
    fields = [signature.split("|") for _, signature in signatures]
    if len(fields) < 2 or len({metric for metric, *_ in fields}) > 1:
        return list(signatures)
    shared = [part for part in fields[0] if all(part in own for own in fields[1:])]
    parted = [("all rows", "|".join(shared))]
    for (name, _), own in zip(signatures, fields, strict=True):
        parted.append((name, "|".join(part for part in own if part not in shared)))
    return parted


def style_of(path: str) -> str | None:
    """Return the style that the ending of a file names; None if no style has it.

    Args:
        path: The path of the file.
    """
    for names in (STYLES.shipped, STYLES.names):
        for name in names:
            if unpacked_name(path).lower().endswith(STYLES.about(name)):
                return name
    return None


def checked_style(
    flag: str, path: str, others: Collection[str] = (), advice: str = ""
) -> str:
    """Return the style of a table that is written, by the ending of its path.

    Args:
        flag: The option that names the path, for the message.
        path: The path.
        others: Further styles, each with its own name as the ending.
        advice: What else the user can do, for the message.

    Raises:
        OptionError: No style has this ending.
    """
    for other in others:
        if ending_of(path) == f".{other}":
            return other
    style = style_of(path)
    if style is None:
        known = ", ".join([endings(), *(f".{other}" for other in others)])
        raise OptionError(f"{flag} {path}: its ending is not one of {known}{advice}")
    return style


def endings() -> str:
    """Return the endings of all styles, for messages."""
    return ", ".join(STYLES.about(name) for name in STYLES.names)


def as_json(record: object) -> str:
    """Return a record as JSON, in full precision; the keys are the names of fields.

    JSON has neither infinity nor NaN: null stands for both.

    Args:
        record: A dataclass, or lists and dictionaries of dataclasses.
    """
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def checked_name(style: str, *more: str) -> str:
    """Return the name of a style.

    Args:
        style: The name.
        more: Names beside those of `rescore.parts.STYLES`.

    Raises:
        UserError: There is no such style.
    """
    known = [*STYLES.names, *more]
    if style not in known:
        raise UserError(f"style {style!r} is not one of {', '.join(known)}")
    return style


def write_json(record: object, path: str) -> None:
    """Write a record as JSON.

    Args:
        record: As in `as_json`.
        path: The file; `-` is stdout.
    """
    with opened(path) as file:
        file.write(as_json(record) + "\n")


def _plain(value: Any) -> Any:
    """Return a value made of what JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_frame(rows: Sequence[dict[str, Any]]) -> Any:
    """Return records as a DataFrame of pandas, or of polars if there is no pandas.

    Args:
        rows: The records, as dictionaries.

    Raises:
        UserError: Neither library is installed.
    """
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame(rows)
        except ModuleNotFoundError:
            continue
    raise UserError(
        "to_frame needs pandas or polars; install one of them: pip install pandas"
    )
