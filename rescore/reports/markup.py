"""Tables of cells as Markdown, CSV, LaTeX and HTML; records as JSON and as a
DataFrame.

tabulate pads the cells of Markdown and LaTeX, so that a longer figure changes every
line of a file, and has no bold figures, dashes of intervals or marks of significance.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from html import escape
from importlib import import_module
from typing import Any

from rescore.errors import UserError
from rescore.formats import opened
from rescore.parts import STYLES
from rescore.styles import Cells, one_line

MARKS = ("†", "‡")
"""Marks of figures with a significant difference, and with significance at a fifth of
the level.
"""


class Best(str):
    """A cell with the best figure of its column: bold where a style can."""


def mark_best(rows: Sequence[list[str]], column: int, higher_is_better: bool) -> None:
    """Make the best figure of a column a `Best`, in each row that has it, unless all
    rows do.
    """
    figures = [float(row[column] or "nan") for row in rows]
    known = {figure for figure in figures if not math.isnan(figure)}
    best = (max if higher_is_better else min)(known) if len(known) > 1 else None
    for row, figure in zip(rows, figures, strict=True):
        if figure == best:
            row[column] = Best(row[column])


def markdown(rows: Cells) -> str:
    """GitHub's pipe tables."""
    head, *body = ([_markdown_cell(cell) for cell in row] for row in rows)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_cell(cell: str) -> str:
    escaped = one_line(cell).replace("\\", "\\\\").replace("|", "\\|")
    return f"**{escaped}**" if isinstance(cell, Best) else escaped


def comma_separated(rows: Cells) -> str:
    """CSV with a head line (RFC 4180)."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(
        [[one_line(cell) for cell in row] for row in rows]
    )
    return file.getvalue().rstrip("\n")


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # the default fonts print other signs for these
    **{letter: f"${letter}$" for letter in "<>|"},
}


def latex(rows: Cells) -> str:
    """A tabular with the rules of booktabs."""
    head, *body = (
        " & ".join([escape_latex(row[0]), *map(_latex_figure, row[1:])]) + r" \\"
        for row in rows
    )
    columns = "l" + "r" * (len(rows[0]) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def latex_note(note: str) -> str:
    """A line of text under a table."""
    return rf"\par\smallskip{{\footnotesize {_latex_figure(note)}\par}}"


def _latex_figure(cell: str) -> str:
    """A cell behind the first: intervals with a dash, a minus, marks raised, the best
    figure bold.
    """
    escaped = re.sub(r"(?<=\d)-(?=\d)", "--", escape_latex(cell))
    escaped = re.sub(r"(?<![\d-])-(?=\d)", "$-$", escaped)
    escaped = escaped.replace(MARKS[0], r"$^{\dagger}$").replace(
        MARKS[1], r"$^{\ddagger}$"
    )
    return rf"\textbf{{{escaped}}}" if isinstance(cell, Best) else escaped


def escape_latex(cell: str) -> str:
    """The cell's text, none of it a command."""
    escaped = re.sub(
        r"[\\~^&%$#_{}<>|]",
        lambda match: _LATEX.get(match[0], "\\" + match[0]),
        one_line(cell),
    )
    # behind `\\\\` a bracket would be an option of it
    return "{}" + escaped if escaped.startswith("[") else escaped


def html(rows: Cells) -> str:
    """A table for notebooks and pages: columns of words to the left, figures to the
    right.
    """
    head, *body = rows
    of_words = [
        place == 0 or any(_is_words(row[place]) for row in body)
        for place in range(len(head))
    ]
    lines = []
    for tag, row in [("th", head), *(("td", row) for row in body)]:
        cells = []
        for cell, words in zip(row, of_words, strict=True):
            style = (
                ' style="text-align:left"'
                if words
                else ' class="worse"'
                if cell.endswith(" worse")
                else ""
            )
            content = (
                f"<b>{escape(cell)}</b>" if isinstance(cell, Best) else escape(cell)
            )
            cells.append(f"<{tag}{style}>{content}</{tag}>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _is_words(cell: str) -> bool:
    return not cell.endswith(" worse") and any(map(str.isalpha, cell))


def signature_lines(signatures: Iterable[tuple[str, str]], style: str) -> list[str]:
    """Names of rows with their signatures, to stand below a table; empty for a style
    without room for text.
    """
    form = {"text": "{}: {}", "markdown": "- {}: `{}`"}.get(style)
    return (
        [form.format(name, signature) for name, signature in signatures] if form else []
    )


def style_of(path: str) -> str | None:
    """The style with the ending of a file; None if no style has it."""
    for names in (STYLES.shipped, STYLES.names):
        for name in names:
            if path.endswith(STYLES.about(name)):
                return name
    return None


def endings() -> str:
    """All of them, for messages."""
    return ", ".join(STYLES.about(name) for name in STYLES.names)


def as_json(record: object) -> str:
    """A dataclass, or lists and dictionaries of them, as JSON: keys as the fields, in
    full precision.

    JSON has neither infinity nor NaN: null stands for both.
    """
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def write_json(record: object, path: str) -> None:
    """Write one JSON document; `-` is stdout."""
    with opened(path) as file:
        file.write(as_json(record) + "\n")


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_frame(rows: Sequence[dict[str, Any]]) -> Any:
    """Records as a DataFrame of pandas, or of polars.

    Raises:
        UserError: neither is installed.
    """
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame(rows)
        except ModuleNotFoundError:
            continue
    raise UserError(
        "to_frame needs pandas or polars; install one of them: pip install pandas"
    )
