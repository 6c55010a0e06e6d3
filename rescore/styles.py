"""How reports look: a table of cells as plain text, figures in tables, a record as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
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
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


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


def one_line(cell: str) -> str:
    """Without newlines and other control characters, which would end a row."""
    return "".join(letter if letter.isprintable() else " " for letter in cell)


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
