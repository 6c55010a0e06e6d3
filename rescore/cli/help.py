"""How a command shows its options: by what they are about, its own first."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from rescore.cli.main import COMMANDS
from rescore.errors import takes_no
from rescore.options import Declared, Field

_SENTENCE = re.compile(r"[.] (?=[A-Z -])|  \[")
"""The end of the first sentence of a help text."""

INSTEAD = {
    (
        "run",
        "--weights",
    ): "run tunes weights; to apply weights: rescore rerank NBEST --weights FILE",
    (
        "rerank",
        "--lm",
    ): (
        "rerank reads scores in the lists; to add them: rescore score NBEST --lm MODEL"
        " -o FILE, or run"
    ),
    (
        "eval",
        "--table",
    ): (
        "eval writes no table; to make one: rescore eval OUTPUT --report FILE.json,"
        " then rescore report FILE.json -o TABLE.md"
    ),
} | {
    ("eval", name): "eval prints its figures; to write them as JSON: --report FILE"
    for name in ("-o", "--output")
}
"""What to use in the place of an option that a command lacks."""


def instead(command: str, flag: str, context: click.Context) -> str:
    """Return the message about an option that a command lacks.

    Args:
        command: The command.
        flag: The option as it is typed.
        context: The context of the command.

    Returns:
        One line; empty if no command has such an option.
    """
    if (command, flag) in INSTEAD:
        return INSTEAD[command, flag]
    able = []
    for name, other in COMMANDS.loaded():
        flags: set[str] = set()
        for parameter in other.get_params(context):
            flags.update(parameter.opts, parameter.secondary_opts)
        if flag in flags and flag.startswith("-"):
            able.append(name)
    if able:
        return takes_no(command, flag, able)
    return ""


def described(entry: Field, record: tuple[str, str], whole: bool) -> tuple[str, str]:
    """Return an option and its help: with all parts of its table, or on the screen of
    common options one sentence if it is no option of the command's own.

    Args:
        entry: The option.
        record: Its name and its text, as click has them.
        whole: Whether the whole help is shown.
    """
    name, text = record
    if not whole and entry.title != Declared.title:
        return name, _SENTENCE.split(text)[0].rstrip(".") + "."
    parts = _parts(entry, name)
    if not parts:
        return record
    about, brackets, rest = text.partition("  [")
    return name, f"{about} {parts}.{brackets}{rest}"


def _parts(entry: Field, name: str) -> str:
    """Return the parts of the table of an option, unless its name lists them."""
    described = entry.about.describes
    if described is not None:
        return "; ".join(f"{part}: {described.about(part)}" for part in described)
    table = entry.about.table
    if table is not None and "|".join(table) not in name:
        return f"One of: {', '.join(table)}"
    return ""


def groups(
    records: Iterable[tuple[Field | None, tuple[str, str]]], whole: bool
) -> dict[str, list[tuple[str, str]]]:
    """Return the options by the titles of their groups; of all groups on one screen,
    the common options.

    Options that every command has, which no field declares, stand behind the command's
    own.

    Args:
        records: The field of each option, None for options of every command, with its
            name and its text.
        whole: Whether the whole help is shown.
    """
    shown: dict[str, list[tuple[str, str]]] = {Declared.title: []}
    everywhere: list[tuple[str, str]] = []
    for entry, record in records:
        if entry is None:
            if whole or not record[0].startswith(("-q", "-v")):
                everywhere.append(record)
        elif whole or entry.about.common:
            title = entry.title if whole else Declared.title
            shown.setdefault(title, []).append(described(entry, record, whole))
    shown[Declared.title] += everywhere
    return shown
