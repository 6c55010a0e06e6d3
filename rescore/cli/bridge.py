"""The bridge to click: a command whose options are the fields of declared classes.

@command("convert")
def convert(conversion: Conversion, inputs: InputOptions) -> None: ...
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from rescore.errors import UserError
from rescore.options import Declared, Field, Option, flattened, made
from rescore.parts import Registry
from rescore.refusals import Typed, check_beside, check_files, check_needs, named

LONG = 50
"""Columns that a list of names may take in the help before it goes into the text, which
is wrapped.
"""
FEW = 12
"""Options that the help always shows. Of more options it shows the common ones;
`--help-all` shows all.
"""
WHOLE = "rescore.help.whole"
"""Key of a context: whether the whole help is shown."""
PARTS = "rescore.options.parts"
"""Key of a context: whether the options of parts (metrics, formats) are read."""
_ENTRY = "entry"


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """What a function makes of a text."""

    name = "text"

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self._parse = parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except (ValueError, UserError) as error:
            self.fail(str(error), param, ctx)


class PartName(Parsed):
    """The name of a part of a table. The table is read when a name is typed or the help
    is shown: a run does not look for the parts of other packages.
    """

    def __init__(self, table: Registry[Any]) -> None:
        super().__init__(table.check)
        self._table = table

    def get_metavar(
        self, param: click.Parameter, ctx: click.Context | None = None
    ) -> str:
        """Return the names of the table, or NAME if they are many."""
        names = f"[{'|'.join(self._table)}]"
        return names if len(names) < LONG else "NAME"


@dataclass(frozen=True)
class Offer:
    """The fields of a declared class that a command offers as options."""

    declared: type[Declared]
    names: tuple[str, ...] = ()
    """Titles of the groups, and fields, that are offered; all fields if empty."""
    required: tuple[str, ...] = ()

    def _declared(self) -> list[Field]:
        """The fields of the class; those with options of parts only if the command line
        may hold such options.
        """
        return [
            entry
            for entry in self.declared.declared()
            if entry.about.parts is None or _parts_are_read()
        ]

    @property
    def fields(self) -> list[Field]:
        """The offered options."""
        return [
            entry._replace(
                about=replace(
                    entry.about,
                    required=entry.about.required or entry.name in self.required,
                )
            )
            for entry in flattened(self._declared())
            if not self.names or {entry.title, entry.name} & {*self.names}
        ]

    def parameters(self) -> Iterator[click.Parameter]:
        for entry in self.fields:
            parameter = _argument(entry) if entry.about.argument else _option(entry)
            setattr(parameter, _ENTRY, entry)
            yield parameter

    def make(self, ctx: click.Context) -> Any:
        """The object that the values of the command line give."""
        typed = {}
        for entry in self.fields:
            if ctx.get_parameter_source(entry.name) is not ParameterSource.DEFAULT:
                typed[entry.name] = ctx.params[entry.name]
        return made(self.declared, self._declared(), typed)


def entry_of(parameter: click.Parameter) -> Field | None:
    """The declared field that a parameter of a command is made of."""
    return getattr(parameter, _ENTRY, None)


def _parts_are_read() -> bool:
    """Whether the command line may hold options of parts; else no part is imported for
    them.
    """
    context = click.get_current_context(silent=True)
    return context is None or bool(context.meta.get(PARTS, True))


def _kind(hint: Any) -> tuple[Any, bool, bool]:
    """The type of a value, whether there may be none, and whether there may be
    several.
    """
    kinds = [part for part in get_args(hint) if part is not NoneType]
    optional = NoneType in get_args(hint)
    kind = kinds[0] if optional else hint
    several = get_origin(kind) is Mapping or (
        get_origin(kind) is tuple and get_args(kind)[-1] is ...
    )
    return get_args(kind)[0] if several else kind, optional, several


def _argument(entry: Field) -> click.Argument:
    about = entry.about
    kind, _, several = _kind(entry.hint)
    number: dict[str, Any] = {"nargs": -1} if several else {"default": entry.default}
    return click.Argument(
        [entry.name],
        metavar=_metavar(about, kind),
        required=about.required,
        type=_type(kind, about),
        **number,
    )


def _option(entry: Field) -> click.Option:
    about = entry.about
    kind, optional, several = _kind(entry.hint)
    names = about.names or (about.flag(entry.name),)
    shown: dict[str, Any] = {"help": about.help or None, "required": about.required}
    if kind is bool and not about.parse:
        shown |= {"is_flag": True}
        if names[-1].startswith("--no-") and len(names) == 1:
            shown |= {"callback": lambda ctx, param, value: not value}
        else:
            shown |= {"default": None if optional else entry.default}
    else:
        if not (optional or several or about.required):
            shown |= {"default": entry.default, "show_default": True}
        shown |= {"multiple": several, "metavar": _metavar(about, kind)}
        if get_origin(kind) is tuple:
            kind = get_args(kind)[0]
            shown |= {"nargs": 2, "multiple": True, "callback": _single}
        shown |= {"type": _type(kind, about)}
    return click.Option([entry.name, *names], **shown)


def _single(
    ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> tuple[str, str] | None:
    """The only value of an option that is not for several; click itself would silently
    take the last.
    """
    if len(value) > 1:
        raise click.UsageError(
            f"give {param.opts[0]} once; put the texts into one file for each language",
            ctx,
        )
    return value[0] if value else None


def _metavar(about: Option, kind: Any) -> str | None:
    """Return what stands for a value in the help; None where the type says it."""
    return about.metavar or {int: "N", float: "NUMBER"}.get(kind)


def _type(kind: Any, about: Option) -> Any:
    """click's type of values of a kind. `Option.check` holds numbers to their range."""
    if about.parse:
        return Parsed(about.parse)
    if table := about.table:
        return PartName(table)
    if isinstance(about.choices, tuple) and about.choices:
        return click.Choice(list(about.choices))
    if kind is int:
        low, high = (
            None if bound is None else int(bound) for bound in (about.low, about.high)
        )
        return click.IntRange(low, high)
    return Parsed(Path) if kind is Path else float if kind is float else str


class Command(click.Command):
    """A command whose help shows options by what they are about, its own first."""

    def __init__(
        self, name: str, function: Callable[..., Any], offers: Mapping[str, Offer]
    ) -> None:
        super().__init__(name, help=inspect.getdoc(function), params=_everywhere())
        self.function = function
        self._offers = offers

    def offers(self, ctx: click.Context) -> Mapping[str, Offer]:
        """The options, by the argument of the function that gets their values."""
        return self._offers

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Arguments first. Parts that were registered meanwhile have their options
        among them.
        """
        declared = [
            parameter
            for offer in self.offers(ctx).values()
            for parameter in offer.parameters()
        ]
        declared.sort(key=lambda parameter: not isinstance(parameter, click.Argument))
        return [*declared, *self.params, *filter(None, [self.get_help_option(ctx)])]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options of parts are read only where there is an option that no declared
        class has: parts stay unloaded.
        """
        ctx.meta[PARTS] = False
        usual = {
            name
            for parameter in self.get_params(ctx)
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        usual -= {*ctx.help_option_names, "--help-all"}
        typed = {
            argument.partition("=")[0] for argument in args if argument.startswith("-")
        }
        ctx.meta[PARTS] = ctx.resilient_parsing or not typed <= usual
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = self.instead(ctx, error.option_name) or error.format_message()
            raise click.UsageError(message) from None

    def instead(self, ctx: click.Context, flag: str) -> str:
        """Return what to say of an option that the command lacks; an empty string if no
        command has the option.
        """
        from rescore.cli.help import instead  # here: most options are there

        return instead(str(self.name), flag, ctx)

    def invoke(self, ctx: click.Context) -> Any:
        check_files(list(self._typed(ctx)))
        entries = {}
        given = []
        for parameter in self.get_params(ctx):
            entry = entry_of(parameter)
            if entry is None:
                continue
            entries[entry.name] = entry
            source = ctx.get_parameter_source(entry.name)
            if source is ParameterSource.COMMANDLINE:
                given.append(entry.name)
        check_needs(entries, given, ctx.params)
        check_beside(str(self.name), entries, given, ctx.params)
        return self.function(
            **{key: offer.make(ctx) for key, offer in self.offers(ctx).items()}
        )

    def _typed(self, ctx: click.Context) -> Iterator[Typed]:
        """Yield the options as they are typed, and the arguments as the help names
        them, with each value.
        """
        for parameter in self.get_params(ctx):
            entry = entry_of(parameter)
            value = ctx.params.get(parameter.name or "")
            if entry is None or value is None or isinstance(value, bool):
                continue
            several = value if isinstance(value, tuple) else (value,)
            for one in several:
                yield Typed(named(entry), str(one), entry.about)

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        from rescore.cli.help import groups

        options = [
            option
            for option in self.get_params(ctx)
            if isinstance(option, click.Option)
        ]
        shown = [
            (entry_of(option), record)
            for option in options
            if (record := option.get_help_record(ctx))
        ]
        for title, records in groups(
            shown, whole=ctx.meta.get(WHOLE) or len(shown) <= FEW
        ).items():
            with formatter.section(title):
                formatter.write_dl(records)


def command(
    name: str, kind: type[Command] = Command, /, **offers: Offer
) -> Callable[[Callable[..., Any]], Command]:
    """A decorator that makes a function a command; the help is the function's
    docstring.

    Each argument of the function is an object of a declared class, whose fields are
    options of the command. `offers` has the arguments for which the command offers some
    of the fields.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        classes = {
            key: hint
            for key, hint in get_type_hints(function).items()
            if key != "return"
        }
        return kind(
            name,
            function,
            {key: offers.get(key) or Offer(classes[key]) for key in classes},
        )

    return decorate


def _everywhere() -> list[click.Parameter]:
    """The options of every command."""
    more = (
        "Print more messages, such as notes on hypotheses that a list contains twice."
    )
    flag = partial(click.Option, is_flag=True, expose_value=False)
    return [
        flag(
            ["-q", "--quiet"],
            callback=_level,
            help="No messages but errors; results are still printed.",
        ),
        flag(["-v", "--verbose"], callback=_level, help=more),
        flag(
            ["--help-all"],
            is_eager=True,
            callback=_show_all,
            help="Show all options, by group, and exit.",
        ),
    ]


def _level(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        logging.getLogger("rescore").setLevel(
            logging.ERROR if parameter.name == "quiet" else logging.DEBUG
        )


def _show_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
