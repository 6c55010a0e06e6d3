"""The bridge to click: a command whose options are the fields of declared classes.

@command("convert")
def convert(conversion: Conversion, inputs: InputOptions) -> None: ...
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

from rescore.asked import ROADS, Call, Road, check_call, checked, stand_beside, typed
from rescore.config import RunConfig
from rescore.files import shown, together
from rescore.options import Declared, Field, Option, flattened, made, several
from rescore.values import ValueKind, kind_of

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
GIVEN = "rescore.options.given"
"""Key of a context: the names of the parameters that stand on the command line."""
MADE = "rescore.options.made"
"""Key of a context: the parameters of commands that were made."""
_ENTRY = "entry"


class Value(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A value of a declared field: the field says what a typed text means. A table of
    parts is read when a name is typed or the help is shown: a run does not look for the
    parts of other packages.
    """

    name = "text"

    def __init__(self, entry: Field) -> None:
        self._entry = entry

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the value of a text; a default is a value already."""
        if not isinstance(value, str):
            return value
        return self._entry.of_text(value)

    @property
    def _names(self) -> Sequence[str]:
        """The names that are values; empty if any text is one."""
        about = self._entry.about
        if isinstance(about.choices, tuple):
            return about.choices
        return list(about.table or ())

    def get_metavar(
        self, param: click.Parameter, ctx: click.Context | None = None
    ) -> str | None:
        """Return the names that an option has, or NAME if a table has many."""
        if not self._names:
            return None
        names = f"[{'|'.join(self._names)}]"
        if len(names) < LONG or self._entry.about.table is None:
            return names
        return "NAME"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin with what is typed."""
        return [
            CompletionItem(name) for name in self._names if name.startswith(incomplete)
        ]


@dataclass(frozen=True)
class Offer:
    """The fields of a declared class that a command offers as options."""

    declared: type[Declared]
    names: tuple[str, ...] = ()
    """Titles of the groups, and fields, that are offered; all fields if empty."""
    required: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Fields that are not offered."""
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What a field needs in this command, in the place of what it declares; by the
    title of a group, what its fields need that declare nothing.
    """

    def _declared(self) -> list[Field]:
        """The fields of the class; those with options of parts only if the command line
        may hold such options.
        """
        declared = self.declared.declared()
        if _parts_are_read():
            return list(declared)
        return [entry for entry in declared if entry.about.parts is None]

    @property
    def fields(self) -> list[Field]:
        """The offered options."""
        offered = []
        for entry in flattened(self._declared()):
            if self.names and {entry.title, entry.name}.isdisjoint(self.names):
                continue
            if entry.name in self.without:
                continue
            if entry.name in self.required:
                entry = entry._replace(about=replace(entry.about, required=True))
            offered.append(self._with_needs(entry))
        return offered

    def _with_needs(self, entry: Field) -> Field:
        """Return an option with what it needs in this command."""
        needs = self.needs.get(entry.name)
        if needs is None and not entry.about.needs:
            needs = self.needs.get(entry.title)
        if needs is None:
            return entry
        return entry._replace(about=replace(entry.about, needs=needs))

    def parameters(self) -> Iterator[click.Parameter]:
        """Yield the offered options as parameters of click."""
        for entry in self.fields:
            make = _argument if entry.about.argument else _option
            parameter = make(entry)
            setattr(parameter, _ENTRY, entry)
            yield parameter

    def make(self, ctx: click.Context) -> Any:
        """Return the object that the values of the command line give.

        Args:
            ctx: The context of the command, with the values.
        """
        typed = {}
        for entry in self.fields:
            if entry.name in ctx.meta[GIVEN]:
                typed[entry.name] = ctx.params[entry.name]
        return made(self.declared, self._declared(), typed)


def entry_of(parameter: click.Parameter) -> Field | None:
    """Return the declared field that a parameter is made of.

    Args:
        parameter: A parameter of a command.

    Returns:
        The field; None for the parameters that every command has.
    """
    return getattr(parameter, _ENTRY, None)


def _parts_are_read() -> bool:
    """Whether the command line may hold options of parts; else no part is imported for
    them.
    """
    context = click.get_current_context(silent=True)
    return context is None or bool(context.meta.get(PARTS, True))


def _argument(entry: Field) -> click.Argument:
    """Return a field as an argument of click."""
    hint = kind_of(entry.hint)
    settings: dict[str, Any] = {"default": entry.default}
    if hint.several:
        settings = {"nargs": -1}
    return click.Argument(
        [entry.name],
        metavar=_metavar(entry.about, hint.type),
        required=entry.about.required,
        type=Value(entry),
        **settings,
    )


def _option(entry: Field) -> click.Option:
    """Return a field as an option of click."""
    about = entry.about
    hint = kind_of(entry.hint)
    names = about.names or (about.flag(entry.name),)
    if hint.type is bool and not about.parse:
        settings = _settings_of_flag(entry, hint, names)
    else:
        settings = _settings_of_value(entry, hint)
    return click.Option(
        [entry.name, *names],
        help=_help(entry) or None,
        required=about.required,
        **settings,
    )


def _help(entry: Field) -> str:
    """Return what the help says of an option, with the range of whole numbers."""
    is_whole = kind_of(entry.hint).type is int
    if is_whole and str(entry.range):
        return f"{entry.about.help}  [{str(entry.range).strip()}]"
    return entry.about.help


def _settings_of_flag(
    entry: Field, hint: ValueKind, names: Sequence[str]
) -> dict[str, Any]:
    """Return how click treats an option without a value."""
    if len(names) == 1 and names[0].startswith("--no-"):
        return {"is_flag": True, "callback": lambda ctx, param, value: not value}
    if hint.optional:
        return {"is_flag": True, "default": None}
    return {"is_flag": True, "default": entry.default}


def _settings_of_value(entry: Field, hint: ValueKind) -> dict[str, Any]:
    """Return how click treats an option with a value."""
    about = entry.about
    kind = hint.type
    settings: dict[str, Any] = {
        "multiple": hint.several,
        "metavar": _metavar(about, kind),
    }
    if hint.several and entry.default:
        settings["default"] = entry.default
    if not (hint.optional or hint.several or about.required):
        settings |= {"default": entry.default, "show_default": True}
    if get_origin(kind) is tuple:  # of two values
        settings |= {"nargs": 2, "multiple": True, "callback": _single}
    settings["type"] = Value(entry)
    return settings


def _single(
    ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> tuple[str, str] | None:
    """Return the only value of an option that is not for several; click itself would
    silently take the last.
    """
    if len(value) > 1:
        raise click.UsageError(
            f"give {param.opts[0]} once; put the texts into one file for each language",
            ctx,
        )
    if value:
        return value[0]
    return None


def _metavar(about: Option, kind: Any) -> str | None:
    """Return what stands for a value in the help; None where the type says it."""
    return about.metavar or {int: "N", float: "NUMBER"}.get(kind)


class Command(click.Command):
    """A command whose help shows options by what they are about, its own first."""

    def __init__(
        self, name: str, function: Callable[..., Any], offers: Mapping[str, Offer]
    ) -> None:
        super().__init__(name, help=inspect.getdoc(function), params=_everywhere())
        self.function = function
        self.road = ROADS.get(name, Road(name))
        self._offers = offers

    def offers(self, ctx: click.Context) -> Mapping[str, Offer]:
        """Return the options, by the argument of the function that gets their values.

        Args:
            ctx: The context of the command.
        """
        return self._offers

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, arguments first. Parts that were registered meanwhile
        have their options among them.

        Args:
            ctx: The context of the command.
        """
        offers = self.offers(ctx).values()
        classes = tuple(offer.declared for offer in offers)
        key = (self.name, _parts_are_read(), classes)
        made = ctx.meta.setdefault(MADE, {})
        if key in made:
            return list(made[key])
        declared: list[click.Parameter] = []
        for offer in offers:
            declared += offer.parameters()
        declared.sort(key=lambda parameter: not isinstance(parameter, click.Argument))
        every = [*declared, *self.params]
        help_option = self.get_help_option(ctx)
        if help_option is not None:
            every.append(help_option)
        made[key] = every
        return list(every)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a command line. Options of parts are read only where there is an option
        that no declared class has: parts stay unloaded.

        Args:
            ctx: The context of the command, which gets the values.
            args: The words of the command line.

        Raises:
            UsageError: The command has no such option, or a value is wrong.
        """
        ctx.meta[PARTS] = False
        usual: set[str] = set()
        for parameter in self.get_params(ctx):
            usual.update(parameter.opts, parameter.secondary_opts)
        usual -= {*ctx.help_option_names, "--help-all"}
        options = [argument for argument in args if argument.startswith("-")]
        typed = {option.partition("=")[0] for option in options}
        ctx.meta[PARTS] = ctx.resilient_parsing or not typed <= usual
        try:
            values, _, order = self.make_parser(ctx).parse_args(list(args))
            _check_once(order, ctx)
            ctx.meta[GIVEN] = _given(values, order)
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = self.instead(ctx, error.option_name) or error.format_message()
            raise click.UsageError(message) from None

    def instead(self, ctx: click.Context, flag: str) -> str:
        """Return the message about an option that the command lacks.

        Args:
            ctx: The context of the command.
            flag: The option as it is typed.

        Returns:
            One line; empty if no command has the option.
        """
        # Here: most options are there, and this imports all commands.
        from rescore.cli.help import instead

        return instead(str(self.name), flag, ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, if its options go together.

        Args:
            ctx: The context of the command, with the values.

        Raises:
            OptionError: They do not.
        """
        call = self.call(ctx)
        needed: set[str] = set()
        for name in call.given:
            needed.update(call.options[name].about.needed)
        if not needed <= call.options.keys():  # a part may have the option
            were_read = ctx.meta[PARTS]
            ctx.meta[PARTS] = True
            call = self.call(ctx)
            ctx.meta[PARTS] = were_read
        check_call(call)
        written = [one for one in typed(call) if one.about.writes]
        outputs = [one.value for one in written if one.value != "-"]
        with together(outputs):
            made: dict[str, Any] = {}
            for key, offer in self.offers(ctx).items():
                made[key] = offer.make(ctx)
                if isinstance(made[key], RunConfig):
                    made[key] = checked(self.road, self._completed(made[key], ctx))
            return self.function(**made)

    def _completed(self, config: RunConfig, ctx: click.Context) -> RunConfig:
        """Return a config with the fields that options of other classes set."""
        beside = {}
        for name, option in self.road.set_by.items():
            beside[name] = ctx.params[option]
        if "dev" in beside:
            beside["dev"] = shown(", ".join(beside["dev"])) or None
        return replace(config, **beside)

    def call(self, ctx: click.Context) -> Call:
        """Return the options of a command line.

        Args:
            ctx: The context of the command, with the values.
        """
        entries = self.entries(ctx)
        given = {name: name for name in entries if name in ctx.meta[GIVEN]}
        return Call(self.road, entries, given, ctx.params)

    def entries(self, ctx: click.Context) -> dict[str, Field]:
        """Return the declared options by name.

        Args:
            ctx: The context of the command.
        """
        entries = {}
        for parameter in self.get_params(ctx):
            entry = entry_of(parameter)
            if entry is not None:
                entries[entry.name] = entry
        return entries

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the options by groups.

        Args:
            ctx: The context of the command.
            formatter: Gets the text.
        """
        from rescore.cli.help import groups

        shown = []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if isinstance(option, click.Option) and record:
                shown.append((entry_of(option), record))
        whole = bool(ctx.meta.get(WHOLE)) or len(shown) <= FEW
        for title, records in groups(shown, whole).items():
            with formatter.section(title):
                formatter.write_dl(records)


def is_typed(name: str) -> bool:
    """Return whether an option stands on the command line of the command that runs.

    Args:
        name: The field.
    """
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return False
    return name in ctx.meta[GIVEN]


def given_flags() -> dict[str, str]:
    """Return the options that stand on the command line of the command that runs: each
    as users know it, by its field.
    """
    call = _call_that_runs()
    return {name: call.named(name) for name in call.given}


def _call_that_runs() -> Call:
    """Return the options of the command that runs."""
    ctx = click.get_current_context()
    assert isinstance(ctx.command, Command)
    return ctx.command.call(ctx)


def refuse_beside(switch: str) -> None:
    """See that the options of the command that runs have a meaning beside a switch that
    the command sets by itself.

    Args:
        switch: The field of the switch.

    Raises:
        OptionError: An option has no meaning there.
    """
    call = _call_that_runs()
    given = {**call.given, switch: switch}
    stand_beside(replace(call, given=given, values={**call.values, switch: True}))


def show(text: str) -> None:
    """Print the table of the command that runs: to stdout, or to stderr where stdout is
    an output.

    Args:
        text: The table.
    """
    click.echo(text, err=stdout_is_output())


def stdout_is_output() -> bool:
    """Return whether an output of the command that runs goes to stdout."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or not isinstance(ctx.command, Command):
        return False
    for one in typed(ctx.command.call(ctx)):
        if one.about.writes == "stdout" and one.value == "-":
            return True
    return False


def _check_once(typed: Sequence[click.Parameter], ctx: click.Context) -> None:
    """See that an option of one file, or with `once`, is given once: click itself
    takes the last value.

    Args:
        typed: The parameters in the order of the command line.
        ctx: The context of the command.

    Raises:
        UsageError: Such an option is given twice.
    """
    for parameter in typed:
        entry = entry_of(parameter)
        if entry is None or isinstance(parameter, click.Argument):
            continue
        about = entry.about
        is_single = bool(about.reads or about.writes or about.once)
        times = typed.count(parameter)
        if is_single and not kind_of(entry.hint).several and times > 1:
            raise click.UsageError(
                f"{entry.named()} is given {times} times; give it once", ctx
            )


def _given(values: Mapping[str, Any], order: Sequence[click.Parameter]) -> set[str]:
    """Return the names of the parameters that stand on a command line. Releases of
    click differ in whether an argument without a value is among them.

    Args:
        values: What the parser read, by name.
        order: The parameters, as the parser met them.
    """
    names = set()
    for parameter in order:
        value = values[str(parameter.name)]
        is_empty = value == () or not isinstance(value, (str, tuple))
        if not (isinstance(parameter, click.Argument) and is_empty):
            names.add(str(parameter.name))
    return names


def lists_of_call() -> list[list[str]]:
    """Return the paths of all lists and texts of the command that runs, for each
    argument or option; none where no command runs.
    """
    ctx = click.get_current_context(silent=True)
    groups: list[list[str]] = []
    if ctx is None or not isinstance(ctx.command, Command):
        return groups
    for name, entry in ctx.command.entries(ctx).items():
        value = ctx.params.get(name)
        if entry.about.lists and value:
            groups.append(list(several(value)))
    return groups


def fields_of_call() -> list[str]:
    """Return the names that the command that runs takes as fields of the lists, such as
    the value of --by; a name may also be a file or an expression.
    """
    ctx = click.get_current_context(silent=True)
    values = [] if ctx is None else [ctx.params.get(name) for name in NAMING_FIELDS]
    return [value for value in values if value]


NAMING_FIELDS = ("by", "speaker")
"""The names of the parameters that may name a field of the lists."""


def typed_again(title: str | None, without: Container[str] = ()) -> list[str]:
    """Return the options of a group that stand on the command line of the command that
    runs, as words to type for another command that has the group.

    Args:
        title: The title of the group; None for all options.
        without: The names of options that are left out.
    """
    call = _call_that_runs()
    words = []
    for name in call.given:
        entry = call.options[name]
        if title not in (None, entry.title) or name in without:
            continue
        flag = entry.about.flag(name)
        value = call.values[name]
        if value is True:
            words.append(flag)
        elif value is not False:
            for one in several(value):
                words += [flag, _as_typed(one)]
    return words


def _as_typed(value: object) -> str:
    """Return a value as it was typed: a pair, such as one of --field, is NAME=VALUE."""
    if not isinstance(value, tuple):
        return str(value)
    name, own = value
    return name if name.endswith(f"={own}") else f"{name}={own}"


def command(
    name: str, kind: type[Command] = Command, /, **offers: Offer
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command; the help is the function's
    docstring.

    Each argument of the function is an object of a declared class, whose fields are
    options of the command.

    Args:
        name: The name of the command.
        kind: The class of the command.
        offers: The arguments of the function for which the command offers only some of
            the fields.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        classes = get_type_hints(function)
        classes.pop("return", None)
        every = {key: Offer(declared) for key, declared in classes.items()}
        return kind(name, function, every | offers)

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
            help="Print only errors and results.",
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
    """Set how much is said."""
    if not value:
        return
    level = logging.DEBUG
    if parameter.name == "quiet":
        level = logging.ERROR
    logging.getLogger("rescore").setLevel(level)


def _show_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print the whole help, and exit."""
    if value and not ctx.resilient_parsing:
        ctx.meta[WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
