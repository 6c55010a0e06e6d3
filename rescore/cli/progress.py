"""How far a command is: a bar of tqdm at a terminal; in a log, which tqdm does not
write, a line after some seconds and then a line a minute.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from tqdm import tqdm

from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.errors import counted
from rescore.lms import single_specs

log = logging.getLogger(__name__)


def progress_bar(
    total: int | None, label: str, unit: str = "hyp"
) -> tqdm | LogProgress:
    """Return a bar on stderr; where that is no terminal, lines of the log.

    Args:
        total: The number of things to do; None if it is not known.
        label: The work.
        unit: The name of a thing.
    """
    if sys.stderr.isatty():
        # the average: hypotheses differ
        return _Bar(total=total, desc=label, unit=unit, leave=False, smoothing=0)
    return LogProgress(total, label, unit)


class SpeedOfModels:
    """The speed of each of several models, and the time that they need for the rest.

    Args:
        number: The number of models.
        total: The number of things that all models do together; None if it is not
            known.
    """

    def __init__(self, number: int, total: int | None) -> None:
        self._number = number
        self._total = total
        self._done: dict[str, int] = {}
        self._timed: dict[str, int] = {}
        """What each model has done since its first call."""
        self._seconds: dict[str, float] = {}
        self._last = 0.0

    def update(self, name: str, done: int) -> None:
        """Count what a model has done since any model's last call.

        Args:
            name: The model.
            done: The number of things.
        """
        now = time.monotonic()
        if name in self._done:  # the time before the first call is for loading
            self._timed[name] = self._timed.get(name, 0) + done
            self._seconds[name] = self._seconds.get(name, 0.0) + now - self._last
        self._done[name] = self._done.get(name, 0) + done
        self._last = now

    @property
    def left(self) -> float | None:
        """The seconds until all models are done; None until each model has a speed."""
        if not self._total or len(self._timed) < self._number:
            return None
        seconds = 0.0
        for name, timed in self._timed.items():
            rest = max(0.0, self._total / self._number - self._done[name])
            seconds += rest * self._seconds[name] / max(timed, 1)
        return seconds


class ModelProgress:
    """The progress of several models, as scoring tells it, for a bar.

    Args:
        bar: The bar.
        models: The speeds of the models.
    """

    def __init__(self, bar: tqdm | LogProgress, models: SpeedOfModels) -> None:
        self._bar = bar
        self._models = models

    def __call__(self, done: int) -> None:
        """Count things of an unknown model."""
        self._bar.update(done)

    def of_model(self, name: str) -> Callable[[int], None]:
        """Return the function that counts what a model has done.

        Args:
            name: The name of the model.
        """

        def update(done: int) -> None:
            self._models.update(name, done)
            self._bar.update(done)

        return update


class _Bar(tqdm):  # type: ignore[misc]
    """A bar at a terminal."""

    models: SpeedOfModels | None = None
    """The speeds of several models; None where there is one speed."""

    @property
    def format_dict(self) -> dict[str, Any]:
        """What the bar shows. With several models the rate is the rate of the rest,
        from which tqdm computes the time to go.
        """
        shown = dict(super().format_dict)
        if self.models is not None and self.total:
            left = self.models.left
            shown["rate"] = (self.total - self.n) / left if left else 0
        return shown

    def update(self, n: float | None = 1) -> bool | None:
        """Count things that are done.

        Args:
            n: Their number.
        """
        if not self.n:  # the time that models take to load says nothing of the rest
            self.unpause()
        return cast("bool | None", super().update(n))


@contextmanager
def scoring_progress(
    config: RunConfig, *sets: Dataset | None
) -> Iterator[ModelProgress]:
    """Yield the progress of all models with the hypotheses of sets, on a bar.

    Args:
        config: What was asked. The number of hypotheses is not known if lists grow.
        sets: The lists of each set; None for no set.
    """
    if not config.lms:
        yield ModelProgress(LogProgress(None, "", ""), SpeedOfModels(0, None))
        return
    hypotheses = 0
    for lists in sets:
        if lists is not None:
            hypotheses += sum(len(nbest.hypotheses) for nbest in lists)
    number = len(single_specs(config.lms))
    total = number * hypotheses or None
    if config.expands:
        total = None
    with progress_bar(total, f"score {', '.join(config.lms)}") as bar:
        models = SpeedOfModels(number, total)
        if number > 1:
            bar.models = models
        yield ModelProgress(bar, models)


@contextmanager
def advice_on_cache(cache: str | None) -> Iterator[None]:
    """Say, if the command is stopped while it scores, which option keeps the scores.

    Args:
        cache: The folder of the scores that are kept; None for no folder.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if cache is None:
            log.info(
                "to keep each score of a command that is stopped, give --cache DIR"
            )
        raise


class LogProgress:
    """A bar for log files: a line that shows that the work goes on and how long it
    takes, then one line per minute, for jobs that somebody looks at from time to time.
    """

    FIRST = 3.0
    """Seconds of work until the first line."""
    EVERY = 60.0
    """Seconds between two lines."""

    def __init__(self, total: int | None, label: str, unit: str) -> None:
        """Begin to count.

        Args:
            total: The number of things to do; None if it is not known.
            label: The work.
            unit: The name of a thing.
        """
        self.models: SpeedOfModels | None = None
        """The speeds of several models; None where there is one speed."""
        self._total = total
        self._label = label
        self._unit = unit
        self._done = 0
        self._done_before = 0
        self._began = time.monotonic()
        self._reported = self._began
        self._due = self.FIRST

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, done: int) -> None:
        """Count things that are done; after some seconds, then once a minute, write a
        line.

        Args:
            done: Their number.
        """
        now = time.monotonic()
        if not self._done:  # the time that models take to load says nothing of the rest
            self._began = now
            self._reported = now
            self._done_before = done
        self._done += done
        if now - self._reported < self._due:
            return
        self._reported = now
        self._due = self.EVERY
        # on average: hypotheses differ in length
        rate = (self._done - self._done_before) / (now - self._began)
        line = f"{self._label}: {self._done:,}"
        if self._total:
            line += f" of {self._total:,}"
        line += f" {self._unit}, {rate:.0f} a second"
        left = None
        if self.models is not None:
            left = self.models.left
        elif self._total and rate:
            left = (self._total - self._done) / rate
        if left is not None:
            line += f", {_duration(left)} to go"
        log.info("%s", line)


def _duration(seconds: float) -> str:
    """Return a time in words, in whole minutes if it is a minute or more."""
    if seconds >= 60:
        return counted(round(seconds / 60), "minute")
    return counted(max(1, round(seconds)), "second")
