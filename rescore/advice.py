"""Advice for lists that lack a column of scores. Names of columns are those of
`rescore.nbest`.
"""

from __future__ import annotations

from collections.abc import Collection

from rescore.parts import EXPANSIONS

ADDED_BY = {
    "listed": "it counts listed words: give --words FILE, to `rescore score` as well",
    "tokens": "add it with `rescore score --count-tokens`",
}
"""The advice on columns that an option adds."""


def missing(name: str, present: Collection[str]) -> str:
    """Return the error about a list that lacks a column, with advice.

    Args:
        name: The name of the column.
        present: The names of the columns that the list has.
    """
    names = ", ".join(sorted(present)) or "none"
    return f"no score {name!r} (found: {names}); {advice(name)}"


def advice(name: str) -> str:
    """Return what to do if lists lack a column.

    Args:
        name: The name of the column.
    """
    if name in ADDED_BY:
        return ADDED_BY[name]
    options = []
    for option, expansion in EXPANSIONS.loaded():
        if name in expansion.adds:
            options.append(f"--{option}")
    if options:
        return (
            f"add it with {' or '.join(options)}, and the --words that weights were"
            " tuned with, if there were any"
        )
    return (
        "`rescore score LISTS --lm MODEL -o FILE` (or `rescore run -o FILE`) writes a"
        " FILE with it; give this FILE"
    )
