"""What is odd in a file but can be read all the same: told once, with its number and first place; or an error."""

from __future__ import annotations

import logging

from rescore.errors import UserError

log = logging.getLogger(__name__)

UTF8 = "are not UTF-8; what is no character was read as \ufffd"
CRLF = "end in a carriage return, which was left out"
BOM = "begin with a byte order mark, which was left out"
NO_SCORES = "have no scores; their order is the first pass (--s2s rank): minus the log of the place"
TWICE = "have a hypothesis twice; both were kept"
"""Nothing here changes which hypotheses there are, or which utterances: what does is an error always."""


class Oddities:
    """Those of one command's inputs."""

    def __init__(self, strict: bool = False) -> None:
        """`strict`: the first of them is an error."""
        self._strict = strict
        self._found: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, unit: str, what: str, place: str) -> None:
        """
        Args:
            unit: what is counted: lines, files, lists. what: one of the above. place: where it was met.

        Raises:
            UserError: oddities are errors.
        """
        if self._strict:
            raise UserError(f"{place}: {unit} that {what.partition('; ')[0].partition(', which')[0]} (--strict)")
        number, first = self._found.get((unit, what), (0, place))
        self._found[unit, what] = number + 1, first

    def tell(self) -> None:
        """Say what was met, a line a kind, and forget it."""
        for (unit, what), (number, first) in self._found.items():
            log.warning("%s %s %s (first: %s)", f"{number:,}", unit, what, first)
        self._found.clear()
