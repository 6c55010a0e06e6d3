"""JSON records with named fields, in JSON Lines or one JSON list: Hugging Face, Sockeye, NeMo, HyPoradise, one's own.

A record is a list of hypotheses, in one of the shapes

    {"sequences": ["a b", "a c"], "sequences_scores": [-1.2, -1.9]}      texts and scores apart
    {"beams": [["a b", -1.2], ["a c", -1.9]]}                            pairs, or pyctcdecode's tuples
    {"hypotheses": [{"text": "a b", "score": -1.2}, ...]}                objects
    {"id": "utt-1", "text": "a b", "score": -1.2}                        one hypothesis; those of one id follow it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from rescore.errors import UserError, counted
from rescore.formats.audio import entry_audio
from rescore.formats.lines import first_of, grouped, identity_of, json_number, records_of
from rescore.formats.source import Fields, ReadOptions, Source
from rescore.formats.text import strip_markup
from rescore.formats.writing import check_holds, opened
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList

PARTS = ("_score", "_scores", "_logprob", "_log_prob")
"""Endings of keys that hold parts of a score, such as `am_score`."""
LOGIT = "logit_score"
"""The column of pyctcdecode's CTC score."""
ROLES = ("id", "text", "score", "ref", "src", "audio")


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
    """Keys that tell this layout from others."""
    costs: bool = False
    """Whether lower scores are better."""
    as_list: bool = False
    """Whether it is written as a JSON list instead of JSON Lines."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Further columns and their keys."""
    holds: frozenset[str] = frozenset({"references", "source"})
    in_pairs: bool = False
    """Whether it is written as pairs of a text and its score."""
    Options: ClassVar = Fields

    def sniff(self, source: Source) -> bool:
        return bool(self.needs) and set(self.needs) <= set(source.peek.keys)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Records without an id are called after their place, from 1."""
        layout = self.with_fields(options.of(Fields).fields)
        yield from grouped(
            (
                layout._lists(value, number, place)
                for number, value, place in records_of(source, (*layout.text, *GENERIC.text, *HYPORADISE.text))
            ),
            source.name,
        )

    def with_fields(self, fields: Mapping[str, str]) -> Records:
        """The same layout with the keys that --field names."""
        if not fields:
            return self
        costs = self.costs
        known: dict[str, Any] = {}
        for role in ROLES:
            if role in fields:
                key = fields[role]
                if role == "score":
                    costs, key = key.startswith("-"), key.removeprefix("-")
                known[role] = (key,)
        columns = {name: key for name, key in fields.items() if name not in ROLES}
        return replace(self, **known, costs=costs, columns={**self.columns, **columns})

    def _lists(self, value: Any, number: int, place: str) -> tuple[str | None, NbestList]:
        """A record as a list, and its id if it is a single hypothesis, which further hypotheses may follow."""
        if isinstance(value, (str, list)):
            value = {self.text[0]: value}
        if not isinstance(value, dict):
            raise UserError(f"{place}: expected an object, found {json.dumps(value)[:40]}")
        key = first_of(value, self.text)
        if key is None:
            if len(self.text) == 1 and self.text != HUGGING_FACE.text and self.text != HYPORADISE.text:
                raise UserError(f"{place}: no {self.text[0]} in it (its keys: {_shown(list(value))})")
            raise UserError(f"{place}: {missing_text(list(value))}")
        named = first_of(value, self.id)
        identity = identity_of(value[named]) if named else str(number)
        hypotheses = self._hypotheses(value, key, place)
        about = self._references(value, key, place), self._source(value, place)
        nbest = NbestList(identity, hypotheses, *about, provenance=self._provenance(hypotheses))
        if (recorded := first_of(value, self.audio)) is not None:
            nbest.audio = entry_audio(value, recorded, identity, place)
        return (identity if named and isinstance(value[key], str) else None), nbest

    def _hypotheses(self, value: dict[str, Any], key: str, place: str) -> list[Hypothesis]:
        texts = value[key]
        if isinstance(texts, str):
            return [Hypothesis(strip_markup(texts), self._scores(value, key, place))]
        if not isinstance(texts, list):
            raise UserError(f"{place}: {key} is {json.dumps(texts)[:40]}, neither a text nor a list of texts")
        if texts and all(isinstance(entry, str) for entry in texts):
            apart = self._apart(value, key, len(texts), place)
            return [Hypothesis(strip_markup(text), scores) for text, scores in zip(texts, apart, strict=True)]
        return [self._nested(entry, f"{place}, {key} {rank}") for rank, entry in enumerate(texts, 1)]

    def _score_key(self, value: Mapping[str, Any], text_key: str) -> str | None:
        keys = (*self.score, *GENERIC.score)
        usual = next((key for key in keys if key != text_key and _is_given(value.get(key))), None)
        # pyctcdecode and transformers call the total of CTC, language model and word bonus lm_score.
        fused = ("lm_score", LOGIT) if usual is None and _is_given(value.get(LOGIT)) else ()
        return usual or next((key for key in fused if _is_given(value.get(key))), None)

    def _apart(self, value: dict[str, Any], key: str, size: int, place: str) -> list[dict[str, float]]:
        """The scores of texts that stand in a list of their own, as the scores do."""
        score_key = self._score_key(value, key)
        rows: list[dict[str, float]] = [{} for _ in range(size)]
        if score_key is not None:
            apart = value[score_key]
            if not isinstance(apart, list) or len(apart) != size:
                scores_given = counted(len(apart), "score") if isinstance(apart, list) else "no scores"
                raise UserError(f"{place}: {scores_given} for {counted(size, 'hypothesis')}")
            for scores, number in zip(rows, apart, strict=True):
                scores[FIRST_PASS] = self._score(number, place, score_key)
        for name, numbers in value.items():
            if name != score_key and name.endswith(PARTS) and isinstance(numbers, list) and len(numbers) == size:
                for scores, number in zip(rows, numbers, strict=True):
                    scores[name] = json_number(number, place, name)
        return rows

    def _nested(self, entry: Any, place: str) -> Hypothesis:
        if isinstance(entry, str):
            return Hypothesis(strip_markup(entry))
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str):
            return Hypothesis(strip_markup(entry[0]), {FIRST_PASS: self._score(entry[1], place, "score")})
        if isinstance(entry, list) and len(entry) in (4, 5) and isinstance(entry[0], str):
            logit, total = entry[-2:]  # pyctcdecode: text, state, frames, logit_score, lm_score; some without the state
            scores = {FIRST_PASS: self._score(total, place, "lm_score"), LOGIT: json_number(logit, place, LOGIT)}
            return Hypothesis(strip_markup(entry[0]), scores)
        if isinstance(entry, dict):
            key = first_of(entry, (*self.text, *GENERIC.text))
            if key is not None and isinstance(entry[key], str):
                return Hypothesis(strip_markup(entry[key]), self._scores(entry, key, place))
        raise UserError(
            f"{place}: expected a text, [text, score] or an object with them, found {json.dumps(entry)[:40]}"
        )

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

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """One record per list; contents without a place in it are reported."""
        with opened(path) as file:
            separator = "[\n" if self.as_list else ""
            for nbest in check_holds(lists, self.holds, path):
                file.write(separator + json.dumps(self._record(nbest), ensure_ascii=False))
                separator = ",\n" if self.as_list else "\n"
            if self.as_list and separator == "[\n":
                file.write("[")
            file.write("\n]\n" if self.as_list else "\n")

    def _record(self, nbest: NbestList) -> dict[str, Any]:
        texts = [hypothesis.text for hypothesis in nbest.hypotheses]
        scores = [hypothesis.scores.get(FIRST_PASS) for hypothesis in nbest.hypotheses]
        if self.costs:
            scores = [None if score is None else -score for score in scores]
        record: dict[str, Any] = {self.id[0]: nbest.id}
        if self.in_pairs:
            record[self.text[0]] = [list(pair) for pair in zip(texts, scores, strict=True)]
        else:
            record |= {self.text[0]: texts, self.score[0]: scores}
        if nbest.references:
            record[self.ref[0]] = nbest.references[0] if len(nbest.references) == 1 else list(nbest.references)
        if nbest.source is not None and self.src:
            record[self.src[0]] = nbest.source
        return record


def _is_given(value: Any) -> bool:
    """Whether a score is there: an object of scores has parts of it."""
    return value is not None and not isinstance(value, dict)


def _shown(keys: Sequence[str]) -> str:
    return ", ".join(keys[:8])[:200] + (", ..." if len(keys) > 8 else "") or "none"


def missing_text(keys: Sequence[str]) -> str:
    """The message about records without hypotheses: the nearest layout, and the missing keys."""
    near = max(LAYOUTS, key=lambda layout: len({*layout.text, *layout.score, *layout.id, *layout.ref} & set(keys)))
    return (
        f"no hypotheses found in the keys {_shown(keys)}; the nearest format is {near.title}, with hypotheses in "
        f"{near.text[0]}; name your keys with --field text=KEY, --field score=KEY, --field id=KEY"
    )


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
    holds=frozenset({"references"}),
    in_pairs=True,
)
HYPORADISE = Records(
    "HyPoradise",
    text=("input",),
    score=("score", "am_score"),
    ref=("output",),
    needs=("input",),
    as_list=True,
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
LAYOUTS = (HUGGING_FACE, SOCKEYE, NEMO, HYPORADISE, GENERIC)


class _Generic:
    """Any other JSON, read with --field or by usual names."""

    Options = Fields

    def sniff(self, source: Source) -> bool:
        return bool(source.peek.root)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        yield from GENERIC.read(source, options)

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        GENERIC.write(lists, path)


ANY = _Generic()
