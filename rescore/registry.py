"""One table for each kind of part: formats, back-ends, metrics, decision rules, significance tests, table styles.

To add a part: write its module, add its line to the table of its kind. `--help`, error messages and the schema take
their lists from the tables.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from rescore.errors import UserError

Part = TypeVar("Part")


def resolve(name: str) -> Any:
    """What "module:attribute" or "module" names; the module is imported now."""
    module, _, attributes = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in filter(None, attributes.split(".")):
        found = getattr(found, attribute)
    return found


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that nobody knows: the name that is most like it, if one is."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


class Registry(Generic[Part]):
    """Names and what they stand for. A part may be given as "module:attribute"; it is then imported when it is used.

    Example:
        >>> table = Registry("function", {"square root": ("math:sqrt", "of a number")})
        >>> table["square root"](4.0)
        2.0
    """

    def __init__(self, kind: str, parts: dict[str, tuple[Part | str, str]]) -> None:
        """
        Args:
            kind: what the parts are, for error messages. parts: name -> the part, and what it is in a few words.
        """
        self.kind = kind
        self._parts = dict(parts)

    @property
    def names(self) -> list[str]:
        return list(self._parts)

    def about(self, name: str) -> str:
        """What a part is, in a few words."""
        return self._parts[name][1]

    def register(self, name: str, part: Part | str, about: str = "") -> None:
        """Add a part, or replace the one of that name."""
        self._parts[name] = (part, about)

    def remove(self, name: str) -> None:
        del self._parts[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._parts

    def check(self, name: str) -> str:
        """The name, if there is such a part, in the table's letter case.

        Raises:
            UserError: there is none.
        """
        for known in self._parts:
            if known == name or known.casefold() == name.casefold():
                return known
        raise UserError(f"{self.kind} {name!r} is not one of {', '.join(self._parts)}{did_you_mean(name, self._parts)}")

    def __getitem__(self, name: str) -> Part:
        part = self._parts[self.check(name)][0]
        return resolve(part) if isinstance(part, str) else part
