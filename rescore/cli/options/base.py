"""What commands are made of: types of values, groups of options, checks of outputs."""

from __future__ import annotations

import fnmatch
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from rescore.errors import UserError
from rescore.files import resolved
from rescore.options import Declared, Field, Option, flattened, made, parameter_name
from rescore.parts import Registry

LONG = 50
"""Columns that a list of names may take in the help before it goes into the text, which is wrapped."""
SHORT = 20
"""Columns of a default that the screen of common options shows."""


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


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A text from which a function makes the value; a shell completes it by the words that its metavar names."""

    name = "text"

    def __init__(self, parse: Callable[[str], Any], metavar: str) -> None:
        self._parse, self._completed = parse, Words(metavar, [])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._completed.shell_complete(ctx, param, incomplete)


class OneOf(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A name of a table of parts; what is in the table is looked up when it is needed, and shown in the help."""

    name = "name"

    def __init__(
        self, table: Registry[Any], names: Callable[[], Iterable[str]] | None = None, explained: bool = False
    ) -> None:
        """
        Args:
            names: the names that are shown and taken; all names of the table if it is None.
            explained: whether the command takes the other names of the table, too, and says why it refuses them.
        """
        self.table, self._names, self._explained = table, names, explained

    @property
    def names(self) -> list[str]:
        return self.table.names if self._names is None else list(self._names())

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        whole = f"[{'|'.join(self.names)}]"
        return whole if len(whole) < LONG else "NAME"

    @property
    def help(self) -> str:
        """The names, where they are too many for the metavar."""
        return f"One of: {', '.join(self.names)}." if len("|".join(self.names)) + 2 >= LONG else ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        table = (
            self.table
            if self._names is None or self._explained
            else Registry(self.table.kind, dict.fromkeys(self.names, ("", "")))
        )
        try:
            return table.check(value)
        except UserError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _beginning(incomplete, self.names)


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


class DeclaredOption(click.Option):
    """An option of the command line that is made of a declared field."""

    def __init__(self, names: list[str], entry: Field, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.entry = entry
        table = entry.about.describes or entry.about.choices
        self.table = OneOf(table) if isinstance(table, Registry) else None

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help: with all parts of its table, or on the screen of common options one sentence."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        if not ctx.meta.get(WHOLE):
            sentence, (_, bracket, default) = _SENTENCE.split(record[1])[0], record[1].partition("  [default: ")
            return record[0], f"{sentence.rstrip('.')}." + (f"{bracket}{default}" if len(default) < SHORT else "")
        if self.table is None:
            return record
        if not self.entry.about.describes:
            return _with_names(record, self.table)
        names = "; ".join(f"{name}: {self.table.table.about(name)}" for name in self.table.names)
        return _before_default(record, f"{names}.")


def _with_names(record: tuple[str, str], names: OneOf) -> tuple[str, str]:
    return _before_default(record, names.help) if names.help else record


def _before_default(record: tuple[str, str], more: str) -> tuple[str, str]:
    """An option and its help, with more text before `[default: ...]` and the like."""
    about, brackets, rest = record[1].partition("  [")
    return record[0], f"{about} {more}{brackets}{rest}"


_SENTENCE = re.compile(r"[.] (?=[A-Z -])|  \[")
"""The end of the first sentence of a help text."""


@dataclass(frozen=True)
class Offer:
    """The fields of a declared class that a command offers as options."""

    declared: Any
    groups: tuple[str, ...] = ()
    """Titles of the groups that are offered; all groups if empty."""
    names: tuple[str, ...] = ()
    """Fields that are offered besides."""
    without: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    helps: tuple[tuple[str, str], ...] = ()
    """Fields with a help text of the command's own."""

    @property
    def fields(self) -> list[Field]:
        every = [entry for entry in self.declared.declared() if entry.about.parts is None or _parts_are_asked()]
        offered = [entry for entry in every if entry.title in self.groups or entry.name in self.names]
        return [
            entry._replace(about=self._about(entry))
            for entry in (offered if self.groups or self.names else every)
            if entry.name not in self.without
        ]

    def _about(self, entry: Field) -> Option:
        required = entry.about.required or entry.name in self.required
        return replace(entry.about, required=required, help=dict(self.helps).get(entry.name, entry.about.help))

    def parameters(self) -> Iterator[click.Option]:
        shared = dict[str, list[Field]]()
        for entry in flattened(self.fields):
            shared.setdefault(parameter_name(entry), []).append(entry)
        for name, entries in shared.items():
            yield _parameter(name, entries)

    def make(self, typed: Mapping[str, Any]) -> Any:
        return made(self.declared, self.fields, typed)

    def check_needs(self, typed: Mapping[str, Any]) -> None:
        """
        Raises:
            UsageError: an option is given that has no meaning without another option, which is absent.
        """
        entries = {entry.name: entry for entry in flattened(self.fields)}
        context = click.get_current_context()
        for name, entry in entries.items():
            needed = entries.get(entry.about.needs)
            given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
            if needed and given and not typed[needed.name]:
                flag = f"{needed.about.flag(needed.name)} {needed.about.metavar or ''}".strip()
                raise click.UsageError(f"{entry.about.flag(name)} needs {flag}")


def _parts_are_asked() -> bool:
    """Whether the command line may hold options of parts; else no part is imported for them."""
    context = click.get_current_context(silent=True)
    return context is None or bool(context.meta.get(PARTS, True))


Command = TypeVar("Command", bound=Callable[..., Any])


def takes(**offers: Offer | type[Declared]) -> Callable[[Command], Command]:
    """A decorator that gives a command the options of declared classes. Each keyword is an argument of the command: an
    object made of the options' values."""
    made_of = {name: offer if isinstance(offer, Offer) else Offer(offer) for name, offer in offers.items()}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(**typed: Any) -> Any:
            for offer in made_of.values():
                offer.check_needs(typed)
            objects = {name: offer.make(typed) for name, offer in made_of.items()}
            offered = {parameter.name for offer in made_of.values() for parameter in offer.parameters()}
            return command(**objects, **{name: value for name, value in typed.items() if name not in offered})

        result: Any = wrapped
        result.offers = made_of
        return result

    return decorate


def _parameter(name: str, entries: Sequence[Field]) -> click.Option:
    """The option of the command line for a field, or for several fields that are values of one option."""
    entry = entries[0]
    about, default = entry.about, entry.default
    optional = NoneType in get_args(entry.hint)
    kind = next(part for part in get_args(entry.hint) if part is not NoneType) if optional else entry.hint
    several = get_origin(kind) is Mapping or (get_origin(kind) is tuple and get_args(kind)[-1] is ...)
    names = [name, *(about.names or [f"--{name.replace('_', '-')}"])]
    metavar = about.metavar or ("N" if kind is int else None)
    shown: dict[str, Any] = {"help": about.help or None, "metavar": metavar, "required": about.required}
    if about.value:
        values = click.Choice([value.about.value for value in entries])
        return DeclaredOption(names, entry, type=values, multiple=about.repeated, **shown)
    if kind is bool and not about.parse:
        if about.names and about.names[-1].startswith("--no-"):
            return DeclaredOption(names, entry, is_flag=True, callback=lambda ctx, param, value: not value, **shown)
        return DeclaredOption(names, entry, is_flag=True, default=None if optional else default, **shown)
    if not (optional or several or about.required):
        shown |= {"default": default, "show_default": True}
    if several:
        shown |= {"multiple": True}
        kind = get_args(kind)[0]
    if get_origin(kind) is tuple and not about.parse:
        shown |= {"nargs": 2} if several else {"nargs": 2, "multiple": True, "callback": _single}
        kind = get_args(kind)[0]
    return DeclaredOption(names, entry, type=_type(kind, about), **shown)


def _single(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    """The only value of an option that is not for several; click itself would silently take the last."""
    if len(value) > 1:
        raise click.UsageError(
            f"--lm {ctx.params['lm']} takes {param.opts[0]} once; put the texts into one file for each language", ctx
        )
    return value[0] if value else None


def _type(kind: Any, about: Option) -> Any:
    """click's type of values of a kind."""
    if about.parse:
        return Parsed(about.parse, about.metavar or "")
    if isinstance(about.choices, Registry):
        return OneOf(about.choices)
    if about.choices:
        return click.Choice(list(about.choices))
    if kind is int:
        low, high = (None if bound is None else int(bound) for bound in (about.low, about.high))
        return click.IntRange(low, high)
    if kind is float:
        least, most = (-math.inf if about.low is None else about.low), (math.inf if about.high is None else about.high)
        return Number(least, most, about.open_low, about.open_high)
    return Words(about.metavar or "", about.describes.names if about.describes else [])


MAIN = "Options"
WHOLE = "rescore.help.whole"
"""Key of a context: whether the whole help is shown."""
PARTS = "rescore.options.parts"
"""Key of a context: whether the options of parts (metrics, formats, decisions) are read."""
SCREEN = 45
"""Lines of a help text that is shown in full. Longer texts show the common options; `--help-all` shows all."""


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
            click.Option(
                ["--help-all"],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                callback=_show_all,
                help="Show all options, by group, and exit.",
            ),
        ]
        for parameter in self.params:
            if isinstance(parameter.type, click.types.StringParamType):
                parameter.type = Words(parameter.metavar or "", [])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[PARTS] = False
        usual = {name for parameter in self.get_params(ctx) for name in (*parameter.opts, *parameter.secondary_opts)}
        usual -= {*ctx.help_option_names, "--help-all"}
        typed = {argument.partition("=")[0] for argument in args if argument.startswith("-")}
        ctx.meta[PARTS] = ctx.resilient_parsing or not typed <= usual
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        arguments = [parameter for parameter in self.params if isinstance(parameter, click.Argument)]
        own = [parameter for parameter in self.params if not isinstance(parameter, click.Argument)]
        return [*arguments, *own, *self.declared_params(ctx), *filter(None, [self.get_help_option(ctx)])]

    def declared_params(self, ctx: click.Context) -> list[click.Option]:
        """The options of declared classes; parts that were registered meanwhile are among them."""
        offers: dict[str, Offer] = getattr(self.callback, "offers", {})
        return [parameter for offer in offers.values() for parameter in offer.parameters()]

    def invoke(self, ctx: click.Context) -> Any:
        check(ctx)
        return super().invoke(ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All options where they fit on a screen, or `--help-all` asks for them; else the common options."""
        if not ctx.meta.get(WHOLE):
            ctx.meta[WHOLE] = True
            trial = ctx.make_formatter()
            super().format_help(ctx, trial)
            ctx.meta[WHOLE] = trial.getvalue().count("\n") <= SCREEN
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        whole = ctx.meta[WHOLE]
        groups: dict[str, list[tuple[str, str]]] = {MAIN: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            entry = parameter.entry if isinstance(parameter, DeclaredOption) else None
            common = entry.about.common if entry else parameter.name not in ("quiet", "verbose")
            if record is not None and entry is None and isinstance(parameter.type, OneOf):
                record = _with_names(record, parameter.type)
            if record is not None and (whole or common):
                groups.setdefault(entry.title if entry and whole else MAIN, []).append(record)
        # Every command has these, so they stand last.
        groups[MAIN].sort(key=lambda record: record[0].split(",")[0].split()[0] in ("-q", "-v", "--help-all", "-h"))
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _show_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


OUTPUTS = {
    "output", "best", "report", "table", "html", "curve", "save_weights", "tokens", "junit", "stamp",
    "respellings", "confidence", "explain",
}  # fmt: skip
"""Names of parameters that are written to."""
TO_STDERR = "--explain"
"""The option that writes to stderr, not to stdout, for `-`."""
MAKE_FOLDERS = {"stamp"}
"""Of these the ones that make the folder they stand in."""
INPUTS = {
    "nbest", "outputs", "results", "pairs", "file", "ref", "dev", "dev_ref", "weights", "text", "golden", "gold",
    "segments", "recordings", "symbols", "others", "dev_with", "lm", "tokenizer", "config", "words", "lexicon",
    "channel", "systems",
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
        parameter.name
        for parameter in ctx.command.get_params(ctx)
        if parameter.name and "FILE" in (parameter.metavar or "")
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
        special = value != "-" and path.exists() and not (path.is_file() or path.is_dir())
        if special or (value == "-" and option == TO_STDERR):
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
                if "-" not in (place, name) and (place == read or _matches(place, name, read)):
                    raise click.UsageError(
                        f"{writer} would write over {value}, which {option} reads; give another file"
                    )


def _given(ctx: click.Context, names: set[str]) -> Iterator[tuple[str, str]]:
    """Options as they are typed, or arguments as the help names them, with each of their values."""
    for parameter in ctx.command.get_params(ctx):
        value = ctx.params.get(parameter.name or "")
        if parameter.name not in names or value is None or isinstance(value, bool):
            continue
        named = isinstance(parameter, click.Option)
        shown = max(parameter.opts, key=len) if named else (parameter.metavar or parameter.name).strip(".[]")
        for item in [value] if isinstance(value, str) else value:
            yield shown, str(item)


def _matches(place: str, name: str, read: str) -> bool:
    """Whether a pattern, which is not the name of a file itself, reads the file at `place`."""
    return not os.path.lexists(name) and fnmatch.fnmatch(place, read)


def _resolved(value: str) -> str:
    """Where a path leads; a pattern stays one."""
    try:
        return str(resolved(Path(value)))
    except (OSError, ValueError, RuntimeError):  # nothing that can be a file; whoever opens it says so
        return value
