"""The native format: one JSON object of utterances, or JSON Lines; see docs/formats.md.

Each list carries the record of its columns, so that lines may be shuffled, cut and
joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

import msgspec

from rescore.columns import (
    FIRST_PASS_ORIGIN,
    SUM,
    Column,
    all_origins,
    forbidden_names,
)
from rescore.errors import UserError
from rescore.files import ending_of, loads, opened, parsed
from rescore.formats.fields import fields_of
from rescore.formats.source import (
    NULL,
    InputProblem,
    InputWarnings,
    JsonPeek,
    ReadOptions,
    Source,
)
from rescore.formats.times import checked_times
from rescore.formats.writing import write_lines, write_object
from rescore.nbest import Header, Hypothesis, NbestList, as_ranked

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


holds_choice = True
"""Whether the combined score is written beside the first pass."""
has_means = True
"""Whether lists may have the column `sum` beside means (`rescore.nbest.are_means`)."""


def sniff(source: Source) -> bool:
    """Return whether a source is a native list, of either form."""
    peek = source.peek
    if peek.root != "{" or is_espnet1(peek):
        return False
    if not peek.keys or _has_numbered(peek):
        return True
    if "hyps" in peek.keys and not _is_of_texts(peek.first["hyps"]):
        return True
    inner = set(peek.inner)
    return not inner.isdisjoint({"ref", "src"}) and inner.isdisjoint(OTHERS)


def has_keys(source: Source, names: Set[str]) -> bool:
    """Return whether native lists are records, with hypotheses under `hyps`, and the
    first has one of the keys: then --field may name them.

    Args:
        source: Native lists.
        names: The keys.
    """
    peek = source.peek
    if "hyps" not in peek.keys or _has_numbered(peek):
        return False
    keys = set(peek.keys)
    hypotheses = peek.first["hyps"]
    if isinstance(hypotheses, list) and hypotheses and isinstance(hypotheses[0], dict):
        keys.update(hypotheses[0])
    return not keys.isdisjoint(names)


def is_espnet1(peek: JsonPeek) -> bool:
    """Return whether a JSON object is ESPnet1's, and not one with an utterance called
    `utts`.

    Args:
        peek: The beginning of the file.
    """
    return peek.keys[:1] == ("utts",) and not any(
        key.startswith("hyp_") for key in peek.inner
    )


def _has_numbered(peek: JsonPeek) -> bool:
    """Return whether the first utterance of an object has keys such as `hyp_1`."""
    return any(map(_HYPOTHESIS.fullmatch, peek.inner))


def _is_of_texts(hyps: Any) -> bool:
    """Return whether `hyps` is a list of texts or pairs, as other tools write it."""
    return isinstance(hyps, list) and hyps != [] and isinstance(hyps[0], str | list)


# --- reading -------------------------------------------------------------------------


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """Yield the lists of either form.

    Args:
        source: JSON Lines, which are read line by line; or one JSON object, which has
            to be in memory as a whole.
        options: The options of formats, of which the native one has none.

    Raises:
        UserError: The file is not JSON, or a field has another type.
    """
    peek = source.peek
    if peek.lines and "hyps" in peek.keys and not _has_numbered(peek):
        for place, line in source.filled():
            nbest = from_json(loads(line, place, line=True), place, source.warnings)
            nbest.place = place
            yield nbest
    else:
        yield from _read_object(source)


class _Hypothesis(msgspec.Struct):
    """A hypothesis as a file has it. `_hypothesis` reads a new field,
    `rescore.formats.writing` writes it.
    """

    text: str | None
    score: float | msgspec.UnsetType = msgspec.UNSET
    scores: dict[str, float] = {}
    origin: str = FIRST_PASS_ORIGIN
    times: tuple[tuple[float, float], ...] = ()
    rank: int | None = None
    alignment: str = ""


class _About(msgspec.Struct):
    """The fields of a list beside its id and hypotheses, as a file has them."""

    ref: str | list[str] | None = None
    src: str | None = None
    recording: str | None = None
    columns: dict[str, Column] | None = None
    translates: bool = False
    means: bool = False
    audio: str | dict[str, Any] | None = None
    fields: dict[str, str] = {}

    def as_list(
        self,
        name: str,
        hypotheses: list[Hypothesis],
        place: str,
        entry: dict[str, Any],
    ) -> NbestList:
        """Return the list with this id.

        Args:
            name: The id.
            hypotheses: The hypotheses.
            place: The file and line, for messages.
            entry: The keys of the list in the file; what other keys hold are fields,
                too.
        """
        audio = None
        if self.audio is not None:
            # it loads numpy, and most lists have no audio
            from rescore.formats.audio import native_audio

            audio = native_audio(self.audio, name, place)
        references = [self.ref] if isinstance(self.ref, str) else self.ref or []
        return NbestList(
            name,
            hypotheses,
            tuple(references),
            self.src,
            self._header(hypotheses),
            self.recording,
            audio,
            fields=fields_of(entry, _KNOWN, is_whole=True) | self.fields,
        )

    def _header(self, hypotheses: Sequence[Hypothesis]) -> Header:
        """Return the header of the list.

        A column `sum` without a record stands beside means, or `means` says so. The
        record of a column of another file says that it is a score of its own.

        Files of version 0.2 name a column `translator` in the lists of a toolkit of
        translation.
        """
        columns = dict(self.columns or {})
        translated = columns.pop("translator", None) is not None
        has_sums = SUM not in columns and bool(hypotheses)
        for hypothesis in hypotheses:
            has_sums = has_sums and SUM in hypothesis.scores
        return Header(
            records=columns,
            translates=self.translates or translated,
            scores_are_means=has_sums or self.means,
        )


class _List(_About, kw_only=True):
    """A list as a line of JSON Lines has it."""

    id: str | int
    hyps: list[_Hypothesis]


_KNOWN = frozenset({*_List.__struct_fields__, *OTHERS, "translator"})
"""Keys of a list that are no fields."""


def _read_object(source: Source) -> Iterator[NbestList]:
    """Yield the lists of one JSON object."""
    utterances = loads(source.read_all(), source.name)
    if not isinstance(utterances, dict):
        raise UserError(f"{source.name}: expected a JSON object of utterances")
    for name, entry in utterances.items():
        place = f"{source.name}: utterance {name}"
        if not isinstance(entry, dict):
            raise UserError(f'{place}: expected an object with "hyp_1", "hyp_2", ...')
        hypotheses = []
        numbered = _numbered_keys(entry)
        for key in numbered:
            value = entry[key]
            hypothesis = parsed(value, _Hypothesis, f"{place}, {key}")
            hypotheses.append(
                _hypothesis(hypothesis, value, f"{place}, {key}", source.warnings)
            )
        about = parsed(entry, _About, place)
        for key in numbered:
            del entry[key]
        yield about.as_list(name, hypotheses, place, entry)


def _numbered_keys(entry: dict[str, Any]) -> list[str]:
    """Return the keys such as `hyp_1` in the order of their numbers."""
    numbered = []
    for key in entry:
        match = _HYPOTHESIS.fullmatch(key)
        if match is not None:
            numbered.append((int(match[1]), key))
    return [key for _, key in sorted(numbered)]


def from_json(
    value: Any, place: str, warnings: InputWarnings | None = None
) -> NbestList:
    """Return the list that a line of JSON Lines holds.

    Args:
        value: The value of the line.
        place: The file and line, for messages.
        warnings: Counts texts that are null, which are read as empty; None to refuse
            such a text.

    Raises:
        UserError: A field is missing or has another type.
    """
    entry = parsed(value, _List, place)
    hypotheses = []
    for rank, hypothesis in enumerate(entry.hyps, 1):
        entry_place = f"{place}, hypothesis {rank}"
        own = value["hyps"][rank - 1]
        hypotheses.append(_hypothesis(hypothesis, own, entry_place, warnings))
    return entry.as_list(str(entry.id), hypotheses, place, value)


def _hypothesis(
    entry: _Hypothesis,
    value: dict[str, Any],
    place: str,
    warnings: InputWarnings | None,
) -> Hypothesis:
    """Return a hypothesis, with its origin, times and scores checked.

    Args:
        entry: The hypothesis as the file has it.
        value: All keys of the hypothesis in the file; numbers under keys of its own are
            scores.
        place: The file and line, for messages.
        warnings: Counts texts that are null, which are read as empty; None to refuse
            such a text.
    """
    if entry.text is None:
        if warnings is None:
            raise UserError(f"{place}: text: expected a text, found null")
        warnings.add("text", NULL, place)
    text = entry.text or ""
    if entry.origin != FIRST_PASS_ORIGIN and entry.origin not in all_origins():
        raise UserError(
            f"{place}: origin {entry.origin!r} is not one of {', '.join(all_origins())}"
        )
    times = entry.times
    if times:
        times = checked_times(text, times, place)
    scores = entry.scores
    if warnings is not None and not value.keys() <= _OF_HYPOTHESES:
        scores = {**_own_numbers(value, place, warnings), **scores}
    scored: dict[str, Any] = {"scores": scores}
    if entry.score is not msgspec.UNSET:
        scored = as_ranked(entry.score, scores)
    return Hypothesis(
        text,
        origin=entry.origin,
        times=times,
        rank=entry.rank,
        alignment=entry.alignment,
        **scored,
    )


_OF_HYPOTHESES = frozenset(_Hypothesis.__struct_fields__)
"""Keys of a hypothesis that have a meaning."""


def _own_numbers(
    value: dict[str, Any], place: str, warnings: InputWarnings
) -> dict[str, float]:
    """Return the numbers under keys of a hypothesis that have no meaning here, such as
    a confidence: they are columns of scores, as numbers in tables are.

    Args:
        value: The hypothesis.
        place: Its place, for messages.
        warnings: Counts values that are no numbers: a hypothesis cannot hold them.
    """
    numbers = {}
    for key in value.keys() - _OF_HYPOTHESES:
        number = value[key]
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if is_number and key not in forbidden_names():
            numbers[key] = float(number)
        else:
            warnings.add("hypothesis", _not_kept(key), place)
    return dict(sorted(numbers.items()))


def _not_kept(key: str) -> InputProblem:
    """Return the problem of a hypothesis with a key that is not read."""
    return InputProblem(
        f"has a key {key[:40]}",
        f"have a key {key[:40]}",
        ", which was not read: a hypothesis holds a text and numbers",
    )


# --- writing -------------------------------------------------------------------------


def write(lists: Iterable[NbestList], path: str) -> None:
    """Write one JSON object if the ending is .json, else JSON Lines.

    Args:
        lists: The lists.
        path: The file; `-` is standard output.

    Raises:
        UserError: The file cannot be written.
    """
    write_form = write_object if ending_of(path) == ".json" else write_lines
    with opened(path) as file:
        write_form(lists, file)
