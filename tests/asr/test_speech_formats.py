"""Files of speech recognisers in further forms, and files that are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.nbest import NbestList


def read(folder: Path, name: str, content: str) -> list[NbestList]:
    (folder / name).write_text(content, encoding="utf-8")
    return formats.read([folder / name])


def test_several_paths_of_sherpa(tmp_path: Path) -> None:
    best = {
        "text": " HELLO WORLD",
        "tokens": [" HELLO", " WORLD"],
        "timestamps": [0.1, 0.4],
    }
    other = {
        "text": " HOLLOW",
        "tokens": [" HOLLOW"],
        "timestamps": [0.1],
        "ys_log_probs": [-2.5],
    }
    result = {**best, "hypotheses": [best | {"score": -1.5}, other]}
    (found,) = read(tmp_path, "log", f"./wavs/a.wav\n{json.dumps(result)}\n")
    assert [(text.text, text.scores["s2s"]) for text in found.hypotheses] == [
        ("HELLO WORLD", -1.5),
        ("HOLLOW", -2.5),
    ]
    assert found.id == "./wavs/a.wav" and len(found.hypotheses[0].times) == 2
    for wrong, message in (
        (3, "hypotheses is no list"),
        ([3], 'the key "text" is missing'),
    ):
        with pytest.raises(UserError, match=f"log: line 1.*: {message}"):
            read(tmp_path, "log", json.dumps({**best, "hypotheses": wrong}) + "\n")


def segment(text: str, start: int, end: int) -> dict[str, object]:
    return {
        "timestamps": {"from": "00:00:00,000", "to": "00:00:01,000"},
        "offsets": {"from": start, "to": end},
        "text": text,
    }


def test_whisper_cpp(tmp_path: Path) -> None:
    about = {
        "systeminfo": "AVX = 1",
        "model": {"type": "base"},
        "params": {"language": "en"},
        "result": {"language": "en"},
    }
    document = {
        **about,
        "transcription": [
            segment(" Hello you.", 0, 1000),
            segment(" Bye.", 1500, 2000),
        ],
    }
    (found,) = read(tmp_path, "talk.wav.json", json.dumps(document, indent="\t"))
    assert (found.id, found.hypotheses[0].text) == ("talk", "Hello you. Bye.")
    first, *_, last = found.hypotheses[0].times
    assert first[0] == 0.0 and last == (1.5, 2.0)
    for wrong, message in (
        ([{"offsets": {}}], 'talk.json: segment 1: the key "text" is missing'),
        (
            [{"text": "a", "offsets": {"from": "x", "to": 1}}],
            "segment 1: time is 'x', not a number",
        ),
    ):
        with pytest.raises(UserError, match=message):
            read(tmp_path, "talk.json", json.dumps({"transcription": wrong}))


def test_parakeet_cpp(tmp_path: Path) -> None:
    words = [
        {"w": "hello", "start": 0.08, "end": 0.4, "conf": 0.98},
        {"w": "you", "start": 0.4, "end": 0.56, "conf": 0.9},
    ]
    result = {
        "text": "hello you",
        "frame_sec": 0.08,
        "words": words,
        "tokens": [{"id": 5, "t": 0.08, "conf": 0.98}],
    }
    (found,) = read(tmp_path, "call-7.json", json.dumps(result))
    assert (found.id, found.hypotheses[0].text) == ("call-7", "hello you")
    assert found.hypotheses[0].times == ((0.08, 0.4), (0.4, 0.56))
    for wrong, message in (
        ({"hypotheses": 3}, "hypotheses is no list"),
        ({"hypotheses": [{}]}, 'the key "text" is missing'),
    ):
        with pytest.raises(UserError, match=f"x.json.*: {message}"):
            read(tmp_path, "x.json", json.dumps({"frame_sec": 0.08} | wrong))


def test_rows_of_brain_to_text(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path, "rows.txt", "i am;-10.5;-7;-20;-14.25;i'm;-11;-8;-21;-15\n"
    )
    assert found.hypotheses[1].scores == {
        "s2s": -15.0,
        "acoustic": -11.0,
        "ngram": -8.0,
        "llm": -21.0,
    }
    assert all(
        found.header.records[name].is_component for name in ("acoustic", "ngram", "llm")
    )
    for wrong, message in (
        (
            "i am;1;2;3;4;i'm;1\n",
            "line 1: 7 fields; expected `text;acoustic;ngram;llm;total`",
        ),
        ("i am;1;2;3\n", "line 1: 4 fields; expected `text;acoustic;ngram;llm;total`"),
        ("i am;1;2;3;4\ni'm;1;x;3;4\n", "line 2: ngram is 'x', not a number"),
    ):
        with pytest.raises(UserError, match=message):
            read(tmp_path, "rows.txt", wrong)


@pytest.mark.parametrize("silent", [0, 1, 2, 3])
@pytest.mark.parametrize("form", ["lines", "list"])
def test_results_of_vosk_may_begin_with_silence(
    form: str, silent: int, tmp_path: Path
) -> None:
    """An object that says nothing does not tell the form."""
    word = {"conf": 1, "start": 0.5, "end": 0.75, "word": "owl"}
    said = {"result": [word], "text": "owl"}
    entries = [*([{"text": ""}] * silent), said, {"text": ""}, said]
    text = json.dumps(entries)
    if form == "lines":
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
    path = tmp_path / "talk.jsonl"
    path.write_text(text)
    lists = list(formats.iterate([path]))
    assert {nbest.recording for nbest in lists} == {"talk"}
    texts = [*([""] * silent), "owl", "", "owl"]
    assert [nbest.hypotheses[0].text for nbest in lists] == texts
    assert lists[-1].hypotheses[0].times == ((0.5, 0.75),)


def test_objects_without_any_value_are_records(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"text": ""}\n{"text": ""}\n')
    assert [nbest.id for nbest in formats.iterate([path])] == ["1", "2"]
