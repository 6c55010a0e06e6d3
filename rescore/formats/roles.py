"""Which keys of a record, or columns of a table, hold the texts, the scores, the ids,
the references and the source texts: usual names, or the names that --field gives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple

from rescore.columns import RANK
from rescore.errors import UserError, listed
from rescore.formats import paths
from rescore.formats.fields import holds_names
from rescore.formats.shapes import Shape
from rescore.formats.wide import (
    Match,
    by_number,
    is_matched,
    is_nearer,
    is_pattern,
    pairs,
    stars,
)
from rescore.options import Declared, OptionValues, option

PARTS = ("_score", "_scores", "_logprob", "_log_prob")
"""Endings of keys that hold parts of a score, such as `am_score`."""
PREDICTED = (
    *("pred_text", "prediction", "predictions", "pred", "predicted", "pred_str"),
    *("predicted_text", "predicted_transcript"),
    *("recognition", "recognized", "recognised", "recognized_text"),
)
"""Keys of hypotheses beside which `text` is the reference."""
HYPOTHESIS = ("hyp", "hypothesis", "hyp_text", "hypothesis_text")
"""Keys of hypotheses beside which `transcript` is the reference, and `text` may be."""
TEXTS = ("text", "transcript", "transcription", "sentence")
"""Keys of a text that is the only one beside an id: a reference or a source text."""
SYSTEM = "system="
"""The beginning of the role of a further system's texts; each system has a role of its
own.
"""
ROLES = ("id", "text", "score", "ref", "src", RANK)
"""What a key can mean; any other role is a new column of scores."""
PLACE_OF_SOUND = ("audio_filepath", "offset", "duration")
"""Keys of manifests that say where the sound of an utterance is."""
SEVERAL = ("text", "score")
"""Roles that several keys may have: the hypotheses of a record and their scores."""
OF_FILES = ("id", "ref", "src", RANK)
"""Roles that may have another key in each file: in the lists, and in files of
references, source texts or scores beside them.
"""
KeysOfRoles = Mapping[str, str | tuple[str, ...]]
"""The key, or the keys, of each role."""
NO_FIELDS: KeysOfRoles = MappingProxyType({})
"""What --field says if it is not given."""
MOST_KINDS = 1000
"""Kinds of records whose roles are remembered, at most."""

# --- roles that --field gives --------------------------------------------------------


def _role(text: str) -> tuple[str, str]:
    """Return the role and the key of a value of --field."""
    role, equals, key = text.partition("=")
    if not (role and equals and key.lstrip("-")):
        raise ValueError(f"{text!r} is not ROLE=KEY, such as text=hyp")
    if text.startswith(SYSTEM):
        return text, key
    return role, key


def _by_role(pairs: Iterable[tuple[str, str]]) -> KeysOfRoles:
    """Return the key of each role.

    Raises:
        UserError: Two keys have one role that a single key may have.
    """
    keys: dict[str, str | tuple[str, ...]] = {}
    for role, key in pairs:
        known = keys_of(keys, role)
        if key in known:
            continue
        if known and role not in (*SEVERAL, *OF_FILES):
            raise _given_twice(role, known[0], key)
        keys[role] = (*known, key) if known else key
    return keys


def _given_twice(role: str, key: str, other: str) -> UserError:
    """Return the error about two keys of one role."""
    return UserError(
        f"--field {role}={key} and {role}={other}: give each role once; text and score"
        " may have several columns, and id, ref and src one in each file"
    )


def systems_of(fields: KeysOfRoles) -> tuple[str, ...]:
    """Return the keys of all systems' texts, or of the names of systems.

    Args:
        fields: The values of --field.
    """
    systems: list[str] = []
    for role in fields:
        if f"{role}=".startswith(SYSTEM):  # Python gives the role alone
            systems += keys_of(fields, role)
    return tuple(systems)


def fields_of_texts(
    fields: KeysOfRoles, record: Mapping[str, Any], role: str
) -> dict[str, str]:
    """Return what --field says of a file beside lists: the keys that it has for ids,
    and for its references, source texts or ranks.

    Args:
        fields: The values of --field.
        record: The first record of the file, or the columns of a table.
        role: `ref` or `src`; `rank` for a file of scores.

    Raises:
        UserError: The file has two keys of one role.
    """
    own: dict[str, str] = {}
    for one in ("id", role):
        for key in keys_of(fields, one):
            if not has_key(record, key) or own.get(one) == key:
                continue
            if one in own:
                raise _given_twice(one, own[one], key)
            own[one] = key
    return own


def fields_of_scores(fields: KeysOfRoles, record: Mapping[str, Any]) -> dict[str, str]:
    """Return what --field says of a file of scores: its ids, ranks and columns.

    Args:
        fields: The values of --field.
        record: The first record of the file, or the columns of a table.

    Raises:
        UserError: The file has two keys of one role.
    """
    own = fields_of_texts(fields, record, RANK)
    for role in fields:
        (key, *_) = keys_of(fields, role)
        if is_new_column(role) and has_key(record, Signed.of(key).key):
            own[role] = key
    return own


def is_new_column(role: str) -> bool:
    """Return whether a role of --field is a new column of scores."""
    return role not in ROLES and not f"{role}=".startswith(SYSTEM)


def fields_of_lists(
    fields: KeysOfRoles,
    records: Iterable[Mapping[str, Any]],
    elsewhere: Iterable[str],
    take_fields: bool = True,
) -> KeysOfRoles:
    """Return what --field says of lists: all but the keys of ids, references, source
    texts and columns that files beside them have, and the lists lack. Lists in a format
    that knows its own keys lack all of them, unless --field says more of them.

    Args:
        fields: The values of --field.
        records: The first record of each file of lists, or the columns of a table.
        elsewhere: The keys that files beside the lists have.
        take_fields: Whether a format of the lists takes --field.
    """
    firsts = list(records)
    own_keys = take_fields or not set(OF_FILES).issuperset(fields)
    others = set()
    for key in elsewhere:
        known = any(has_key(record, Signed.of(key).key) for record in firsts)
        if not (known and own_keys):
            others.add(key)
    own: dict[str, str | tuple[str, ...]] = {}
    for role in fields:
        keys = keys_of(fields, role)
        if role in OF_FILES or is_new_column(role):
            keys = tuple(key for key in keys if key not in others)
        if keys:
            own[role] = keys if len(keys) > 1 else keys[0]
    return own


def has_key(record: Mapping[str, Any], key: str) -> bool:
    """Return whether a record has a value under a key of --field.

    Args:
        record: A record, or the columns of a table.
        key: A key, or a place within objects and lists.
    """
    if _lower(key) in _by_lower(record):
        return True
    try:
        return paths.first(record, (key,)) is not None
    except UserError:  # such as a column `No.` of another file
        return False


def keys_of(fields: KeysOfRoles, role: str) -> tuple[str, ...]:
    """Return the keys of a role; none if no key has it.

    Args:
        fields: The values of --field.
        role: The role.
    """
    keys = fields.get(role, ())
    return (keys,) if isinstance(keys, str) else tuple(keys)


FIELDS = "fields"
"""The option --field, as parts declare it."""


@dataclass(frozen=True, kw_only=True)
class Fields(Declared):
    fields: KeysOfRoles = option(
        {},
        "JSON, CSV, TSV: the key or column KEY holds the ROLE: text, score, id, ref,"
        " src, rank, system, or a new column of scores. Example: text=hyp. With"
        " score=-KEY lower values are better. Several columns of texts, such as text=h1"
        " text=h2 or text='h*', are a list; score=s1 score=s2 are their scores.",
        "--field",
        metavar="ROLE=KEY",
        parse=_role,
        read=_by_role,
    )


def given_fields(options: OptionValues | None) -> KeysOfRoles:
    """Return what --field says.

    Args:
        options: The options of formats, if there are any.
    """
    return {} if options is None else options.of(Fields).fields


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

    @property
    def told(self) -> str:
        """The key, and whether lower numbers are better."""
        return self.key if self.sign > 0 else f"{self.key} (lower is better)"


@dataclass(frozen=True, slots=True)
class Named:
    """The keys that --field names, by their roles."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """The keys of ids, references and source texts."""
    texts: tuple[str, ...] = ()
    """The keys of the hypotheses, or patterns of these, such as `h*`."""
    scores: tuple[Signed, ...] = ()
    """The keys of the scores, in the order of the hypotheses."""
    columns: Mapping[str, Signed] = field(default_factory=dict)
    """The keys of further columns, by the names of the columns."""
    systems: tuple[str, ...] = ()
    """The keys of all systems' texts; a single key holds the names of systems."""
    places: tuple[str, ...] = ()
    """The keys that may be places within objects and lists."""
    groups: Sequence[str] = ()
    """Keys that name groups of utterances in this call."""

    @classmethod
    def of(cls, fields: KeysOfRoles, groups: Sequence[str] = ()) -> Named:
        """Return the keys of each role.

        Args:
            fields: The values of --field.
            groups: Keys that name groups of utterances in this call.

        Raises:
            UserError: A key stands for several places, or two keys have one role.
        """
        keys = {}
        columns = {}
        every = []
        for role in fields:
            of_role = keys_of(fields, role)
            for key in of_role:
                if "[]" in key:
                    raise UserError(
                        f"--field {role}={key}: [] stands for several places; describe"
                        " the document with --shape FILE (docs/get-lists.md)"
                    )
                every.append(Signed.of(key).key)
            if role in OF_FILES:
                if len(of_role) > 1:
                    raise _given_twice(role, *of_role[:2])
                keys[role] = of_role[0]
            elif is_new_column(role):
                columns[role] = Signed.of(of_role[0])
        return cls(
            keys,
            keys_of(fields, "text"),
            tuple(map(Signed.of, keys_of(fields, "score"))),
            columns,
            systems_of(fields),
            tuple(filter(re.compile(r"[.\[]").search, every)),
            groups,
        )

    def check_systems(self, system: str | None) -> None:
        """Check that of several systems one is chosen.

        Args:
            system: The system whose rows are read, of a table in which a column names
                the system of each row.

        Raises:
            UserError: Several systems are named, but not the one whose texts count.
        """
        if len(self.systems) == 1 and system is None and self.texts != self.systems:
            raise UserError(
                f"--field system={self.systems[0]} says that rows are of several"
                " systems; give the table to combine or eval"
            )
        if len(self.systems) > 1 and not set(self.texts) & set(self.systems):
            raise UserError(
                "--field system=NAME names one of several systems; give the texts of"
                " this system: --field text=NAME"
            )

    @property
    def text(self) -> str | None:
        """The only key of the hypotheses; None if there is none, or several."""
        if len(self.texts) == 1 and not is_pattern(self.texts[0]):
            return self.texts[0]
        return None

    def with_places(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a record, or an object of a hypothesis, with the values of the places
        that --field names as keys of its own.

        Args:
            value: The record or object.
        """
        for key in self.places:
            if key in value:
                continue
            at_place = paths.first(value, (key,))
            if at_place is not None:
                value = {**value, key: at_place}
        return value

    @property
    def every(self) -> frozenset[str]:
        """All keys."""
        signed = (*self.scores, *self.columns.values())
        keys = {*self.keys.values(), *self.texts, *self.systems}
        return frozenset(keys.union(each.key for each in signed))

    @property
    def optional(self) -> dict[str, str]:
        """The roles of the keys that single records may lack, by these keys."""
        roles = {signed.key: name for name, signed in self.columns.items()}
        for role in ("ref", "src"):
            if role in self.keys:
                roles[self.keys[role]] = role
        if len(self.texts) > 1:
            roles |= dict.fromkeys(self.texts, "text")
            roles |= {signed.key: "score" for signed in self.scores}
        return {key: role for key, role in roles.items() if not is_pattern(key)}

    def matching(self, keys: Iterable[str], names: Collection[str]) -> list[Match]:
        """Return the names that keys of --field stand for: of a pattern such as `h*`,
        all names that match, and that no nearer key of --field has; of another key,
        the key. A pattern leaves out keys of names, such as `speaker` (`holds_names`);
        a pattern of texts also leaves out names of scores (`PARTS`).

        Args:
            keys: Keys or patterns of one role.
            names: The keys of a record, or the columns of a table.
        """
        chosen: dict[str, Match] = {}
        for place, key in enumerate(keys):
            if not is_pattern(key):
                chosen.setdefault(key, Match(key, place))
                continue
            nearer = [_lower(other) for other in self.every if is_nearer(other, key)]
            own = []
            for name in names:
                if holds_names(name, self.groups):
                    continue  # speaker is no score of s*
                if key in self.texts and _lower(name).endswith(PARTS):
                    continue  # h1_logprob is no text of h*
                matches = fnmatchcase(_lower(name), _lower(key))
                if matches and not is_matched(_lower(name), nearer):
                    own.append(Match(name, place, stars(_lower(name), _lower(key))))
            for match in by_number(own):
                chosen.setdefault(match.name, match)
        return list(chosen.values())


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
    wide: tuple[tuple[str, Signed | None], ...] = ()
    """The keys of the texts of a list, each with its score, if several keys of the
    record hold the hypotheses.
    """

    @property
    def told(self) -> dict[str, str]:
        """The keys whose names are not the names of their roles, by role."""
        keys = {"id": self.id, "text": self.text, "ref": self.ref, "src": self.src}
        told = {}
        for role, key in keys.items():
            if key is not None and key != role:
                told[role] = key
        if self.score is not None:
            told["score"] = self.score.told
        if self.wide:
            told["text"] = listed([key for key, _ in self.wide])
            scores = [score.told for _, score in self.wide if score is not None]
            told |= {"score": listed(scores)} if scores else {}
        if told.get("score") == "score":
            del told["score"]
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
        self._taken = {_lower(key) for key in named.every}
        self._roles: dict[tuple[Any, ...], Roles] = {}

    def _all_known(self) -> frozenset[str]:
        """Return the keys that have a role, or usually have one."""
        keys = {RANK, *PLACE_OF_SOUND, *PREDICTED, *TEXTS}
        for shape in (self.shape, self.generic):
            keys.update(shape.text, shape.score, shape.id, shape.ref, shape.src)
        return self.named.every | keys

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
            if len(self._roles) == MOST_KINDS:
                self._roles.clear()
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

        Raises:
            UserError: Several keys of texts have another number of scores.
        """
        filled = _by_lower([name for name in names if name not in nulls])
        empty = _by_lower(nulls)
        wide = () if is_entry else self._wide(names)
        text = self._text_among(filled, empty, is_entry)
        # the key of a score that is null keeps its role: a list lacks this score
        score = self._score_among({**empty, **filled}, text)
        taken = {text, score.key if score else None}
        parts = []
        for name in self._free(_by_lower(names)).values():
            is_part = name.endswith(PARTS) or name == "scores"
            if is_part and name not in taken:
                parts.append(name)
        return Roles(
            text=wide[0][0] if wide else text,
            score=score,
            id=self._among(filled, "id"),
            ref=self._reference_among(filled, wide[0][0] if wide else text),
            src=self._among(filled, "src"),
            rank=self._rank_among(filled),
            parts=tuple(parts),
            wide=wide,
        )

    def _rank_among(self, filled: Mapping[str, str]) -> str | None:
        """Return the key of the rank of a hypothesis."""
        if RANK in self.named.keys:
            return _first(filled, (self.named.keys[RANK],))
        return self._free(filled).get(RANK)

    def _free(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return the names that --field gives no role: such a key loses the role that
        it usually has.
        """
        taken = self._taken
        return {lower: name for lower, name in names.items() if lower not in taken}

    def _wide(self, names: Collection[str]) -> tuple[tuple[str, Signed | None], ...]:
        """Return the keys of several hypotheses, each with its score."""
        named = self.named
        texts = named.matching(named.texts, names)
        scores = named.matching([signed.key for signed in named.scores], names)
        if len(texts) < 2 and len(scores) < 2:
            return ()
        if not scores:
            return tuple((text.name, None) for text in texts)
        signs = {score.name: named.scores[score.option].sign for score in scores}
        wide = []
        for text, score in pairs(texts, scores):
            wide.append((text, Signed(score, signs[score])))
        return tuple(wide)

    def _text_among(
        self, filled: Mapping[str, str], empty: Mapping[str, str], is_entry: bool
    ) -> str | None:
        """Return the key of the hypotheses, or of the hypothesis that an object is."""
        named = self.named
        if named.texts and not is_entry:
            every = list({**filled, **empty}.values())
            texts = named.matching(named.texts, every)
            return _text_among(filled, empty, [text.name for text in texts])
        usual = self._text_of_entries if is_entry else self.shape.text
        if named.text is not None:
            text = _text_among(filled, empty, [named.text])
            if text is not None:
                return text
        return _text_among(self._free(filled), self._free(empty), usual)

    def _reference_among(
        self, filled: Mapping[str, str], text: str | None
    ) -> str | None:
        """Return the key of the references beside hypotheses."""
        if "ref" in self.named.keys:
            return _first(filled, (self.named.keys["ref"],))
        usual = self.shape.ref
        if text is not None and _lower(text) in PREDICTED:
            usual = (*usual, *TEXTS)
        elif text is not None and _lower(text) in HYPOTHESIS:
            usual = (*usual, "transcript", "transcription")
        return _first(self._free(filled), usual, text)

    def _among(self, filled: Mapping[str, str], role: str) -> str | None:
        """Return the first key of a role that has a value."""
        if role in self.named.keys:
            return _first(filled, (self.named.keys[role],))
        names: tuple[str, ...] = getattr(self.shape, role)
        if role == "id":
            names = (*names, *self.shape.id_else)
        return _first(self._free(filled), names)

    def _score_among(self, every: Mapping[str, str], text: str | None) -> Signed | None:
        """Return the key of the scores; None if there are no scores."""
        if self.named.scores:
            signed = self.named.scores[0]
            key = _first(every, (signed.key,), text)
            return None if key is None else Signed(key, signed.sign)
        key = _first(self._free(every), self._score, text)
        sign = -1 if self.shape.scale == "cost" else 1
        return None if key is None else Signed(key, sign)

    def alternatives(self, names: Collection[str]) -> list[tuple[str, list[str]]]:
        """Return roles that several columns of a table may have equally well, with the
        names of these columns; the first column is read.

        Args:
            names: The columns of a table.
        """
        free = self._free(_by_lower(names))
        roles = self.roles(names)
        found = []
        texts = [free[key] for key in (*HYPOTHESIS, *PREDICTED) if key in free]
        if not texts:
            # a text and a transcript: one of them may be the reference
            texts = [free[key] for key in TEXTS if key in free]
            texts = [name for name in texts if name != roles.ref]
        if not self.named.texts and len(texts) > 1:
            found.append(("text", texts))
        refs = [free[key] for key in self.shape.ref if key in free]
        is_hypothesis = roles.text is not None and _lower(roles.text) in HYPOTHESIS
        if roles.ref is None and is_hypothesis and "text" in free:
            refs = [free["text"]]
        is_asked = len(refs) > 1 or (refs and roles.ref is None)
        if "ref" not in self.named.keys and is_asked:
            found.append(("ref", refs))
        return found

    # --- texts beside ids ---

    def id_of(self, value: Mapping[str, Any]) -> str | None:
        """Return the key of the id of a record of texts; None if it has none.

        Args:
            value: The record.
        """
        filled = _filled(value)
        if "id" in self.named.keys:
            return _first(filled, (self.named.keys["id"],))
        names = (*self.shape.id, *self.generic.id, *self.generic.id_else)
        return _first(self._free(filled), names)

    def text_of_role(self, value: Mapping[str, Any], role: str) -> str | None:
        """Return the key of the reference or source text of a record, which may have no
        hypotheses; None if it has no such text.

        Args:
            value: The record.
            role: `ref` or `src`.
        """
        filled = _filled(value)
        if role in self.named.keys:
            return _first(filled, (self.named.keys[role],))
        names = {_lower(name) for name in value}
        generic = self.generic
        usual = (*self.shape.ref, *generic.ref) if role == "ref" else generic.src
        others = {*generic.ref, *generic.src, *generic.score, RANK, *PREDICTED}
        is_alone = others.difference(TEXTS).isdisjoint(names)
        is_beside = role == "ref" and not names.isdisjoint(PREDICTED)
        if is_alone or is_beside:
            usual = (*usual, *TEXTS)
        return _first(self._free(filled), usual)


def _filled(value: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that have a value, by the names that are compared."""
    return _by_lower([name for name, each in value.items() if each is not None])


def _by_lower(names: Iterable[str]) -> dict[str, str]:
    """Return names by the names that are compared; of names that are equal without
    case, the first.
    """
    every: dict[str, str] = {}
    for name in names:
        every.setdefault(_lower(name), name)
    return every


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
