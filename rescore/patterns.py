"""Regular expressions that users and files give: RE2's, in time linear in the text, whatever the expression.

Python's own `re` tries alternatives one after another, which can take for ever: `((a+))+$` on thirty letters. RE2 has
no backreferences and no looking around, and `\\w` and `\\d` mean ASCII (`\\pL` is any letter):
https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from collections.abc import Callable

import re2

from rescore.errors import UserError

LONGEST = 1_000
"""Characters of an expression."""


def finder(expression: str, place: str) -> Callable[[str], str | None]:
    """A function that gives what a regular expression finds in a text: its first group, or all that it matches.

    The function gives None where the expression does not match, or its first group has no part in the match.

    Args:
        place: the option or file that has the expression, for messages.

    Raises:
        UserError: it is too long, or none.
    """
    if len(expression) > LONGEST:
        raise UserError(f"{place}: {expression[:60]!r} ... has {len(expression):,} characters, more than {LONGEST:,}")
    options = re2.Options()
    options.log_errors = False  # RE2 writes to stderr itself
    try:
        pattern = re2.compile(expression, options)
    except re2.error as error:
        (reason,) = error.args
        raise UserError(f"{place}: {expression!r} is not a regular expression of RE2 ({reason.decode()})") from None
    except UnicodeEncodeError:
        raise UserError(f"{place}: {expression!r} is not UTF-8") from None
    group = min(1, pattern.groups)

    def find(text: str) -> str | None:
        match = pattern.search(text)
        found: str | None = match[group] if match else None
        return found

    return find
