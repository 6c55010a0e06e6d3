"""Figures and tables as plain text.

tabulate aligns in the same way, but the width of Chinese and Japanese text depends in
it on whether another package, wcwidth, is installed.
"""

from __future__ import annotations

from collections.abc import Sequence

Cells = Sequence[Sequence[str]]


def p_value(value: float | None) -> str:
    """The p-value as a table shows it; empty for None."""
    if value is None:
        return ""
    return f"{value:.4f}" if value >= 0.00005 else "<0.0001"


def p_phrase(value: float) -> str:
    """The p-value in a sentence: `p = 0.0123`, `p < 0.0001`."""
    return f"p = {p_value(value)}".replace("= <", "< ")


def marked_worse(change: str, is_worse: bool) -> str:
    """The cell of a change, which says so if it is for the worse."""
    return f"{change} worse" if is_worse else change


def text(rows: Cells) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)),
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def one_line(cell: str) -> str:
    """Without newlines and other control characters, which would end a row."""
    return "".join(letter if letter.isprintable() else " " for letter in cell)
