"""The native format: one JSON object of utterances, or JSON Lines; see docs/formats.md."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import chain
from typing import IO, Any

import msgspec

from rescore.errors import UserError
from rescore.files import loads, parsed
from rescore.formats.source import JsonPeek, ReadOptions, Source
from rescore.formats.writing import opened
from rescore.nbest import CHANNEL, FIRST_PASS, RESPELLING, ROLES, Column, Hypothesis, NbestList, Origin, Role

log = logging.getLogger(__name__)

_HYPOTHESIS = re.compile(r"hyp_(\d{1,9})")
OTHERS = {"hyps", "hypotheses", "nbest", "beams", "hyp", "text", "prediction", "predictions"}
"""Keys of the hypotheses in records of other tools."""
COLUMNS = "columns"
"""The key of the record that says where columns come from."""
COMBINED = "combined"
"""Older files mark hypotheses that the toolkit did not give by 1 in this column, and its own by 0."""
MISSING_FIRST_PASS = "missing.s2s"
"""In older files, 1 in this column marks hypotheses that only other systems proposed."""


def sniff(source: Source) -> bool:
    peek = source.peek
    if peek.root != "{" or is_espnet1(peek):
        return False
    if any(_HYPOTHESIS.fullmatch(key) for key in peek.inner):
        return True
    if not peek.keys or COLUMNS in peek.keys or ("hyps" in peek.keys and "hyps" not in peek.plain_lists):
        return True
    return bool({"ref", "src"} & set(peek.inner)) and not OTHERS & set(peek.inner)


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """Read either form. JSON Lines are read line by line; one JSON object has to be in memory as a whole."""
    if _is_lines(source.peek):
        yield from _read_lines(source, options.skip)
    else:
        yield from _read_object(source)


def is_espnet1(peek: JsonPeek) -> bool:
    """Whether a JSON object is ESPnet1's, and not one with an utterance called `utts`."""
    return peek.keys[:1] == ("utts",) and not any(key.startswith("hyp_") for key in peek.inner)


def _is_lines(peek: JsonPeek) -> bool:
    records = "hyps" in peek.keys or peek.keys == (COLUMNS,)
    return peek.lines and records and not any(_HYPOTHESIS.fullmatch(key) for key in peek.inner)


def load_json(source: Source) -> Any:
    """One JSON document.

    Raises:
        UserError: the document is incomplete (the message names line and column), or an object has a key twice.
    """
    return loads(source.read_all(), source.name)


class _Hypothesis(msgspec.Struct):
    text: str
    score: float | msgspec.UnsetType = msgspec.UNSET
    scores: dict[str, float] = {}
    origin: Origin = Origin.FIRST_PASS
    times: tuple[tuple[float, float], ...] = ()


class _List(msgspec.Struct):
    id: str | int
    hyps: list[_Hypothesis]
    ref: str | list[str] | None = None
    src: str | None = None
    recording: str | None = None


class _About(msgspec.Struct):
    ref: str | list[str] | None = None
    src: str | None = None
    recording: str | None = None


def _read_object(source: Source) -> Iterator[NbestList]:
    utterances = load_json(source)
    if not isinstance(utterances, dict):
        raise UserError(f"{source.name}: expected a JSON object of utterances")
    columns = _columns(utterances, source.name)
    if columns:
        del utterances[COLUMNS]
    for name, entry in utterances.items():
        place = f"{source.name}: utterance {name}"
        if not isinstance(entry, dict):
            raise UserError(f'{place}: expected an object with "hyp_1", "hyp_2", ...')
        numbered = sorted((int(match[1]), key) for key in entry if (match := _HYPOTHESIS.fullmatch(key)))
        hypotheses = [
            _hypothesis(parsed(entry[key], _Hypothesis, f"{place}, {key}"), f"{place}, {key}") for _, key in numbered
        ]
        about = parsed(entry, _About, place)
        yield _marked(NbestList(name, hypotheses, _references(about.ref), _source(about.src), columns, about.recording))


def _read_lines(source: Source, skip: bool) -> Iterator[NbestList]:
    columns: dict[str, Column] = {}
    for number, line in enumerate(source.lines(), 1):
        if not line.strip():
            continue
        place = f"{source.name}: line {number}"
        try:
            value = loads(line, place, line=True)
            if isinstance(value, dict) and value.keys() == {COLUMNS}:
                columns = _columns(value, place)  # of the lists that follow: files may be joined with cat
                continue
            nbest = from_json(value, place, columns)
        except UserError as error:
            if not skip:
                raise
            log.warning("skipped: %s", error)
            continue
        yield nbest


def from_json(value: Any, place: str, columns: Mapping[str, Column]) -> NbestList:
    """The list that a line of JSON Lines holds.

    Args:
        columns: where its columns come from.

    Raises:
        UserError: a key is missing, or a value is of another type.
    """
    entry = parsed(value, _List, place)
    hypotheses = [_hypothesis(hyp, f"{place}, hypothesis {rank}") for rank, hyp in enumerate(entry.hyps, 1)]
    about = _references(entry.ref), _source(entry.src), columns, entry.recording
    return _marked(NbestList(str(entry.id), hypotheses, *about))


def as_json(nbest: NbestList) -> dict[str, Any]:
    """The list as a line of JSON Lines holds it."""
    return {"id": nbest.id, **_about(nbest), "hyps": [_entry(hypothesis) for hypothesis in nbest.hypotheses]}


def _columns(document: dict[str, Any], place: str) -> dict[str, Column]:
    """The record of the columns' origins, if present; an utterance with its name has hypotheses instead."""
    value = document.get(COLUMNS)
    if not isinstance(value, dict) or any(_HYPOTHESIS.fullmatch(key) for key in value):
        return {}
    value = {name: _with_role(name, column) for name, column in value.items()}
    columns = parsed(value, dict[str, Column], f"{place}: {COLUMNS}")
    if CHANNEL in columns and columns[CHANNEL].model.startswith("respell:"):  # older files record the channel alone
        count = replace(columns[CHANNEL], fingerprint="", role=Role.COUNT)
        columns |= {name: count for name in RESPELLING if name not in columns}
    return columns


def _with_role(name: str, column: Any) -> Any:
    """The record of a column of an older file, which says no role, with its role."""
    if not isinstance(column, dict) or "role" in column:
        return column
    return column | {"role": ROLES.get(name, Role.LM if column.get("fingerprint") else Role.COMPONENT)}


def _marked(nbest: NbestList) -> NbestList:
    """The list; of an older file with the origins that its column `combined` tells, and without this column."""
    marks = [hypothesis.scores.get(COMBINED) for hypothesis in nbest.hypotheses]
    if not set(marks) <= {0.0, 1.0}:
        return nbest
    for hypothesis, mark in zip(nbest.hypotheses, marks, strict=True):
        del hypothesis.scores[COMBINED]
        if mark:
            merged = hypothesis.scores.get(MISSING_FIRST_PASS)
            respelled = any(hypothesis.scores.get(name) for name in RESPELLING[:2])
            hypothesis.origin = Origin.RESPELLED if respelled else Origin.MERGED if merged else Origin.RECOMBINED
    return nbest


def _hypothesis(entry: _Hypothesis, place: str) -> Hypothesis:
    if entry.times and (
        len(entry.times) != len(entry.text.split()) or not all(map(math.isfinite, chain.from_iterable(entry.times)))
    ):
        raise UserError(f"{place}: times are not a start and an end, in seconds, for each word of the text")
    if entry.score is msgspec.UNSET:
        if FIRST_PASS not in entry.scores:
            return Hypothesis(entry.text, entry.scores, entry.origin, entry.times)
        first_pass = entry.scores.pop(FIRST_PASS)
    else:
        first_pass = entry.score
        if FIRST_PASS in entry.scores and entry.scores.pop(FIRST_PASS) != first_pass:
            raise UserError(f'{place}: "score" and "scores" give two values of {FIRST_PASS}; leave one out')
    return Hypothesis(entry.text, {FIRST_PASS: first_pass, **entry.scores}, entry.origin, entry.times)


def _references(value: str | list[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _source(value: str | None) -> str | None:
    """An empty source counts as missing, because lists with a source are translations."""
    return value if value and value.strip() else None


def _entry(hypothesis: Hypothesis) -> dict[str, Any]:
    entry: dict[str, Any] = {"text": hypothesis.text}
    more = dict(hypothesis.scores)
    if FIRST_PASS in more:
        entry = {"score": more.pop(FIRST_PASS), **entry}
    if more:
        entry["scores"] = more
    if hypothesis.origin is not Origin.FIRST_PASS:
        entry["origin"] = hypothesis.origin
    if hypothesis.times:
        entry["times"] = hypothesis.times
    return entry


def _about(nbest: NbestList) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if nbest.references:
        about["ref"] = nbest.references[0] if len(nbest.references) == 1 else list(nbest.references)
    if nbest.source is not None:
        about["src"] = nbest.source
    if nbest.recording is not None:
        about["recording"] = nbest.recording
    return about


def write(lists: Iterable[NbestList], path: str) -> None:
    """Write one JSON object where the name ends in .json or .json.gz, else JSON Lines."""
    with opened(path) as file:
        (write_object if path.removesuffix(".gz").endswith(".json") else write_lines)(lists, file)


def write_object(lists: Iterable[NbestList], file: IO[str]) -> None:
    """Write one JSON object, an utterance at a time; where columns come from stands first.

    Raises:
        UserError: lists disagree about where a column comes from.
    """
    separator = "{\n"
    for nbest, columns in _with_record(lists):
        if columns:
            file.write(f'{separator}"{COLUMNS}": {json.dumps(columns, ensure_ascii=False, indent=1)}')
            separator = ",\n"
        hypotheses = {f"hyp_{rank}": _entry(hypothesis) for rank, hypothesis in enumerate(nbest.hypotheses, 1)}
        value = json.dumps({**_about(nbest), **hypotheses}, ensure_ascii=False, indent=1)
        file.write(f"{separator}{json.dumps(nbest.id, ensure_ascii=False)}: {value}")
        separator = ",\n"
    file.write("\n}\n" if separator != "{\n" else "{}\n")


def write_lines(lists: Iterable[NbestList], file: IO[str]) -> None:
    """Write JSON Lines; where columns come from stands in the first.

    Raises:
        UserError: lists disagree about where a column comes from.
    """
    for nbest, columns in _with_record(lists):
        if columns:
            file.write(json.dumps({COLUMNS: columns}, ensure_ascii=False) + "\n")
        file.write(json.dumps(as_json(nbest), ensure_ascii=False) + "\n")


def _record(column: Column) -> dict[str, Any]:
    return {key: value for key, value in asdict(column).items() if value is not None}


def _with_record(lists: Iterable[NbestList]) -> Iterator[tuple[NbestList, dict[str, Any]]]:
    """Each list, and with the first the record of columns that is to stand before it."""
    first: NbestList | None = None
    for nbest in lists:
        if first is None:
            first = nbest
            yield nbest, {name: _record(column) for name, column in nbest.provenance.items()}
            continue
        if nbest.provenance is not first.provenance and nbest.provenance != first.provenance:
            name = next(
                name
                for name in (*first.provenance, *nbest.provenance)
                if first.provenance.get(name) != nbest.provenance.get(name)
            )
            raise UserError(
                f"utterance {nbest.id}: column {name} comes from another model than in the lists before; "
                "write them to separate files"
            )
        yield nbest, {}
