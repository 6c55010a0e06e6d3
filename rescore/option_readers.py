"""Options of parts, and the parts that read them: an option that no chosen part reads
is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rescore.errors import OptionError
from rescore.options import Declared, Field, OptionValues, as_json, flattened
from rescore.parts import Registry


def check_read(
    chooser: str,
    table: Registry[Any],
    chosen: Collection[str],
    given: OptionValues,
    read_elsewhere: Collection[str] = (),
    python: bool = False,
    why: str = "",
) -> None:
    """See that one of the chosen parts reads each option of parts that is given.

    Args:
        chooser: The option that chooses a part, as users give it.
        table: The table of the parts.
        chosen: The names of the parts that are chosen.
        given: The options that are given.
        read_elsewhere: Options that something beside the parts reads.
        python: Whether messages name options as Python does.
        why: The end of the message: why these parts are chosen.

    Raises:
        OptionError: No chosen part reads an option that is given.
    """
    read = {*read_elsewhere}
    for name in chosen:
        read.update(entry.name for entry in options_of(table[name]))
    for name in _set(given):
        if name in read:
            continue
        able = []
        shown = name
        for part_name, part in table.loaded():
            for entry in options_of(part):
                if entry.name == name:
                    able.append(part_name)
                    shown = entry.about.flag(name)
        if python:
            shown = shown.strip("-").replace("-", "_")
        raise OptionError(f"{shown} needs {chooser} {' or '.join(able)}{why}")


def options_of(part: Any) -> list[Field]:
    """Return the options that a part declares in its class `Options`.

    Args:
        part: A part of any table; it may have no such class.
    """
    if not hasattr(part, "Options"):
        return []
    return list(flattened(part.Options.declared()))


def reads(part: Any, name: str) -> bool:
    """Return whether a part declares an option.

    Args:
        part: A part of any table.
        name: The field of the option.
    """
    return any(entry.name == name for entry in options_of(part))


def flags_set(table: Registry[Any], given: OptionValues) -> dict[str, str]:
    """Return the options of a table's parts that are set, as users type them, by name.

    Args:
        table: The table of the parts.
        given: The options.
    """
    names = _set(given)
    flags: dict[str, str] = {}
    for _, part in table.loaded():
        for entry in options_of(part):
            if entry.name in names:
                flags[entry.name] = entry.about.flag(entry.name)
    return flags


def _set(values: OptionValues) -> list[str]:
    """Return the names of the options that are set; of nested options, of those that
    differ from their defaults.
    """
    names: list[str] = []
    for name, value in values.values.items():
        if isinstance(value, Declared):
            names += as_json(value)
        else:
            names.append(name)
    return names
