"""Values of options: which kind an annotation asks for, how a typed text becomes it,
and in which words a message asks for it.

The annotation of a declared field (`rescore.options`) is the only place that says of
which kind its values are. A value is converted where it comes from (a command line,
Python, JSON), and is checked where its class is made (`Declared.__post_init__`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin


class ValueKind(NamedTuple):
    """What an annotation says of values."""

    type: Any
    """The type of a value."""
    optional: bool
    """Whether there may be no value."""
    several: bool
    """Whether there may be several values."""


def kind_of(annotation: Any) -> ValueKind:
    """Return what an annotation says, such as `int | None` or `tuple[str, ...]`.

    Args:
        annotation: The annotation. Of a union of types, the first counts.
    """
    kind = annotation
    optional = NoneType in get_args(annotation)
    if optional:
        kind = next(part for part in get_args(annotation) if part is not NoneType)
    several = get_origin(kind) is Mapping
    if get_origin(kind) is tuple:
        several = get_args(kind)[-1] is ...
    if several:
        kind = get_args(kind)[0]
    return ValueKind(kind, optional, several)


def of_text(text: str, kind: Any) -> Any:
    """Return what a typed text says.

    Args:
        text: The text.
        kind: The type of the value.

    Raises:
        ValueError: It is no number, and the type is one of numbers.
    """
    if get_origin(kind) is tuple:  # of two values, which are typed one by one
        (kind, _) = get_args(kind)
    if kind in (int, float, Path):
        return kind(text)
    return text


class Range(NamedTuple):
    """The numbers that an option takes; NaN is in no range."""

    low: float | None
    high: float | None

    def holds(self, value: Any) -> bool:
        """Return whether a number is in the range.

        Args:
            value: The number; any value is in a range without ends.
        """
        high_enough = self.low is None or value >= self.low
        low_enough = self.high is None or value <= self.high
        return high_enough and low_enough

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f" from {_shown(self.low)} to {_shown(self.high)}"
        if self.low is not None:
            return f" from {_shown(self.low)} on"
        if self.high is not None:
            return f" up to {_shown(self.high)}"
        return ""


def _shown(bound: float) -> str:
    """Return an end of a range: whole numbers have all their digits."""
    if bound == int(bound):
        return str(int(bound))
    return f"{bound:g}"


_PLAIN: dict[Any, tuple[type, str]] = {
    str: (str, "a text"),
    float: (Real, "a number"),
    int: (Integral, "a whole number"),
    bool: (bool, "true or false"),
    type(None): (type(None), ""),
    tuple[str, ...]: (tuple, "a list of texts"),
    tuple[float, ...]: (tuple, "a list of numbers"),
}
"""The types of options whose values are checked: what a value must be, and this in
words.
"""


_OF_JSON = {
    **{kind.__name__: _PLAIN[kind][1] for kind in (str, float, int, bool)},
    "object": "an object",
    "array": "an array",
}
"""The types of JSON by their names in messages of msgspec, and in words."""


_JSON_KIND = re.compile("(Expected|got) `([^`]+)`")
"""Types of JSON in a message of msgspec."""


def with_kinds_in_words(message: str) -> str:
    """Return a message of msgspec with types in words: `expected a number, found a
    text`.

    Args:
        message: The message, such as "Expected `float | null`, got `str`".
    """
    return _JSON_KIND.sub(_in_words, message)


def _in_words(match: re.Match[str]) -> str:
    """Return the types of a message of msgspec in words."""
    verb = "expected" if match[1] == "Expected" else "found"
    kinds = [_OF_JSON.get(name, name) for name in match[2].split(" | ")]
    return f"{verb} {' or '.join(kinds)}"


def is_of_kind(value: Any, annotation: Any) -> bool:
    """Return whether a value may have a type; True for a type such as a mapping, whose
    values its class checks.

    Args:
        value: The value.
        annotation: The type, or a union of types.
    """
    for part in _parts(annotation):
        if part not in _PLAIN:
            if not isinstance(part, type) or isinstance(value, part):
                return True
            continue
        kind, _ = _PLAIN[part]
        wrong_kind: bool = not isinstance(value, kind)
        if wrong_kind or (kind is Real and isinstance(value, bool)):
            continue
        if kind is not tuple:
            return True
        (item, _) = get_args(part)
        if all(is_of_kind(element, item) for element in value):
            return True
    return False


def in_words(annotation: Any, numbers: Range, found: Any = None) -> str:
    """Return the values that an option takes, for a message.

    Args:
        annotation: The type, or a union of types.
        numbers: The range of numbers.
        found: What was given in their place. One text where several are expected would
            be read letter by letter.
    """
    if isinstance(found, str) and kind_of(annotation).several:
        return f"{in_words(annotation, numbers)}, such as [{found[:40]!r}]"
    kinds = []
    for part in _parts(annotation):
        _, words = _PLAIN.get(part, (part, f"a {getattr(part, '__name__', part)}"))
        if part in (int, float):
            words += str(numbers)
        if words:
            kinds.append(words)
    return " or ".join(kinds)


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the only type."""
    if isinstance(annotation, UnionType):
        return get_args(annotation)
    return (annotation,)
