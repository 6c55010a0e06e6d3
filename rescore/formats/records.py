"""Records with named fields: JSON Lines or one JSON list, of Hugging Face, Sockeye, or with keys of your own.

A record is a list of hypotheses, in one of the shapes

    {"sequences": ["a b", "a c"], "sequences_scores": [-1.2, -1.9]}      texts and scores apart
    {"beams": [["a b", -1.2], ["a c", -1.9]]}                            pairs, or pyctcdecode's tuples
    {"hypotheses": [{"text": "a b", "score": -1.2}, ...]}                objects
    {"id": "utt-1", "text": "a b", "score": -1.2}                        one hypothesis; those of one id follow it
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from rescore.errors import UserError, counted
from rescore.files import loads
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import grouped, identity_of, json_number, strip_markup
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList
from rescore.options import Declared, option
from rescore.parts import FORMATS

PARTS = ("_score", "_scores", "_logprob", "_log_prob")
"""Endings of keys that hold parts of a score, such as `am_score`."""
LOGIT = "logit_score"
"""The column of pyctcdecode's CTC score."""
ROLES = ("id", "text", "score", "ref", "src", "audio")


def _role(text: str) -> tuple[str, str]:
    role, equals, key = text.partition("=")
    if not (role and equals and key.lstrip("-")):
        raise ValueError(f"{text!r} is not ROLE=KEY, such as text=hyp")
    return role, key


@dataclass(frozen=True, kw_only=True)
class Fields(Declared):
    fields: Mapping[str, str] = option(
        {},
        "JSON, CSV, TSV: the key or column KEY holds the ROLE: text, score, id, ref, src, or a new column of scores. "
        "Example: text=hyp. With score=-KEY lower values are better.",
        "--field",
        metavar="ROLE=KEY",
        parse=_role,
        read=dict,
    )


@dataclass(frozen=True, slots=True)
class Records:
    """The layout of a toolkit's records. Of several keys for a role, the first in the record counts."""

    title: str
    text: tuple[str, ...]
    score: tuple[str, ...] = ()
    id: tuple[str, ...] = ("id",)
    ref: tuple[str, ...] = ("ref", "reference", "references")
    src: tuple[str, ...] = ("src", "source")
    audio: tuple[str, ...] = ()
    """The path of the recording; read only where --field names its key."""
    needs: tuple[str, ...] = ()
    """Keys that tell this layout from others; without them any JSON has it."""
    costs: bool = False
    """Whether lower scores are better."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Further columns and their keys, from --field."""
    named: bool = False
    """Whether --field names the key of the texts."""
    Options: ClassVar = Fields

    def sniff(self, source: Source) -> bool:
        return bool(source.peek.root) and set(self.needs) <= set(source.peek.keys)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Records without an id are called after their place, from 1."""
        layout = self.with_fields(options.of(Fields).fields)
        records = records_of(source, (*layout.text, *GENERIC.text, "input"))
        lists = (layout._list(value, number, place) for number, value, place in records)
        yield from grouped(lists, source.name)

    def with_fields(self, fields: Mapping[str, str]) -> Records:
        """The same layout with the keys that --field names."""
        known: dict[str, Any] = {role: (key,) for role, key in fields.items() if role in ROLES}
        columns = {name: key for name, key in fields.items() if name not in ROLES}
        costs = self.costs
        if "score" in fields:
            costs, known["score"] = fields["score"].startswith("-"), (fields["score"].removeprefix("-"),)
        return replace(self, **known, costs=costs, columns=columns, named="text" in fields)

    def _list(self, value: Any, number: int, place: str) -> tuple[str | None, NbestList]:
        """A record as a list, and its id if it is a single hypothesis, which further hypotheses may follow."""
        if isinstance(value, (str, list)):
            value = {self.text[0]: value}
        if not isinstance(value, dict):
            raise UserError(f"{place}: expected an object, found {json.dumps(value)[:40]}")
        key = first_of(value, self.text)
        if key is None:
            if self.named:
                raise UserError(f"{place}: no {self.text[0]} in it (its keys: {_shown(list(value))})")
            raise UserError(f"{place}: {missing_text(list(value))}")
        named = first_of(value, self.id)
        identity = identity_of(value[named]) if named else str(number)
        hypotheses = self._hypotheses(value, key, place)
        about = self._references(value, key, place), self._source(value, place)
        nbest = NbestList(identity, hypotheses, *about, provenance=self._provenance(hypotheses))
        if (recorded := first_of(value, self.audio)) is not None:
            from rescore.formats.audio import entry_audio

            nbest.audio = entry_audio(value, recorded, identity, place)
        return (identity if named and isinstance(value[key], str) else None), nbest

    def _hypotheses(self, value: dict[str, Any], key: str, place: str) -> list[Hypothesis]:
        texts = value[key]
        if isinstance(texts, str):
            return [Hypothesis(strip_markup(texts), self._scores(value, key, place))]
        if not isinstance(texts, list):
            raise UserError(f"{place}: {key} is {json.dumps(texts)[:40]}, neither a text nor a list of texts")
        if texts and all(isinstance(entry, str) for entry in texts):
            entries = self._together(value, key, place)
            return [Hypothesis(strip_markup(entry[key]), self._scores(entry, key, place)) for entry in entries]
        return [self._nested(entry, f"{place}, {key} {rank}") for rank, entry in enumerate(texts, 1)]

    def _together(self, value: dict[str, Any], key: str, place: str) -> list[dict[str, Any]]:
        """An object for each text, of texts and scores that stand in lists of their own."""
        size, score_key = len(value[key]), self._score_key(value, key)
        apart = value[score_key] if score_key else value[key]
        if not isinstance(apart, list) or len(apart) != size:
            number_of_scores = counted(len(apart), "score") if isinstance(apart, list) else "no scores"
            raise UserError(f"{place}: {number_of_scores} for {counted(size, 'hypothesis')}")
        lists = {
            name: entries
            for name, entries in value.items()
            if (name in (key, score_key) or name.endswith(PARTS)) and isinstance(entries, list) and len(entries) == size
        }
        return [dict(zip(lists, entries, strict=True)) for entries in zip(*lists.values(), strict=True)]

    def _score_key(self, value: Mapping[str, Any], text_key: str) -> str | None:
        keys = (*self.score, *GENERIC.score)
        usual = next((key for key in keys if key != text_key and _is_score(value.get(key))), None)
        # pyctcdecode and transformers call the total of CTC, language model and word bonus lm_score.
        fused = ("lm_score", LOGIT) if usual is None and _is_score(value.get(LOGIT)) else ()
        return usual or next((key for key in fused if _is_score(value.get(key))), None)

    def _nested(self, entry: Any, place: str) -> Hypothesis:
        known = entry
        if isinstance(entry, str):
            known = {"text": entry}
        elif isinstance(entry, list) and len(entry) == 2:
            known = dict(zip(("text", "score"), entry, strict=True))
        elif isinstance(entry, list) and len(entry) in (4, 5):
            # pyctcdecode: text, state, frames, logit_score, lm_score; some without the state
            known = {"text": entry[0], LOGIT: entry[-2], "lm_score": entry[-1]}
        key = first_of(known, (*self.text, *GENERIC.text)) if isinstance(known, dict) else None
        if key is None or not isinstance(known[key], str):
            raise UserError(
                f"{place}: expected a text, [text, score] or an object with them, found {json.dumps(entry)[:40]}"
            )
        return Hypothesis(strip_markup(known[key]), self._scores(known, key, place))

    def _scores(self, value: Mapping[str, Any], text_key: str, place: str) -> dict[str, float]:
        """The scores of a text: its score, its parts (`am_score`, `"scores": {"am": -1}`), and the keys of --field."""
        score_key = self._score_key(value, text_key)
        scores = {} if score_key is None else {FIRST_PASS: self._score(value[score_key], place, score_key)}
        for name, number in value.items():
            if name == "scores" and isinstance(number, dict):
                parts = {part: json_number(score, place, part) for part, score in number.items()}
                scores |= {part: score for part, score in parts.items() if part != FIRST_PASS}
            elif name != score_key and name.endswith(PARTS) and isinstance(number, (int, float)):
                scores[name] = json_number(number, place, name)
        return {**scores, **self._columns(value, place)}

    def _provenance(self, hypotheses: list[Hypothesis]) -> dict[str, Column]:
        """Origins of columns: parts of a score belong to no language model; for --field, the user's names decide."""
        names = {name for hypothesis in hypotheses for name in hypothesis.scores if name.endswith(PARTS)}
        return {name: Column.component(self.title) for name in sorted(names - self.columns.keys() - {FIRST_PASS})}

    def _columns(self, value: Mapping[str, Any], place: str) -> dict[str, float]:
        columns = {}
        for name, key in self.columns.items():
            sign, key = (-1, key[1:]) if key.startswith("-") else (1, key)
            if key in value:
                columns[name] = sign * json_number(value[key], place, key)
        return columns

    def _score(self, value: Any, place: str, key: str | None) -> float:
        number = json_number(value[0] if isinstance(value, list) and value else value, place, key or "score")
        return -number if self.costs else number

    def _references(self, value: dict[str, Any], text_key: str, place: str) -> tuple[str, ...]:
        reference = next((value[name] for name in self.ref if name != text_key and value.get(name) is not None), None)
        texts = [] if reference is None else reference if isinstance(reference, list) else [reference]
        if any(not isinstance(text, str) for text in texts):
            raise UserError(f"{place}: the reference is {json.dumps(reference)[:40]}, not a text")
        return tuple(" ".join(text.split()) for text in texts)

    def _source(self, value: dict[str, Any], place: str) -> str | None:
        source = next((value[name] for name in self.src if value.get(name) is not None), None)
        if source is not None and not isinstance(source, str):
            raise UserError(f"{place}: the source is {json.dumps(source)[:40]}, not a text")
        return source


def _is_score(value: Any) -> bool:
    """Whether a score is there: an object of scores has parts of it."""
    return value is not None and not isinstance(value, dict)


def _shown(keys: Sequence[str]) -> str:
    return ", ".join(keys[:8])[:200] + (", ..." if len(keys) > 8 else "") or "none"


def missing_text(keys: Sequence[str]) -> str:
    """The message about records without hypotheses: the nearest layout, and the missing keys."""
    layouts = [part for name in FORMATS.names if isinstance(part := FORMATS[name], Records)]
    near = max(layouts, key=lambda layout: len({*layout.text, *layout.score, *layout.id, *layout.ref} & set(keys)))
    return (
        f"no hypotheses found in the keys {_shown(keys)}; the nearest format is {near.title}, with hypotheses in "
        f"{near.text[0]}; name your keys with --field text=KEY, --field score=KEY, --field id=KEY"
    )


def records_of(source: Source, text_keys: Sequence[str] = ()) -> Iterator[tuple[int, Any, str]]:
    """The records with their numbers and places; JSON Lines as a stream. `text_keys`: where they have hypotheses."""
    peek = source.peek
    if peek.root == "{" and peek.lines:
        number = 0
        for line_number, line in enumerate(source.lines(), 1):
            if line.strip():
                number += 1
                place = f"{source.name}: line {line_number}"
                value = loads(line, place, line=True)
                for record in _by_id(value, text_keys) or [value]:
                    yield number, record, place
        return
    document = loads(source.read_all(), source.name)
    if by_id := _by_id(document, text_keys):
        for number, value in enumerate(by_id, 1):
            yield number, value, f"{source.name}: utterance {value['id']}"
        return
    values = document if isinstance(document, list) else [document]
    for number, value in enumerate(values, 1):
        yield number, value, f"{source.name}: entry {number}" if isinstance(document, list) else source.name


def _by_id(document: Any, text_keys: Sequence[str]) -> list[dict[str, Any]]:
    """The records of `{"utt": {"reference": ..., "hypotheses": [...]}}` or `{"utt": ["text", ...]}`; [] of others."""
    if not isinstance(document, dict) or not document or set(document) & set(text_keys):
        return []
    if all(isinstance(value, list) and value and not isinstance(value[0], (int, float)) for value in document.values()):
        return [{"id": name, "hyps": value} for name, value in document.items()]
    if all(isinstance(value, dict) for value in document.values()):
        return [{**value, "id": name} for name, value in document.items()]
    return []


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
    text=("translations",),
    score=("scores",),
    id=("sentence_id", "id"),
    needs=("translations", "scores"),
    costs=True,
)
NEMO = Records(
    "NeMo manifest",
    text=("beams", "pred_text"),
    score=("score", "pred_score"),
    id=("audio_filepath", "id"),
    ref=("text",),
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
        "text",
        "prediction",
        "predictions",
        "transcript",
        "beams",
    ),
    score=("score", "scores", "s2s", "sequences_scores", "logp", "log_prob", "logprob", "avg_logprob"),
    id=("id", "utt", "utt_id", "utterance", "utterance_id", "key", "audio", "audio_filepath", "path"),
    ref=("ref", "reference", "references", "target", "sentence"),
)
