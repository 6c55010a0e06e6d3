"""Errors caused by input or options, and counts in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad usage or bad input, reported in one line: what was found, where, and what to
    do.

    The command line prints it on stderr and exits with status 2; a Python caller can
    catch it. Nothing else is ever caught: any other exception is a defect of this
    package.
    """


class OptionError(UserError):
    """An option is given where it has no meaning (`rescore.refusals`)."""


def counted(number: int, noun: str) -> str:
    """A number and its noun for a message: `1 list`, `2,000 lists`, `3 hypotheses`, `0
    log-probabilities`.
    """
    if number == 1:
        return f"1 {noun}"
    ending = next((ending for ending in _PLURALS if noun.endswith(ending)), "")
    return f"{number:,} {noun.removesuffix(ending)}{_PLURALS.get(ending, 's')}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggestion for a misspelled name, or an empty string."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


_PLURALS = {"is": "es", "y": "ies"}
