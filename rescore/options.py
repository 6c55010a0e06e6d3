"""Options, declared once: a field of a dataclass with its help, range, group and flag.

The command line (`rescore.cli.bridge`), checks of values in Python, and the lists of
options in the docs are made from these declarations.

Example:
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Cutting(Declared):
    ...     size: int = option(10, "Words per line.", metavar="N", low=1)
    >>> [(field.name, field.about.help) for field in Cutting.declared()]
    [('size', 'Words per line.')]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar, get_type_hints

from rescore.errors import UserError
from rescore.parts import Registry

Group = TypeVar("Group")


@dataclass(frozen=True, slots=True)
class Option:
    """What the command line says of a field. The field's annotation gives the type, its
    default the default.
    """

    help: str = ""
    names: tuple[str, ...] = ()
    """`--name`, `-n`, or `--name/--no-name`; made from the field's name if empty.
    `--no-name` alone turns a field off whose default is True.
    """
    metavar: str | None = None
    choices: tuple[str, ...] | Registry[Any] | Callable[[], Registry[Any]] = ()
    """The values; a table of parts, or a function that makes one, is read when the
    option is used.
    """
    describes: Registry[Any] | None = None
    """A table whose parts the help describes."""
    low: float | None = None
    high: float | None = None
    """The least and the largest number."""
    required: bool = False
    argument: bool = False
    """Whether the command line has it as an argument, which its place names, and not as
    an option.
    """
    reads: bool = False
    """Whether the values are files that are read: no output may take their place."""
    writes: str = ""
    """Where `-` leads, stdout or stderr, if the values are files that are written."""
    group: str = ""
    """Title of the group in the help; the class's title if empty."""
    common: bool = False
    """Whether the option is among the few that most people need."""
    needs: str = ""
    """The field without which this option has no meaning."""
    parse: Callable[[str], Any] | None = None
    """Makes the value from what was typed. A ValueError or UserError says what is wrong
    with it.
    """
    read: Callable[[Any], Any] | None = None
    """Makes the field's value from the parsed value, after all options are checked:
    reads the file, for example.
    """
    nested: type[Any] | None = None
    """A declared class whose options stand in the place of this field."""
    parts: Registry[Any] | None = None
    """A table whose parts declare the options that stand in the place of this field,
    each in its class `Options`.
    """

    @property
    def table(self) -> Registry[Any] | None:
        """The table whose names are the values."""
        table = (
            self.choices
            if isinstance(self.choices, Registry | tuple)
            else self.choices()
        )
        return table if isinstance(table, Registry) else None

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that the option does not take; `name` is the field's. NaN is
        in no range.
        """
        if isinstance(self.choices, Registry):
            self.choices.check(value)
        elif (
            isinstance(self.choices, tuple)
            and self.choices
            and value not in self.choices
        ):
            raise UserError(
                f"{self.flag(name)} {value}: expected one of {', '.join(self.choices)}"
            )
        low, high = self.low, self.high
        if not ((low is None or value >= low) and (high is None or value <= high)):
            numbers = f"{low:g} on" if high is None else f"{low:g} to {high:g}"
            raise UserError(
                f"{self.flag(name)} {value}: expected a number from {numbers}"
            )

    def flag(self, name: str) -> str:
        """The option as users type it, for a field of this name."""
        return max(self.names or (f"--{name.replace('_', '-')}",), key=len)


def option(default: Any, help: str = "", *names: str, **about: Any) -> Any:  # noqa: A002 (as click calls it)
    """A field that is an option; `about` as in `Option`. A mapping or a class as
    default is made for each object.
    """
    metadata = {"option": Option(help, names, **about)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    if isinstance(default, Mapping):
        return field(
            default_factory=lambda: MappingProxyType(dict(default)), metadata=metadata
        )
    return field(default=default, metadata=metadata)


def read_file(default: Any, help: str = "", *names: str, **about: Any) -> Any:  # noqa: A002
    """An option whose values are files that are read."""
    return option(default, help, *names, **{"metavar": "FILE", "reads": True} | about)


def written_file(default: Any, help: str = "", *names: str, **about: Any) -> Any:  # noqa: A002
    """An option whose values are files that are written; `-` is stdout."""
    return option(
        default, help, *names, **{"metavar": "FILE", "writes": "stdout"} | about
    )


class Field(NamedTuple):
    """A field that is an option."""

    name: str
    title: str
    """Of its group in the help."""
    about: Option
    hint: Any
    """Its type."""
    default: Any

    def check(self, value: Any) -> None:
        """Refuse a value, or one of several, that the option does not take."""
        for element in (
            value if type(value) is tuple else () if value is None else (value,)
        ):
            self.about.check(self.name, element)


class Declared:
    """The base of dataclasses whose fields are options."""

    title: ClassVar[str] = "Options"
    """Of the fields' group in the help, where they name no group."""
    common: ClassVar[bool] = False
    """Whether all fields are among the few options that most people need."""

    def __post_init__(self) -> None:
        """Check each value. Subclasses check how their fields fit together, and call
        this method.
        """
        for declared_field in type(self).declared():
            declared_field.check(getattr(self, declared_field.name))

    @classmethod
    def declared(cls) -> tuple[Field, ...]:
        """The fields that are options; those of base classes come first."""
        return _declared(cls)  # type: ignore[arg-type]  # a class is hashable


@cache
def _declared(cls: type[Any]) -> tuple[Field, ...]:
    owner: dict[str, type[Declared]] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Declared):
            owner |= dict.fromkeys(vars(base).get("__annotations__", {}), base)
    hints = get_type_hints(cls)
    return tuple(
        Field(
            entry.name,
            about.group or owner[entry.name].title,
            replace(about, common=about.common or owner[entry.name].common),
            hints[entry.name],
            entry.default if entry.default is not MISSING else None,
        )
        for entry in fields(cls)
        if (about := entry.metadata.get("option")) is not None
    )


def _inner(entry: Field) -> list[Field]:
    """The options that stand in the place of a field: those of a nested class, or those
    of the parts of a table.
    """
    if entry.about.nested:
        return list(entry.about.nested.declared())
    inner: list[Field] = []
    for _, part in entry.about.parts.loaded() if entry.about.parts else ():
        if hasattr(part, "Options"):
            inner += part.Options.declared()
    return inner


def flattened(declared: Iterable[Field]) -> Iterator[Field]:
    """The options with those of nested classes and of parts in their places, in their
    group where they have none of their own. A name that several parts share is one
    option.
    """
    seen = set[str]()
    for entry in declared:
        entries = [entry]
        if entry.about.nested or entry.about.parts:
            inner = flattened(_inner(entry))
            entries = [
                one if one.title != Declared.title else one._replace(title=entry.title)
                for one in inner
            ]
        for option_field in entries:
            if option_field.name not in seen:
                seen.add(option_field.name)
                yield option_field


@dataclass(init=False)
class OptionValues:
    """The options of parts that are set, by name. Each part takes the options that its
    class `Options` declares.
    """

    values: dict[str, Any]

    def __init__(self, **values: Any) -> None:
        self.values = {
            name: value for name, value in values.items() if value is not None
        }

    def of(self, options: type[Group]) -> Group:
        """The options of one part."""
        names = [entry.name for entry in fields(options)]  # type: ignore[arg-type]
        return options(
            **{name: self.values[name] for name in names if name in self.values}
        )


def made(
    group: type[Group], declared: Iterable[Field], typed: Mapping[str, Any]
) -> Group:
    """An object of the values that were typed, by the names of fields."""
    return group(**dict(_values(declared, typed)))


def _values(
    declared: Iterable[Field], typed: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    for entry in declared:
        about = entry.about
        if about.nested:
            yield entry.name, made(about.nested, about.nested.declared(), typed)
        elif about.parts:
            values: dict[str, Any] = {}
            for inner in _inner(entry):
                for name, value in _values([inner], typed):
                    if value not in ((), inner.default):
                        inner.check(value)
                        values[name] = value
            yield entry.name, entry.hint(**values)
        elif entry.name in typed:
            value = typed[entry.name]
            if not about.read:
                yield entry.name, value
            elif value not in (None, ()):
                yield entry.name, about.read(value)


def as_json(options: Declared) -> dict[str, Any]:
    """The options that are set, flat, as JSON holds them: a file that was read by its
    path and digest.
    """
    result: dict[str, Any] = {}
    for entry in options.declared():
        value = getattr(options, entry.name)
        if entry.about.nested:
            result |= as_json(value)
        elif value != entry.default:
            result[entry.name] = (
                {"path": value.path, "digest": value.digest}
                if entry.about.read
                else value
            )
    return result


def from_json(group: type[Group], values: Mapping[str, Any]) -> Group:
    """The options that `as_json` wrote. A file that changed since it was read is an
    error.
    """
    known = [entry.name for entry in flattened(group.declared())]  # type: ignore[attr-defined]
    if unknown := values.keys() - set(known):
        raise UserError(f"option {min(unknown)} is none of {', '.join(known)}")
    return _restored(group, values)


def _restored(group: type[Group], values: Mapping[str, Any]) -> Group:
    restored: dict[str, Any] = {}
    for name, _, about, _, _ in group.declared():  # type: ignore[attr-defined]
        if about.nested:
            restored[name] = _restored(about.nested, values)
        elif name in values:
            restored[name] = (
                _same_file(about.read, values[name]) if about.read else values[name]
            )
    return group(**restored)


def _same_file(read: Callable[[Any], Any], recorded: Mapping[str, str]) -> Any:
    """The content of a file, if it is the recorded content."""
    content = read(recorded["path"])
    if content.digest != recorded["digest"]:
        raise UserError(
            f"{recorded['path']}: the file or the rules for reading it changed after"
            " tuning; tune again"
        )
    return content
