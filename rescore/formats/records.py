"""Records with named fields: JSON Lines or one JSON list (Hugging Face, Sockeye, NeMo, HyPoradise), CSV, TSV.

A JSON record is a list of hypotheses, in one of the shapes

    {"sequences": ["a b", "a c"], "sequences_scores": [-1.2, -1.9]}      texts and scores apart
    {"beams": [["a b", -1.2], ["a c", -1.9]]}                            pairs, or pyctcdecode's tuples
    {"hypotheses": [{"text": "a b", "score": -1.2}, ...]}                objects
    {"id": "utt-1", "text": "a b", "score": -1.2}                        one hypothesis; those of one id follow it
"""

from __future__ import annotations

import csv
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from rescore.errors import UserError, counted
from rescore.formats.audio import entry_audio
from rescore.formats.source import Fields, ListSize, ReadOptions, Source
from rescore.formats.text import (
    as_number,
    first_of,
    grouped,
    identity_of,
    json_number,
    portions,
    records_of,
    strip_markup,
)
from rescore.formats.writing import check_holds, line, opened
from rescore.nbest import FIRST_PASS, RANK, Column, Hypothesis, NbestList

log = logging.getLogger(__name__)

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
    """Keys that tell this layout from others; without them any JSON has it."""
    costs: bool = False
    """Whether lower scores are better."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Further columns and their keys."""
    Options: ClassVar = Fields

    def sniff(self, source: Source) -> bool:
        return bool(source.peek.root) and set(self.needs) <= set(source.peek.keys)

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
        usual = next((key for key in keys if key != text_key and _is_score(value.get(key))), None)
        # pyctcdecode and transformers call the total of CTC, language model and word bonus lm_score.
        fused = ("lm_score", LOGIT) if usual is None and _is_score(value.get(LOGIT)) else ()
        return usual or next((key for key in fused if _is_score(value.get(key))), None)

    def _apart(self, value: dict[str, Any], key: str, size: int, place: str) -> list[dict[str, float]]:
        """The scores of texts that stand in a list of their own, as the scores do."""
        score_key = self._score_key(value, key)
        rows: list[dict[str, float]] = [{} for _ in range(size)]
        if score_key is not None:
            apart = value[score_key]
            if not isinstance(apart, list) or len(apart) != size:
                number_of_scores = counted(len(apart), "score") if isinstance(apart, list) else "no scores"
                raise UserError(f"{place}: {number_of_scores} for {counted(size, 'hypothesis')}")
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


def _is_score(value: Any) -> bool:
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
LAYOUTS = (HUGGING_FACE, SOCKEYE, NEMO, HYPORADISE, GENERIC)


_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*(e[-+]?\d+)?|\.\d+(e[-+]?\d+)?|inf|infinity)\s*", re.IGNORECASE)
_HOLDS = frozenset({"reference", "source", "columns"})
_WIDTH = re.compile(r"width(\d+)")


class DelimitedTable:
    """Columns by name. In CSV, quotation marks stand around cells, as RFC 4180 says; TSV has no quoting (IANA's
    text/tab-separated-values), so a text may begin with a quotation mark."""

    Options = Fields

    def __init__(self, delimiters: str, quoted: bool) -> None:
        self._delimiters = delimiters
        self._quoting: dict[str, Any] = {"strict": True} if quoted else {"quoting": csv.QUOTE_NONE, "quotechar": None}

    def sniff(self, source: Source) -> bool:
        names = self._names(source.head)
        return len(names) > 1 and bool({name.lower() for name in names} & set(GENERIC.text))

    def _names(self, head: str) -> list[str]:
        first = head.partition("\n")[0].rstrip("\r")
        delimiter = max(self._delimiters, key=first.count)
        try:
            return next(csv.reader([first], delimiter=delimiter, **self._quoting), [])
        except csv.Error:
            return []

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Lines of one id stand together. Columns of numbers that have no role become columns of scores."""
        yield from grouped(self._rows(source, options), source.name)

    def _rows(self, source: Source, options: ReadOptions) -> Iterator[tuple[str | None, NbestList]]:
        names = self._names(source.head)
        layout, more = _roles(GENERIC.with_fields(options.of(Fields).fields), names, source.name)
        beginning = self._beginning(source, names)
        has_references = bool(layout.ref) and any(row[layout.ref[0]] for row in beginning)
        has_sources = bool(layout.src) and any(row[layout.src[0]] for row in beginning)
        reader = self._reader((f"{line}\n" for line in source.lines(crlf=True)), source, names)
        columns: dict[str, bool] = {}
        for number, row in enumerate(_as_user_errors(reader, source.name)):
            if number == 0:
                continue  # the names
            place = f"{source.name}: line {reader.line_num}"
            if None in row or None in row.values():
                raise UserError(
                    f"{place}: expected {counted(len(names), 'column')}, as in the first line; quote fields "
                    "that contain a comma"
                )
            scores: dict[str, float] = {}
            if layout.score:
                value = as_number(row[layout.score[0]], place, layout.score[0])
                scores[FIRST_PASS] = -value if layout.costs else value
            for name, (key, sign) in more.items():
                if row[key].strip() and columns.setdefault(name, _NUMBER.fullmatch(row[key]) is not None):
                    scores[name] = sign * as_number(row[key], place, f"column {key}, which has numbers above,")
            references = (" ".join(row[layout.ref[0]].split()),) if has_references else ()
            text = row[layout.src[0]].strip() if has_sources else None
            identity = row[layout.id[0]] if layout.id else None
            nbest = NbestList(
                identity or str(number), [Hypothesis(strip_markup(row[layout.text[0]]), scores)], references, text
            )
            yield identity, nbest

    def _reader(self, lines: Iterable[str], source: Source, names: list[str]) -> csv.DictReader[str]:
        delimiter = max(self._delimiters, key=source.head.partition("\n")[0].count)
        return csv.DictReader(lines, names, delimiter=delimiter, **self._quoting)

    def _beginning(self, source: Source, names: list[str]) -> list[dict[str, str]]:
        """The rows of the first 64 KiB that are whole: they show whether anything stands in a column."""
        whole = source.head.rpartition("\n")[0].split("\n")
        reader = self._reader((f"{row}\n" for row in whole), source, names)
        try:
            return [row for row in list(reader)[1:] if None not in row and None not in row.values()]
        except csv.Error:  # it is reported when it is read
            return []

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """One hypothesis per line: id, text, score, further columns, and ref and src if present."""
        stream = iter(check_holds(lists, _HOLDS, path))
        first = next(stream, None)
        if first is None:
            return
        columns = list(
            dict.fromkeys(name for hypothesis in first.hypotheses for name in hypothesis.scores if name != FIRST_PASS)
        )
        titles = _titles(columns, path)
        about = [*(["ref"] if first.references else []), *(["src"] if first.source is not None else [])]
        with opened(path) as file:
            writer = csv.writer(file, delimiter=self._delimiters[0], lineterminator="\n", **self._quoting)
            writer.writerow(["id", "text", "score", *map(line, titles), *about])
            for nbest in (first, *stream):
                if (nbest.references and "ref" not in about) or (nbest.source is not None and "src" not in about):
                    raise UserError(
                        f"{path}: utterance {nbest.id} has a reference or source, {first.id} none; write .jsonl"
                    )
                known = {"ref": nbest.references[0] if nbest.references else "", "src": nbest.source or ""}
                for hypothesis in nbest.hypotheses:
                    if more := hypothesis.scores.keys() - {FIRST_PASS, *columns}:
                        raise UserError(
                            f"{path}: utterance {nbest.id} has a column {min(more)}, {first.id} none; write .jsonl"
                        )
                    scores = [hypothesis.scores.get(name) for name in (FIRST_PASS, *columns)]
                    cells = ["" if score is None else repr(score) for score in scores]
                    row = [nbest.id, line(hypothesis.text), *cells, *(line(known[name]) for name in about)]
                    try:
                        writer.writerow(row)
                    except csv.Error:  # only an id can have a tab or the end of a line here
                        raise UserError(f"{path}: a TSV cannot hold the id {nbest.id!r}; write .jsonl") from None


def _titles(columns: list[str], path: str) -> list[str]:
    """The names of columns in the first line; a column called `score` or another name with a meaning gets a number."""
    titles: list[str] = []
    for name in columns:
        title, number = name, 2
        while title.strip().lower() in {"", RANK, *ROLES} or title in titles or (title != name and title in columns):
            title, number = f"{name}.{number}", number + 1
        if title != name:
            log.warning(
                "%s: the column %r is written as %s, because its name has another meaning in tables", path, name, title
            )
        titles.append(title)
    return titles


def _as_user_errors(reader: csv.DictReader[str], path: str) -> Iterator[dict[str, str]]:
    """The rows; invalid CSV is an error that names its line."""
    try:
        yield from reader
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.reader.line_num}: {error}; quote a text with quotation marks") from None


def _roles(layout: Records, names: list[str], path: str) -> tuple[Records, dict[str, tuple[str, int]]]:
    """The layout with the one key of each role that the table has; and further columns with their keys and signs."""
    lower = {name.lower().strip(): name for name in names}
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise UserError(f"{path}: line 1: column {twice!r} is duplicated; give each a name of its own")
    chosen: dict[str, Any] = {}
    for role in ROLES:
        keys: tuple[str, ...] = getattr(layout, role)
        chosen[role] = tuple(lower[key.lower()] for key in keys if key.lower() in lower)[:1]
        if not chosen[role] and keys and keys != getattr(GENERIC, role):
            raise UserError(f"{path}: no column {keys[0]} (there are {', '.join(names)}); correct --field {role}=NAME")
    if not chosen["text"]:
        raise UserError(f"{path}: which column has the hypotheses? Say it with --field text=NAME ({', '.join(names)})")
    taken = {key for keys in chosen.values() for key in keys}
    columns = {key.removeprefix("-"): name for name, key in layout.columns.items()}
    for key in columns:
        if key not in names:
            raise UserError(
                f"{path}: no column {key} (there are {', '.join(names)}); correct --field {columns[key]}={key}"
            )
    signs = {name: (key.removeprefix("-"), -1 if key.startswith("-") else 1) for name, key in layout.columns.items()}
    left = (key for key in names if key not in taken and key not in columns and key.strip() and key != RANK)
    more = signs | {key: (key, 1) for key in left}
    return replace(layout, **chosen), more


class _NemoBeams:
    """NeMo's beams file: `text<TAB>score` lines, the same number of them for each utterance."""

    Options = ListSize

    def sniff(self, source: Source) -> bool:
        lines = [line for line in source.head.split("\n")[:20] if line]
        cells = [line.split("\t") for line in lines[: max(1, len(lines) - 1)]]
        return bool(cells) and all(len(row) == 2 and _NUMBER.fullmatch(row[1]) is not None for row in cells)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Ids are numbers from 1. The width of the beam is in the file's name, or given by --nbest-size."""
        width = _WIDTH.search(source.path.name)
        size = options.of(ListSize).size or (int(width[1]) if width else None)
        if not size:
            raise UserError(
                f"{source.name}: how many lines has an utterance? Say it with --nbest-size N (the beam width)"
            )
        lines = enumerate(source.lines(), 1)
        hypotheses = (self._hypothesis(line, f"{source.name}: line {number}") for number, line in lines)
        yield from portions(hypotheses, size, source.name)

    def _hypothesis(self, line: str, place: str) -> Hypothesis:
        text, tab, score = line.rpartition("\t")
        if not tab:
            raise UserError(f"{place}: expected `text<TAB>score`")
        return Hypothesis(strip_markup(text), {FIRST_PASS: as_number(score, place)})


CSV = DelimitedTable(",;", quoted=True)
TSV = DelimitedTable("\t", quoted=False)
NEMO_BEAMS = _NemoBeams()
