"""What to do where lists lack a column of scores. Names of columns are those of
`rescore.nbest`.
"""

from __future__ import annotations

from collections.abc import Collection

from rescore.parts import EXPANSIONS

ADDED_BY = {
    "listed": "it counts listed words: give --words FILE, to `rescore score` as well",
    "tokens": "add it with `rescore score --count-tokens`",
}


def missing(name: str, present: Collection[str]) -> str:
    """The error about a list that lacks a column and has those of `present`, and what
    to do.
    """
    return (
        f"no score {name!r} (found: {', '.join(sorted(present)) or 'none'});"
        f" {advice(name)}"
    )


def advice(name: str) -> str:
    """What to do where lists lack a column."""
    if name in ADDED_BY:
        return ADDED_BY[name]
    options = [
        f"--{option}" for option, part in EXPANSIONS.loaded() if name in part.adds
    ]
    if options:
        return (
            f"add it with {' or '.join(options)}, and the --words that weights were"
            " tuned with, if there were any"
        )
    return (
        "`rescore score LISTS --lm MODEL -o FILE` (or `rescore run -o FILE`) writes a"
        " FILE with it; give this FILE"
    )
