"""Progress of loops that may take long, as messages of the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

log = logging.getLogger(__name__)

Item = TypeVar("Item")

FIRST = 2.0
"""Seconds until the first message."""
EVERY = 10.0
"""Seconds between messages."""

_running: list[str] = []
"""Messages of the loops that are running. Only the outermost loop writes its own."""


def paced(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Yield the items, and log the progress of a long loop.

    A message says how many items are done, and how many seconds are left at the same
    pace.

    Args:
        items: The items of the loop.
        what: The message, such as `tuned %d of %d folds`.
    """
    return paced_by(enumerate(items), what, len(items))


def paced_by(
    items: Iterable[tuple[float, Item]], what: str, total: float
) -> Iterator[Item]:
    """Yield the items of a loop whose progress is not the number of items.

    Args:
        items: Pairs of the amount that was done before an item, and the item.
        what: The message, with the amount done and the total.
        total: The amount that is done at the end.
    """
    start = time.monotonic()
    due = FIRST
    _running.append(what)
    try:
        for done, item in items:
            passed = time.monotonic() - start if done else 0.0
            if passed > due and len(_running) == 1:
                due = passed + EVERY
                left = passed / done * (total - done)
                log.info(f"{what}, about %.0f s to go", done, total, left)
            yield item
    finally:
        _running.pop()
