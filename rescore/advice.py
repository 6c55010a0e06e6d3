"""What to do where lists lack a column of scores. Names of columns are those of `rescore.nbest`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rescore.parts import EXPANSIONS

ADDED_BY = {
    "listed": "it counts listed words: give --words FILE, to `rescore score` as well",
    "tokens": "add it with `rescore score --count-tokens`",
    "empty": "`rescore combine` adds it",
}
SYSTEMS = {"combine": "combine", "merged": "merge"}
"""The command that makes a system a column, by the model in the record of the column."""


def missing(name: str, present: Collection[str], models: Mapping[str, str]) -> str:
    """The error about a list that lacks a column, and what to do.

    Args:
        present: the columns that the list has. models: the model in the record of each column that the lists have.
    """
    return f"no score {name!r} (found: {', '.join(sorted(present)) or 'none'}); {advice(name, models)}"


def advice(name: str, models: Mapping[str, str]) -> str:
    """What to do where lists lack a column."""
    if name in ADDED_BY:
        return ADDED_BY[name]
    if options := [f"--{part}" for part in EXPANSIONS if name in EXPANSIONS[part].adds]:
        return f"add it with {' or '.join(options)}, and the --words that weights were tuned with, if there were any"
    if models.get(name) == "combine":
        return "new hypotheses have no votes: give lists of `rescore combine` without --recombine and --respell"
    for model, command in SYSTEMS.items():
        if model in models.values():
            return (
                f"if it is a system, give `rescore {command}` the same --name for dev and test; if it is a language "
                "model, add it with `rescore score`"
            )
    return "add it with `rescore score`"
