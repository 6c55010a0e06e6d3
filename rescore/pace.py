"""How far a loop is, for loops that may take long."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

log = logging.getLogger(__name__)

Item = TypeVar("Item")
FIRST, EVERY = 2.0, 10.0
"""Seconds until the first message, and between messages."""
_around: list[str] = []  # the loops that are running: only the outer one speaks


def paced(items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items; what takes long is logged: how many are done, and the seconds left at
    the same pace.

    Args:
        what: the message, such as `tuned %d of %d folds`.
    """
    return paced_by(enumerate(items), what, len(items))


def paced_by(
    items: Iterable[tuple[float, Item]], what: str, total: float
) -> Iterator[Item]:
    """The items of pairs (how much was done before the item, the item), of `total`;
    otherwise as `paced`.
    """
    began, due = time.monotonic(), FIRST
    _around.append(what)
    try:
        for done, item in items:
            passed = time.monotonic() - began if done else 0.0
            if passed > due and len(_around) == 1:
                due = passed + EVERY
                log.info(
                    f"{what}, about %.0f s to go",
                    done,
                    total,
                    passed / done * (total - done),
                )
            yield item
    finally:
        _around.pop()
