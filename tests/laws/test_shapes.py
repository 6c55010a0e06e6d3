"""What a shape says of a document is read from it: all texts, scores, words, times,
channels and ids of a record that the shape itself describes. A message names each place
that no part of the document has.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.formats import paths
from rescore.formats.shapes import NUMBER, Shape, read_shape, shipped
from rescore.formats.source import ReadOptions, Source
from rescore.nbest import NbestList
from tests.formats.shape_samples import SAMPLES

WORDS = (("an", 0.25, 0.75), ("owl", 1.0, 1.5), ("flew", 2.5, 4.0))
ALTERNATIVES = 3
RESULTS = 2


def put(document: Any, path: str, value: Any) -> Any:
    """Return a document with a value at a place; `[]` appends, `[0]` is that entry."""
    return _put(document, paths.steps(path), value)


def _put(document: Any, steps: tuple[Any, ...], value: Any) -> Any:
    if not steps:
        if isinstance(document, dict) and isinstance(value, dict):
            return document | value
        return value
    step, *rest = steps
    if isinstance(step, str):
        document = document or {}
        return document | {step: _put(document.get(step), tuple(rest), value)}
    document = document or []
    if step is None and not rest:
        return [*document, value]
    first, *others = document or [None]
    return [_put(first, tuple(rest), value), *others]


def word_of(shape: Shape, word: tuple[str, float, float], key: int) -> Any:
    text, start, end = word
    if not shape.word:
        return text
    entry = put({}, shape.word[min(key, len(shape.word) - 1)], text)
    if shape.start:
        start_key = shape.start[min(key, len(shape.start) - 1)]
        entry = put(entry, start_key, start / shape.unit)
        lasts = end - start if shape.duration else end
        keys = shape.duration or shape.end
        end_key = keys[min(key, len(keys) - 1)]
        if end_key == "timestamp[1]":  # two entries of one list
            entry["timestamp"].append(lasts / shape.unit)
        else:
            entry = put(entry, end_key, lasts / shape.unit)
    return entry


def scored(shape: Shape, part: Any, path: str, score: float) -> Any:
    """Return a part with a score; many numbers share it."""
    number = math.exp(score) if shape.scale == "probability" else score
    if shape.scale == "cost":
        number = -score
    if path.startswith(shape.words) and shape.words:
        entries = paths.entries(part, shape.words, "")
        assert entries
        rest = path.removeprefix(shape.words).lstrip(".")
        share = score / len(entries)
        each = math.exp(share) if shape.scale == "probability" else share
        changed = []
        for entry in entries:
            alternative = rest.partition("[0].")
            if alternative[1]:
                entry[alternative[0]][0][alternative[2]] = each
            else:
                entry = put(entry, rest, each)
            changed.append(entry)
        return paths.with_entries(part, shape.words, changed)
    if shape.mean_of:
        part = put(part, shape.mean_of, [7, 7, 7])
        return put(part, path, number / 4)
    return put(part, path, number)


def part_of(shape: Shape, words: Any, score: float, key: int) -> Any:
    part: Any = {}
    text = " ".join(word for word, _, _ in words)
    if shape.text:
        path = shape.text[min(key, len(shape.text) - 1)]
        if path == "[]":
            return [word for word, _, _ in words]
        part = put(part, path, text)
    if shape.begin:
        part = put(part, shape.begin, words[0][1] / shape.unit)
    if shape.words:
        for word in words:
            part = put(part, shape.words, word_of(shape, word, key))
    elif shape.word:
        whole = (text, words[0][1], words[-1][2])
        part = put(part, "", word_of(shape, whole, key))
    if shape.times:
        for _, start, end in words:
            part = put(part, shape.times, [start / shape.unit, end / shape.unit])
    if shape.score:
        part = scored(shape, part, shape.score[min(key, len(shape.score) - 1)], score)
    return part


def moved(number: int, rank: int) -> list[tuple[str, float, float]]:
    """The words of an alternative: texts and times differ in each result."""
    return [
        (f"{word}{number}{rank}", start + 10 * number, end + 10 * number)
        for word, start, end in WORDS
    ]


def expected_score(number: int, rank: int) -> float:
    return -0.5 * rank - 0.125 * number


def hypothesis_of(shape: Shape, number: int, rank: int, key: int) -> Any:
    words = moved(number, rank)
    score = expected_score(number, rank)
    if not shape.parts:
        return part_of(shape, words, score, key)
    value: Any = {} if shape.parts != "[]" else []
    shares = (score / 4, 3 * score / 4)
    for piece, share in zip((words[:1], words[1:]), shares, strict=True):
        value = put(value, shape.parts, part_of(shape, piece, share, key))
    return value


def document_of(shape: Shape, key: int = 0) -> Any:
    """A document of a shape; `key` chooses among several places for one thing."""
    results = RESULTS if shape.results else 1
    ranks = ALTERNATIVES if shape.alternatives != ("",) else 1
    document: Any = {}
    for number in range(results):
        result: Any = {}
        for rank in range(ranks):
            entry = hypothesis_of(shape, number, rank, key)
            result = put(result, shape.alternatives[0], entry)
            if shape.scores:
                result = put(result, shape.scores, expected_score(number, rank))
        if shape.channel and shape.channel != NUMBER and shape.text:
            result = put(result, shape.channel, number + 1)
        if shape.speaker:
            result = put(result, shape.speaker, f"S{number}")
        document = put(document, shape.results, result)
    for where, value in ((shape.id, "u-7"), (shape.ref, "a ref"), (shape.src, "a src")):
        if where:
            document = put(document, where[min(key, len(where) - 1)], value)
    for path in shape.needs:
        if not paths.has(document, path):
            document = put(document, path, 1)
    return document


def read(shape: Shape, document: Any, folder: Path) -> list[NbestList]:
    file = folder / "call-1.json"
    file.write_text(json.dumps(document))
    return list(formats.iterate([file]))


PLACES = {
    name: max(len(getattr(shape, key)) for key in ("text", "score", "word", "start"))
    for name, shape in shipped().items()
}
CASES = [
    (name, key) for name, number in PLACES.items() for key in range(max(1, number))
]


@pytest.mark.parametrize(("name", "key"), CASES)
def test_a_record_of_the_shape_is_read_back(
    name: str, key: int, tmp_path: Path
) -> None:
    shape = shipped()[name]
    lists = read(shape, document_of(shape, key), tmp_path)
    assert len(lists) == (RESULTS if shape.results else 1)
    for number, nbest in enumerate(lists):
        ranks = ALTERNATIVES if shape.alternatives != ("",) else 1
        assert len(nbest.hypotheses) == ranks
        for rank, hypothesis in enumerate(nbest.hypotheses):
            words = moved(number, rank)
            assert hypothesis.text == " ".join(word for word, _, _ in words)
            if shape.score or shape.scores:
                score = expected_score(number, rank)
                assert hypothesis.scores["s2s"] == pytest.approx(score)
            if shape.word and not shape.words:  # a segment's words share its time
                starts = [start for _, start, _ in words]
                assert hypothesis.times[0][0] == starts[0]
                assert hypothesis.times[-1][1] == words[-1][2]
            elif shape.words and shape.text != ("[]",):
                spans = [span for _, *span in words]
                assert [pytest.approx(span) for span in spans] == [
                    list(span) for span in hypothesis.times
                ]
        if shape.id:
            assert nbest.id == "u-7" and nbest.recording is None
        if shape.ref:
            assert nbest.references == ("a ref",) and nbest.source == "a src"
        if shape.channel and shape.results:
            assert nbest.recording == f"call-1-{number + 1}"
        if shape.speaker:
            assert nbest.id == f"call.1.S{number}-{number + 1}"


@pytest.mark.parametrize("name", shipped())
def test_a_word_without_times_keeps_its_text_and_is_counted(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The word shares the gap of its neighbours, and one warning counts the words."""
    shape = shipped()[name]
    if not (shape.words and (shape.start or shape.times)):
        return
    document = document_of(shape)
    text = json.dumps(document)
    for word, start, end in moved(0, 0)[1:2]:
        assert word in text
        times = [start / shape.unit, end / shape.unit]
        if shape.duration:
            times[1] = (end - start) / shape.unit
        for time in times:
            text = text.replace(f": {json.dumps(time)}", ": null", 1)
            text = text.replace(f"[{json.dumps(time)}, ", "[null, ", 1)
    lists = read(shape, json.loads(text), tmp_path)
    first = lists[0].hypotheses[0]
    assert len(first.times) == len(WORDS) == len(first.text.split())
    assert first.times[0][1] <= first.times[1][0] <= first.times[1][1]
    assert first.times[1][1] <= first.times[2][0]
    assert sum("no times" in message for message in caplog.messages) == 1


def part_without_words(shape: Shape, number: int) -> Any:
    """A part of two seconds whose words have no times."""
    part = put({}, shape.text[0], "an owl")
    spans = [(shape.begin, shape.finish)]
    if not shape.words and shape.start:  # the part is its only word
        spans.append((shape.start[0], shape.end[0]))
    for start, end in spans:
        part = put(part, start, 2 * number / shape.unit)
        if end:
            part = put(part, end, (2 * number + 2) / shape.unit)
    if shape.score:
        part = scored(shape, part, shape.score[0], -1.0)
    return part


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("name", [one for one in shipped() if shipped()[one].parts])
def test_words_share_the_times_of_their_parts_if_an_output_has_times(
    name: str, wanted: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shape = shipped()[name]
    document: Any = None
    for number in range(2):
        document = put(document, shape.parts, part_without_words(shape, number))
    for path in shape.needs:
        if "[" not in path and not paths.has(document, path):
            document = put(document, path, "call")
    (tmp_path / "call.json").write_text(json.dumps(document))
    options = ReadOptions()
    options.segment_times = wanted
    (nbest,) = formats.read([tmp_path / "call.json"], options=options)
    times = nbest.hypotheses[0].times
    assert nbest.hypotheses[0].text == "an owl an owl"
    assert caplog.text.count("1 recording has no times of words") == (
        wanted and bool(shape.finish)
    )
    if not wanted and (shape.words or shape.times):
        assert times == ()
        return
    rounded = [(round(start, 6), round(end, 6)) for start, end in times]
    assert rounded == [(0.0, 0.8), (0.8, 2.0), (2.0, 2.8), (2.8, 4.0)]


@pytest.mark.parametrize("name", shipped())
def test_a_shape_is_told_from_all_others(name: str, tmp_path: Path) -> None:
    """Its document has its own format, and no shape before it fits."""
    shape = shipped()[name]
    document = document_of(shape)
    file = tmp_path / "call.json"
    for indent in (None, 2):
        if indent and shape.format == "sherpa":  # a line each
            continue
        file.write_text(json.dumps(document, indent=indent))
        assert formats.sniff(Source(file)) == shape.format
    same = [each for each in shipped().values() if each.format == shape.format]
    assert next(each for each in same if each.fits(document)) is shape


def test_each_shape_has_a_sample() -> None:
    assert set(SAMPLES) == set(shipped())


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str, tmp_path: Path) -> None:
    """A record as the service's documentation has it gives its texts and times."""
    content, expected = SAMPLES[name]
    file = tmp_path / "call.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    found = [
        (
            nbest.id,
            [
                (each.text, pytest.approx(each.scores["s2s"]), len(each.times))
                for each in nbest.hypotheses
            ],
        )
        for nbest in formats.iterate([file])
    ]
    assert expected == found


@pytest.mark.parametrize("name", shipped())
def test_a_users_file_says_the_same(name: str, tmp_path: Path) -> None:
    """The table of a shipped shape, given as --shape, reads the same lists."""
    shape = shipped()[name]
    own_shape(shape, tmp_path)
    own = read_shape(str(tmp_path / "mine.toml"))
    assert own == replace(shape, name="shape", format="")
    if "delimiter" in own.places():
        return  # no made document has this place
    lists = read(shape, document_of(shape), tmp_path)
    options = own_shape(without_channel(shape), tmp_path)
    again = list(formats.iterate([tmp_path / "call-1.json"], options=options))
    assert [nbest.hypotheses for nbest in again] == [
        nbest.hypotheses for nbest in lists
    ]


def own_shape(shape: Shape, folder: Path, **changes: Any) -> ReadOptions:
    """Return the options with a shape as a user describes it in a file."""
    table = {}
    for key, value in {**vars(shape), **changes}.items():
        if key not in ("name", "format") and value != getattr(Shape, key, None):
            table[key] = list(value) if isinstance(value, tuple) else value
    file = folder / "mine.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    file.write_text("\n".join(lines))
    return ReadOptions(shape=read_shape(str(file)))


def without_channel(shape: Shape) -> Shape:
    """Return a shape that reads no channel of words."""
    return shape if shape.text else replace(shape, channel="")


KEYS = [(name, key) for name, shape in shipped().items() for key in shape.places()]


@pytest.mark.parametrize(("name", "key"), KEYS)
def test_a_place_that_no_part_has_is_told(
    name: str, key: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shape = shipped()[name]
    file = tmp_path / "call.json"
    file.write_text(json.dumps(document_of(shape)))
    value = getattr(shape, key)
    lost: Any = "nowhere.here"
    if isinstance(value, tuple):
        lost = (lost,)
    if value and "[" in str(value):
        lost = ("nowhere[]",) if isinstance(value, tuple) else "nowhere[]"
    # words of a made document name no channel
    options = own_shape(without_channel(shape), tmp_path, **{key: lost})
    told = ""
    try:
        formats.read([file], options=options)
    except UserError as error:
        told = str(error)  # without texts or results there are no lists
    assert "nowhere" in told + caplog.text


OF_RESULTS = [name for name, shape in shipped().items() if "[]" in shape.results]
ABOUT = {"id": "segment", "ref": "said", "src": "asked"}
WAYS = ("in the result", "from the document", "beside the results", "for all")


def about_results(shape: Shape, way: str) -> tuple[dict[str, Any], Any]:
    """Return the keys `id`, `ref`, `src` of a shape, and a document with their values.

    Args:
        shape: The shape.
        way: How the places are named; one of `WAYS`.
    """
    document = document_of(shape)
    results = paths.entries(document, shape.results, "")
    assert results
    keys = {}
    for key, name in ABOUT.items():
        keys[key] = (name,)
        texts = [f"{name} {number}" for number in range(RESULTS)]
        if way == "for all":
            document = {**document, name: texts[0]}
        elif way == "beside the results":
            keys[key] = (f"{name}[]",)
            document = {**document, name: texts}
        else:
            for result, text in zip(results, texts, strict=True):
                result[name] = text
        if way == "from the document":
            keys[key] = (f"{shape.results}.{name}",)
    return keys, document


def read_as(name: str, document: Any, folder: Path, **keys: Any) -> Iterator[NbestList]:
    """Read a document with a shipped shape as the user's own, in which keys differ."""
    file = folder / "call.json"
    file.write_text(json.dumps(document))
    options = own_shape(shipped()[name], folder, **keys)
    return formats.iterate([file], options=options)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OF_RESULTS)
def test_each_result_has_its_own_id_reference_and_source(
    name: str, way: str, tmp_path: Path
) -> None:
    keys, document = about_results(shipped()[name], way)
    lists = list(read_as(name, document, tmp_path, **keys))
    assert len(lists) == RESULTS
    for number, nbest in enumerate(lists):
        if way == "for all":
            assert nbest.id == f"segment 0-{number + 1}"
            number = 0
        else:
            assert nbest.id == f"segment {number}"
        assert nbest.references == (f"said {number}",)
        assert nbest.source == f"asked {number}"


@pytest.mark.parametrize("key", ABOUT)
@pytest.mark.parametrize("name", OF_RESULTS)
def test_too_few_values_beside_the_results_are_an_error(
    name: str, key: str, tmp_path: Path
) -> None:
    keys, document = about_results(shipped()[name], "beside the results")
    document[ABOUT[key]].pop()
    with pytest.raises(UserError, match="1 value at "):
        list(read_as(name, document, tmp_path, **keys))


@pytest.mark.parametrize("number", [60, 1.5, 0, -0.5])
def test_a_number_that_is_no_probability_is_told(
    number: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "call.json"
    hyps = [{"text": "an owl", "p": number}, {"text": "a cowl", "p": 0.5}]
    file.write_text(json.dumps({"nbest": hyps}))
    shape = Shape(
        name="shape",
        alternatives=("nbest[]",),
        text=("text",),
        score=("p",),
        scale="probability",
    )
    options = own_shape(shape, tmp_path)
    if number > 1:
        with pytest.raises(UserError, match=f"p is {number:g}, but a probability"):
            list(formats.iterate([file], options=options))
        return
    (nbest,) = formats.iterate([file], options=options)
    assert len(nbest.hypotheses) == 2
    assert "without a probability above 0" in caplog.text
