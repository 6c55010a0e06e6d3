"""How far a command is: a bar of tqdm at a terminal, a line a minute in a log, which
tqdm does not write.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from typing import cast

from tqdm import tqdm

from rescore.config import RunConfig
from rescore.errors import counted
from rescore.lms import each
from rescore.nbest import NbestList

log = logging.getLogger(__name__)


def progress_bar(
    total: int | None, label: str, unit: str = "hyp"
) -> tqdm | LogProgress:
    """Return a bar on stderr; where that is no terminal, one line per minute.

    Args:
        total: The number of things to do; None if it is not known.
        label: The work.
        unit: The name of a thing.
    """
    if sys.stderr.isatty():
        # the average: hypotheses differ
        return _Bar(total=total, desc=label, unit=unit, leave=False, smoothing=0)
    return LogProgress(total, label, unit)


class _Bar(tqdm):  # type: ignore[misc]
    """A bar at a terminal."""

    def update(self, n: float | None = 1) -> bool | None:
        """Count things that are done.

        Args:
            n: Their number.
        """
        if not self.n:  # the time that models take to load says nothing of the rest
            self.unpause()
        return cast("bool | None", super().update(n))


def scoring_bar(
    config: RunConfig, *sets: Sequence[NbestList] | None
) -> tqdm | LogProgress:
    """Return a bar of the hypotheses of sets, for all models.

    Args:
        config: What was asked. The number of hypotheses is not known if lists grow.
        sets: The lists of each set; None for no set.
    """
    if not config.lms:
        return LogProgress(None, "", "")
    hypotheses = 0
    for lists in sets:
        if lists is not None:
            hypotheses += sum(len(nbest.hypotheses) for nbest in lists)
    total = len(each(config.lms)) * hypotheses or None
    if config.expands:
        total = None
    return progress_bar(total, f"score {', '.join(config.lms)}")


class LogProgress:
    """A bar for log files: one line per minute, for jobs that somebody looks at from
    time to time.
    """

    EVERY = 60.0
    """Seconds between two lines."""

    def __init__(self, total: int | None, label: str, unit: str) -> None:
        """Begin to count.

        Args:
            total: The number of things to do; None if it is not known.
            label: The work.
            unit: The name of a thing.
        """
        self._total = total
        self._label = label
        self._unit = unit
        self._done = 0
        self._done_before = 0
        self._began = time.monotonic()
        self._reported = self._began

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, done: int) -> None:
        """Count things that are done; once a minute write a line.

        Args:
            done: Their number.
        """
        now = time.monotonic()
        if not self._done:  # the time that models take to load says nothing of the rest
            self._began = now
            self._reported = now
            self._done_before = done
        self._done += done
        if now - self._reported < self.EVERY:
            return
        self._reported = now
        # on average: hypotheses differ in length
        rate = (self._done - self._done_before) / (now - self._began)
        line = f"{self._label}: {self._done:,}"
        if self._total:
            line += f" of {self._total:,}"
        line += f" {self._unit}, {rate:.0f} a second"
        if self._total and rate:
            line += f", {_duration((self._total - self._done) / rate)} to go"
        log.info("%s", line)


def _duration(seconds: float) -> str:
    """Return a time in words, in whole minutes if it is a minute or more."""
    if seconds >= 60:
        return counted(round(seconds / 60), "minute")
    return counted(max(1, round(seconds)), "second")
