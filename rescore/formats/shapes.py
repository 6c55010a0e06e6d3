"""Shapes of JSON: where a service or toolkit puts its results, texts, scores and words.

A shape is data: a table of `shapes.toml`, or of a user's file for --shape. A document
has results, each of which becomes one list; a result has alternatives, the hypotheses;
an alternative may be made of parts, whose texts are joined; a part has words with
times. `rescore.formats.shaped` reads documents by their shapes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from rescore.errors import UserError, did_you_mean
from rescore.files import parsed
from rescore.formats import paths

Scale = Literal["log", "probability", "cost"]
"""What scores can be."""
OTHER_PLACES = "for JSON of another service, describe its places with --shape FILE"
"""The end of a message about a document whose places are not where they should be."""
NUMBER = "#"
"""The channel of a result that is called after its place, from 1."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The places of one service's JSON (`rescore.formats.paths`). Of several places
    for one thing, the first that has a value counts.
    """

    name: str
    """The name of the table."""
    title: str = "your shape"
    """The name of the service, for messages."""
    format: str = ""
    """The format (`--format`) that the shape belongs to."""
    needs: tuple[str, ...] = ()
    """Places that a document of this shape has."""
    lacks: tuple[str, ...] = ()
    """Places that a document of this shape lacks."""
    id: tuple[str, ...] = ()
    """In a result or in the document: the id; else the name of the file is the id."""
    id_else: tuple[str, ...] = ()
    """In a record: the id, if there is no key of `id`; else a field."""
    ref: tuple[str, ...] = ()
    """In a result or in the document: the reference."""
    src: tuple[str, ...] = ()
    """In a result or in the document: the source text."""
    results: str = ""
    """In the document: the results; by default the document is the only result."""
    channel: str = ""
    """In a result (in a word, if texts are made of words): the channel; `#` is the
    place of the result, from 1.
    """
    speaker: str = ""
    """In a result: the speaker, who becomes a part of the id."""
    alternatives: tuple[str, ...] = ("",)
    """In a result: the hypotheses; by default the result is the only hypothesis."""
    scores: str = ""
    """In a result: the scores of the hypotheses, if they stand in a list of their
    own.
    """
    parts: str = ""
    """In a hypothesis: parts with a text each, such as segments."""
    begin: str = ""
    """In a part: its start, by which parts are sorted."""
    finish: str = ""
    """In a part: its end; if no word has times, words may share the time of their
    part.
    """
    text: tuple[str, ...] = ()
    """In a part: the text. Without a place, the text is made of the words."""
    sparse: bool = False
    """Whether the service leaves out texts that are empty."""
    unordered: bool = False
    """Whether the service writes results in any order: the numbers of their ids tell
    the order of the requests.
    """
    score: tuple[str, ...] = ()
    """In a part: the score; several numbers, also of several parts, are added."""
    scale: Scale = "log"
    """What a score is: a natural log, a probability (0 is no score), or a cost."""
    mean_of: str = ""
    """In a part: tokens; the score is a mean over these and the end of the text."""
    words: str = ""
    """In a part: the words; by default the part is its only word."""
    words_beside: str = ""
    """In a hypothesis: the words, if the parts have none."""
    word: tuple[str, ...] = ()
    """In a word: the text; without a place, the word is a text."""
    start: tuple[str, ...] = ()
    """In a word: the start."""
    end: tuple[str, ...] = ()
    """In a word: the end."""
    duration: tuple[str, ...] = ()
    """In a word: the duration, in place of the end."""
    times: str = ""
    """In a part: starts, or pairs of start and end, in a list beside the words; without
    a place of words, beside the words or letters of the text.
    """
    unit: float = 1.0
    """The unit of times, in seconds."""
    skipped: str = ""
    """`KEY=VALUE` of words that have no text, such as blanks."""
    attached: str = ""
    """`KEY=VALUE` of words that belong to the word before, such as punctuation."""
    plain: bool = False
    """Whether texts are as people read them, without marks of toolkits."""
    is_open: bool = False
    """Whether a document is a record (`rescore.formats.records`): its places are keys,
    and a text may be a list of texts, of pairs of a text and its score, or of objects.
    """
    delimiter: str = ""
    """In the document: what stands between words, if texts are made of words."""

    def fits(self, document: Any) -> bool:
        """Return whether a document has this shape.

        Args:
            document: The JSON value, or its beginning.
        """
        return all(paths.has(document, path) for path in self.needs) and not any(
            paths.has(document, path) for path in self.lacks
        )

    def places(self) -> dict[str, list[str]]:
        """Return the places of each key as places in the document. Keys whose value is
        no place are left out, and keys without a value.
        """
        in_result = [self.results]
        in_hypothesis = _within(in_result, self.alternatives)
        in_part = _within(in_hypothesis, [self.parts])
        words = _within(in_part, [self.words])
        if self.words_beside:
            words += _within(in_hypothesis, [self.words_beside])
        about_list = ["", self.results] if self.results else [""]
        channels = [self.channel] if self.channel != NUMBER else []
        of_words = [] if self.text else words
        places = {
            "results": in_result,
            "id": _within(about_list, self.id),
            "ref": _within(about_list, self.ref),
            "src": _within(about_list, self.src),
            "channel": _within([*in_result, *of_words], channels),
            "speaker": _within(in_result, [self.speaker]),
            "alternatives": in_hypothesis,
            "scores": _within(in_result, [self.scores]),
            "parts": _within(in_hypothesis, [self.parts]),
            "begin": _within(in_part, [self.begin]),
            "finish": _within(in_part, [self.finish]),
            "text": _within(in_part, self.text),
            "score": _within(in_part, self.score),
            "mean_of": _within(in_part, [self.mean_of]),
            "words": words,
            "words_beside": words,
            "word": _within(words, self.word),
            "start": _within(words, self.start),
            "end": _within(words, self.end),
            "duration": _within(words, self.duration),
            "times": _within(in_part, [self.times]),
            "delimiter": [self.delimiter],
        }
        if self.sparse:
            del places["text"]
        named = {}
        for key, paths_of_key in places.items():
            if paths_of_key and getattr(self, key) not in ("", ("",)):
                named[key] = paths_of_key
        return named


def _within(outer: Sequence[str], inner: Sequence[str]) -> list[str]:
    """Return inner places, each within each of the outer places; the empty list for
    the empty place.
    """
    places = []
    for path in outer:
        places += [paths.joined(path, each) for each in inner if each or path]
    return places


_PATHS = (
    *("results", "scores", "parts", "begin", "finish", "mean_of", "words"),
    "words_beside",
)
"""Fields with one place each."""


def shape_of(name: str, table: Mapping[str, Any], place: str) -> Shape:
    """Return the shape that a table of TOML describes.

    Args:
        name: The name of the shape.
        table: The fields of `Shape`; a text stands for a list of one text.
        place: The file, for messages.

    Raises:
        UserError: A key is unknown, or a value is no place or of a wrong type.
    """
    known = [field.name for field in fields(Shape) if field.name != "name"]
    values: dict[str, Any] = {"name": name}
    for key, value in table.items():
        if key not in known:
            hint = did_you_mean(key, known) or f"; keys are {', '.join(known)}"
            raise UserError(f"{place}: {key[:40]} is no key of a shape{hint}")
        if key == "scale" and value not in get_args(Scale):
            able = ", ".join(get_args(Scale))
            raise UserError(f"{place}: scale is {value!r:.40}; give one of {able}")
        is_list = isinstance(getattr(Shape, key, None), tuple)
        values[key] = [value] if is_list and isinstance(value, str) else value
    shape = parsed(values, Shape, place)
    for field in fields(Shape):
        value = getattr(shape, field.name)
        where = f"{place}: {field.name}"
        if field.name in _PATHS:
            _check_path(value, where)
        elif isinstance(value, tuple):
            for path in value:
                _check_path(path, where)
    return shape


def _check_path(path: str, place: str) -> None:
    """Check that a text is a place."""
    try:
        paths.steps(path)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


@cache
def _all_shipped() -> Mapping[str, Shape]:
    """Return all shapes of `shapes.toml` by name."""
    path = Path(__file__).with_name("shapes.toml")
    with open(path, "rb") as file:
        tables = tomllib.load(file)
    shapes = {}
    for name, table in tables.items():
        shapes[name] = shape_of(name, table, f"shapes.toml: {name}")
    return shapes


@cache
def shipped() -> Mapping[str, Shape]:
    """Return the shapes of `shapes.toml` by name, without those of records."""
    shapes = _all_shipped().items()
    return {name: shape for name, shape in shapes if not shape.is_open}


@cache
def records() -> Mapping[str, Shape]:
    """Return the shapes of records in `shapes.toml` by the names of their formats."""
    shapes = _all_shipped().values()
    return {shape.format: shape for shape in shapes if shape.is_open}


LARGEST_SHAPE = 1 << 16
"""Bytes of a file with a shape, at most."""


def read_shape(path: str) -> Shape:
    """Return the shape in a user's file.

    Args:
        path: A TOML file with the fields of `Shape`.

    Raises:
        UserError: The file cannot be read, or describes no shape.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST_SHAPE).decode()
        table = tomllib.loads(text)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error})"[:280]) from None
    shape = shape_of("shape", table, path)
    if not shape.text and not shape.words:
        raise UserError(
            f'{path}: no text; name its place, such as text = "transcript", or the'
            " places of words"
        )
    return shape
