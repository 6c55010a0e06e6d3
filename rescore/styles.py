"""How reports look: a table of cells as plain text, Markdown, CSV or LaTeX; a record as JSON."""

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
from rescore.parts import STYLES

Cells = Sequence[Sequence[str]]


MARKS = ("†", "‡")
"""Marks of figures with a significant difference, and with significance at a fifth of the level."""


class Best(str):
    """A cell with the best figure of its column: bold where a style can."""


class Worse(str):
    """A cell that says `worse`; pages also colour it."""


def marked_worse(change: str, is_worse: bool) -> str:
    """The cell of a change, which says so if it is for the worse."""
    return Worse(f"{change} worse") if is_worse else change


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"${letter}$" for letter in "<>|"},  # the default fonts print other signs for these
}


def mark_best(rows: Sequence[list[str]], column: int, higher_is_better: bool) -> None:
    """Make the best figure of a column a `Best`, in each row that has it, unless all rows do."""
    figures = [math.nan if not row[column] else float(row[column].rstrip("".join(MARKS))) for row in rows]
    known = [figure for figure in figures if not math.isnan(figure)]
    if len(set(known)) < 2:
        return
    best = max(known) if higher_is_better else min(known)
    for row, figure in zip(rows, figures, strict=True):
        if figure == best:
            row[column] = Best(row[column])


def unknown_name(names: Iterable[str], known: Iterable[str]) -> str:
    """A message about a name to replace that is not among the names of a table; empty if there is none."""
    known = sorted(set(known))
    absent = next((name for name in names if name not in known), None)
    if absent is None:
        return ""
    return f"--rename {absent}: the table does not have this name; its names are {', '.join(known)}"


def p_value(value: float | None) -> str:
    """The p-value as a table shows it; empty for None."""
    if value is None:
        return ""
    return f"{value:.4f}" if value >= 0.00005 else "<0.0001"


def p_phrase(value: float) -> str:
    """The p-value in a sentence: `p = 0.0123`, `p < 0.0001`."""
    return f"p = {p_value(value)}".replace("= <", "< ")


def as_json(record: object) -> str:
    """A dataclass, or lists and dictionaries of them, as JSON: keys as the fields, in full precision.

    JSON has neither infinity nor NaN: null stands for both.
    """
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def text(rows: Cells) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    rows = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html(rows: Cells) -> str:
    """A table for notebooks and pages: columns of words to the left, figures to the right."""
    head, *body = rows
    of_words = [place == 0 or any(_is_words(row[place]) for row in body) for place in range(len(head))]
    lines = []
    for tag, row in [("th", head), *(("td", row) for row in body)]:
        cells = []
        for cell, words in zip(row, of_words, strict=True):
            style = ' style="text-align:left"' if words else ' class="worse"' if isinstance(cell, Worse) else ""
            content = f"<b>{escape(cell)}</b>" if isinstance(cell, Best) else escape(cell)
            cells.append(f"<{tag}{style}>{content}</{tag}>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _is_words(cell: str) -> bool:
    return not isinstance(cell, Worse) and any(map(str.isalpha, cell))


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
    raise UserError("to_frame needs pandas or polars; install one of them")


def markdown(rows: Cells) -> str:
    """GitHub's pipe tables."""
    head, *body = ([_markdown_cell(cell) for cell in row] for row in rows)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_cell(cell: str) -> str:
    escaped = _one_line(cell).replace("\\", "\\\\").replace("|", "\\|")
    return f"**{escaped}**" if isinstance(cell, Best) else escaped


def _one_line(cell: str) -> str:
    """Without newlines and other control characters, which would end a row."""
    return "".join(letter if letter.isprintable() else " " for letter in cell)


def comma_separated(rows: Cells) -> str:
    """CSV with a head line (RFC 4180)."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([[_one_line(cell) for cell in row] for row in rows])
    return file.getvalue().rstrip("\n")


def latex(rows: Cells) -> str:
    """A tabular with the rules of booktabs."""
    head, *body = (" & ".join([escape_latex(row[0]), *map(_latex_figure, row[1:])]) + r" \\" for row in rows)
    columns = "l" + "r" * (len(rows[0]) - 1)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    )


def latex_note(note: str) -> str:
    """A line of text under a table."""
    return rf"\par\smallskip{{\footnotesize {_latex_figure(note)}\par}}"


def _latex_figure(cell: str) -> str:
    """A cell behind the first: intervals with a dash, a minus, marks raised, the best figure bold."""
    escaped = re.sub(r"(?<=\d)-(?=\d)", "--", escape_latex(cell))
    escaped = re.sub(r"(?<![\d-])-(?=\d)", "$-$", escaped)
    escaped = escaped.replace(MARKS[0], r"$^{\dagger}$").replace(MARKS[1], r"$^{\ddagger}$")
    return rf"\textbf{{{escaped}}}" if isinstance(cell, Best) else escaped


def escape_latex(cell: str) -> str:
    """The cell's text, none of it a command."""
    escaped = re.sub(r"[\\~^&%$#_{}<>|]", lambda match: _LATEX.get(match[0], "\\" + match[0]), _one_line(cell))
    return "{}" + escaped if escaped.startswith("[") else escaped  # behind `\\\\` a bracket would be an option of it


def signature_lines(signatures: Iterable[tuple[str, str]], style: str) -> list[str]:
    """Names of rows with their signatures, to stand below a table; empty for a style without room for text."""
    form = {"text": "{}: {}", "markdown": "- {}: `{}`"}.get(style)
    return [form.format(name, signature) for name, signature in signatures] if form else []


def style_of(path: str) -> str | None:
    """The style with the ending of a file; None if no style has it."""
    return next((name for name in STYLES.names if path.endswith(STYLES.about(name))), None)


def endings() -> str:
    """All of them, for messages."""
    return ", ".join(STYLES.about(name) for name in STYLES.names)
