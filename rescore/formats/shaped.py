"""Reading JSON by its shape (`rescore.formats.shapes`): a document as rows of
hypotheses, with scores and words with times.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rescore.errors import UserError, counted
from rescore.files import ending_of, loads
from rescore.formats import paths
from rescore.formats.about import about_results, id_of_document, label, still_missing
from rescore.formats.rows import Row, RowFormat, as_list
from rescore.formats.shapes import OTHER_PLACES, Shape, read_shape, shipped
from rescore.formats.source import (
    NULL,
    OF_SEGMENTS,
    UNORDERED,
    InputProblem,
    InputWarnings,
    ReadOptions,
    Source,
)
from rescore.formats.text import json_number, stem_of, strip_markup, without_tags
from rescore.formats.times import (
    BackwardsError,
    Span,
    TimedWord,
    time_order,
    timed_pieces,
)
from rescore.ids import by_number
from rescore.options import Declared, read_file

WITHOUT_TEXT = InputProblem(
    "has no alternative with a text", "have no alternative with a text", "; left out"
)
WITHOUT_HYPOTHESES = InputProblem(
    "has no hypothesis", "have no hypotheses", "; read as an empty text"
)
IMPROBABLE = InputProblem(
    "has a hypothesis without a probability above 0",
    "have a hypothesis without a probability above 0",
    "; their scores are not read, and the order of the file counts",
)
LAST_WORD = 0.2
"""Seconds that the last word of a text is taken to last if only starts are known."""


def _missing(key: str, where: str) -> InputProblem:
    """Return the problem of a file that has a place of the user's shape nowhere.

    Args:
        key: The key of the shape.
        where: The place.
    """
    return InputProblem(
        f"has no {where}",
        f"have no {where}",
        f"; if this is an error, correct {key} in the file of --shape",
    )


@dataclass(frozen=True, kw_only=True)
class ShapeOptions(Declared):
    """The option that names a user's shape."""

    shape: Shape | None = read_file(
        None,
        "TOML file that describes the JSON of another service: where results, texts,"
        " scores and words stand (docs/get-lists.md).",
        "--shape",
        read=read_shape,
    )


# --- documents -----------------------------------------------------------------------


class Shaped(RowFormat):
    """A format of JSON: documents of the shapes that belong to it.

    Args:
        name: The name of the format, by which its shapes are found.
        shapes: The shapes; None for those of `shapes.toml`.
        folders: Whether a folder with a document per recording is read, too. The lists
            of such formats do not name their recording: it is the list.
        translates: Whether a toolkit of translation writes such documents.
        are_samples: Whether hypotheses are samples of a model.
    """

    Options = ShapeOptions

    def __init__(
        self,
        name: str,
        shapes: Sequence[Shape] | None = None,
        folders: bool = False,
        translates: bool = False,
        are_samples: bool = False,
    ) -> None:
        self._name = name
        self._own = shapes
        self._folders = folders
        self.translates = translates
        self.are_samples = are_samples

    @property
    def shapes(self) -> Sequence[Shape]:
        """The shapes in the order in which they are tried."""
        if self._own is not None:
            return self._own
        return [shape for shape in shipped().values() if shape.format == self._name]

    def sniff(self, source: Source) -> bool:
        """Return whether the beginning of a source has one of the shapes.

        Args:
            source: A file, a folder or a stream.
        """
        if source.is_folder:
            firsts = source.files(_is_json)[:1] if self._folders else []
            return any(map(self.sniff, firsts))
        peek = source.peek
        if not peek.root:
            return False
        if self._fitting(peek.first) is not None:
            return True
        return peek.root == "[" and self._fitting([peek.first]) is not None

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of each result.

        A list is called after the id in its document; else after the file, and its
        number where the file has several results.

        Args:
            source: A document, JSON Lines, a list of documents, or a folder.
            options: The options of formats.

        Raises:
            UserError: A document has no shape of this format, or is damaged.
        """
        for file in source.files(_is_json):
            yield from self._rows_of_file(file, options.segment_times)

    def _fitting(self, document: Any) -> Shape | None:
        """Return the first shape that fits a document; None if none does."""
        for shape in self.shapes:
            if shape.fits(document):
                return shape
        return None

    def _rows_of_file(self, source: Source, segment_times: bool) -> Iterator[Row]:
        """Yield the rows of a file: those with ids at once, others when the number of
        results is known.

        Args:
            source: The file.
            segment_times: Whether words without times share the times of segments.
        """
        waiting: list[Result] = []
        unordered: list[tuple[str, Result]] = []
        unseen: dict[str, list[str]] = {}
        if self._own is not None:
            unseen = self._own[-1].places()
        last = self._fitting(source.peek.first) or self.shapes[-1]
        for document, place in self._documents(source):
            last = shape = self._fitting(document) or last
            unseen = still_missing(unseen, document)
            if not segment_times:
                shape = replace(shape, finish="")
            results = results_of(shape, document, place, source.warnings)
            for result in results:
                if result.id is None:
                    waiting.append(result)
                elif shape.unordered:
                    unordered.append((result.id, result))
                else:
                    yield from result.rows_of(result.id)
        for index in by_number([name for name, _ in unordered]):
            name, result = unordered[index]
            yield from result.rows_of(name)
        yield from self._called_after_the_file(waiting, stem_of(source))
        for key in unseen:
            value = getattr(self.shapes[-1], key)
            where = value if isinstance(value, str) else " or ".join(value)
            source.warnings.add("file", _missing(key, where[:100]), source.name)

    def _called_after_the_file(
        self, results: Sequence[Result], stem: str
    ) -> Iterator[Row]:
        """Yield the rows of results that have no ids."""
        channels = {result.channel for result in results} - {None}
        for number, result in enumerate(results, 1):
            name = stem
            if result.speaker is not None:
                name = f"{re.sub('[-_]', '.', stem)}.{result.speaker}"
            if len(results) > 1:
                name = f"{name}-{number}"
            recording: str | None = None
            if not self._folders:
                recording = stem
                if len(channels) > 1 and result.channel is not None:
                    recording = f"{stem}-{result.channel}"
            yield from result.rows_of(name, recording)

    def _documents(self, source: Source) -> Iterator[tuple[Any, str]]:
        """Yield the documents of a file with their places, for messages."""
        if source.peek.lines and not self._folders:
            for place, line in source.filled():
                yield loads(line, place, line=True), place
            return
        text = source.read_all()
        if source.peek.lines and "\n" in text.strip():
            for number, line in enumerate(text.split("\n"), 1):
                place = f"{source.name}: line {number}"
                if line.strip():
                    yield loads(line, place, line=True), place
            return
        document = loads(text, source.name)
        if isinstance(document, list) and self._fitting(document) is None:
            for number, entry in enumerate(document, 1):
                yield entry, f"{source.name}: entry {number}"
            return
        yield document, source.name


def _is_json(path: Path) -> bool:
    """Return whether a file of a folder is JSON by its name."""
    return ending_of(path.name) == ".json"


# --- results -------------------------------------------------------------------------


@dataclass(slots=True)
class Result:
    """One result of a document."""

    hypotheses: list[Row]
    """Rows without an id."""
    place: str
    id: str | None = None
    channel: str | None = None
    speaker: str | None = None
    references: tuple[str, ...] = ()
    source: str | None = None

    def rows_of(self, name: str, recording: str | None = None) -> Iterator[Row]:
        """Yield the rows of the result; a row without a text if there is no hypothesis.

        Args:
            name: The id of the list.
            recording: The recording of the utterance, where the list names it.
        """
        for row in as_list(self.hypotheses or [Row("", self.place)]):
            row.id = name
            row.recording = recording
            row.references = self.references
            row.source = self.source
            yield row


def results_of(
    shape: Shape, document: Any, place: str, warnings: InputWarnings
) -> list[Result]:
    """Return the results of a document.

    Args:
        shape: The shape of the document.
        document: A JSON value.
        place: The file and line, for messages.
        warnings: Collects repairs.

    Raises:
        UserError: The document lacks a place of the shape, or a value has a wrong type.
    """
    found = _by_channel(shape, document)
    if found is None:
        found = paths.entries(document, shape.results, place)
    if found is None:
        raise UserError(
            f"{place}: no {shape.results} in it ({shape.title}); {OTHER_PLACES}"
        )
    alternatives = []
    for number, result in enumerate(found, 1):
        of_result = f"{place}, phrase {number}" if shape.results else place
        alternatives.append((_alternatives(shape, result, of_result), of_result))
    _check_absent(shape, alternatives)
    about = about_results(shape, document, found, place)
    whole_id = id_of_document(shape, document, place)
    results = []
    for number, (result, said, (own, of_result)) in enumerate(
        zip(found, about, alternatives, strict=True), 1
    ):
        hypotheses = _hypotheses(shape, result, own or [], of_result, warnings)
        if not hypotheses and (shape.results or shape.sparse):
            is_known = said.id is not None or bool(said.references)
            if not is_known and (shape.results or whole_id is None):
                if own and any(own):
                    warnings.add("result", WITHOUT_TEXT, of_result)
                continue  # a phrase without speech
            warnings.add("result", WITHOUT_HYPOTHESES, of_result)
            hypotheses = [Row("", of_result, "", is_plain=True)]
        results.append(
            Result(
                hypotheses,
                of_result,
                said.id,
                label(result, shape.channel, number),
                label(result, shape.speaker, number),
                tuple(_read(shape, text) for text in said.references),
                None if said.source is None else _read(shape, said.source),
            )
        )
    for number, one in enumerate(results, 1):
        if one.id is None and whole_id is not None:
            one.id = whole_id if len(results) == 1 else f"{whole_id}-{number}"
    return results


def _read(shape: Shape, text: str) -> str:
    """Return a text as people read it."""
    return " ".join(text.split()) if shape.plain else strip_markup(text)


def _by_channel(shape: Shape, document: Any) -> list[Any] | None:
    """Return a document for each channel of its words; None if channels are not those
    of words.
    """
    if shape.text or not shape.channel:
        return None
    channels: dict[Any, list[Any]] = {}
    for word in paths.values(document, shape.words):
        channel = str(paths.first(word, (shape.channel,)))
        channels.setdefault(channel, []).append(word)
    if len(channels) < 2:
        return None
    documents = []
    for channel, words in channels.items():
        part = paths.with_entries(document, shape.words, words)
        documents.append({**part, shape.channel: channel})
    return documents


def _alternatives(shape: Shape, result: Any, place: str) -> list[Any] | None:
    """Return the alternatives of a result; None if it has no place for them."""
    absent = True
    for path in shape.alternatives:
        found = paths.entries(result, path, place)
        if found:
            return found
        absent = absent and found is None
    return None if absent else []


def _check_absent(
    shape: Shape, alternatives: Sequence[tuple[list[Any] | None, str]]
) -> None:
    """Check that results have alternatives; those of a sparse shape may lack them if
    others have them.
    """
    absent = [place for found, place in alternatives if found is None]
    is_optional = shape.sparse and (
        not shape.results or len(absent) < len(alternatives)
    )
    if absent and not is_optional:
        raise UserError(
            f"{absent[0]}: no alternatives in it; expected {shape.alternatives[0]}"
            f" ({shape.title}); {OTHER_PLACES}"
        )


# --- hypotheses ----------------------------------------------------------------------


def _hypotheses(
    shape: Shape,
    result: Any,
    alternatives: Sequence[Any],
    place: str,
    warnings: InputWarnings,
) -> list[Row]:
    """Return the hypotheses of a result; none if it has no text."""
    if shape.sparse and not _have_texts(shape, alternatives):
        return []
    apart: list[Any] | None = None
    if shape.scores:
        apart = paths.entries(result, shape.scores, place)
    if apart is not None and len(apart) != len(alternatives):
        raise UserError(
            f"{place}: {counted(len(apart), 'score')} for"
            f" {counted(len(alternatives), 'hypothesis')} in {shape.scores}"
        )
    hypotheses = []
    scores: list[float | None] = []
    for rank, alternative in enumerate(alternatives, 1):
        of_alternative = place
        if shape.alternatives != ("",):
            of_alternative = f"{place}, alternative {rank}"
        reading = _Alternative(shape, alternative, of_alternative, warnings)
        hypotheses.append(reading.row(place))
        if apart is None:
            scores.append(reading.score())
        else:
            scores.append(_scaled(shape, [apart[rank - 1]], "score", of_alternative))
    # a service gives no confidence to some texts: the order of the file counts
    if None in scores and shape.scale == "probability":
        if _is_users(shape) and (shape.score or shape.scores):
            warnings.add("list", IMPROBABLE, place)
        return hypotheses
    for hypothesis, score in zip(hypotheses, scores, strict=True):
        hypothesis.total = score
    return hypotheses


def _have_texts(shape: Shape, alternatives: Sequence[Any]) -> bool:
    """Return whether an alternative has a text; one that is no object is an error
    later.
    """
    for alternative in alternatives:
        if not isinstance(alternative, dict):
            return True
        if any(paths.has(alternative, path) for path in shape.text):
            return True
    return False


def _is_users(shape: Shape) -> bool:
    """Return whether a user describes the shape, not `shapes.toml`."""
    return not shape.format


def _scaled(shape: Shape, values: Sequence[Any], what: str, place: str) -> float | None:
    """Return the sum of scores as a natural log; None if a probability is 0, or a
    score is null.
    """
    if None in values:
        return None
    numbers = [json_number(value, place, what) for value in values]
    if shape.scale == "cost":
        return -sum(numbers)
    if shape.scale == "log":
        return sum(numbers)
    if _is_users(shape) and max(numbers, default=0.0) > 1:
        raise UserError(
            f"{place}: {what} is {max(numbers):g}, but a probability is at most 1; if"
            ' it is a score or a cost, write scale = "log" or scale = "cost" in'
            " the file of --shape"
        )
    if any(number <= 0 for number in numbers):
        return None
    return sum(map(math.log, numbers))


class _Alternative:
    """A hypothesis as a document has it.

    Args:
        shape: The shape of the document.
        value: The JSON value.
        place: Its place, for messages.
        warnings: Collects repairs.
    """

    def __init__(
        self, shape: Shape, value: Any, place: str, warnings: InputWarnings
    ) -> None:
        self._shape = shape
        self._value = value
        self._place = place
        self._warnings = warnings
        self._parts = self._in_order()

    def _in_order(self) -> list[tuple[Any, str]]:
        """Return the parts in the order of their starts, with their places."""
        shape = self._shape
        if not shape.parts:
            return [(self._value, self._place)]
        found = paths.entries(self._value, shape.parts, self._place)
        if found is None:
            raise UserError(
                f"{self._place}: no {shape.parts} in it ({shape.title}); {OTHER_PLACES}"
            )
        parts = []
        starts = []
        for number, part in enumerate(found, 1):
            place = f"{self._place}: segment {number}"
            parts.append((part, place))
            start = paths.first(part, (shape.begin,)) if shape.begin else None
            if start is not None:
                starts.append(Span.read(start, start, place).start)
        order = time_order(starts)
        if len(starts) < len(parts) or order is None:
            return parts
        self._warnings.add("recording", UNORDERED, self._place)
        return [parts[place] for place in order]

    def row(self, place: str) -> Row:
        """Return the text and its words, without a score and an id.

        Args:
            place: The place of the result.
        """
        words = self.words()
        return Row("", place, self._text(words), words=words, is_plain=True)

    def words(self) -> list[TimedWord]:
        """Return the words of all parts, or those beside the parts."""
        words: list[TimedWord] = []
        shape = self._shape
        for part, place in self._parts:
            if shape.times and not shape.words:
                words += _words_of_text(shape, part, place)
            else:
                words += _words(shape, part, shape.words, place)
        beside = self._shape.words_beside
        if beside and not _have_times(words):
            words = _words(self._shape, self._value, beside, self._place)
        if self._shape.finish and not _have_times(words):
            return self._parts_as_words() or words
        return words

    def _parts_as_words(self) -> list[TimedWord]:
        """Return the text of each part with its time; nothing if no part has a time."""
        shape = self._shape
        words: list[TimedWord] = []
        for part, place in self._parts:
            start = paths.first(part, (shape.begin,))
            end = paths.first(part, (shape.finish,))
            span: Span | None = None
            if start is not None and end is not None:
                span = Span.read(start, end, place, unit=shape.unit)
            words.append((self._text_of(part, place), span))
        if not _have_times(words):
            return []
        self._warnings.add("recording", OF_SEGMENTS, self._place)
        return words

    def score(self) -> float | None:
        """Return the score; None if a part has none."""
        scores = [self._score_of(part, place) for part, place in self._parts]
        total = 0.0
        for score in scores:
            if score is None or (self._shape.parts and math.isnan(score)):
                return None
            total += score
        return total if scores else None

    def _score_of(self, part: Any, place: str) -> float | None:
        """Return the score of a part; None if it has none."""
        shape = self._shape
        for path in shape.score:
            values = paths.values(part, path)
            if not values:
                continue
            what = re.split(r"[.\[]", path.rstrip("[]"))[-1]
            score = _scaled(shape, values, what, place)
            tokens = paths.first(part, (shape.mean_of,)) if shape.mean_of else None
            if score is not None and isinstance(tokens, list):
                score *= len(tokens) + 1
            return score
        return None

    def _text(self, words: Sequence[TimedWord]) -> str:
        """Return the text: of the parts, or made of the words."""
        shape = self._shape
        if not shape.text:
            mark = " "
            delimiter = paths.values(self._value, shape.delimiter)
            if shape.delimiter and delimiter:
                mark = str(delimiter[0])
            text = mark.join(word for word, _ in words)
        else:
            pieces: list[str] = []
            for part, place in self._parts:
                pieces += self._text_of(part, place).split()
            text = " ".join(pieces)
        return text if shape.plain else strip_markup(text)

    def _text_of(self, part: Any, place: str) -> str:
        """Return the text of a part."""
        shape = self._shape
        for path in shape.text:
            values = paths.values(part, path)
            if values and all(isinstance(value, str) for value in values):
                return " ".join(values)
        for path in shape.text:
            if path.endswith("[]") and paths.has(part, path):
                return ""
            if paths.has(part, path) and paths.first(part, (path,)) is None:
                self._warnings.add("text", NULL, place)
                return ""
        if shape.sparse and isinstance(part, dict):
            return ""
        raise UserError(f'{place}: the key "{shape.text[0]}" is missing')


# --- words ---------------------------------------------------------------------------


def _have_times(words: Sequence[TimedWord]) -> bool:
    """Return whether a word has times."""
    return any(span for _, span in words)


def words_of(
    shape: Shape, value: Any, place: str, warnings: InputWarnings
) -> list[TimedWord]:
    """Return the words that stand beside a text, with times as far as they are known.

    Args:
        shape: Says where the words stand.
        value: The JSON value that has the text.
        place: The file and line, for messages.
        warnings: Collects repairs.
    """
    return _Alternative(shape, value, place, warnings).words()


def _words(shape: Shape, part: Any, path: str, place: str) -> list[TimedWord]:
    """Return the words of a part, with times as far as they are known."""
    if not path and not shape.word:
        return []
    entries = paths.entries(part, path, place) or []
    beside: list[Any] = []
    if shape.times:
        beside = paths.entries(part, shape.times, place) or []
        if len(beside) != len(entries):
            return []
    words: list[TimedWord] = []
    for number, entry in enumerate(entries):
        text = _word(shape, entry, f"{place}, word {number + 1}")
        if _is(entry, shape.skipped) or not text.strip():
            continue
        if words and _is(entry, shape.attached):
            last, span = words[-1]
            words[-1] = (last + text, span)
            continue
        if shape.times:
            span = span_beside(shape, beside, number, place)
        else:
            span = _span(shape, entry, place)
        words.append((text, span))
    return words


def _words_of_text(shape: Shape, part: Any, place: str) -> list[TimedWord]:
    """Return the words of a text, or its letters where a language puts no blanks
    between words, with the times that stand in a list beside the text: marks of
    punctuation have no times of their own.
    """
    text = paths.first(part, shape.text)
    times = paths.entries(part, shape.times, place) or []
    words: list[str] = []
    for piece in timed_pieces(without_tags(str(text or ""))):
        if words and not any(map(str.isalnum, piece)):
            words[-1] += piece
        else:
            words.append(piece)
    if len(words) != len(times):
        return []
    timed: list[TimedWord] = []
    for number, word in enumerate(words):
        timed.append((word.strip(), span_beside(shape, times, number, place)))
    return timed


def _word(shape: Shape, entry: Any, place: str) -> str:
    """Return the text of a word."""
    if not shape.word:
        return str(entry).replace("\u2581", "")
    if not isinstance(entry, dict):
        raise UserError(
            f"{place}: expected an object with {shape.word[0]}, found"
            f" {json.dumps(entry)[:40]}"
        )
    text = paths.first(entry, shape.word)
    return "" if text is None else str(text)


def _is(entry: Any, condition: str) -> bool:
    """Return whether a word has the value of a condition `KEY=VALUE`."""
    key, equals, value = condition.partition("=")
    return bool(equals) and paths.first(entry, (key,)) == value


def _span(shape: Shape, entry: Any, place: str) -> Span | None:
    """Return the times of a word; None if they are missing or run backwards."""
    start = paths.first(entry, shape.start)
    end = paths.first(entry, shape.duration or shape.end)
    if start is None and shape.sparse:
        start = 0
    if start is None or end is None:
        return None
    try:
        return Span.read(start, end, place, bool(shape.duration), shape.unit)
    except BackwardsError:
        return None


def span_beside(
    shape: Shape, times: Sequence[Any], number: int, place: str
) -> Span | None:
    """Return the times of a word from the list beside the words: a pair of start and
    end, or a start; the word then lasts up to the next start.

    Args:
        shape: Says the unit of times.
        times: The list beside the words.
        number: The number of the word, from 0.
        place: The file and line, for messages.

    Returns:
        The times; None if they are missing or run backwards.
    """
    time = times[number]
    following = times[number + 1] if number + 1 < len(times) else None
    try:
        if isinstance(time, list) and len(time) == 2 and None not in time:
            return Span.read(time[0], time[1], place, unit=shape.unit)
        if time is None or isinstance(time, list):
            return None
        if following is not None:
            return Span.read(time, following, place, unit=shape.unit)
        last = LAST_WORD / shape.unit
        return Span.read(time, last, place, duration=True, unit=shape.unit)
    except BackwardsError:
        return None


SPEECH = Shaped("speech")
WHISPER = Shaped("whisper", folders=True)
PARAKEET = Shaped("parakeet", folders=True)
OPENAI = Shaped("openai", are_samples=True)
CTRANSLATE2 = Shaped("ctranslate2", translates=True)
