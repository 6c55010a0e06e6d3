"""Records with named fields: JSON Lines or one JSON list, of Hugging Face, Sockeye, or
with keys of your own.

A record is a list of hypotheses, in one of the shapes

    {"sequences": ["a b", "a c"], "sequences_scores": [-1.2, -1.9]}
        texts and scores apart
    {"beams": [["a b", -1.2], ["a c", -1.9]]}                            pairs
    {"hypotheses": [{"text": "a b", "score": -1.2}, ...]}                objects
    {"id": "utt-1", "text": "a b", "score": -1.2}
        one hypothesis; those of one id follow it
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from rescore.columns import FIRST_PASS, Column
from rescore.errors import UserError, counted
from rescore.files import loads
from rescore.formats.source import Place, ReadOptions, Source
from rescore.formats.text import grouped, identity_of, json_number, strip_markup
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.options import Declared, option

PARTS = ("_score", "_scores", "_logprob", "_log_prob")
"""Endings of keys that hold parts of a score, such as `am_score`."""
PREDICTED = ("pred_text", "prediction", "predictions")
"""Keys of hypotheses beside which `text` is the reference."""
SYSTEM = "system="
"""The beginning of the role of a further system's texts; each system has a role of its
own.
"""
ROLES = ("id", "text", "score", "ref", "src")


def _role(text: str) -> tuple[str, str]:
    role, equals, key = text.partition("=")
    if not (role and equals and key.lstrip("-")):
        raise ValueError(f"{text!r} is not ROLE=KEY, such as text=hyp")
    return (text if text.startswith(SYSTEM) else role), key


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
        read=dict,
    )


@dataclass(frozen=True, slots=True)
class Records:
    """The layout of a toolkit's records. Of several keys for a role, the first in the
    record counts.
    """

    title: str
    text: tuple[str, ...]
    score: tuple[str, ...] = ()
    id: tuple[str, ...] = ("id",)
    ref: tuple[str, ...] = ("ref", "reference", "references")
    src: tuple[str, ...] = ("src", "source")
    needs: tuple[str, ...] = ()
    """Keys that tell this layout from others; without them any JSON has it."""
    translates: bool = False
    costs: bool = False
    """Whether lower scores are better."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Further columns and their keys, from --field."""
    systems: tuple[str, ...] = ()
    """The keys of all systems' texts, from --field."""
    Options: ClassVar = Fields
    place: Place = Place.OWN_MARK

    def sniff(self, source: Source) -> bool:
        return bool(source.peek.root) and set(self.needs) <= set(source.peek.keys)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Records without an id are called after their place, from 1."""
        layout = self.with_fields(options.of(Fields).fields)
        folder = source.path.parent
        lists = (
            layout._list(value, number, folder, place)
            for number, value, place in records_of(source)
        )
        yield from grouped(lists, source.name)

    def with_fields(self, fields: Mapping[str, str]) -> Records:
        """The same layout with the keys that --field names."""
        known: dict[str, Any] = {
            role: (key,) for role, key in fields.items() if role in ROLES
        }
        systems = tuple(key for role, key in fields.items() if role.startswith(SYSTEM))
        if systems and fields.get("text") not in systems:
            raise UserError(
                "--field system=NAME names one of several systems; give the texts of"
                " this system: --field text=NAME"
            )
        columns = {
            name: key
            for name, key in fields.items()
            if name not in ROLES and not name.startswith(SYSTEM)
        }
        if "score" in fields:
            known |= {
                "score": (fields["score"].removeprefix("-"),),
                "costs": fields["score"].startswith("-"),
            }
        return replace(self, **known, columns=columns, systems=systems)

    def _list(
        self, value: Any, number: int, folder: Path, place: str
    ) -> tuple[str | None, NbestList]:
        """A record as a list, and its id if it is a single hypothesis, which further
        hypotheses may follow.
        """
        if isinstance(value, (str, list)):
            value = {self.text[0]: value}
        if not isinstance(value, dict):
            raise UserError(
                f"{place}: expected an object, found {json.dumps(value)[:40]}"
            )
        key = first_of(value, self.text)
        if key is None:
            if {"weights", "tuned"} <= value.keys():
                raise UserError(
                    f"{place}: these are weights, not lists; give lists, and the"
                    " weights to --weights"
                )
            shown = ", ".join(list(value)[:8])[:200] or "none"
            raise UserError(
                f"{place}: no hypotheses in the keys {shown} ({self.title}); name your"
                " keys with --field text=KEY, --field score=KEY, --field id=KEY"
            )
        named = first_of(value, self.id)
        identity = identity_of(value[named]) if named else str(number)
        hypotheses = [
            self._hypothesis(entry, place)
            for entry, place in self._entries(value, key, place)
        ]
        nbest = NbestList(
            identity,
            hypotheses,
            self._references(value, key, place),
            self._source(value, place),
            header=Header(columns=self._parts(hypotheses)),
        )
        if named != "audio_filepath" and isinstance(value.get("audio_filepath"), str):
            # here: most records name no recording
            from rescore.formats.audio import manifest_audio

            nbest.audio = manifest_audio(value, identity, folder, place)
        return (identity if named and isinstance(value[key], str) else None), nbest

    def _entries(
        self, value: dict[str, Any], key: str, place: str
    ) -> Iterator[tuple[Any, str]]:
        """The hypotheses of a record, each with the place for errors."""
        texts = value[key]
        if isinstance(texts, str):
            yield value, place
        elif not isinstance(texts, list):
            raise UserError(
                f"{place}: {key} is {json.dumps(texts)[:40]}, neither a text nor a list"
                " of texts"
            )
        elif texts and all(isinstance(entry, str) for entry in texts):
            yield from ((entry, place) for entry in self._together(value, key, place))
        else:
            yield from (
                (entry, f"{place}, {key} {rank}") for rank, entry in enumerate(texts, 1)
            )

    def _together(
        self, value: dict[str, Any], key: str, place: str
    ) -> Iterator[dict[str, Any]]:
        """An object for each text, of texts and scores that stand in lists of their
        own.
        """
        names = [
            name
            for name in value
            if name in (key, self._score_key(value, key)) or name.endswith(PARTS)
        ]
        for name in names:
            number = len(value[name]) if isinstance(value[name], list) else 0
            if number != len(value[key]):
                both = (
                    f"{counted(number, 'score')} for"
                    f" {counted(len(value[key]), 'hypothesis')}"
                )
                raise UserError(f"{place}: {both} in {name}")
        for entries in zip(*(value[name] for name in names), strict=True):
            yield dict(zip(names, entries, strict=True))

    def _score_key(self, value: Mapping[str, Any], text_key: str) -> str | None:
        return next(
            (
                key
                for key in (*self.score, *GENERIC.score)
                if key != text_key and key in value
            ),
            None,
        )

    def _hypothesis(self, entry: Any, place: str) -> Hypothesis:
        """A text, a pair of a text and its score, or an object with a text, its score
        and parts of it (`am_score`).
        """
        value = entry
        if isinstance(entry, str):
            value = {"text": entry}
        elif isinstance(entry, list) and len(entry) == 2:
            value = dict(zip(("text", "score"), entry, strict=True))
        key = (
            first_of(value, (*self.text, *GENERIC.text))
            if isinstance(value, dict)
            else None
        )
        if key is None or not isinstance(value[key], str):
            raise UserError(
                f"{place}: expected a text, [text, score] or an object with them, found"
                f" {json.dumps(entry)[:40]}"
            )
        score_key = self._score_key(value, key)
        scores = {}
        if score_key is not None:
            score = (
                value[score_key][0]
                if isinstance(value[score_key], list) and value[score_key]
                else value[score_key]
            )
            number = json_number(score, place, score_key)
            scores[FIRST_PASS] = -number if self.costs else number
        for name, part in value.items():
            # which is refused
            is_part = name.endswith(PARTS) or (
                name == "scores" and isinstance(part, dict)
            )
            if is_part and name not in (key, score_key):
                scores[name] = json_number(part, place, name)
        for name, column in self.columns.items():
            sign, column = (-1, column[1:]) if column.startswith("-") else (1, column)
            if column in value:
                scores[name] = sign * json_number(value[column], place, column)
        return Hypothesis(strip_markup(value[key]), scores)

    def _parts(self, hypotheses: list[Hypothesis]) -> dict[str, Column]:
        """Origins of columns: parts of a score belong to no language model; for
        --field, the user's names decide.
        """
        names = {
            name
            for hypothesis in hypotheses
            for name in hypothesis.scores
            if name.endswith(PARTS)
        }
        return {
            name: Column.component(self.title)
            for name in sorted(names - self.columns.keys() - {FIRST_PASS})
        }

    def _references(
        self, value: dict[str, Any], text_key: str, place: str
    ) -> tuple[str, ...]:
        keys = (*self.ref, "text") if text_key in PREDICTED else self.ref
        reference = next(
            (
                value[name]
                for name in keys
                if name != text_key and value.get(name) is not None
            ),
            None,
        )
        texts = (
            []
            if reference is None
            else reference
            if isinstance(reference, list)
            else [reference]
        )
        if any(not isinstance(text, str) for text in texts):
            raise UserError(
                f"{place}: the reference is {json.dumps(reference)[:40]}, not a text"
            )
        return tuple(" ".join(text.split()) for text in texts)

    def _source(self, value: dict[str, Any], place: str) -> str | None:
        key = first_of(value, self.src)
        if key is not None and not isinstance(value[key], str):
            raise UserError(
                f"{place}: the source is {json.dumps(value[key])[:40]}, not a text"
            )
        return None if key is None else str(value[key])


def records_of(source: Source) -> Iterator[tuple[int, Any, str]]:
    """The records with their numbers and places; JSON Lines as a stream."""
    if source.peek.lines:
        for number, (place, line) in enumerate(source.filled(), 1):
            yield number, loads(line, place, line=True), place
        return
    document = loads(source.read_all(), source.name)
    values = document if isinstance(document, list) else [document]
    for number, value in enumerate(values, 1):
        yield (
            number,
            value,
            (
                f"{source.name}: entry {number}"
                if isinstance(document, list)
                else source.name
            ),
        )


def first_of(value: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if value.get(key) is not None), None)


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
    ref=("text", "reference"),
    src=(),
    needs=("audio_filepath",),
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
