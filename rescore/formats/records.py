"""Records with named fields: JSON Lines or one JSON list, of Hugging Face, Sockeye, or
with keys of your own.

A record is a list of hypotheses, in one of the shapes

    {"sequences": ["a b", "a c"], "sequences_scores": [-1.2, -1.9]}
        texts and scores apart
    {"beams": [["a b", -1.2], ["a c", -1.9]]}                            pairs
    {"hypotheses": [{"text": "a b", "score": -1.2}, ...]}                objects
    {"id": "utt-1", "text": "a b", "score": -1.2}
        one hypothesis; further hypotheses of this id follow it
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from rescore.columns import FIRST_PASS, RANK, Column
from rescore.errors import UserError, counted
from rescore.files import loads
from rescore.formats import paths
from rescore.formats.fields import TextOfUtterance, fields_of, keys_with_roles
from rescore.formats.ids import part_of
from rescore.formats.shaped import times_of
from rescore.formats.shapes import shipped
from rescore.formats.source import NULL, InputWarnings, Place, ReadOptions, Source
from rescore.formats.text import (
    Part,
    apart,
    grouped,
    json_number,
    rank_of,
    strip_markup,
)
from rescore.nbest import Header, Hypothesis, NbestList
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


def signed(key: str) -> tuple[str, int]:
    """Return the key of --field without its sign, and the sign.

    Args:
        key: A key; with a minus, lower values are better.
    """
    if key.startswith("-"):
        return key.removeprefix("-"), -1
    return key, 1


@dataclass(frozen=True, slots=True)
class Records:
    """The layout of a toolkit's records. Of several keys for a role, the first in the
    record counts.
    """

    title: str
    """The name of the toolkit or format, for messages."""
    text: tuple[str, ...]
    score: tuple[str, ...] = ()
    id: tuple[str, ...] = ("id",)
    ref: tuple[str, ...] = ("ref", "reference", "references")
    src: tuple[str, ...] = ("src", "source")
    needs: tuple[str, ...] = ()
    """Keys that tell this layout from others; without them any JSON has it."""
    translates: bool = False
    """Whether a toolkit of translation writes such records."""
    costs: bool = False
    """Whether lower scores are better."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Further columns and their keys, from --field."""
    systems: tuple[str, ...] = ()
    """The keys of all systems' texts, from --field."""
    places: tuple[str, ...] = ()
    """The keys from --field that may be places within objects and lists."""
    timed: str = ""
    """The shape that says where the times of words stand."""
    named: frozenset[str] = frozenset()
    """The roles whose key --field names: no other key has such a role."""
    Options: ClassVar = Fields
    place: Place = Place.OWN_MARK

    def sniff(self, source: Source) -> bool:
        """Return whether the first record has the keys that tell this layout."""
        return bool(source.peek.root) and set(self.needs) <= set(source.peek.keys)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield the lists of a file.

        Args:
            source: JSON Lines, one JSON list or one JSON object. Records without an id
                are called after their place, from 1.
            options: The options of formats.

        Raises:
            UserError: A record has no hypotheses, or a value of a wrong type.
        """
        layout = self.with_fields(options.of(Fields).fields)
        folder = source.path.parent
        records = _with_keys(records_of(source), layout.optional_keys, source.name)
        is_listed = options.first_pass != FIRST_PASS
        lists = (
            layout._part(value, number, folder, place, source.warnings, is_listed)
            for number, value, place in records
        )
        yield from grouped(apart(lists, source.warnings))

    def texts(self, source: Source, role: str) -> Iterator[TextOfUtterance]:
        """Yield the references or source texts of records, which may have hypotheses,
        too. A text without hypotheses beside it has any role.

        Args:
            source: JSON Lines, one JSON list or one JSON object.
            role: `ref` or `src`.

        Yields:
            What each record says that has such texts.

        Raises:
            UserError: A text is no text.
        """
        for number, value, place in records_of(source):
            if not isinstance(value, dict):
                raise _no_object(value, place)
            id_key = first_of(value, (*self.id, *GENERIC.id))
            identity = _identity(value, id_key) if id_key else str(number)
            texts = self._texts_of(value, role, place)
            if texts:
                known = keys_with_roles(self, GENERIC)
                fields = fields_of(value, known, texts)
                yield TextOfUtterance(identity, texts, place, fields)
            elif first_of(value, (*self.text, *GENERIC.text), null=True) is None:
                keys = ", ".join(list(value)[:8])[:200] or "none"
                raise UserError(
                    f"{place}: no text under the keys {keys}; give each record a text"
                )

    def _texts_of(
        self, value: dict[str, Any], role: str, place: str
    ) -> tuple[str, ...]:
        """Return the references or source texts of a record."""
        segments = value.get("supervisions")
        if segments and _are_objects(segments):  # a cut of lhotse
            parts = [str(segment.get("text") or "") for segment in segments]
            value = {**value, "text": " ".join(parts)}
        if role == "ref":
            keys = (*self.ref, *keys_of_role(value, role))
            return replace(self, ref=keys)._references(value, "", place)
        with_texts = replace(self, src=keys_of_role(value, role))
        text = with_texts._source(value, place)
        return () if text is None else (" ".join(text.split()),)

    @property
    def optional_keys(self) -> dict[str, str]:
        """The keys that --field names and single records may lack, by their roles."""
        keys = {name: signed(key)[0] for name, key in self.columns.items()}
        for role in self.named.intersection(("ref", "src")):
            keys[role] = getattr(self, role)[0]
        return keys

    def with_fields(self, fields: Mapping[str, str]) -> Records:
        """Return the layout with the keys that --field names.

        Args:
            fields: The key of each role.

        Raises:
            UserError: Several systems are named, but not the one whose texts count.
        """
        changes: dict[str, Any] = {}
        columns = {}
        systems = []
        for role, key in fields.items():
            if role == "score":
                name, sign = signed(key)
                changes["score"] = (name,)
                changes["costs"] = sign < 0
            elif role in ROLES:
                changes[role] = (key,)
            elif role.startswith(SYSTEM):
                systems.append(key)
            else:
                columns[role] = key
        if systems and fields.get("text") not in systems:
            raise UserError(
                "--field system=NAME names one of several systems; give the texts of"
                " this system: --field text=NAME"
            )
        keys = [signed(key)[0] for key in fields.values()]
        return replace(
            self,
            **changes,
            columns=columns,
            systems=tuple(systems),
            places=tuple(filter(re.compile(r"[.\[]").search, keys)),
            named=frozenset(fields),
        )

    # --- a record as a list ---

    def _part(
        self,
        value: Any,
        number: int,
        folder: Path,
        place: str,
        warnings: InputWarnings,
        is_listed: bool,
    ) -> Part:
        """Return a record as a list, and its id if it is a single hypothesis, which
        further hypotheses may follow.
        """
        if isinstance(value, (str, list)):
            value = {self.text[0]: value}
        if not isinstance(value, dict):
            raise _no_object(value, place)
        value = self._with_named(value)
        key = self._text_key(value, place)
        value = self._with_texts(value, key, place, warnings)
        id_key = first_of(value, self.id)
        if id_key is None and "id" in self.named:
            raise _absent("id", self.id[0], value, place)
        identity = _identity(value, id_key) if id_key else str(number)
        hypotheses = []
        for entry, entry_place in self._entries(value, key, place):
            hypotheses.append(self._hypothesis(entry, entry_place))
        if self.timed and isinstance(value[key], str):
            shape = shipped()[self.timed]
            best = hypotheses[0]
            best.times = times_of(shape, value, best.text, place, warnings)
        nbest = NbestList(
            identity,
            hypotheses,
            self._references(value, key, place),
            self._source(value, place),
            header=Header(records=self._parts(hypotheses)),
            fields=fields_of(
                value,
                keys_with_roles(self, GENERIC),
                {hypothesis.text for hypothesis in hypotheses},
            ),
        )
        if id_key != "audio_filepath" and isinstance(value.get("audio_filepath"), str):
            # it loads numpy, and most records name no recording
            from rescore.formats.audio import manifest_audio

            nbest.audio = manifest_audio(value, identity, folder, place)
        if id_key is None or not isinstance(value[key], str):
            return Part(None, nbest, place)
        if value.get(RANK) is not None:
            hypotheses[0].rank = rank_of(value[RANK], place)
        return Part(identity, nbest, place, is_listed or are_listed(nbest))

    def _with_named(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a record, or an object of a hypothesis, with the values of the places
        that --field names as keys of its own.
        """
        for key in self.places:
            if key in value:
                continue
            at_place = paths.first(value, (key,))
            if at_place is not None:
                value = {**value, key: at_place}
        return value

    def _with_texts(
        self, value: dict[str, Any], key: str, place: str, warnings: InputWarnings
    ) -> dict[str, Any]:
        """Return a record with texts in place of null and of lists of tokens."""
        texts = value[key]
        entries = texts if isinstance(texts, list) else [texts]
        are_tokens = _are_tokens(entries, self._score_key(value, key) is not None)
        changed = []
        for entry in entries:
            name = None
            if isinstance(entry, dict):
                name = first_of(entry, (*self.text, *GENERIC.text), null=True)
            if entry is None or (name is not None and entry[name] is None):
                warnings.add("text", NULL, place)
                changed.append("" if name is None else {**entry, name: ""})
            elif are_tokens:
                changed.append(" ".join(entry))
            else:
                changed.append(entry)
        if changed == entries:
            return value
        return {**value, key: changed if isinstance(texts, list) else changed[0]}

    def _text_key(self, value: dict[str, Any], place: str) -> str:
        """Return the key of the hypotheses."""
        key = first_of(value, self.text, null=True)
        if key is not None:
            return key
        if "text" in self.named:  # perhaps a key of the objects in a list
            for name in GENERIC.text:
                if _are_objects(value.get(name)):
                    return name
        if {"weights", "tuned"} <= value.keys():
            raise UserError(
                f"{place}: these are weights, not lists; give lists, and the weights to"
                " --weights"
            )
        shown = ", ".join(list(value)[:8])[:200] or "none"
        raise UserError(
            f"{place}: no hypotheses in the keys {shown} ({self.title}); name your keys"
            " with --field text=KEY, --field score=KEY, --field id=KEY"
        )

    def _score_key(self, value: Mapping[str, Any], text_key: str) -> str | None:
        """Return the key of the scores; None if there are no scores."""
        keys = self.score
        if "score" not in self.named:
            keys = (*keys, *GENERIC.score)
        for key in keys:
            if key in value and key != text_key:
                return key
        return None

    def _references(
        self, value: dict[str, Any], text_key: str, place: str
    ) -> tuple[str, ...]:
        """Return the references of a record."""
        keys = (*self.ref, "text") if text_key in PREDICTED else self.ref
        key = first_of(value, [name for name in keys if name != text_key])
        if key is None:
            return ()
        texts = value[key] if isinstance(value[key], list) else [value[key]]
        if any(not isinstance(text, str) for text in texts):
            raise UserError(
                f"{place}: the reference is {json.dumps(value[key])[:40]}, not a text"
            )
        return tuple(" ".join(text.split()) for text in texts)

    def _source(self, value: dict[str, Any], place: str) -> str | None:
        """Return the source text of a record."""
        key = first_of(value, self.src)
        if key is None:
            return None
        if not isinstance(value[key], str):
            raise UserError(
                f"{place}: the source is {json.dumps(value[key])[:40]}, not a text"
            )
        return str(value[key])

    # --- hypotheses of a record ---

    def _entries(
        self, value: dict[str, Any], key: str, place: str
    ) -> Iterator[tuple[Any, str]]:
        """Yield the hypotheses of a record, each with the place for messages."""
        texts = value[key]
        if isinstance(texts, str):
            yield value, place
        elif not isinstance(texts, list):
            raise UserError(
                f"{place}: {key} is {json.dumps(texts)[:40]}, neither a text nor a list"
                " of texts"
            )
        elif texts and all(isinstance(entry, str) for entry in texts):
            for entry in self._together(value, key, place):
                yield entry, place
        else:
            for rank, entry in enumerate(texts, 1):
                entry_place = f"{place}, {key} {rank}"
                if "text" in self.named and key not in self.text:
                    self._check_text(entry, entry_place)
                yield entry, entry_place

    def _check_text(self, entry: dict[str, Any], place: str) -> None:
        """See that a hypothesis has the text that --field names.

        Raises:
            UserError: It has not.
        """
        if first_of(entry, self.text) is None:
            raise _absent("text", self.text[0], entry, place)

    def _together(
        self, value: dict[str, Any], key: str, place: str
    ) -> Iterator[dict[str, Any]]:
        """Yield an object for each text, of texts and scores that stand in lists of
        their own.
        """
        lists = {}
        score_key = self._score_key(value, key)
        for name, entries in value.items():
            if name not in (key, score_key) and not name.endswith(PARTS):
                continue
            number = len(entries) if isinstance(entries, list) else 0
            if number != len(value[key]):
                raise UserError(
                    f"{place}: {counted(number, 'score')} for"
                    f" {counted(len(value[key]), 'hypothesis')} in {name}"
                )
            lists[name] = entries
        for row in zip(*lists.values(), strict=True):
            yield dict(zip(lists, row, strict=True))

    def _hypothesis(self, entry: Any, place: str) -> Hypothesis:
        """Return a hypothesis from a text, a pair of a text and its score, or an object
        with a text, its score and parts of it (`am_score`).
        """
        value = entry
        if isinstance(entry, str):
            value = {"text": entry}
        elif isinstance(entry, list) and len(entry) == 2:
            value = {"text": entry[0], "score": entry[1]}
        key = None
        if isinstance(value, dict):
            value = self._with_named(value)
            key = first_of(value, (*self.text, *GENERIC.text))
        if key is None or not isinstance(value[key], str):
            raise UserError(
                f"{place}: expected a text, [text, score] or an object with them, found"
                f" {json.dumps(entry)[:40]}"
            )
        return Hypothesis(strip_markup(value[key]), self._scores(value, key, place))

    def _scores(
        self, value: dict[str, Any], text_key: str, place: str
    ) -> dict[str, float]:
        """Return the scores of an object, higher is better."""
        scores = {}
        score_key = self._score_key(value, text_key)
        if score_key is None and "score" in self.named:
            raise _absent("score", self.score[0], value, place)
        if score_key is not None:
            score = value[score_key]
            if isinstance(score, list) and score:
                score = score[0]
            number = json_number(score, place, score_key)
            scores[FIRST_PASS] = -number if self.costs else number
        for name, part in value.items():
            # an object `scores` is refused as a number
            is_part = name.endswith(PARTS) or (
                name == "scores" and isinstance(part, dict)
            )
            if is_part and name not in (text_key, score_key):
                scores[name] = json_number(part, place, name)
        for name, column in self.columns.items():
            key, sign = signed(column)
            if key in value:
                scores[name] = sign * json_number(value[key], place, key)
        return scores

    def _parts(self, hypotheses: list[Hypothesis]) -> dict[str, Column]:
        """Return the records of columns that are parts of the toolkit's score, not of a
        language model. The user's own names (--field) have no record.
        """
        names = set[str]()
        for hypothesis in hypotheses:
            names.update(name for name in hypothesis.scores if name.endswith(PARTS))
        own = sorted(names - self.columns.keys() - {FIRST_PASS})
        return {name: Column.component(self.title) for name in own}


def keys_of_role(names: Collection[str], role: str) -> tuple[str, ...]:
    """Return the keys that references or source texts have, the likeliest first.

    Args:
        names: The keys of a record, or the columns of a table.
        role: `ref` or `src`.
    """
    roles = {"ref": GENERIC.ref, "src": GENERIC.src}
    if role == "ref" and not _PREDICTED.isdisjoint(names):
        return (*roles[role], *TEXTS)
    others = {*GENERIC.ref, *GENERIC.src, *GENERIC.score, RANK, *PREDICTED}
    if others.difference(TEXTS).isdisjoint(names):
        return (*roles[role], *TEXTS)
    return roles[role]


_PREDICTED = frozenset(PREDICTED)


def are_listed(nbest: NbestList) -> bool:
    """Return whether rows such as this are one list where they share an id: they have
    scores or ranks. Numbers beside a reference may be anything, such as a duration.

    Args:
        nbest: The list of one row.
    """
    (hypothesis,) = nbest.hypotheses
    if hypothesis.rank is not None or FIRST_PASS in hypothesis.scores:
        return True
    return bool(hypothesis.scores) and not nbest.references


def _no_object(value: Any, place: str) -> UserError:
    """Return the error about a record that is no object."""
    return UserError(f"{place}: expected an object, found {json.dumps(value)[:40]}")


def _identity(value: Mapping[str, Any], key: str) -> str:
    """Return the id of a record as it stands; of a part of an audio file, the path and
    the start.
    """
    return part_of(str(value[key]), value.get("offset"))


def _are_objects(value: Any) -> bool:
    """Return whether a value is a list of objects."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(entry, dict) for entry in value)


def _absent(role: str, key: str, value: Mapping[str, Any], place: str) -> UserError:
    """Return the error about a record without a key that --field names."""
    keys = ", ".join(list(value)[:8])[:100]
    return UserError(f"{place}: no key {key} ({keys}); correct --field {role}=KEY")


def _with_keys(
    records: Iterable[tuple[int, Any, str]], keys: Mapping[str, str], name: str
) -> Iterator[tuple[int, Any, str]]:
    """Yield records, and see that each key is in one of them.

    Args:
        records: As of `records_of`.
        keys: The key of each role.
        name: The file, for messages.

    Raises:
        UserError: No record has a key.
    """
    unseen = dict(keys)
    for number, value, place in records:
        if unseen:
            known = keys_in(value)
            for role, key in list(unseen.items()):
                if key in known or paths.first(value, (key,)) is not None:
                    del unseen[role]
        yield number, value, place
    for role, key in unseen.items():
        raise UserError(f"{name}: no record has the key {key}; correct --field {role}")


def keys_in(value: Any) -> set[str]:
    """Return the keys of a record, and of the objects in its lists.

    Args:
        value: A record, as JSON has it.
    """
    keys: set[str] = set()
    if not isinstance(value, dict):
        return keys
    keys.update(value)
    for inner in value.values():
        if _are_objects(inner):
            keys.update(*inner)
    return keys


def records_of(source: Source) -> Iterator[tuple[int, Any, str]]:
    """Yield the records of a file; JSON Lines are read as a stream.

    Args:
        source: JSON Lines, one JSON list or one JSON value.

    Yields:
        The number of each record, from 1; its value; and its place, for messages.

    Raises:
        UserError: The file is not JSON.
    """
    if source.peek.lines:
        for number, (place, line) in enumerate(source.filled(), 1):
            yield number, loads(line, place, line=True), place
        return
    document = loads(source.read_all(), source.name)
    if not isinstance(document, list):
        yield 1, document, source.name
        return
    for number, value in enumerate(document, 1):
        yield number, value, f"{source.name}: entry {number}"


def first_of(
    value: Mapping[str, Any], keys: Sequence[str], null: bool = False
) -> str | None:
    """Return the first of some keys that has a value other than null; None if none has.

    Args:
        value: An object of JSON.
        keys: The keys, in the order of preference.
        null: Whether a key whose value is null counts where no other key has a value,
            and before `text` where a system predicted nothing.
    """
    absent = None
    for key in keys:
        if value.get(key) is not None:
            return key
        if null and key in value and key in PREDICTED:
            return key
        if key in value:
            absent = absent or key
    return absent if null else None


_SCORE = re.compile(r"[-+]\d.*|\d+\.\d+.*|nan|inf", re.IGNORECASE)
"""A text that is a score, unlike a token that is a number."""


def _are_tokens(entries: Sequence[Any], has_scores: bool) -> bool:
    """Return whether hypotheses are lists of tokens, not pairs of a text and a score.

    Args:
        entries: The hypotheses.
        has_scores: Whether scores stand beside them.
    """
    if not entries:
        return False
    are_pairs = True
    for entry in entries:
        if not isinstance(entry, list):
            return False
        for token in entry:
            if not isinstance(token, str) or len(token.split()) > 1:
                return False
        is_pair = len(entry) == 2 and _SCORE.fullmatch(entry[1]) is not None
        are_pairs = are_pairs and is_pair
    return has_scores or not are_pairs


HUGGING_FACE = Records(
    "Hugging Face generate",
    text=("sequences",),
    score=("sequences_scores",),
    ref=("reference", "ref", "references", "labels", "target", "text"),
    needs=("sequences",),
)
SOCKEYE = Records(
    "Sockeye",
    translates=True,
    text=("translations",),
    score=("scores",),
    id=("sentence_id", "id"),
    needs=("translations", "scores"),
    costs=True,
)
NEMO = Records(
    "NeMo manifest",
    text=("beams", "pred_text", "prediction"),
    score=("score", "pred_score"),
    id=("id", "audio_filepath"),
    ref=("text", "reference", "ref", "references"),
    needs=("audio_filepath",),
    timed="nemo",
)
HYPORADISE = Records(
    "HyPoradise",
    text=("input",),
    score=("score", "am_score"),
    ref=("output",),
    needs=("input",),
)
GENERIC = Records(
    "a JSON record",
    text=(
        "nbest",
        "hyps",
        "hypotheses",
        "hyp",
        "hypothesis",
        *PREDICTED,
        "text",
        "transcript",
        "beams",
    ),
    score=(
        "score",
        "scores",
        "s2s",
        "sequences_scores",
        "logp",
        "log_prob",
        "logprob",
        "avg_logprob",
    ),
    id=(
        "id",
        "utt",
        "utt_id",
        "utterance",
        "utterance_id",
        "key",
        "audio",
        "audio_filepath",
        "path",
    ),
    ref=("ref", "reference", "references", "target", "sentence"),
    place=Place.ANYTHING,
)
