"""Ways to train: one module for each, with its options and the one call that it makes.

A module has `KINDS`, the kinds of models that it trains, and of these `PAIRED`, which learn from translations; `TITLE`
and `options`, a decorator that gives the command its options as one object (the argument is named like the module);
and `train(common, options)`. Its line is in `WAYS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click

WAYS = ("neural", "ngram", "lexical", "channel")
"""Modules of this package."""


@dataclass(frozen=True, slots=True)
class Common:
    """What every way to train is given."""

    kind: str
    """What --lm says."""
    out: Path
    text: Path | None
    texts: tuple[tuple[Path, Path], ...]
    """What --pairs says, each time."""
    tokenizer: Path | None
    normalisation: str | None
    """None where the user did not choose one."""

    @property
    def pairs(self) -> tuple[Path, Path] | None:
        """The text of kinds that take a single --pairs."""
        return self.texts[0] if self.texts else None


class Way(Protocol):
    """A module of this package."""

    KINDS: tuple[str, ...]
    PAIRED: tuple[str, ...]
    TITLE: str

    def options(self, command: Any) -> Any: ...

    def train(self, common: Common, options: Any) -> None:
        """
        Raises:
            click.UsageError: options do not fit together. UserError: the training failed.
        """
        ...


def report(line: str) -> None:
    """Progress, on stderr."""
    click.echo(line, err=True)
