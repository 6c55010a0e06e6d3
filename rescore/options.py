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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import (
    Any,
    ClassVar,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
    get_type_hints,
)

from rescore.errors import UserError
from rescore.files import parsed, sha256
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

    @property
    def files(self) -> Mapping[str, FileRecord]:
        """The files that values were read from, by the name of the option."""
        files: Mapping[str, FileRecord] = self.__dict__.get("_files", {})
        return files

    @classmethod
    def declared(cls) -> tuple[Field, ...]:
        """The fields that are options; those of base classes come first."""
        return _declared(cls)  # type: ignore[arg-type]  # a class is hashable


@dataclass(frozen=True, kw_only=True)
class NoOptions(Declared):
    """The options of a part that has none."""


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


class FileRecord(NamedTuple):
    """A file that an option read: its path as given, and a digest of its content."""

    path: str
    digest: str


class FileContent(NamedTuple):
    """The value that an option read from a file, and the record of the file."""

    content: Any
    record: FileRecord


def read_content(about: Option, path: str | Path) -> FileContent:
    """Return what an option reads from a file.

    The digest is the content's attribute `digest`, where it has one (then it may ignore
    what does not matter, such as an order of lines), else it is of the file's bytes.

    Args:
        about: An option that reads files (`Option.read`).
        path: The file.

    Raises:
        UserError: The file cannot be read.
    """
    assert about.read is not None
    content = about.read(path)
    digest = getattr(content, "digest", None)
    if digest is None:
        digest = sha256(Path(path)).hex()[:DIGITS]
    return FileContent(content, FileRecord(str(path), digest))


DIGITS = 12
"""Hexadecimal digits of a file's digest."""


@dataclass(init=False)
class OptionValues:
    """The options of parts that are set, by name. Each part takes the options that its
    class `Options` declares.
    """

    values: dict[str, Any]
    files: dict[str, FileRecord] = field(compare=False)
    """The files that values were read from."""

    def __init__(self, **values: Any) -> None:
        self.values = {}
        self.files = {}
        for name, value in values.items():
            if isinstance(value, FileContent):
                self.values[name], self.files[name] = value
            elif value is not None:
                self.values[name] = value

    @classmethod
    def of_part(cls, options: Declared) -> Self:
        """Return the values of one part's options."""
        names = [entry.name for entry in type(options).declared()]
        values = {name: getattr(options, name) for name in names}
        return cls(**_with_records(values, options.files))

    @property
    def entries(self) -> dict[str, Any]:
        """The values; those that were read from files as `FileContent`."""
        return _with_records(self.values, self.files)

    def as_json(self, options: type[Any]) -> dict[str, Any]:
        """Return the options of one part that are set, as JSON holds them: also those
        that are set to their defaults.
        """
        return as_json(self.of(options), also=self.values.keys())

    def of(self, options: type[Group]) -> Group:
        """Return the options of one part."""
        names = [entry.name for entry in fields(options)]  # type: ignore[arg-type]
        return _declared_with_files(
            options, {name: self.entries[name] for name in names if name in self.values}
        )


def _with_records(
    values: Mapping[str, Any], files: Mapping[str, FileRecord]
) -> dict[str, Any]:
    """Return values, those with a record as `FileContent`."""
    recorded = {name: FileContent(values[name], files[name]) for name in files}
    return {**values, **recorded}


def _declared_with_files(group: type[Group], values: Mapping[str, Any]) -> Group:
    """Return an object of a declared class that knows the files of its values."""
    plain: dict[str, Any] = {}
    files: dict[str, FileRecord] = {}
    for name, value in values.items():
        if isinstance(value, FileContent):
            plain[name], files[name] = value
        else:
            plain[name] = value
    declared = group(**plain)
    if files:
        object.__setattr__(declared, "_files", files)  # the class is frozen
    return declared


def made(
    group: type[Group], declared: Iterable[Field], typed: Mapping[str, Any]
) -> Group:
    """An object of the values that were typed, by the names of fields."""
    return _declared_with_files(group, dict(_values(declared, typed)))


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
                    inner.check(value)
                    values[name] = value
            yield entry.name, entry.hint(**values)
        elif entry.name in typed:
            value = typed[entry.name]
            if not about.read:
                yield entry.name, value
            elif value not in (None, ()):
                yield entry.name, _as_read(about, value)


def _as_read(about: Option, value: Any) -> Any:
    """Return what an option makes of a parsed value; of a file, with its record."""
    assert about.read is not None
    return read_content(about, value) if about.reads else about.read(value)


def settings_of(
    options: Declared, without: type[Declared] | None = None
) -> dict[str, str]:
    """Return options as a signature has them, by name.

    Each option is there, unless its value is None. A file is named by its digest.

    Args:
        options: The options of a part.
        without: A declared class whose options are left out.
    """
    left_out = [entry.name for entry in without.declared()] if without else []
    settings: dict[str, str] = {}
    for entry in type(options).declared():
        value = getattr(options, entry.name)
        name = entry.name.replace("_", "-")
        if value is None or entry.name in left_out:
            continue
        if entry.about.nested:
            settings |= settings_of(value)
        elif entry.about.read and entry.about.reads:
            settings[name] = _record(options, entry.name).digest
        elif isinstance(value, bool):
            settings[name] = "yes" if value else "no"
        elif isinstance(value, tuple):
            settings[name] = ",".join(map(str, value))
        else:
            settings[name] = f"{value:g}" if isinstance(value, float) else str(value)
    return settings


def as_json(options: Declared, also: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that differ from their defaults, flat, as JSON holds them: a
    file that was read by its path and digest.

    Args:
        options: The options of a part.
        also: Names of options that are returned in any case.

    Raises:
        UserError: A value was not read from a file, and does not know its file.
    """
    result: dict[str, Any] = {}
    for entry in options.declared():
        value = getattr(options, entry.name)
        if entry.about.nested:
            result |= as_json(value)
        elif value == entry.default and entry.name not in also:
            continue
        elif entry.about.read and entry.about.reads:
            result[entry.name] = _record(options, entry.name)._asdict()
        else:
            result[entry.name] = str(value) if isinstance(value, Path) else value
    return result


def _record(options: Declared, name: str) -> FileRecord:
    """Return the record of the file that an option was read from."""
    if name in options.files:
        return options.files[name]
    value = getattr(options, name)
    if hasattr(value, "path") and hasattr(value, "digest"):
        return FileRecord(str(value.path), value.digest)
    raise UserError(f"option {name}: give the path of its file, not its content")


def from_json(group: type[Group], values: Mapping[str, Any]) -> Group:
    """Return the options that `as_json` wrote.

    Raises:
        UserError: The class has no such option, or a value is of another type; a file
            changed since it was read.
    """
    known = [entry.name for entry in flattened(group.declared())]  # type: ignore[attr-defined]
    if unknown := values.keys() - set(known):
        raise UserError(f"option {min(unknown)} is none of {', '.join(known)}")
    return _restored(group, values)


def _restored(group: type[Group], values: Mapping[str, Any]) -> Group:
    restored: dict[str, Any] = {}
    for entry in group.declared():  # type: ignore[attr-defined]
        name, about = entry.name, entry.about
        if about.nested:
            restored[name] = _restored(about.nested, values)
        elif name in values and about.read and about.reads:
            restored[name] = _same_file(about, values[name])
        elif name in values and Path in (entry.hint, *get_args(entry.hint)):
            restored[name] = Path(values[name])
        elif name in values:
            restored[name] = parsed(values[name], entry.hint, f"option {name}")
    return _declared_with_files(group, restored)


def _same_file(about: Option, recorded: Mapping[str, str]) -> FileContent:
    """Return the content of a file, if it is the recorded content."""
    read = read_content(about, recorded["path"])
    if read.record.digest != recorded["digest"]:
        raise UserError(
            f"{recorded['path']}: the file or the rules for reading it changed after"
            " tuning; tune again"
        )
    return read
