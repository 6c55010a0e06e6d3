"""What commands are made of: types of values, groups of options, checks of outputs."""

from __future__ import annotations

import fnmatch
import logging
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from rescore import parts
from rescore.errors import UserError
from rescore.parts import Registry

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
        matching = _beginning(incomplete, self._names)
        return [*matching, CompletionItem(incomplete, type="file")] if self._files else matching


def _beginning(text: str, names: list[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(text)]


class WithTable(click.Option):
    """An option whose help describes each name of a table."""

    def __init__(self, *arguments: Any, table: OneOf, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.table = table.table

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        about = "; ".join(f"{name}: {self.table.about(name)}" for name in self.table.names)
        return record[0], _before_default(record[1], f" {about}.")


def _before_default(text: str, more: str) -> str:
    """Help of an option with more text before `[default: ...]` and the like."""
    about, brackets, rest = text.partition("  [")
    return f"{about}{more}{brackets}{rest}"


Command = TypeVar("Command", bound=Callable[..., Any])

MAIN = "Options"


def option_group(
    name: str, group: type[Any], title: str, options: list[Callable[[Command], Command]]
) -> Callable[[Command], Command]:
    """A decorator that gives a command some options together, as one argument: an object made of them.

    Args:
        name: of the argument. group: a dataclass with one field per option, and perhaps fields with a default, whose
            options other commands have. title: of these options in the help.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(**values: Any) -> Any:
            mine = {field.name: values.pop(field.name) for field in fields(group) if field.name in values}
            return command(**{name: group(**mine)}, **values)

        result: Any = wrapped
        before = len(getattr(command, "__click_params__", []))
        for option in reversed(options):
            result = option(result)
        for parameter in result.__click_params__[before:]:
            parameter.title = title
        return result

    return decorate


def _level(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        logging.getLogger("rescore").setLevel(logging.ERROR if parameter.name == "quiet" else logging.DEBUG)


class GroupedCommand(click.Command):
    """A command whose help shows options by what they are about, its own first."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params += [
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                expose_value=False,
                callback=_level,
                help="No messages but errors; results are still printed.",
            ),
            click.Option(
                ["-v", "--verbose"],
                is_flag=True,
                expose_value=False,
                callback=_level,
                help="Print more messages, such as notes on hypotheses that a list contains twice.",
            ),
        ]

        for parameter in self.params:
            if isinstance(parameter.type, click.types.StringParamType):
                names = parameter.table.names if isinstance(parameter, WithTable) else []
                parameter.type = Words(parameter.metavar or "", names)

    def invoke(self, ctx: click.Context) -> Any:
        check(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {MAIN: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                if isinstance(parameter.type, OneOf) and parameter.type.help and not isinstance(parameter, WithTable):
                    record = record[0], _before_default(record[1], f" {parameter.type.help}")
                groups.setdefault(getattr(parameter, "title", MAIN), []).append(record)
        # What every command has stands last.
        groups[MAIN].sort(key=lambda record: record[0].split(",")[0].split()[0] in ("-q", "-v", "-h"))
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


OUTPUTS = {
    "output", "best", "report", "table", "html", "curve", "save_weights", "tokens", "junit", "plot", "stamp",
    "respellings", "confidence",
}  # fmt: skip
"""Names of parameters that are written to."""
MAKE_FOLDERS = {"stamp"}
"""Of these the ones that make the folder they stand in."""
INPUTS = {
    "nbest", "outputs", "results", "pairs", "file", "ref", "dev", "dev_ref", "weights", "text", "golden", "glm", "gold",
    "segments", "recordings", "symbols", "others", "dev_with", "lm", "tokenizer", "config", "words", "lexicon",
    "channel", "propose_prompt", "ilm", "cascade",
}  # fmt: skip
"""Names of parameters that are read from."""


def check(ctx: click.Context) -> None:
    """Refuse two outputs to one file, and an output to a file that is read: the one would take the place of the other.
    And an output into a folder that there is not, before anything is computed for it.

    Links count as what they lead to. What is no file, such as /dev/null, may be given as often as one likes.

    Raises:
        UsageError: there are such.
    """
    files = {
        parameter.name for parameter in ctx.command.params if parameter.name and "FILE" in (parameter.metavar or "")
    }
    for option, value in _given(ctx, files & OUTPUTS - MAKE_FOLDERS):
        if value != "-" and not Path(value).absolute().parent.is_dir():
            folder = Path(value).parent
            raise click.UsageError(f"{option} {value}: there is no folder {folder} to write it in; make it first")
        if value != "-" and Path(value).is_dir():
            raise click.UsageError(f"{option} {value}: is a folder; give a file")
        if value != "-" and not os.access(
            Path(value) if Path(value).exists() else Path(value).absolute().parent, os.W_OK
        ):
            raise click.UsageError(f"{option} {value}: cannot be written (permission denied)")
    written: dict[str, str] = {}
    for option, value in _given(ctx, OUTPUTS):
        path = Path(value)
        if value != "-" and path.exists() and not (path.is_file() or path.is_dir()):
            continue
        place = "-" if value == "-" else _resolved(value)
        if place in written:
            where = "cannot both go to stdout" if value == "-" else f"both write to {value}"
            raise click.UsageError(f"{written[place]} and {option} {where}; give each a file of its own")
        written[place] = option
    for option, value in _given(ctx, INPUTS):
        # A language model's path stands behind its kind and options.
        for name in (value, *(value[at + 1 :] for at, letter in enumerate(value) if letter == ":")):
            for place, writer in written.items():
                read = _resolved(name)
                if "-" not in (place, name) and (place == read or fnmatch.fnmatch(place, read)):
                    raise click.UsageError(
                        f"{writer} would write over {value}, which {option} reads; give another file"
                    )


def _given(ctx: click.Context, names: set[str]) -> Iterator[tuple[str, str]]:
    """Options as they are typed, or arguments as the help names them, with each of their values."""
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if parameter.name not in names or value is None or isinstance(value, bool):
            continue
        named = isinstance(parameter, click.Option)
        shown = max(parameter.opts, key=len) if named else (parameter.metavar or parameter.name).strip(".[]")
        for item in [value] if isinstance(value, str) else value:
            yield shown, str(item)


def _resolved(value: str) -> str:
    """Where a path leads; a pattern stays one."""
    try:
        return str(Path(value).resolve())
    except (OSError, ValueError, RuntimeError):  # nothing that can be a file; whoever opens it says so
        return value
