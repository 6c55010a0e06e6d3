"""The curve of a metric against a weight, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple
from typing import IO

from rescore.tuning.tune import Step


def write(steps: Iterable[Step], metric: str, file: IO[str]) -> None:
    """One line a step: the column whose weight changes, from where to where, and the metric's value there (percent)."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["column", "low", "high", metric])
    rows.writerows(astuple(step) for step in steps)
