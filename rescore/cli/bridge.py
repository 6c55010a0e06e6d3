"""The bridge to click: a command whose options are the fields of declared classes.

@command("convert")
def convert(conversion: Conversion, inputs: InputOptions) -> None: ...
"""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from rescore.cli import clashes
from rescore.errors import UserError
from rescore.options import Declared, Field, Option, flattened, made, parameter_name
from rescore.parts import Registry

LONG = 50
"""Columns that a list of names may take in the help before it goes into the text, which is wrapped."""
SCREEN = 45
"""Lines of a help text that is shown in full. Longer texts show the common options; `--help-all` shows all."""
WHOLE = "rescore.help.whole"
"""Key of a context: whether the whole help is shown."""
PARTS = "rescore.options.parts"
"""Key of a context: whether the options of parts (metrics, formats, decisions) are read."""
_ENTRY = "entry"


class Text(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A text, or what a function makes of it. A shell completes the words and the paths that the metavar names."""

    def __init__(
        self, metavar: str, parse: Callable[[str], Any] | None = None, names: Iterable[str] = (), name: str = "text"
    ) -> None:
        """metavar: such as FILE, or `tune|off|NUMBER`. names: further words. name: is shown where metavar is empty."""
        self.name, self._parse = name, parse
        self._files = re.search(r"\b(FILE|DIR|NBEST|PATH|RESULTS|LISTS)\b", metavar) is not None
        self._names = [*names, *re.findall(r"(?:^|\|)([a-z][a-z0-9-]*)(?=$|\||\[)", metavar)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value) if self._parse and isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        matching = [CompletionItem(name) for name in self._names if name.startswith(incomplete)]
        return [*matching, CompletionItem(incomplete, type="file")] if self._files else matching


@dataclass(frozen=True)
class Offer:
    """The fields of a declared class that a command offers as options."""

    declared: type[Declared]
    groups: tuple[str, ...] = ()
    """Titles of the groups that are offered; all groups if empty."""
    names: tuple[str, ...] = ()
    """Fields that are offered besides."""
    required: tuple[str, ...] = ()
    helps: Mapping[str, str] = field(default_factory=dict)
    """Help texts of the command's own, by field."""

    def _declared(self) -> list[Field]:
        """The fields of the class; those with options of parts only if the command line may hold such options."""
        return [entry for entry in self.declared.declared() if entry.about.parts is None or _parts_are_read()]

    @property
    def fields(self) -> list[Field]:
        """The offered options."""
        every = not (self.groups or self.names)
        return [
            entry._replace(about=self._about(entry))
            for entry in flattened(self._declared())
            if every or entry.title in self.groups or entry.name in self.names
        ]

    def _about(self, entry: Field) -> Option:
        required = entry.about.required or entry.name in self.required
        return replace(entry.about, required=required, help=self.helps.get(entry.name, entry.about.help))

    def parameters(self) -> Iterator[click.Parameter]:
        shared = dict[str, list[Field]]()
        for entry in self.fields:
            shared.setdefault(parameter_name(entry), []).append(entry)
        for name, entries in shared.items():
            parameter = _argument(name, entries[0]) if entries[0].about.argument else _option(name, entries)
            setattr(parameter, _ENTRY, entries[0])
            yield parameter

    def make(self, ctx: click.Context) -> Any:
        """The object that the values of the command line give."""
        entries = {entry.name: entry for entry in self.fields}
        for name, entry in entries.items():
            needed = entries.get(entry.about.needs)
            if needed and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE and not ctx.params[needed.name]:
                flag = f"{needed.about.flag(needed.name)} {needed.about.metavar or ''}".strip()
                raise click.UsageError(f"{entry.about.flag(name)} needs {flag}")
        offered = {name: ctx.params[name] for name in map(parameter_name, entries.values())}
        return made(self.declared, self._declared(), offered)


def entry_of(parameter: click.Parameter) -> Field | None:
    """The declared field that a parameter of a command is made of."""
    return getattr(parameter, _ENTRY, None)


def _parts_are_read() -> bool:
    """Whether the command line may hold options of parts; else no part is imported for them."""
    context = click.get_current_context(silent=True)
    return context is None or bool(context.meta.get(PARTS, True))


def _kind(hint: Any) -> tuple[Any, bool, bool]:
    """The type of a value, whether there may be none, and whether there may be several."""
    kinds = [part for part in get_args(hint) if part is not NoneType]
    optional = NoneType in get_args(hint)
    kind = kinds[0] if optional else hint
    several = get_origin(kind) is Mapping or (get_origin(kind) is tuple and get_args(kind)[-1] is ...)
    return get_args(kind)[0] if several else kind, optional, several


def _argument(name: str, entry: Field) -> click.Argument:
    about = entry.about
    kind, _, several = _kind(entry.hint)
    number: dict[str, Any] = {"nargs": -1} if several else {"default": entry.default}
    metavar = about.metavar or _metavar(about)
    return click.Argument([name], metavar=metavar, required=about.required, type=_type(kind, about), **number)


def _option(name: str, entries: Sequence[Field]) -> click.Option:
    """The option of a field, or of several fields that are values of one option."""
    entry = entries[0]
    about = entry.about
    kind, optional, several = _kind(entry.hint)
    names = about.names or (f"--{name.replace('_', '-')}",)
    metavar = about.metavar or _metavar(about) or ("N" if kind is int else None)
    shown: dict[str, Any] = {"help": about.help or None, "metavar": metavar, "required": about.required}
    if about.value:
        shown |= {"type": click.Choice([value.about.value for value in entries]), "multiple": about.repeated}
    elif kind is bool and not about.parse:
        shown |= {"is_flag": True}
        if names[-1].startswith("--no-") and len(names) == 1:
            shown |= {"callback": lambda ctx, param, value: not value}
        else:
            shown |= {"default": None if optional else entry.default}
    else:
        if not (optional or several or about.required):
            shown |= {"default": entry.default, "show_default": True}
        shown |= {"multiple": several}
        if get_origin(kind) is tuple and not about.parse:
            shown |= {"nargs": 2} if several else {"nargs": 2, "multiple": True, "callback": _single}
            kind = get_args(kind)[0]
        shown |= {"type": _type(kind, about)}
    return click.Option([name, *names], **shown)


def _single(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    """The only value of an option that is not for several; click itself would silently take the last."""
    if len(value) > 1:
        lm = f"--lm {ctx.params['lm']} takes {param.opts[0]}" if "lm" in ctx.params else f"give {param.opts[0]}"
        raise click.UsageError(f"{lm} once; put the texts into one file for each language", ctx)
    return value[0] if value else None


def _metavar(about: Option) -> str | None:
    """The names of the option's table, if they are few."""
    table = about.table
    names = f"[{'|'.join(table or ())}]"
    return None if table is None else names if len(names) < LONG else "NAME"


def _type(kind: Any, about: Option) -> Any:
    """click's type of values of a kind."""
    metavar = about.metavar or ""
    if about.parse:
        return Text(metavar, about.parse)
    if (table := about.table) is not None:
        return Text(metavar, partial(_name, table), table)
    if isinstance(about.choices, tuple) and about.choices:
        return click.Choice(list(about.choices))
    if kind is int:
        low, high = (None if bound is None else int(bound) for bound in (about.low, about.high))
        return click.IntRange(low, high)
    if kind is float:
        return Text(metavar, partial(_number, about), name="number")
    return Text(metavar, Path if kind is Path else None, about.describes or ())


def _name(table: Registry[Any], text: str) -> str:
    try:
        return table.check(text)
    except UserError as error:
        raise ValueError(str(error)) from None


def _number(about: Option, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not about.allows(number):
        low, high = (-math.inf if about.low is None else about.low), (math.inf if about.high is None else about.high)
        raise ValueError(f"{text} is not between {low:g} and {high:g}")
    return number


class Command(click.Command):
    """A command whose help shows options by what they are about, its own first."""

    def __init__(self, name: str, function: Callable[..., Any], offers: Mapping[str, Offer]) -> None:
        super().__init__(name, help=inspect.getdoc(function), params=_everywhere())
        self.function = function
        self._offers = offers

    def offers(self, ctx: click.Context) -> Mapping[str, Offer]:
        """The options, by the argument of the function that gets their values."""
        return self._offers

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Arguments first. Parts that were registered meanwhile have their options among them."""
        declared = [parameter for offer in self.offers(ctx).values() for parameter in offer.parameters()]
        declared.sort(key=lambda parameter: not isinstance(parameter, click.Argument))
        return [*declared, *self.params, *filter(None, [self.get_help_option(ctx)])]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options of parts are read only where there is an option that no declared class has: parts stay unloaded."""
        ctx.meta[PARTS] = False
        usual = {name for parameter in self.get_params(ctx) for name in (*parameter.opts, *parameter.secondary_opts)}
        usual -= {*ctx.help_option_names, "--help-all"}
        typed = {argument.partition("=")[0] for argument in args if argument.startswith("-")}
        ctx.meta[PARTS] = ctx.resilient_parsing or not typed <= usual
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        clashes.check(list(self._given(ctx)))
        return self.function(**{key: offer.make(ctx) for key, offer in self.offers(ctx).items()})

    def _given(self, ctx: click.Context) -> Iterator[clashes.Given]:
        """Options as they are typed, or arguments as the help names them, with each of their values."""
        for parameter in self.get_params(ctx):
            entry, value = entry_of(parameter), ctx.params.get(parameter.name or "")
            if entry is None or value is None or isinstance(value, bool):
                continue
            named = isinstance(parameter, click.Option)
            shown = max(parameter.opts, key=len) if named else (parameter.metavar or parameter.name or "").strip(".[]")
            for item in value if isinstance(value, tuple) else [value]:
                yield clashes.Given(shown, str(item), entry.about)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All options where they fit on a screen, or `--help-all` asks for them; else the common options."""
        if not ctx.meta.get(WHOLE):
            ctx.meta[WHOLE] = True
            trial = ctx.make_formatter()
            super().format_help(ctx, trial)
            ctx.meta[WHOLE] = trial.getvalue().count("\n") <= SCREEN
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from rescore.cli.help import groups

        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        shown = [(entry_of(option), record) for option in options if (record := option.get_help_record(ctx))]
        for title, records in groups(shown, whole=ctx.meta[WHOLE]).items():
            with formatter.section(title):
                formatter.write_dl(records)


def command(name: str, kind: type[Command] = Command, /, **offers: Offer) -> Callable[[Callable[..., Any]], Command]:
    """A decorator that makes a function a command; the help is the function's docstring.

    Each argument of the function is an object of a declared class, whose fields are options of the command. `offers`
    has the arguments for which the command offers some of the fields.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        classes = {key: hint for key, hint in get_type_hints(function).items() if key != "return"}
        return kind(name, function, {key: offers.get(key) or Offer(classes[key]) for key in classes})

    return decorate


def _everywhere() -> list[click.Parameter]:
    """The options of every command."""
    more = "Print more messages, such as notes on hypotheses that a list contains twice."
    flag = partial(click.Option, is_flag=True, expose_value=False)
    return [
        flag(["-q", "--quiet"], callback=_level, help="No messages but errors; results are still printed."),
        flag(["-v", "--verbose"], callback=_level, help=more),
        flag(["--help-all"], is_eager=True, callback=_show_all, help="Show all options, by group, and exit."),
    ]


def _level(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        logging.getLogger("rescore").setLevel(logging.ERROR if parameter.name == "quiet" else logging.DEBUG)


def _show_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
