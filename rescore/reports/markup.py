"""Tables of cells as Markdown, CSV, LaTeX and HTML."""

from __future__ import annotations

import csv
import io
import re
from html import escape

from rescore.styles import MARKS, Best, Cells, Worse, one_line


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
    csv.writer(file, lineterminator="\n").writerows([[one_line(cell) for cell in row] for row in rows])
    return file.getvalue().rstrip("\n")


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"${letter}$" for letter in "<>|"},  # the default fonts print other signs for these
}


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
    escaped = re.sub(r"[\\~^&%$#_{}<>|]", lambda match: _LATEX.get(match[0], "\\" + match[0]), one_line(cell))
    return "{}" + escaped if escaped.startswith("[") else escaped  # behind `\\\\` a bracket would be an option of it


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
