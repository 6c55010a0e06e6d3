"""How reports look: a table of cells as plain text, Markdown, CSV or LaTeX; a record as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from rescore.parts import STYLES

Cells = Sequence[Sequence[str]]

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def p_value(value: float | None) -> str:
    """As a table shows it; empty where there is none."""
    if value is None:
        return ""
    return f"{value:.4f}" if value >= 0.00005 else "<0.0001"


def as_json(record: object) -> str:
    """A dataclass, or lists and dictionaries of them, as JSON: keys as the fields, in full precision.

    JSON has no infinity, and no number that is none: null stands for both.
    """
    return json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def text(rows: Cells) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    rows = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(rows: Cells) -> str:
    """GitHub's pipe tables."""
    head, *body = ([_markdown_cell(cell) for cell in row] for row in rows)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_cell(cell: str) -> str:
    return _one_line(cell).replace("\\", "\\\\").replace("|", "\\|")


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
    head, *body = (" & ".join(map(escape_latex, row)) + r" \\" for row in rows)
    columns = "l" + "r" * (len(rows[0]) - 1)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    )


def escape_latex(cell: str) -> str:
    """The cell's text, none of it a command."""
    escaped = re.sub(r"[\\~^&%$#_{}]", lambda found: _LATEX.get(found[0], "\\" + found[0]), _one_line(cell))
    return "{}" + escaped if escaped.startswith("[") else escaped  # behind `\\\\` a bracket would be an option of it


def style_of(path: str) -> str | None:
    """The style whose ending a file has; None where it is none of them."""
    return next((name for name in STYLES.names if path.endswith(STYLES.about(name))), None)


def endings() -> str:
    """All of them, for messages."""
    return ", ".join(STYLES.about(name) for name in STYLES.names)
