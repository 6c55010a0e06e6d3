"""A user's own substitutions: patterns, and the texts in their place (`--replace`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.source import InputWarnings, Source


@dataclass(frozen=True)
class Replacements:
    """The substitutions of a file, in its order."""

    pairs: tuple[tuple[str, str], ...]
    """Regular expressions, each with the text in its place."""
    path: str

    @classmethod
    def load(cls, path: str | Path) -> Replacements:
        """Return the substitutions of a file.

        Args:
            path: The file. A line is `pattern<TAB>text`; the text may be empty.

        Raises:
            UserError: The file cannot be read, has no line, or has a line that is no
                substitution.
        """
        pairs = []
        warnings = InputWarnings()
        for number, line in enumerate(Source(path, warnings).lines(), 1):
            if line.strip():
                pairs.append(_pair(line, f"{path}: line {number}"))
        warnings.report()
        if not pairs:
            raise UserError(f"{path}: no line in it; expected `pattern<TAB>text`")
        return cls(tuple(pairs), str(path))

    @property
    def digest(self) -> str:
        """A digest of the substitutions."""
        return hashlib.sha256(repr(self.pairs).encode()).hexdigest()[:12]

    def function(self, cased: bool) -> Callable[[str], str]:
        """Return a function that makes the substitutions in their order.

        Args:
            cased: Whether patterns match in their case only.
        """
        flags = re.NOFLAG if cased else re.IGNORECASE
        compiled = [(re.compile(pattern, flags), text) for pattern, text in self.pairs]

        def replaced(text: str) -> str:
            for pattern, instead in compiled:
                text = pattern.sub(instead, text)
            return text

        return replaced


def _pair(line: str, place: str) -> tuple[str, str]:
    """Return the pattern and the text of a line.

    Raises:
        UserError: The line has no tab or several; the pattern, or a group of the text,
            is invalid.
    """
    pattern, tab, text = line.partition("\t")
    if not tab or not pattern or "\t" in text:
        raise UserError(f"{place}: {line[:40]!r}; expected `pattern<TAB>text`")
    try:
        re.compile(pattern).sub(text, "")
    except re.error as error:
        raise UserError(
            f"{place}: {error}; expected a regular expression of Python's re before the"
            " tab, with groups such as (a|b), and a text behind it"
        ) from None
    return pattern, text
