"""Options that belong together: given to a command as one object, and shown together in its help."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

import click

from rescore.cli import paths
from rescore.cli.types import OneOf, WithTable, Words

Command = TypeVar("Command", bound=Callable[..., Any])

MAIN = "Options"


def bundled(
    name: str, bundle: type[Any], title: str, options: list[Callable[[Command], Command]]
) -> Callable[[Command], Command]:
    """A decorator that gives a command some options together, as one argument: an object made of them.

    Args:
        name: of the argument. bundle: a dataclass with one field per option. title: of these options in the help.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(**values: Any) -> Any:
            mine = {field.name: values.pop(field.name) for field in fields(bundle)}
            return command(**{name: bundle(**mine)}, **values)

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
                ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_level, help="No messages but errors."
            ),
            click.Option(
                ["-v", "--verbose"],
                is_flag=True,
                expose_value=False,
                callback=_level,
                help="More messages: what was looked up, what was left out.",
            ),
        ]

        for parameter in self.params:
            if isinstance(parameter.type, click.types.StringParamType):
                names = parameter.table.names if isinstance(parameter, WithTable) else []
                parameter.type = Words(parameter.metavar or "", names)

    def invoke(self, ctx: click.Context) -> Any:
        paths.check(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {MAIN: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                if isinstance(parameter.type, OneOf) and parameter.type.help:
                    record = record[0], f"{record[1]}  {parameter.type.help}"
                groups.setdefault(getattr(parameter, "title", MAIN), []).append(record)
        # What every command has stands last.
        groups[MAIN].sort(key=lambda record: record[0].split(",")[0].split()[0] in ("-q", "-v", "-h"))
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
