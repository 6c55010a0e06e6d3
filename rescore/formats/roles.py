"""Which keys of a record, or columns of a table, hold the texts, the scores, the ids,
the references and the source texts: usual names, or the names that --field gives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rescore.columns import RANK
from rescore.errors import UserError
from rescore.formats.shapes import Shape
from rescore.options import Declared, option

PARTS = ("_score", "_scores", "_logprob", "_log_prob")
"""Endings of keys that hold parts of a score, such as `am_score`."""
PREDICTED = ("pred_text", "prediction", "predictions")
"""Keys of hypotheses beside which `text` is the reference."""
TEXTS = ("text", "transcript", "transcription", "sentence")
"""Keys of a text that is the only one beside an id: a reference or a source text."""
SYSTEM = "system="
"""The beginning of the role of a further system's texts; each system has a role of its
own.
"""
ROLES = ("id", "text", "score", "ref", "src")
"""What a key can mean; any other role is a new column of scores."""

# --- roles that --field gives --------------------------------------------------------


def _role(text: str) -> tuple[str, str]:
    """Return the role and the key of a value of --field."""
    role, equals, key = text.partition("=")
    if not (role and equals and key.lstrip("-")):
        raise ValueError(f"{text!r} is not ROLE=KEY, such as text=hyp")
    if text.startswith(SYSTEM):
        return text, key
    return role, key


def _by_role(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the key of each role.

    Raises:
        UserError: Two keys have one role.
    """
    keys: dict[str, str] = {}
    for role, key in pairs:
        if keys.setdefault(role, key) != key:
            raise UserError(
                f"--field {role}={keys[role]} and {role}={key}: give each role once"
            )
    return keys


@dataclass(frozen=True, kw_only=True)
class Fields(Declared):
    fields: Mapping[str, str] = option(
        {},
        "JSON, CSV, TSV: the key or column KEY holds the ROLE: text, score, id, ref,"
        " src, or a new column of scores. Example: text=hyp. With score=-KEY lower"
        " values are better.",
        "--field",
        metavar="ROLE=KEY",
        parse=_role,
        read=_by_role,
    )


class Signed(NamedTuple):
    """A key of numbers, and the sign that makes higher numbers better."""

    key: str
    sign: int

    @classmethod
    def of(cls, key: str) -> Signed:
        """Return the key of --field without its sign, and the sign.

        Args:
            key: A key; with a minus, lower values are better.
        """
        if key.startswith("-"):
            return cls(key.removeprefix("-"), -1)
        return cls(key, 1)


@dataclass(frozen=True, slots=True)
class Named:
    """The keys that --field names, by their roles."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """The keys of texts, ids, references and source texts."""
    score: Signed | None = None
    columns: Mapping[str, Signed] = field(default_factory=dict)
    """The keys of further columns, by the names of the columns."""
    systems: tuple[str, ...] = ()
    """The keys of all systems' texts."""
    places: tuple[str, ...] = ()
    """The keys that may be places within objects and lists."""

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Named:
        """Return the keys of each role.

        Args:
            fields: The values of --field.

        Raises:
            UserError: Several systems are named, but not the one whose texts count.
        """
        keys = {role: key for role, key in fields.items() if role in ROLES}
        score = keys.pop("score", None)
        systems = []
        columns = {}
        for role, key in fields.items():
            if role.startswith(SYSTEM):
                systems.append(key)
            elif role not in ROLES:
                columns[role] = Signed.of(key)
        if systems and keys.get("text") not in systems:
            raise UserError(
                "--field system=NAME names one of several systems; give the texts of"
                " this system: --field text=NAME"
            )
        every = [Signed.of(key).key for key in fields.values()]
        return cls(
            keys,
            None if score is None else Signed.of(score),
            columns,
            tuple(systems),
            tuple(filter(re.compile(r"[.\[]").search, every)),
        )

    @property
    def optional(self) -> dict[str, str]:
        """The keys that single records may lack, by their roles."""
        keys = {name: signed.key for name, signed in self.columns.items()}
        for role in ("ref", "src"):
            if role in self.keys:
                keys[role] = self.keys[role]
        return keys


# --- roles of the keys of a record ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roles:
    """The keys of a record, or the columns of a table, by their roles; None for a role
    that no key has.
    """

    text: str | None
    score: Signed | None
    id: str | None
    ref: str | None
    src: str | None
    rank: str | None
    parts: tuple[str, ...]
    """Keys of parts of the toolkit's score."""

    @property
    def told(self) -> dict[str, str]:
        """The keys whose names are not the names of their roles, by role."""
        keys = {"id": self.id, "text": self.text, "ref": self.ref, "src": self.src}
        told = {}
        for role, key in keys.items():
            if key is not None and key != role:
                told[role] = key
        if self.score is not None:
            key, sign = self.score
            if sign < 0:
                told["score"] = f"{key} (lower is better)"
            elif key != "score":
                told["score"] = key
        return told


class Layout:
    """Finds the roles of keys: those that --field names, else those with usual names.

    Args:
        shape: The usual names of a toolkit.
        generic: The usual names of all records.
        named: The keys that --field names.
    """

    def __init__(self, shape: Shape, generic: Shape, named: Named) -> None:
        self.shape = shape
        self.generic = generic
        self.named = named
        self._score = tuple(dict.fromkeys((*shape.score, *generic.score)))
        self._text_of_entries = tuple(dict.fromkeys((*shape.text, *generic.text)))
        self.known = self._all_known()
        """The keys that have a role, or usually have one: they are no fields."""
        self._roles: dict[tuple[Any, ...], Roles] = {}

    def _all_known(self) -> frozenset[str]:
        """Return the keys that have a role, or usually have one."""
        keys = {RANK, "audio_filepath", *PREDICTED, *TEXTS}
        for shape in (self.shape, self.generic):
            keys.update(shape.text, shape.score, shape.id, shape.ref, shape.src)
        named = self.named
        keys.update(named.keys.values(), named.systems)
        keys.update(signed.key for signed in named.columns.values())
        if named.score is not None:
            keys.add(named.score.key)
        return frozenset(keys)

    def of(self, value: Mapping[str, Any], is_entry: bool = False) -> Roles:
        """Return the roles of the keys of an object. Keys whose value is null have no
        role, but a key of hypotheses.

        Args:
            value: A record, or a hypothesis in the list of a record.
            is_entry: Whether the object is a hypothesis in the list of a record.
        """
        nulls = tuple(key for key, each in value.items() if each is None)
        names = (is_entry, nulls, *value)
        roles = self._roles.get(names)
        if roles is None:
            roles = self.roles(tuple(value), nulls, is_entry)
            self._roles[names] = roles
        return roles

    def roles(
        self,
        names: Collection[str],
        nulls: Collection[str] = (),
        is_entry: bool = False,
    ) -> Roles:
        """Return the roles of names.

        Args:
            names: The keys of a record, or the columns of a table.
            nulls: The keys whose value is null.
            is_entry: Whether the keys are of a hypothesis in the list of a record.
        """
        filled: dict[str, str] = {}
        for name in names:
            if name not in nulls:
                filled.setdefault(_lower(name), name)
        empty = {_lower(name): name for name in nulls}
        named = self.named
        texts = self._text_of_entries if is_entry else self.shape.text
        if "text" in named.keys:
            texts = (named.keys["text"], *(self._text_of_entries if is_entry else ()))
        text = _text_among(filled, empty, texts)
        # a score that is null is an error, not a score that is absent
        score = self._score_among({**empty, **filled}, text)
        parts = [name for name in names if name.endswith(PARTS) or name == "scores"]
        taken = {text, score.key if score else None}
        return Roles(
            text=text,
            score=score,
            id=self._among(filled, "id"),
            ref=_first(filled, self.references(text), text),
            src=self._among(filled, "src"),
            rank=filled.get(RANK),
            parts=tuple(name for name in parts if name not in taken),
        )

    def references(self, text: str | None) -> tuple[str, ...]:
        """Return the names of references beside hypotheses.

        Args:
            text: The key of the hypotheses.
        """
        if "ref" in self.named.keys:
            return (self.named.keys["ref"],)
        if text in PREDICTED:
            return (*self.shape.ref, "text")
        return self.shape.ref

    def _among(self, filled: Mapping[str, str], role: str) -> str | None:
        """Return the first key of a role that has a value."""
        if role in self.named.keys:
            return _first(filled, (self.named.keys[role],))
        names: tuple[str, ...] = getattr(self.shape, role)
        return _first(filled, names)

    def _score_among(self, every: Mapping[str, str], text: str | None) -> Signed | None:
        """Return the key of the scores; None if there are no scores."""
        named = self.named.score
        keys = self._score if named is None else (named.key,)
        sign = -1 if self.shape.scale == "cost" else 1
        if named is not None:
            sign = named.sign
        key = _first(every, keys, text)
        return None if key is None else Signed(key, sign)

    # --- texts beside ids ---

    def id_of(self, value: Mapping[str, Any]) -> str | None:
        """Return the key of the id of a record of texts; None if it has none.

        Args:
            value: The record.
        """
        return _first(_filled(value), (*self.shape.id, *self.generic.id))

    def text_of_role(self, value: Mapping[str, Any], role: str) -> str | None:
        """Return the key of the reference or source text of a record, which may have no
        hypotheses; None if it has no such text.

        Args:
            value: The record.
            role: `ref` or `src`.
        """
        filled = _filled(value)
        names = {_lower(name) for name in value}
        generic = self.generic
        usual = (*self.shape.ref, *generic.ref) if role == "ref" else generic.src
        others = {*generic.ref, *generic.src, *generic.score, RANK, *PREDICTED}
        is_alone = others.difference(TEXTS).isdisjoint(names)
        is_beside = role == "ref" and not names.isdisjoint(PREDICTED)
        if is_alone or is_beside:
            usual = (*usual, *TEXTS)
        return _first(filled, usual)


def _filled(value: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that have a value, by the names that are compared."""
    filled: dict[str, str] = {}
    for name, each in value.items():
        if each is not None:
            filled.setdefault(_lower(name), name)
    return filled


def _lower(name: str) -> str:
    """Return the name of a column as it is compared."""
    return name.lower().strip()


def _first(
    filled: Mapping[str, str], keys: Iterable[str], other: str | None = None
) -> str | None:
    """Return the first of some keys that a record has, as it stands there.

    Args:
        filled: The keys of the record, as they are compared.
        keys: The keys, in the order of preference.
        other: A key that has another role.
    """
    for key in keys:
        name = filled.get(_lower(key))
        if name is not None and name != other:
            return name
    return None


def _text_among(
    filled: Mapping[str, str], empty: Mapping[str, str], keys: Iterable[str]
) -> str | None:
    """Return the first key of hypotheses that has a value; a key whose value is null
    counts where no other key has a value, and before `text` where a system predicted
    nothing.
    """
    absent = None
    for key in map(_lower, keys):
        if key in filled:
            return filled[key]
        if key in empty and key in PREDICTED:
            return empty[key]
        absent = absent or empty.get(key)
    return absent
