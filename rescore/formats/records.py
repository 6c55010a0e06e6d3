"""Records with named fields: JSON Lines or one JSON list, of Hugging Face, Sockeye, or
with keys of your own.

A record is a list of hypotheses, in one of the forms

    {"sequences": ["a b", "a c"], "sequences_scores": [-1.2, -1.9]}
        texts and scores apart
    {"beams": [["a b", -1.2], ["a c", -1.9]]}                            pairs
    {"hypotheses": [{"text": "a b", "score": -1.2}, ...]}                objects
    {"id": "utt-1", "text": "a b", "score": -1.2}
        one hypothesis; further hypotheses of this id follow it

A row of a table is a record of the last form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted, listed
from rescore.formats import paths
from rescore.formats.fields import TextOfUtterance, fields_of
from rescore.formats.likely_ids import LikelyIds
from rescore.formats.objects import (
    Object,
    are_objects,
    are_tokens,
    json_objects,
    keys_in,
    objects_of,
)
from rescore.formats.roles import (
    PARTS,
    Fields,
    KeysOfRoles,
    Layout,
    Named,
    Roles,
    Signed,
    systems_of,
)
from rescore.formats.rows import Joins, Row, RowFormat
from rescore.formats.segments import is_seglst
from rescore.formats.shaped import words_of
from rescore.formats.shapes import records, shipped
from rescore.formats.source import (
    NULL,
    InputProblem,
    Place,
    ReadOptions,
    Source,
)
from rescore.formats.text import json_number, rank_of
from rescore.formats.understood import WORDS, tell_empty
from rescore.formats.wide import are_empty, left_scores, numbered
from rescore.ids import part_of

GENERIC = "json"
"""The shape of records with usual names."""
WITHOUT_TEXTS = InputProblem(
    "has no text in its columns of hypotheses",
    "have no text in their columns of hypotheses",
    "; read as an empty text",
)
EMPTY_FIRST = InputProblem(
    "is nothing, though it is the best and a later column has a text",
    "are nothing, though they are the best and a later column has a text",
    "; read as an empty text",
)


class Records(RowFormat):
    """A format of records.

    Args:
        name: The name of the format and of its shape.
        translates: Whether a toolkit of translation writes such records.
        place: Where the format stands in the order of detection.
    """

    Options = Fields

    def __init__(
        self, name: str, translates: bool = False, place: Place = Place.OWN_MARK
    ) -> None:
        self._name = name
        self.translates = translates
        self.place = place

    def toolkit(self) -> str:
        """Return the title of the shape, which is read when it is asked for."""
        return records()[self._name].title

    def sniff(self, source: Source) -> bool:
        """Return whether the first record has the keys that tell this layout."""
        if not source.peek.root or is_seglst(source.peek):
            return False
        return set(records()[self._name].needs) <= set(source.peek.keys)

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of each record.

        Args:
            source: JSON Lines, one JSON list or one JSON object. Records without an id
                are called after their place, from 1.
            options: The options of formats.

        Raises:
            UserError: A record has no hypotheses, or a value of a wrong type.
        """
        named = Named.of(options.of(Fields).fields, options.groups)
        reading = RecordReader(self._name, named, source, options)
        objects = _with_keys(json_objects(source), named, source.name)
        yield from reading.all_rows(objects)

    def texts(
        self, source: Source, role: str, fields: KeysOfRoles
    ) -> Iterator[TextOfUtterance]:
        """Yield the references or source texts of records, which may have hypotheses,
        too. A text without hypotheses beside it has any role.

        Args:
            source: JSON Lines, one JSON list or one JSON object.
            role: `ref` or `src`.
            fields: What --field says of the records.

        Yields:
            What each record says that has such texts.

        Raises:
            UserError: A text is no text.
        """
        layout = Layout(records()[self._name], records()[GENERIC], Named.of(fields))
        for record in json_objects(source):
            if not isinstance(record.value, dict):
                raise _no_object(record.value, record.place)
            text = text_of(layout, record, role)
            if text is not None:
                yield text
            elif layout.of(record.value, is_entry=True).text is None:
                keys = listed(record.value) or "none"
                raise UserError(
                    f"{record.place}: no text under the keys {keys}; say which key has"
                    f" the {WORDS[role]} with --field {role}=NAME"
                )


def text_of(layout: Layout, record: Object, role: str) -> TextOfUtterance | None:
    """Return the references or the source text of a record; None if it has none.

    Args:
        layout: The usual names.
        record: The record, or the row of a table.
        role: `ref` or `src`.

    Raises:
        UserError: A text is no text.
    """
    value: dict[str, Any] = record.value
    segments = value.get("supervisions")
    if segments and are_objects(segments):  # a cut of lhotse
        parts = [str(segment.get("text") or "") for segment in segments]
        value = {**value, "text": " ".join(parts)}
    value = layout.named.with_places(value)
    key = layout.text_of_role(value, role)
    if key is None:
        return None
    read = _references if role == "ref" else _sources
    texts = read(value[key], record.place)
    id_key = layout.id_of(value)
    name = str(record.number) if id_key is None else _identity(value, id_key)
    fields = fields_of(value, {*layout.known, key, id_key or key}, texts)
    return TextOfUtterance(name, texts, record.place, fields)


def system_of(value: Any, key: str) -> str | None:
    """Return the system that a record names; None without one.

    Args:
        value: The record, or the row of a table.
        key: The key or column of the system.
    """
    name = paths.first(value, (key,))
    if isinstance(name, (dict, list)):
        return None
    return " ".join(str(name or "").split()) or None


def options_by_system(path: str, options: ReadOptions) -> dict[str, ReadOptions]:
    """Return the options that read each system's rows of a file in which a key or
    column names the system of each row; nothing if no single `--field system=` does.

    Args:
        path: JSON, CSV or TSV.
        options: The options of formats.

    Raises:
        UserError: The file has no such key, or its values do not name systems.
    """
    systems = systems_of(options.of(Fields).fields)
    if len(systems) != 1:
        return {}
    (key,) = systems
    source = Source(path)
    if not source.is_regular:
        raise UserError(f"{path}: is read once for each system; give a file")
    rows = 0
    keys: set[str] = set()
    names: dict[str, None] = {}
    nameless = ""
    for record in objects_of(source):
        rows = record.number
        keys |= keys_in(record.value)
        name = system_of(record.value, key)
        if name is not None:
            names[name] = None
        else:
            nameless = nameless or record.place
    if not names:
        found = listed(sorted(keys), room=100)
        raise UserError(
            f"{path}: no column {key} (there are {found}); correct --field system=NAME"
        )
    if len(names) < 2 or len(names) == rows:
        raise UserError(
            f"{path}: --field system={key} finds {counted(len(names), 'value')} in"
            f" {counted(rows, 'row')}, but one system; repeat --field system=NAME for"
            " each column of texts, or give the column that names the system of each"
            " row"
        )
    if nameless:
        raise UserError(f"{nameless}: no system under {key}; name it")
    by_system = {}
    for name in names:
        by_system[name] = copy(options)
        by_system[name].system = name
    return by_system


def _references(value: Any, place: str) -> tuple[str, ...]:
    """Return the references under a key."""
    if isinstance(value, str):
        return (" ".join(value.split()),)
    texts = value if isinstance(value, list) else [value]
    if any(not isinstance(text, str) for text in texts):
        raise UserError(
            f"{place}: the reference is {json.dumps(value)[:40]}, not a text"
        )
    return tuple(" ".join(text.split()) for text in texts)


def _sources(value: Any, place: str) -> tuple[str, ...]:
    """Return the source text under a key."""
    return (" ".join(_source(value, place).split()),)


def _source(value: Any, place: str) -> str:
    """Return the source text under a key, as it stands."""
    if not isinstance(value, str):
        raise UserError(f"{place}: the source is {json.dumps(value)[:40]}, not a text")
    return value


# --- a record as rows ----------------------------------------------------------------


class RecordReader:
    """Reads the records of one file.

    Args:
        name: The name of the format and of its shape.
        named: The keys that --field names.
        source: The file.
        options: The options of formats.
    """

    def __init__(
        self, name: str, named: Named, source: Source, options: ReadOptions
    ) -> None:
        self.shape = records()[name]
        self.named = named
        self.layout = Layout(self.shape, records()[GENERIC], named)
        self._folder: Path = source.path.parent
        self._source = source
        self._told = source.roles
        """The roles of the keys of the first record and its hypotheses, for users."""
        self._warnings = source.warnings
        self._is_listed = options.first_pass != FIRST_PASS
        self._timed = [one for one in shipped().values() if one.format == name]
        self._users = frozenset(named.columns)
        self._name = source.name
        self._without_ids: LikelyIds | None = None
        """The keys that may have the ids, if no key has a known name."""
        self._system = options.system
        self._asks_scores = True
        self._empty = 0
        """The keys that have no hypothesis, in records that have one in another key."""
        named.check_systems(options.system)

    def all_rows(self, objects: Iterable[Object]) -> Iterator[Row]:
        """Yield the hypotheses of records; where a key names the system of each record,
        those of one system.

        Args:
            objects: The records.

        Raises:
            UserError: A record has no hypotheses, or a value of a wrong type.
        """
        if self._system is not None:
            objects = self._of_system(objects)
        for record in objects:
            yield from self.rows(record)
        if self._without_ids is not None:
            self._without_ids.tell(self._warnings, self._name)
        if self._empty:
            tell_empty(self._name, self._empty)

    def _of_system(self, objects: Iterable[Object]) -> Iterator[Object]:
        """Yield the records of the system that is read, with numbers of their own, as
        in a file of this system alone.
        """
        (key,) = self.named.systems
        number = 0
        for record in objects:
            if system_of(record.value, key) == self._system:
                number += 1
                yield record._replace(number=number)

    def rows(self, record: Object) -> list[Row]:
        """Return the hypotheses of a record.

        Raises:
            UserError: The record has no hypotheses, or a value of a wrong type.
        """
        value, place, number = record
        if isinstance(value, (str, list)):
            value = {self.shape.text[0]: value}
        if not isinstance(value, dict):
            raise _no_object(value, place)
        value = self.named.with_places(value)
        roles = self.roles_of(value)
        if not self._told:
            self._told.update(roles.told)
            if roles.id is None:
                self._told["id"] = "the order"
        if roles.wide:
            return self._wide(value, roles, number, place)
        key = roles.text or self._key_of_objects(value, place)
        if roles.id is None and "id" in self.named.keys:
            raise _absent("id", self.named.keys["id"], value, place)
        about = self._about(value, roles, number, place)
        if value[key] is None:
            self._warnings.add("text", NULL, place)
            value = {**value, key: ""}
        if isinstance(value[key], str):
            return [self._single(value, key, roles, about)]
        if roles.id is None:
            self._add_without_id(value, about, roles, is_list=True)
        return self._one_list(
            value, list(self._listed(value, key, roles, place)), about
        )

    def _one_list(self, value: Any, rows: list[Row], about: Row) -> list[Row]:
        """Return the hypotheses of a record as one list, with what the record says of
        the utterance, which stands alone if there are no hypotheses.
        """
        about.fields = self._facts(value, rows)
        for row in rows:
            _join(row, about)
            about.joins = Joins.SAME_ID
        return rows or [about]

    def _about(
        self, value: dict[str, Any], roles: Roles, number: int, place: str
    ) -> Row:
        """Return what a record says of its utterance, beside the hypotheses."""
        name = str(number)
        if roles.id is not None and value[roles.id] is not None:
            name = _identity(value, roles.id)
        row = Row(name, place, joins=Joins.NEVER, own=self._users)
        if roles.ref is not None and value[roles.ref] is not None:
            row.references = _references(value[roles.ref], place)
        if roles.src is not None and value[roles.src] is not None:
            row.source = _source(value[roles.src], place)
        is_named = isinstance(value.get("audio_filepath"), str)
        if is_named and roles.id != "audio_filepath":
            # it loads numpy, and most records name no recording
            from rescore.formats.audio import manifest_audio

            row.audio = manifest_audio(value, name, self._folder, place)
        return row

    def _wide(
        self, value: dict[str, Any], roles: Roles, number: int, place: str
    ) -> list[Row]:
        """Return the hypotheses of a record that has a key for each. A key without a
        text and without a score is no hypothesis. The first key is an empty text where
        the keys alone give the rank: to leave it out would make another text the best.
        A record without hypotheses is an empty text, too.

        Raises:
            UserError: A value is no text.
        """
        rows = []
        if self._asks_scores and roles.wide[0][1] is None:
            for problem in left_scores(roles.wide, value, self.named.every):
                self._warnings.add("file", problem, self._name)
            self._asks_scores = False
        for key, score in roles.wide:
            cells = [key] if score is None else [key, score.key]
            if are_empty(map(value.get, cells)):
                continue
            text = value.get(key)
            row = Row("", place)
            if text is not None and not isinstance(text, str):
                raise UserError(
                    f"{place}: {key} is {json.dumps(text)[:40]}, not a text, as several"
                    " --field text=KEY name texts"
                )
            entry = {**value, key: self._text(text, place)}
            self._fill(row, entry, key, score, ())
            rows.append(row)
        first, score = roles.wide[0]
        if rows and score is None and are_empty([value.get(first)]):
            self._warnings.add("text", EMPTY_FIRST, f"{place}, {first}")
            rows.insert(0, Row("", place, ""))
        if rows:
            self._empty += len(roles.wide) - len(rows)
        else:
            self._warnings.add("row", WITHOUT_TEXTS, place)
            rows.append(Row("", place, ""))
        about = self._about(value, roles, number, place)
        if roles.id is None:
            self._add_without_id(value, about, roles, is_list=True)
        return self._one_list(value, rows, about)

    def roles_of(self, value: Mapping[str, Any]) -> Roles:
        """Return the roles of the keys of a record."""
        return self.layout.of(value)

    def _single(self, value: dict[str, Any], key: str, roles: Roles, row: Row) -> Row:
        """Return a record with one hypothesis, which others of its id may follow."""
        self._fill(row, value, key, roles.score, roles.parts)
        row.fields = self._facts(value, [row])
        if self._timed:
            row.words = words_of(self._timed[0], value, row.place, self._warnings)
        if roles.id is None:
            self._add_without_id(value, row, roles, is_list=False)
        else:
            row.joins = Joins.SAME_ID if self._is_listed else Joins.IF_SCORED
            if roles.rank is not None and value[roles.rank] is not None:
                row.rank = rank_of(value[roles.rank], row.place)
        return row

    def _add_without_id(
        self, value: Mapping[str, Any], row: Row, roles: Roles, is_list: bool
    ) -> None:
        """Look for the key of the ids in a record without a known key of ids."""
        if self._without_ids is None:
            known = {*self.layout.known, roles.text, roles.ref, roles.src, roles.rank}
            known.update(key for key, _ in roles.wide)
            self._without_ids = LikelyIds([key for key in value if key not in known])
        self._without_ids.add(value, row, is_list)

    def _key_of_objects(self, value: dict[str, Any], place: str) -> str:
        """Return the key of a list of objects that may have the key of --field text.

        Raises:
            UserError: There is no such list.
        """
        if self.named.texts:
            for name in records()[GENERIC].text:
                if are_objects(value.get(name)):
                    return name
        if {"weights", "tuned"} <= value.keys():
            raise UserError(
                f"{place}: these are weights, not lists; give lists, and the weights to"
                " --weights"
            )
        shown = listed(value) or "none"
        texts = [name for name in value if isinstance(value[name], str)]
        raise UserError(
            f"{place}: no hypotheses in the keys {shown} ({self.shape.title}); name"
            " your keys with --field text=KEY, --field score=KEY, --field id=KEY; lists"
            f" within objects: --shape FILE{numbered(texts)}"
        )

    def _facts(
        self, value: Mapping[str, Any], rows: Sequence[Row]
    ) -> Mapping[str, str]:
        """Return what no role has, such as an accent."""
        fields = fields_of(value, self.layout.known)
        if not fields:
            return fields
        texts = {" ".join((row.text or "").split()) for row in rows}
        facts = {}
        for key, text in fields.items():
            if text not in texts and not key.endswith(PARTS):
                facts[key] = text
        return facts

    # --- hypotheses of a record ---

    def _listed(
        self, value: dict[str, Any], key: str, roles: Roles, place: str
    ) -> Iterator[Row]:
        """Yield the hypotheses of a record that has a list of them."""
        entries = value[key]
        if not isinstance(entries, list):
            raise UserError(
                f"{place}: {key} is {json.dumps(entries)[:40]}, neither a text nor a"
                " list of texts"
            )
        score = roles.score
        if score is not None and score.key == key:
            score = None
        if are_tokens(entries, score is not None):
            entries = [" ".join(tokens) for tokens in entries]
        if entries and all(
            entry is None or isinstance(entry, str) for entry in entries
        ):
            texts = [self._text(entry, place) for entry in entries]
            yield from self._together({**value, key: texts}, key, roles, place)
            return
        for rank, entry in enumerate(entries, 1):
            yield self._entry(entry, f"{place}, {key} {rank}", roles.text is None)

    def _text(self, text: Any, place: str) -> Any:
        """Return a value; an empty text for null, which is counted."""
        if text is None:
            self._warnings.add("text", NULL, place)
            return ""
        return text

    def _together(
        self, value: dict[str, Any], key: str, roles: Roles, place: str
    ) -> Iterator[Row]:
        """Yield a row for each text, of texts and scores that stand in lists of their
        own.
        """
        score = roles.score
        lists = {key: value[key]}
        beside = [] if score is None else [score.key]
        for name in dict.fromkeys([*beside, *roles.parts]):
            if name == "scores" and name not in beside:
                continue
            entries = value[name]
            number = len(entries) if isinstance(entries, list) else 0
            if number != len(value[key]):
                raise UserError(
                    f"{place}: {counted(number, 'score')} for"
                    f" {counted(len(value[key]), 'hypothesis')} in {name}"
                )
            lists[name] = entries
        for cells in zip(*lists.values(), strict=True):
            row = Row("", place)
            entry = dict(zip(lists, cells, strict=True))
            parts = tuple(name for name in roles.parts if name in lists)
            self._fill(row, entry, key, score, parts)
            yield row

    def _entry(self, entry: Any, place: str, needs_named: bool) -> Row:
        """Return a hypothesis from a text, a pair of a text and its score, or an object
        with a text, its score and parts of it (`am_score`).

        Args:
            entry: The hypothesis.
            place: Its place, for messages.
            needs_named: Whether the hypothesis must have the text that --field names.
        """
        value = entry
        if isinstance(entry, str) or entry is None:
            value = {"text": entry}
        elif isinstance(entry, list) and len(entry) == 2:
            value = {"text": entry[0], "score": entry[1]}
        key = None
        if isinstance(value, dict):
            value = self.named.with_places(value)
            roles = self.layout.of(value, is_entry=True)
            key = roles.text
            named = self.named.text
            if needs_named and named is not None and value.get(named) is None:
                raise _absent("text", named, value, place)
        if key is not None:
            value = {**value, key: self._text(value[key], place)}
        if key is None or not isinstance(value[key], str):
            raise UserError(
                f"{place}: expected a text, [text, score] or an object with them, found"
                f" {json.dumps(entry)[:40]}"
            )
        row = Row("", place)
        self._fill(row, value, key, roles.score, roles.parts)
        return row

    def _fill(
        self,
        row: Row,
        value: Mapping[str, Any],
        key: str,
        score: Signed | None,
        parts: Sequence[str],
    ) -> None:
        """Set the text and the scores of a row, higher is better; a score that is null
        is absent.
        """
        row.text = value[key]
        if score is None and self.named.scores:
            raise _absent("score", self.named.scores[0].key, value, row.place)
        if score is not None and score.key not in value:
            raise _absent("score", score.key, value, row.place)
        if score is not None:
            number = value[score.key]
            if isinstance(number, list) and number:
                number = number[0]
            self._source.score = score.key
            if number is not None:
                row.total = score.sign * json_number(number, row.place, score.key)
        self._add_columns(row, value, parts)

    def _add_columns(
        self, row: Row, value: Mapping[str, Any], parts: Sequence[str]
    ) -> None:
        """Add the further scores of a hypothesis."""
        for name in parts:
            if value[name] is None:
                continue
            # an object `scores` is refused as a number
            if name.endswith(PARTS) or isinstance(value[name], dict):
                row.scores[name] = json_number(value[name], row.place, name)
        for name, (key, sign) in self.named.columns.items():
            if value.get(key) is not None:
                row.scores[name] = sign * json_number(value[key], row.place, key)


def _join(row: Row, about: Row) -> None:
    """Add what a record says of its utterance to the row of a hypothesis."""
    row.id = about.id
    row.place = about.place
    row.joins = about.joins
    row.references = about.references
    row.source = about.source
    row.fields = about.fields
    row.audio = about.audio
    row.own = about.own


def _no_object(value: Any, place: str) -> UserError:
    """Return the error about a record that is no object."""
    return UserError(f"{place}: expected an object, found {json.dumps(value)[:40]}")


def _identity(value: Mapping[str, Any], key: str) -> str:
    """Return the id of a record as it stands; of a part of an audio file, the path and
    the start.
    """
    return part_of(str(value[key]), value.get("offset"))


def _absent(role: str, key: str, value: Mapping[str, Any], place: str) -> UserError:
    """Return the error about a record without a key that --field names."""
    keys = listed(value, room=100)
    return UserError(f"{place}: no key {key} ({keys}); correct --field {role}=KEY")


def _with_keys(objects: Iterable[Object], named: Named, name: str) -> Iterator[Object]:
    """Yield records, and see that each key of --field that single records may lack is
    in one of them.

    Args:
        objects: The records.
        named: The keys that --field names.
        name: The file, for messages.

    Raises:
        UserError: No record has a key.
    """
    unseen = dict(named.optional)
    for record in objects:
        if unseen:
            known = keys_in(record.value)
            for key in list(unseen):
                if key in known or paths.first(record.value, (key,)) is not None:
                    del unseen[key]
        yield record
    for key, role in unseen.items():
        raise UserError(f"{name}: no record has the key {key}; correct --field {role}")


HUGGING_FACE = Records("hf")
SOCKEYE = Records("sockeye", translates=True)
NEMO = Records("nemo")
HYPORADISE = Records("hyporadise")
JSON = Records(GENERIC, place=Place.ANYTHING)
