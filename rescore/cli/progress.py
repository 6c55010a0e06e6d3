"""How far a command is: a bar of tqdm at a terminal, a line a minute in a log, which
tqdm does not write.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tqdm import tqdm

from rescore.errors import counted

if TYPE_CHECKING:
    from rescore.config import RunConfig
    from rescore.nbest import NbestList

log = logging.getLogger(__name__)


def progress_bar(
    total: int | None, label: str, unit: str = "hyp"
) -> tqdm | LogProgress:
    """A bar of hypotheses on stderr; where that is no terminal, one line per minute."""
    if sys.stderr.isatty():
        # the average: hypotheses differ
        return _Bar(total=total, desc=label, unit=unit, leave=False, smoothing=0)
    return LogProgress(total, label, unit)


class _Bar(tqdm):  # type: ignore[misc]
    def update(self, n: float | None = 1) -> bool | None:
        if not self.n:  # the time that models take to load says nothing of the rest
            self.unpause()
        return cast("bool | None", super().update(n))


def scoring_bar(
    config: RunConfig, *sets: Sequence[NbestList] | None
) -> tqdm | LogProgress:
    """A bar of the hypotheses of sets, for all models; how many there will be is not
    known of lists that grow.
    """
    from rescore.lms import each

    if not config.lms:
        return LogProgress(None, "", "")
    number = len(each(config.lms)) * sum(
        len(nbest.hypotheses) for lists in sets for nbest in lists or ()
    )
    return progress_bar(
        None if config.expands else number or None, f"score {', '.join(config.lms)}"
    )


class LogProgress:
    """A bar for log files: one line per minute, for jobs that somebody looks at from
    time to time.
    """

    EVERY = 60.0

    def __init__(self, total: int | None, label: str, unit: str) -> None:
        self._total, self._label, self._unit = total, label, unit
        self._done = self._done_before = 0
        self._began = self._reported = time.monotonic()

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, done: int) -> None:
        now = time.monotonic()
        if not self._done:  # the time that models take to load says nothing of the rest
            self._began, self._reported, self._done_before = now, now, done
        self._done += done
        if now - self._reported >= self.EVERY:
            of = f" of {self._total:,}" if self._total else ""
            # on average: hypotheses differ in length
            rate = (self._done - self._done_before) / (now - self._began)
            self._reported, left = now, ""
            if self._total and rate:
                seconds = (self._total - self._done) / rate
                size, unit = (60, "minute") if seconds >= 60 else (1, "second")
                left = f", {counted(max(1, round(seconds / size)), unit)} to go"
            log.info(
                "%s: %s%s %s, %.0f a second%s",
                self._label,
                f"{self._done:,}",
                of,
                self._unit,
                rate,
                left,
            )
