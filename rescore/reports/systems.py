"""The rows of tables about lists that several systems wrote: the interface of the part
that shows them (`rescore.parts.TABLES_OF_SYSTEMS`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rescore.deciding import Decided
from rescore.metrics import Metric
from rescore.metrics.significance import ScoredTexts
from rescore.parts import TABLES_OF_SYSTEMS, resolve
from rescore.reports.figures import Figures, MeasuredRow
from rescore.reports.records import MetricResult


class RowsOfSystems(Protocol):
    """The figures of several systems, for the tables of the chosen texts."""

    def add_to(
        self, result: MetricResult, figures: Figures, chosen: ScoredTexts
    ) -> None:
        """Add the figures to those of a metric.

        Args:
            result: The figures of the metric.
            figures: The lists under the metric.
            chosen: The texts that were chosen.
        """
        ...


class SystemTables(Protocol):
    """Measures several systems, and shows them: the functions of a module."""

    def measured(self, metric: Metric | None, decided: Decided) -> RowsOfSystems:
        """Return what adds figures of the systems of decided lists.

        Args:
            metric: The objective, where the decision needs one.
            decided: The lists, and the text chosen for each.
        """
        ...

    def rows(self, measured: MetricResult) -> Iterable[MeasuredRow]:
        """Return the rows of the table of a metric, in their order."""
        ...

    def gains(self, measured: MetricResult) -> Iterable[str]:
        """Return the lines below the table: by how much the figures changed."""
        ...


def tables_of_systems() -> SystemTables:
    """Return what measures and shows several systems."""
    module: SystemTables = resolve(TABLES_OF_SYSTEMS)
    return module
