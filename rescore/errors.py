"""Errors caused by input or options, and counts in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

_PLURALS = {"is": "es", "y": "ies"}
"""Endings of nouns whose plural is not made with an s alone."""


LONGEST_WORD = 160
"""Characters of a part of a message without blanks, such as a path or an id."""
LONGEST_NAME = 40
"""Characters of a word that is left out whole where a message is cut; of a longer word
the beginning or the end stays.
"""
LONGEST = 360
"""Characters of a message."""


def shortened(message: str) -> str:
    """Return a message of one line, in which long quotes are cut in their middle.

    The beginning says what is wrong and where, the end what to do. A long message is
    cut between two words, so that a list of names has only whole names. Of a long
    word, such as a path, the beginning or the end stays.

    Args:
        message: The message.
    """
    words = [_cut(word, LONGEST_WORD) for word in message.split()]
    return _cut_between(" ".join(words), LONGEST)


def _cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, cut in its middle."""
    if len(text) <= most:
        return text
    head = 2 * most // 3
    return f"{text[:head]}...{text[len(text) - (most - head - 3) :]}"


def _cut_between(text: str, most: int) -> str:
    """Return a text of at most so many characters, cut in its middle, where possible
    between two words.
    """
    if len(text) <= most:
        return text
    head = 2 * most // 3
    tail = most - head - len("...")
    begin = text[:head]
    end = text[-tail:]
    cut_word = len(begin) - begin.rfind(" ") - 1
    if cut_word <= LONGEST_NAME:
        begin = begin[: len(begin) - cut_word]
    cut_word = end.find(" ")
    if 0 <= cut_word <= LONGEST_NAME:
        end = end[cut_word:]
    return f"{begin}...{end}"


class UserError(Exception):
    """Bad usage or bad input, reported in one line: what was found, where, and what to
    do.

    The command line prints it on stderr and exits with status 2; a Python caller can
    catch it. Nothing else is ever caught: any other exception is a defect of this
    package.
    """

    def __init__(self, message: object = "") -> None:
        """Make an error.

        Args:
            message: The message; what it quotes may be long (`shortened`).
        """
        super().__init__(shortened(str(message)))


def installed_by(extra: str) -> str:
    """Return the command that installs an extra of this package: from its checkout, if
    it runs there.

    Args:
        extra: The name of the extra, such as `serve`.
    """
    checkout = Path(__file__).parents[1]
    package = checkout if (checkout / "pyproject.toml").is_file() else "rescore"
    return f"pip install '{package}[{extra}]'"


class OptionError(UserError):
    """An option is given where it has no meaning (`rescore.asked`)."""


class ServerError(UserError):
    """A server that computes for this process does not answer; it may answer later."""

    def __init__(self, found: str, advice: str) -> None:
        """Make an error.

        Args:
            found: What the server did.
            advice: What the user of a command or a function should do.
        """
        super().__init__(f"{found}; {advice}")
        self.found = shortened(found)
        self.advice = advice


MOST_NAMED = 3
"""Commands that a message names in the place of another."""


def takes_no(taker: str, option: str, others: Sequence[str] = ()) -> str:
    """Return the message about an option that a command or a function does not take.

    Args:
        taker: The command or the function, perhaps with an option of it.
        option: The option.
        others: The commands or functions that take it, the most usual first; the
            message names up to `MOST_NAMED` of them.
    """
    message = f"{taker} takes no {option}"
    if others:
        message += f"; give it to {' or '.join(others[:MOST_NAMED])}"
    return message


def counted(number: int, noun: str) -> str:
    """Return a number and its noun for a message.

    Args:
        number: The number.
        noun: The noun in the singular.

    Returns:
        For example `1 list`, `2,000 lists`, `3 hypotheses`, `0 log-probabilities`.
    """
    if number == 1:
        return f"1 {noun}"
    for ending, plural in _PLURALS.items():
        if noun.endswith(ending):
            return f"{number:,} {noun.removesuffix(ending)}{plural}"
    return f"{number:,} {noun}s"


def listed(
    names: Iterable[str], most: int = 8, room: int = 200, between: str = ", "
) -> str:
    """Return names in one line: the first of many, whole, and `...` for the rest.

    Args:
        names: The names.
        most: The number of names that are shown.
        room: Characters of the line, about; the first name is shown in any case.
        between: What stands between two names.

    Example:
        >>> listed(["text_0", "text_1", "text_2"], room=15)
        'text_0, text_1, ...'
    """
    every = list(names)
    shown = every[:most]
    while len(shown) > 1 and len(between.join(shown)) > room:
        shown.pop()
    if len(shown) < len(every):
        shown.append("...")
    return between.join(shown)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for a misspelled name.

    Args:
        name: The misspelled name.
        known: The names that exist.

    Returns:
        The end of a message, such as `; did you mean score?`; empty if no known name
        is close.
    """
    close = difflib.get_close_matches(name, known, n=1)
    if not close:
        return ""
    return f"; did you mean {close[0]}?"
