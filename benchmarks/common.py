"""What the benchmarks share: a clock of processor time, enough work for a timing, and
notes about tools that are not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from rescore.styles import Cells, figure

ROOT = Path(__file__).parents[1]
TICKS = 50
"""Ticks of the system's clock that a timing takes at least."""


def cpu_seconds() -> float:
    """Processor seconds of this process and of the programs that it waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def seconds_per_call(
    work: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds of one call of `work`: the mean over as many calls as take `TICKS` ticks.

    Args:
        clock: returns seconds; `cpu_seconds` for processor time.
    """
    enough = TICKS / os.sysconf("SC_CLK_TCK")
    calls = 1
    while True:
        began = clock()
        for _ in range(calls):
            work()
        seconds = clock() - began
        if seconds >= enough:
            return seconds / calls
        calls *= 2


def is_missing(module: str, install: str, skipped: str) -> bool:
    """Whether a module is not installed; if so, a line on stderr says what is skipped.

    Args:
        install: the command that installs the module.
        skipped: what the benchmark leaves out without the module.
    """
    if find_spec(module):
        return False
    skip(skipped, f"{module} is not installed: {install}")
    return True


def cells_of_figures(rows: Mapping[str, Mapping[str, float]]) -> Cells:
    """Return the head of a table, and a row for each object of figures. Figures that
    are whole in all rows of a column are counts.

    Args:
        rows: The figures by column, by row.
    """
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = [["", *columns], *([name] for name in rows)]
    for column in columns:
        values = [row.get(column) for row in rows.values()]
        are_counts = all(value is None or isinstance(value, int) for value in values)
        shown = _count if are_counts else _measured
        for cell_row, value in zip(cells[1:], values, strict=True):
            cell_row.append(shown(value))
    return cells


def _count(value: float | None) -> str:
    """Return a whole number as a table shows it; empty for None."""
    return "" if value is None else f"{value:,}"


def _measured(value: float | None) -> str:
    """Return a figure with two digits, as 1.4e-05 if two digits would hide it, or as
    12,600 if they say nothing.
    """
    if value is not None and 0 < abs(value) < 0.005:
        return f"{value:.1e}"
    if value is not None and abs(value) >= 1000:
        return f"{value:,.0f}"
    return figure(value)


def write_json(file: Path, content: object) -> None:
    """Write figures as JSON.

    Args:
        file: The file.
        content: What JSON can hold, and dataclasses, which become objects.
    """
    shown = json.dumps(content, indent=1, ensure_ascii=False, default=asdict)
    file.write_text(shown + "\n", encoding="utf-8")


def sets_of_dev_and_test(
    about: str | None,
) -> tuple[dict[str, tuple[str, str]], Path | None]:
    """Return the arguments of a script: the dev and the test lists by the name of a
    set, and the file of -o.

    Args:
        about: What the script does.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+", metavar="NAME=DEV,TEST")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    sets = {}
    for given in options.sets:
        name, _, paths = given.partition("=")
        dev_path, test_path = paths.split(",")
        sets[name] = dev_path, test_path
    return sets, options.output


def skip(skipped: str, reason: str) -> None:
    """Say on stderr what a benchmark leaves out; `make bench-smoke` shows these
    lines.
    """
    print(f"skipped: {skipped}; {reason}", file=sys.stderr, flush=True)
