"""What the benchmarks share: a clock of processor time, enough work for a timing, and
notes about tools that are not installed.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

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


def skip(skipped: str, reason: str) -> None:
    """Say on stderr what a benchmark leaves out; `make bench-smoke` shows these
    lines.
    """
    print(f"skipped: {skipped}; {reason}", file=sys.stderr, flush=True)
