"""How reports of measurements are shown: a table with notes in every style, a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rescore.cli import options
from rescore.errors import OptionError
from rescore.files import ending_of, opened
from rescore.options import Declared, option, written_file
from rescore.parts import STYLES
from rescore.reports.markup import as_json, checked_style
from rescore.research import chart
from rescore.research.chart import Chart

JSON = "json"
"""The style that has all figures in full precision, beside `STYLES`."""


class Report(Protocol):
    """A measurement: a dataclass whose fields are the figures in JSON."""

    def cells(self) -> list[list[str]]:
        """Return the rows of the table, the head first."""
        ...

    def notes(self) -> list[str]:
        """Return the lines below the table: what was measured, and signatures."""
        ...


class ChartedReport(Report, Protocol):
    """A report that can be drawn."""

    def charts(self) -> Sequence[Chart]:
        """Return the charts, from top to bottom."""
        ...


def render(report: Report, style: str) -> str:
    """Return a report in one of `STYLES`, or as JSON.

    Notes stand below a table of text or Markdown; CSV and LaTeX have the table alone.
    """
    if style == JSON:
        return as_json(report)
    table = STYLES[style](report.cells())
    if style not in ("text", "markdown"):
        return str(table)
    mark = "- " if style == "markdown" else ""
    return "\n".join([table, "", *(f"{mark}{note}" for note in report.notes())])


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Declared):
    """Where a report goes."""

    title = "Report"
    common = True

    style: str = option(
        "text", "Style of the table on stdout.", choices=(*STYLES, JSON)
    )
    output: tuple[str, ...] = written_file(
        (),
        "Also write the table to FILE: .md, .csv, .tex, .txt, .json (full precision)."
        " May be repeated.",
        "-o",
        "--output",
    )

    def check(self) -> None:
        """Refuse outputs of no known style, before anything is computed."""
        for path in self.output:
            checked_style("--output", path, [JSON])

    def write(self, report: Report) -> None:
        """Write the report to the files, and print it."""
        for path in self.output:
            with opened(path) as file:
                style = checked_style("--output", path, [JSON])
                file.write(render(report, style) + "\n")
        options.show(render(report, self.style))


@dataclass(frozen=True, kw_only=True)
class ChartOptions(ReportOptions):
    """Where a report with a chart goes."""

    plot: str | None = written_file(None, "Draw the figures as an SVG chart.")

    def check(self) -> None:
        """Refuse a chart that is no SVG file, and outputs of no known style."""
        super().check()
        if self.plot is not None and ending_of(self.plot) != ".svg":
            raise OptionError(f"--plot {self.plot}: its ending is not .svg")

    def write_charted(self, report: ChartedReport) -> None:
        """Write and print the report, and draw its charts."""
        if self.plot is not None:
            chart.write(report.charts(), self.plot)
        self.write(report)
