"""Figures and tables as plain text.

tabulate aligns in the same way, but the width of Chinese and Japanese text depends in
it on whether another package, wcwidth, is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Cells = Sequence[Sequence[str]]
"""The cells of a table, row by row."""


UNDEFINED = "-"
"""What tables show in place of a figure that is not defined, such as the error rate of
empty references.
"""


def figure(value: float | None, digits: int = 2) -> str:
    """Return a figure as a table shows it: `-` if it is not defined, empty for None.

    Args:
        value: The figure.
        digits: Number of digits behind the point.
    """
    if value is None:
        return ""
    return f"{value:.{digits}f}" if math.isfinite(value) else UNDEFINED


def p_value(value: float | None) -> str:
    """Return a p-value as a table shows it; empty for None."""
    if value is None:
        return ""
    if value >= 0.00005:
        return f"{value:.4f}"
    return "<0.0001"


def p_phrase(value: float) -> str:
    """Return a p-value as it stands in a sentence: `p = 0.0123`, `p < 0.0001`."""
    return f"p = {p_value(value)}".replace("= <", "< ")


def marked_worse(change: str, is_worse: bool) -> str:
    """Return the cell of a change; the word `worse` is added if `is_worse`."""
    return f"{change} worse" if is_worse else change


def text(rows: Cells) -> str:
    """Return a table with aligned columns: the first to the left, others to the right.

    Args:
        rows: Rows with the same number of cells each.

    Returns:
        One line for each row, without blanks at the ends of lines.
    """
    clean = [list(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    lines = []
    for row in clean:
        cells = [row[0].ljust(widths[0])]
        for cell, width in zip(row[1:], widths[1:], strict=True):
            cells.append(cell.rjust(width))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def one_line(cell: str) -> str:
    """Return the text with blanks for newlines and other control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in cell)
