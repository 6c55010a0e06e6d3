"""The native format: one JSON object of utterances, or JSON Lines; see docs/formats.md.

Each list carries the record of its columns, so that lines may be shuffled, cut and
joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from rescore.columns import FIRST_PASS, TOOLKIT, Column, origins
from rescore.errors import UserError
from rescore.files import loads, parsed
from rescore.formats.source import JsonPeek, ReadOptions, Source
from rescore.nbest import Header, Hypothesis, NbestList

_HYPOTHESIS = re.compile(r"hyp_(\d{1,9})")
OTHERS = {
    "hyps",
    "hypotheses",
    "nbest",
    "beams",
    "hyp",
    "text",
    "prediction",
    "predictions",
}
"""Keys of the hypotheses in records of other tools."""


def sniff(source: Source) -> bool:
    peek = source.peek
    if peek.root != "{" or is_espnet1(peek):
        return False
    if not peek.keys or any(map(_HYPOTHESIS.fullmatch, peek.inner)):
        return True
    hyps = peek.first.get("hyps")
    if "hyps" in peek.keys and not (
        isinstance(hyps, list) and hyps and isinstance(hyps[0], str | list)
    ):
        return True
    return bool({"ref", "src"} & set(peek.inner)) and not OTHERS & set(peek.inner)


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """Read either form. JSON Lines are read line by line; one JSON object has to be in
    memory as a whole.
    """
    peek, lists = source.peek, _read_object(source)
    if (
        peek.lines
        and "hyps" in peek.keys
        and not any(map(_HYPOTHESIS.fullmatch, peek.inner))
    ):
        lists = (
            from_json(loads(line, place, line=True), place)
            for place, line in source.filled()
        )
    yield from lists


def is_espnet1(peek: JsonPeek) -> bool:
    """Whether a JSON object is ESPnet1's, and not one with an utterance called
    `utts`.
    """
    return peek.keys[:1] == ("utts",) and not any(
        key.startswith("hyp_") for key in peek.inner
    )


class _Hypothesis(msgspec.Struct):
    """A hypothesis as a file has it. `_hypothesis` reads a new field,
    `rescore.formats.writing` writes it.
    """

    text: str
    score: float | msgspec.UnsetType = msgspec.UNSET
    scores: dict[str, float] = {}
    origin: str = TOOLKIT
    times: tuple[tuple[float, float], ...] = ()
    rank: int | None = None


class _About(msgspec.Struct):
    ref: str | list[str] | None = None
    src: str | None = None
    recording: str | None = None
    columns: dict[str, Column] | None = None
    translates: bool = False
    audio: str | dict[str, Any] | None = None

    def as_list(self, name: str, hypotheses: list[Hypothesis], place: str) -> NbestList:
        """The list with this id."""
        audio = None
        if self.audio is not None:
            from rescore.formats.audio import native_audio

            audio = native_audio(self.audio, name, place)
        references = (self.ref,) if isinstance(self.ref, str) else tuple(self.ref or ())
        return NbestList(
            name,
            hypotheses,
            references,
            self.src,
            self._header(),
            self.recording,
            audio,
        )

    def _header(self) -> Header:
        """Return the header of the list.

        Files of version 0.2 name a column `translator` in the lists of a toolkit of
        translation.
        """
        columns = dict(self.columns or {})
        translated = columns.pop("translator", None) is not None
        return Header(columns=columns, translates=self.translates or translated)


class _List(_About, kw_only=True):
    id: str | int
    hyps: list[_Hypothesis]


def _read_object(source: Source) -> Iterator[NbestList]:
    utterances = loads(source.read_all(), source.name)
    if not isinstance(utterances, dict):
        raise UserError(f"{source.name}: expected a JSON object of utterances")
    for name, entry in utterances.items():
        place = f"{source.name}: utterance {name}"
        if not isinstance(entry, dict):
            raise UserError(f'{place}: expected an object with "hyp_1", "hyp_2", ...')
        numbered = sorted(
            (int(match[1]), key)
            for key in entry
            if (match := _HYPOTHESIS.fullmatch(key))
        )
        hypotheses = [
            _hypothesis(
                parsed(entry[key], _Hypothesis, f"{place}, {key}"), f"{place}, {key}"
            )
            for _, key in numbered
        ]
        yield parsed(entry, _About, place).as_list(name, hypotheses, place)


def from_json(value: Any, place: str) -> NbestList:
    """The list that a line of JSON Lines holds."""
    entry = parsed(value, _List, place)
    hypotheses = [
        _hypothesis(hyp, f"{place}, hypothesis {rank}")
        for rank, hyp in enumerate(entry.hyps, 1)
    ]
    return entry.as_list(str(entry.id), hypotheses, place)


def _hypothesis(entry: _Hypothesis, place: str) -> Hypothesis:
    if entry.origin != TOOLKIT and entry.origin not in origins():
        raise UserError(
            f"{place}: origin {entry.origin!r} is not one of {', '.join(origins())}"
        )
    times = entry.times
    if times:
        from rescore.formats.times import checked_times

        times = checked_times(entry.text, times, place)
    scores = entry.scores
    if entry.score is not msgspec.UNSET:
        if FIRST_PASS in scores and scores[FIRST_PASS] != entry.score:
            raise UserError(
                f'{place}: "score" and "scores" give two values of {FIRST_PASS}; leave'
                " one out"
            )
        scores = {FIRST_PASS: entry.score} | scores
    return Hypothesis(entry.text, scores, entry.origin, times, entry.rank)


def write(lists: Iterable[NbestList], path: str) -> None:
    """Write one JSON object where the name ends in .json or .json.gz, else JSON
    Lines.
    """
    from rescore.formats.writing import opened, write_lines, write_object

    with opened(path) as file:
        (write_object if path.removesuffix(".gz").endswith(".json") else write_lines)(
            lists, file
        )
