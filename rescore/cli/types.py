"""What options take: numbers within bounds, and names of the tables of parts."""

from __future__ import annotations

import re
from typing import Any

import click
from click.shell_completion import CompletionItem

from rescore import parts
from rescore.errors import UserError
from rescore.registry import Registry

LONG = 50
"""Columns that a list of names may take in the help before it goes into the text, which is wrapped."""


class Number(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A number within bounds; unlike click's own it is never NaN."""

    name = "number"

    def __init__(self, low: float, high: float, open_low: bool = False, open_high: bool = False) -> None:
        """Open bounds do not belong to the numbers allowed."""
        self._low, self._high, self._open_low, self._open_high = low, high, open_low, open_high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        low = number > self._low if self._open_low else number >= self._low
        high = number < self._high if self._open_high else number <= self._high
        if not (low and high):
            self.fail(f"{value} is not between {self._low:g} and {self._high:g}", param, ctx)
        return number


class BonusType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`tune` (True), `off` (False), or a number to use."""

    name = "bonus"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "tune|off|NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool | float:
        if value in ("off", "tune"):
            return bool(value == "tune")
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value}: neither tune nor off nor a number", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _beginning(incomplete, ["tune", "off"])


class OneOf(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A name of a table of parts; what is in the table is looked up when it is needed, and shown in the help."""

    name = "name"

    def __init__(self, table: Registry[Any]) -> None:
        self.table = table

    @property
    def names(self) -> list[str]:
        return self.table.names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        whole = f"[{'|'.join(self.names)}]"
        return whole if len(whole) < LONG else "NAME"

    @property
    def help(self) -> str:
        """The names, where they are too many for the metavar."""
        return f"One of: {', '.join(self.names)}." if len("|".join(self.names)) + 2 >= LONG else ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return self.table.check(value)
        except UserError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _beginning(incomplete, self.names)


class Field(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`ROLE=KEY`, as a pair."""

    name = "field"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        role, equals, key = str(value).partition("=")
        if not (role and equals and key.lstrip("-")):
            self.fail(f"{value!r} is not ROLE=KEY, such as text=hyp", param, ctx)
        return role, key


class StyleOrJson(OneOf):
    """A table style, or `json` for all figures."""

    def __init__(self) -> None:
        super().__init__(parts.STYLES)

    @property
    def names(self) -> list[str]:
        return [*self.table.names, "json"]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return "json" if value == "json" else super().convert(value, param, ctx)


class Words(click.types.StringParamType):
    """Any text; a shell completes it by the words and the paths that its metavar names."""

    def __init__(self, metavar: str, names: list[str]) -> None:
        """metavar: such as FILE, or `tune|off|NUMBER`. names: further words."""
        self._files = re.search(r"\b(FILE|DIR|NBEST|PATH|RESULTS|LISTS)\b", metavar) is not None
        self._names = [*names, *re.findall(r"(?:^|\|)([a-z][a-z0-9-]*)(?=$|\||\[)", metavar)]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = _beginning(incomplete, self._names)
        return [*found, CompletionItem(incomplete, type="file")] if self._files else found


def _beginning(text: str, names: list[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(text)]


class WithTable(click.Option):
    """An option whose help ends with what is in a table."""

    def __init__(self, *arguments: Any, table: OneOf, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.table = table.table

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        found = super().get_help_record(ctx)
        if found is None:
            return None
        about = "; ".join(f"{name}: {self.table.about(name)}" for name in self.table.names)
        return found[0], f"{found[1]} {about}."


class Renamed(click.Option):
    """An option whose help shows its first name alone: scripts use the former names for another release."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        found = super().get_help_record(ctx)
        return None if found is None else (self.opts[0], found[1])
