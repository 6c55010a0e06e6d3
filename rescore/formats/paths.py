"""Places in JSON: `results.channels[].alternatives[0].text`.

A place is made of keys with dots between them. Behind a key, `[]` stands for each entry
of a list, and `[0]` for the first. The empty place is the value itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rescore.errors import UserError

_STEP = re.compile(r"([^.\[\]]+)|\[(\d*)\]")
_PLACE = re.compile(r"(?:[^.\[\]]+(?:\[\d{0,6}\])*|(?:\[\d{0,6}\])+)")

Step = str | int | None
"""A key, the number of an entry, or None for each entry."""


@lru_cache(maxsize=1 << 12)
def steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a place.

    Args:
        path: The place.

    Raises:
        UserError: The place is not made of keys and brackets.

    Example:
        >>> steps("results[].alternatives[0].text")
        ('results', None, 'alternatives', 0, 'text')
    """
    if not path:
        return ()
    result: list[Step] = []
    for part in path.split("."):
        if not _PLACE.fullmatch(part):
            raise UserError(
                f"{path[:80]!r} is no place in JSON, such as"
                " results.channels[].alternatives[0].text"
            )
        for key, number in _STEP.findall(part):
            if key:
                result.append(key)
            else:
                result.append(int(number) if number else None)
    return tuple(result)


def has(value: Any, path: str) -> bool:
    """Return whether a value has a place. A list without entries has the places of its
    entries.

    Args:
        value: Any JSON value.
        path: The place.
    """
    return _has(value, steps(path))


def _has(value: Any, rest: Sequence[Step]) -> bool:
    """Return whether a value has the place of these steps."""
    for number, step in enumerate(rest):
        if step is None:
            if not isinstance(value, list):
                return False
            later = rest[number + 1 :]
            return not value or any(_has(entry, later) for entry in value)
        value = _at(value, step, _ABSENT)
        if value is _ABSENT:
            return False
    return True


_ABSENT = object()


def _at(value: Any, step: str | int, default: Any = None) -> Any:
    """Return the value behind one step."""
    if isinstance(step, str):
        return value.get(step, default) if isinstance(value, dict) else default
    if isinstance(value, list) and step < len(value):
        return value[step]
    return default


def values(value: Any, path: str) -> list[Any]:
    """Return the values at a place, without null. A value that is no list counts as its
    only entry.

    Args:
        value: Any JSON value.
        path: The place.
    """
    found = [value]
    for step in steps(path):
        found = _following(found, step)
    return [each for each in found if each is not None]


def _following(values: Sequence[Any], step: Step) -> list[Any]:
    """Return the values behind one step; for each entry, those that are no lists."""
    if step is not None:
        return [_at(each, step) for each in values]
    entries: list[Any] = []
    for each in values:
        if isinstance(each, list):
            entries += each
        else:
            entries.append(each)
    return entries


def is_missing(value: Any, path: str) -> bool:
    """Return whether a value has entries that could have a place, and none of them has
    it. Null, and a list without entries, could have any place.

    Args:
        value: Any JSON value.
        path: The place.
    """
    found = [value]
    for step in steps(path):
        if step is None:
            following = _following(found, step)
        else:
            following = [_at(each, step, _ABSENT) for each in found]
        following = [each for each in following if each is not _ABSENT]
        if found and not following and step is not None:
            return True
        found = [each for each in following if each is not None]
    return False


def joined(outer: str, inner: str) -> str:
    """Return a place within another place.

    Args:
        outer: A place in a document.
        inner: A place in the values at the outer place.
    """
    if not outer or not inner or inner.startswith("["):
        return outer + inner
    return f"{outer}.{inner}"


def first(value: Any, paths: Sequence[str]) -> Any:
    """Return the value of the first place that has one; None if no place has.

    Args:
        value: Any JSON value.
        paths: The places, in the order of preference.
    """
    for path in paths:
        for each in values(value, path)[:1]:
            return each
    return None


def entries(value: Any, path: str, place: str) -> list[Any] | None:
    """Return the entries of the lists at a place.

    Args:
        value: Any JSON value.
        path: The place; `[]` stands for lists, whose entries are returned.
        place: The file and line, for messages.

    Returns:
        The entries, also those that are null; None if the place is absent.

    Raises:
        UserError: A value before `[]` is no list.
    """
    found = [value]
    key = "the document"
    for step in steps(path):
        following: list[Any] = []
        for each in found:
            if step is not None:
                following.append(_at(each, step))
            elif isinstance(each, list):
                following += each
            elif each is not None:
                raise UserError(f"{place}: {key} is no list")
        if step is None and following == [] and all(each is None for each in found):
            return None
        if step is not None:
            key = str(step)
        found = following
    if not path.endswith("]") and all(each is None for each in found):
        return None
    return found


def with_entries(value: Any, path: str, entries: Sequence[Any]) -> Any:
    """Return a copy of a value that has other entries in a list.

    Args:
        value: Any JSON value.
        path: The place of the list's entries, such as `results[]`.
        entries: The entries.
    """
    copy = list(entries)
    return _with(value, steps(path)[:-1], copy)


def _with(value: Any, rest: Sequence[Step], new: Any) -> Any:
    """Return a copy of a value with a new value behind some keys."""
    if not rest:
        return new
    return {**value, rest[0]: _with(value[rest[0]], rest[1:], new)}
