"""Keys: all that could change a stored thing, which is used again only where nothing
did.

`key_of` makes a key of declared options: an option is harmless
(`rescore.options.Option.harmless`), or it is in the key. `digest_of` does the same for
what was read: a field is left out of comparisons by its dataclass (`compare=False`), or
it is in the digest. So a new option or field is in all keys by its declaration alone.
`differences` says by name what changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rescore.files import sha256
from rescore.options import DIGITS, Declared, Field, OptionValues, flattened

Key = dict[str, Any]
"""Settings and inputs by name, as JSON holds them."""


class Difference(NamedTuple):
    """A setting or an input that is another than before."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        """The difference in words, such as `batch-tokens 100, now 200`."""
        return f"{self.name} {shown(self.before)}, now {shown(self.now)}"


def shown(value: Any) -> str:
    """Return a value of a key, as messages have it.

    Args:
        value: The value; None is the value of what was not given.
    """
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value)) or "none"
    return str(value)


def key_of(
    options: Declared,
    found: Mapping[str, Any] | None = None,
    without: Collection[str] = (),
) -> Key:
    """Return the key of options: the value of each option that is not harmless.

    A file or a folder is named by the digest of its content.

    Args:
        options: The options.
        found: What options came to, by name, in the place of their values: such as the
            digest of a text that was encoded. Other names are added to the key.
        without: The options whose effect `found` has under another name.
    """
    found = found or {}
    key: Key = dict(found)
    for entry, value in _values(options):
        left_out = entry.name in found or entry.name in without
        if not left_out and not entry.about.harmless:
            key[entry.name] = _as_content(entry, value, options)
    return key


def _values(options: Declared) -> Iterator[tuple[Field, Any]]:
    """Yield all options and their values, those of nested classes and parts, too."""
    for entry in type(options).declared():
        value = getattr(options, entry.name)
        if entry.about.nested:
            yield from _values(value)
        elif isinstance(value, OptionValues):
            for inner in flattened([entry]):
                yield inner, value.values.get(inner.name, inner.default)
        else:
            yield entry, value


def _as_content(entry: Field, value: Any, options: Declared) -> Any:
    """Return the value of an option as a key has it."""
    if isinstance(value, Mapping):
        return {name: str(item) for name, item in sorted(value.items())}
    if isinstance(value, Path):
        return digest_of_file(value)
    if not entry.about.reads:
        return _plain(value)
    if entry.name in options.files:
        return options.files[entry.name].digest
    if isinstance(value, tuple):
        return [digest_of_file(path) for path in value]
    return None if value is None else digest_of_file(value)


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(element) for element in value]
    return value


def digest_of_file(path: str | Path) -> str:
    """Return the digest of a file; of a folder, that of all files in it. A path that
    leads to neither is its own name.

    Args:
        path: The file or the folder.
    """
    place = Path(path)
    if place.is_file():
        return sha256(place).hex()[:DIGITS]
    if not place.is_dir():
        return str(path)
    digest = hashlib.sha256()
    for inner in sorted(place.rglob("*")):
        if inner.is_file():
            digest.update(str(inner.relative_to(place)).encode() + sha256(inner))
    return digest.hexdigest()[:DIGITS]


def digest_of(value: Any) -> str:
    """Return the digest of what was read: of all fields of dataclasses that count in
    comparisons, and of all that they hold.

    Args:
        value: A dataclass, a mapping, a sequence or a plain value.

    Returns:
        `DIGITS` hexadecimal digits.
    """
    return hashlib.sha256(repr(_written(value)).encode()).hexdigest()[:DIGITS]


PLAIN = {str, float, int, bool, type(None)}
"""The types of almost all values, whose text is unambiguous."""


def _written(value: Any) -> Any:
    """Return an object whose text is unambiguous."""
    if type(value) in PLAIN:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        names = [entry.name for entry in fields(value) if entry.compare]
        return [(name, _written(getattr(value, name))) for name in names]
    if isinstance(value, Mapping):
        return sorted((str(name), _written(item)) for name, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_written(item) for item in value]
    return value


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Return what differs between two keys, by name.

    Args:
        before: The key of what is stored. An absent entry is like None.
        now: The key of what is asked for now.
    """
    different = []
    for name in {**before, **now}:
        saved = before.get(name)
        wanted = now.get(name)
        if isinstance(saved, Mapping) and isinstance(wanted, Mapping):
            different += differences(saved, wanted)
        elif _plain(saved) != _plain(wanted):
            different.append(Difference(name.replace("_", "-"), saved, wanted))
    return different


def told(different: Sequence[Difference]) -> str:
    """Return differences in words, for messages.

    Args:
        different: The differences; at least one.
    """
    return "; ".join(map(str, different))
