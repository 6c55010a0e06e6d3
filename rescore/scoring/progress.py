"""How far one call of `LanguageModel.score` has come: models report shares of it, and whoever called may watch.

A window of hypotheses can take minutes; without this a bar would stand still until it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

OnShare = Callable[[float], object]
"""Called with the share of the work that is done, in [0, 1]."""

_watcher: ContextVar[OnShare | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(on_share: OnShare) -> Iterator[None]:
    """Calls `on_share` with what is reported inside."""
    token = _watcher.set(on_share)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def part(done: int, size: int, whole: int) -> Iterator[None]:
    """Shares reported inside are of `size` texts of `whole`, after `done` others."""
    watcher = _watcher.get()
    with watched(lambda share: watcher and watcher((done + share * size) / whole)):
        yield


def report(done: int, whole: int) -> None:
    """Say that so many of the units of work are done."""
    watcher = _watcher.get()
    if watcher and whole:
        watcher(done / whole)
