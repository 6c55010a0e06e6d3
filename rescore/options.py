"""Options, declared once: a field of a dataclass with its help, range, group and flag.

A class of options inherits from `Declared`, and `option` makes its fields. The command
line (`rescore.cli.bridge`), checks of values in Python, and the lists of options in
the docs are made from these declarations.

Example:
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Cutting(Declared):
    ...     size: int = option(10, "Words per line.", metavar="N", low=1)
    >>> [(field.name, field.about.help) for field in Cutting.declared()]
    [('size', 'Words per line.')]
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
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

from rescore.errors import OptionError, UserError, did_you_mean
from rescore.files import parsed, sha256
from rescore.parts import Registry
from rescore.values import Range, in_words, is_of_kind, kind_of, of_text

Group = TypeVar("Group")

DIGITS = 12
"""Hexadecimal digits of a file's digest."""


class Suited(NamedTuple):
    """The values of a field with which another option has a meaning."""

    test: Callable[[str], bool]
    """Whether a value is one of them."""
    values: Callable[[], str]
    """The values, for messages."""


def several(value: Any) -> tuple[Any, ...]:
    """Return the values of an option that has one, several or none.

    Args:
        value: The value, a tuple of values, or None.
    """
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, slots=True)
class Option:
    """What the command line says of a field. The option has the type and the default of
    the field.
    """

    help: str = ""
    names: tuple[str, ...] = ()
    """`--name`, `-n`, or `--name/--no-name`; made from the field's name if empty.
    `--no-name` alone turns a field off whose default is True.
    """
    metavar: str | None = None
    choices: tuple[str, ...] | Registry[Any] | Callable[[], Registry[Any]] = ()
    """The values. A table of parts, or a function that returns a table, is read when
    the option is used.
    """
    describes: Registry[Any] | None = None
    """A table whose parts the help describes."""
    low: float | None = None
    """The least number."""
    high: float | None = None
    """The largest number."""
    required: bool = False
    argument: bool = False
    """Whether the command line has an argument without a name in place of an option."""
    reads: bool = False
    """Whether the values are files that are read: no output may take their place."""
    lists: bool = False
    """Whether the values are lists or texts: the options of formats are about them."""
    writes: str = ""
    """What `-` means, stdout or stderr, if the values are files that are written."""
    may_write: Callable[[str], object] | None = None
    """Raises an error for a path that cannot be written; called before anything is
    computed.
    """
    once: bool = False
    """Whether a second value is an error, because a user would expect both to act. An
    option of files that takes one file has this anyway.
    """
    group: str = ""
    """Title of the group in the help; the class's title if empty."""
    common: bool = False
    """Whether the option is among the few that most people need."""
    harmless: bool = False
    """Whether the value cannot change a figure, so that no signature contains it. The
    value of any other option changes the signature where it changes a figure.
    """
    needs: str | tuple[str, ...] = ()
    """The field without which this option has no meaning; of several fields, one is
    enough.
    """
    needs_value: tuple[str, ...] | Callable[[], Sequence[str]] = ()
    """The values of the needed field with which this option has a meaning; empty for
    all. `ray` stands for `ray` and `ray:ADDRESS`.
    """
    suits: Mapping[str, Suited] = field(default_factory=dict)
    """What a needed field's value must be, for single fields in the place of
    `needs_value`.
    """
    reads_only: tuple[str, ...] = ()
    """The fields and the titles of groups that have a meaning beside this option; empty
    for all.
    """
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
    def needed(self) -> tuple[str, ...]:
        """The fields of which one is needed."""
        if isinstance(self.needs, str):
            return (self.needs,)
        return self.needs

    @property
    def table(self) -> Registry[Any] | None:
        """The table whose names are the values; None if no table has the values."""
        if isinstance(self.choices, Registry):
            return self.choices
        if isinstance(self.choices, tuple):
            return None
        return self.choices()

    def flag(self, name: str) -> str:
        """Return the option as users type it, such as `--max-tokens`.

        Args:
            name: The name of the field.
        """
        if self.names:
            return max(self.names, key=len)
        return f"--{name.replace('_', '-')}"


def option(default: Any, help: str = "", *names: str, **about: Any) -> Any:  # noqa: A002 (as click calls it)
    """Return a field that is an option.

    Args:
        default: The default. A mapping is copied for each object; a class is called for
            each object.
        help: One sentence for the help.
        names: The names on the command line; made from the field's name if there are
            none.
        about: Further fields of `Option`.
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
    """Return a field that is an option whose values are files that are read.

    Args:
        default: The default.
        help: One sentence for the help.
        names: The names on the command line.
        about: Further fields of `Option`.
    """
    return option(default, help, *names, **{"metavar": "FILE", "reads": True} | about)


def written_file(default: Any, help: str = "", *names: str, **about: Any) -> Any:  # noqa: A002
    """Return a field that is an option whose values are files that are written; `-` is
    stdout.

    Args:
        default: The default.
        help: One sentence for the help.
        names: The names on the command line.
        about: Further fields of `Option`.
    """
    return option(
        default, help, *names, **{"metavar": "FILE", "writes": "stdout"} | about
    )


class Field(NamedTuple):
    """A field that is an option."""

    name: str
    title: str
    """Title of its group in the help."""
    about: Option
    hint: Any
    """Its type."""
    default: Any

    @property
    def range(self) -> Range:
        """The numbers that the option takes."""
        return Range(self.about.low, self.about.high)

    def named(self, python: bool = False) -> str:
        """Return the option, or the argument of a command, as users know it.

        Args:
            python: Whether it is an argument of a function.
        """
        if python:
            return self.name
        if self.about.argument:
            return (self.about.metavar or self.name).strip("[.]")
        return self.about.flag(self.name)

    def of_text(self, text: str) -> Any:
        """Return the value that a user typed; `check` says whether the option takes it.

        Args:
            text: What was typed.

        Raises:
            OptionError: The text says no value of this option.
        """
        table = self.about.table
        kind = kind_of(self.hint).type
        try:
            if self.about.parse:
                return self.about.parse(text)
            if table is not None:
                return table.check(text)
        except (ValueError, UserError) as error:
            raise OptionError(f"{self.named()}: {error}") from None
        try:
            return of_text(text, kind)
        except ValueError:
            expected = in_words(kind, self.range)
            raise OptionError(f"{self.named()} {text}: expected {expected}") from None

    def of_python(self, value: Any) -> Any:
        """Return the value that a function was given: a list, or the path of a file or
        its content.

        Args:
            value: The value.

        Raises:
            OptionError: The option does not take it.
            UserError: The file cannot be read.
        """
        kind = kind_of(self.hint)
        if kind.several and isinstance(value, list):
            value = tuple(value)
        if isinstance(value, str) and kind.type is Path:
            value = Path(value)
        if self.about.read and self.about.reads and isinstance(value, str | Path):
            return read_content(self.about, value)
        self.check(value, python=True)
        return value

    def check(self, value: Any, python: bool = False) -> None:
        """Raise an error for a value that the option does not take.

        Args:
            value: The value, or a tuple of values; None is the value of an option that
                is not set.
            python: Whether the message names the option as Python does.

        Raises:
            OptionError: A value is of another kind, none of the choices, or out of
                range.
        """
        if isinstance(value, FileContent):
            value = value.content
        if value is None:
            return
        if not is_of_kind(value, self.hint):
            expected = in_words(self.hint, self.range, value)
            if self.about.reads and self.about.read:
                expected = "the path of a file"
            raise OptionError(
                f"{self.named(python)} {value!r:.60}: expected {expected}"
            )
        values = value if type(value) is tuple else (value,)
        for element in values:
            self._check_one(element, python)

    def _check_one(self, value: Any, python: bool) -> None:
        """See that a value is one of the choices, and in the range.

        Raises:
            OptionError: It is not.
        """
        choices = self.about.choices
        if isinstance(choices, Registry):
            choices.check(value)
        elif isinstance(choices, tuple) and choices and value not in choices:
            raise OptionError(
                f"{self.named(python)} {value}: expected one of {', '.join(choices)}"
                f"{did_you_mean(str(value), choices)}"
            )
        if not self.range.holds(value):
            expected = in_words(kind_of(self.hint).type, self.range)
            raise OptionError(f"{self.named(python)} {value}: expected {expected}")


class Declared:
    """The base of dataclasses whose fields are options."""

    title: ClassVar[str] = "Options"
    """Title of the group in the help, for fields that name no group."""
    common: ClassVar[bool] = False
    """Whether all fields are among the few options that most people need."""

    def __post_init__(self) -> None:
        """Check each value. A subclass that checks how its fields fit together calls
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
        """Return the fields that are options; those of base classes come first."""
        return _declared(cls)  # type: ignore[arg-type]  # a class is hashable

    @classmethod
    def all_fields(cls) -> tuple[Field, ...]:
        """Return all fields: those that Python alone can set are declared by their type
        and default.
        """
        return _fields(cls)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class NoOptions(Declared):
    """The options of a part that has none."""


@cache
def _declared(cls: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a dataclass that are options."""
    options = {entry.name for entry in fields(cls) if "option" in entry.metadata}
    every: tuple[Field, ...] = _fields(cls)  # type: ignore[arg-type]
    return tuple(entry for entry in every if entry.name in options)


@cache
def _fields(cls: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a dataclass."""
    owner: dict[str, type[Declared]] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Declared):
            owner |= dict.fromkeys(vars(base).get("__annotations__", {}), base)
    hints = get_type_hints(cls)
    every = []
    for entry in fields(cls):
        if not entry.init:
            continue
        about = entry.metadata.get("option", Option())
        group = owner[entry.name]
        described = Field(
            entry.name,
            title=about.group or group.title,
            about=replace(about, common=about.common or group.common),
            hint=hints[entry.name],
            default=None if entry.default is MISSING else entry.default,
        )
        every.append(described)
    return tuple(every)


def _inner(entry: Field) -> list[Field]:
    """Return the options that stand in the place of a field: those of a nested class,
    or those of the parts of a table; empty for an option.
    """
    if entry.about.nested:
        return list(entry.about.nested.declared())
    inner: list[Field] = []
    if entry.about.parts:
        for _, part in entry.about.parts.loaded():
            if hasattr(part, "Options"):
                inner += part.Options.declared()
    return inner


def flattened(declared: Iterable[Field]) -> Iterator[Field]:
    """Yield the options, with those of nested classes and of parts in their places.

    An option without a group of its own is in the group of the field in whose place it
    stands. An option that several parts share is yielded once.

    Args:
        declared: The fields of a class of options.
    """
    seen = set[str]()
    for entry in declared:
        for option_field in _in_place_of(entry):
            if option_field.name not in seen:
                seen.add(option_field.name)
                yield option_field


def _in_place_of(entry: Field) -> Iterator[Field]:
    """Yield the options that stand in the place of a field, or the field itself."""
    if not entry.about.nested and not entry.about.parts:
        yield entry
        return
    for inner in flattened(_inner(entry)):
        if inner.title == Declared.title:
            yield inner._replace(title=entry.title)
        else:
            yield inner


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


@dataclass(init=False)
class OptionValues:
    """The options of parts that are set. Each part takes the options that its class
    `Options` declares.
    """

    values: dict[str, Any]
    """The value of each option, by name."""
    files: dict[str, FileRecord] = field(compare=False)
    """The files that values were read from."""

    def __init__(self, **values: Any) -> None:
        """Make an object of values by name; an option with the value None is not set.

        Args:
            values: The values. A `FileContent` is a value with its file.
        """
        self.values = {}
        self.files = {}
        for name, value in values.items():
            if isinstance(value, FileContent):
                self.values[name], self.files[name] = value
            elif value is not None:
                self.values[name] = value

    @classmethod
    def of_part(cls, options: Declared) -> Self:
        """Return the values of one part's options.

        Args:
            options: An object of the part's class `Options`.
        """
        names = [entry.name for entry in type(options).declared()]
        values = {name: getattr(options, name) for name in names}
        return cls(**_with_records(values, options.files))

    @property
    def entries(self) -> dict[str, Any]:
        """The values; a value that was read from a file is a `FileContent`."""
        return _with_records(self.values, self.files)

    def as_json(self, options: type[Any]) -> dict[str, Any]:
        """Return the options of one part that are set, as JSON holds them. Options that
        are set to their defaults are included.

        Args:
            options: The part's class `Options`.
        """
        return as_json(self.of(options), also=self.values.keys())

    def of(self, options: type[Group]) -> Group:
        """Return the options of one part as an object.

        Args:
            options: The part's class `Options`.
        """
        names = {entry.name for entry in fields(options)}  # type: ignore[arg-type]
        own = {name: value for name, value in self.entries.items() if name in names}
        return _declared_with_files(options, own)


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
    """Return an object of a class of options from the values that were typed.

    Args:
        group: The class of options.
        declared: The fields of the class.
        typed: The parsed values, by the names of fields.
    """
    return _declared_with_files(group, dict(_values(declared, typed)))


def _values(
    declared: Iterable[Field], typed: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the names and the values of fields from the values that were typed."""
    for entry in declared:
        about = entry.about
        if about.nested:
            yield entry.name, made(about.nested, about.nested.declared(), typed)
        elif about.parts:
            yield entry.name, entry.hint(**_values_of_parts(entry, typed))
        elif entry.name in typed:
            value = typed[entry.name]
            if not about.read:
                yield entry.name, value
            elif value not in (None, ()):
                yield entry.name, _as_read(about, value)


def _values_of_parts(entry: Field, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options of a table's parts, by name."""
    values: dict[str, Any] = {}
    for inner in _inner(entry):
        for name, value in _values([inner], typed):
            inner.check(value)
            values[name] = value
    return values


def _as_read(about: Option, value: Any) -> Any:
    """Return what an option makes of a parsed value; a file's content has a record."""
    assert about.read is not None
    if about.reads:
        return read_content(about, value)
    return about.read(value)


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
        else:
            settings[name] = _shown(value)
    return settings


def _shown(value: Any) -> str:
    """Return the value of an option as a signature has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(str(element) for element in value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def as_json(options: Declared, also: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that differ from their defaults, as JSON holds them.

    Options of nested classes stand beside the others. A file that was read is its path
    and digest.

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
        elif isinstance(value, Path):
            result[entry.name] = str(value)
        else:
            result[entry.name] = value
    return result


def _record(options: Declared, name: str) -> FileRecord:
    """Return the record of the file that an option was read from."""
    if name in options.files:
        return options.files[name]
    value = getattr(options, name)
    if hasattr(value, "path") and hasattr(value, "digest"):
        return FileRecord(str(value.path), value.digest)
    raise UserError(f"option {name}: give the path of its file, not its content")


def options_from_json(group: type[Group], values: Mapping[str, Any]) -> Group:
    """Return the options that `as_json` wrote, as an object.

    Args:
        group: The class of options.
        values: The options, as JSON holds them.

    Raises:
        UserError: The class has no such option, or a value is of another type; a file
            changed since it was read.
    """
    known = [entry.name for entry in flattened(group.declared())]  # type: ignore[attr-defined]
    unknown = values.keys() - set(known)
    if unknown:
        raise UserError(f"option {min(unknown)} is none of {', '.join(known)}")
    return _restored(group, values)


def _restored(group: type[Group], values: Mapping[str, Any]) -> Group:
    """Return an object of a class of options, without a check for unknown options."""
    restored: dict[str, Any] = {}
    for entry in group.declared():  # type: ignore[attr-defined]
        if entry.about.nested:
            restored[entry.name] = _restored(entry.about.nested, values)
        elif entry.name in values:
            restored[entry.name] = _restored_value(entry, values[entry.name])
    return _declared_with_files(group, restored)


def _restored_value(entry: Field, value: Any) -> Any:
    """Return the value of an option from the value that JSON holds."""
    if entry.about.read and entry.about.reads:
        return _same_file(entry.about, value)
    if Path in (entry.hint, *get_args(entry.hint)):
        return Path(value)
    return parsed(value, entry.hint, f"option {entry.name}")


def _same_file(about: Option, recorded: Mapping[str, str]) -> FileContent:
    """Return the content of a file, if it is the recorded content."""
    read = read_content(about, recorded["path"])
    if read.record.digest != recorded["digest"]:
        raise UserError(
            f"{recorded['path']}: the file or the rules for reading it changed after"
            " tuning; tune again"
        )
    return read
