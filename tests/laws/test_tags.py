"""Law: tags such as `<|en|>` are no words of an output, by every road it is read, and a
warning tells that they were dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rescore import formats
from rescore.asr.measured import measured_recordings
from rescore.asr.outputs import read_each
from rescore.asr.whole import read_systems
from rescore.nbest import Hypothesis, NbestList

CUE = "00:00:00.000 --> 00:00:02.000\n<|en|><|0.00|>an owl\n"
FILES = {
    "x": "u1 <|en|><|HAPPY|>an owl\n",
    "x.trn": "<|en|> an owl<|endoftext|> (u1)\n",
    "x.jsonl": json.dumps({"id": "u1", "text": "<|en|><|woitn|>an owl"}) + "\n",
    "x.csv": "id,text\nu1,<|en|>an owl\n",
    "u1.txt": "<|en|> an owl\n",
    "u1.srt": f"1\n{CUE.replace('.000', ',000')}",
    "u1.vtt": f"WEBVTT\n\n{CUE}",
    "u1.stm": "u1 1 s 0 2 <|en|>an owl\n",
    "u1.ctm": "u1 1 0 1 <|en|>an\nu1 1 1 1 <|1.00|>\nu1 1 1 1 owl\n",
}
"""Outputs of one utterance or recording, by the endings of files."""
OF_UTTERANCES = ("x", "x.trn", "x.jsonl", "x.csv")
OF_RECORDINGS = [name for name in FILES if name != "x.csv"]


def evaluated(path: str) -> str:
    (nbest,) = formats.read_output(path, "ref")
    return nbest.hypotheses[0].text


def measured(path: str) -> str:
    ((nbest,),) = measured_recordings([path], "ref")
    return nbest.hypotheses[0].text


def combined(path: str) -> str:
    (nbest,) = read_each({"a": path})["a"]
    return nbest.hypotheses[0].text


def joined(path: str) -> str:
    (recordings, _) = read_systems([path, "ref"], False)
    return recordings["u1"].text


ROADS: list[tuple[Callable[[str], str], str]] = [
    *((road, name) for road in (evaluated, combined) for name in OF_UTTERANCES),
    *((road, name) for road in (measured, joined) for name in OF_RECORDINGS),
]


@pytest.mark.parametrize(("road", "name"), ROADS)
def test_tags_are_dropped_and_told(
    road: Callable[[str], str],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(FILES[name])
    Path("ref").write_text("u1 an owl\n")
    assert road(name) == "an owl"
    assert caplog.text.count("tags such as <|en|>; the tags were dropped") == 1


@pytest.mark.parametrize("ending", ["", ".txt", ".trn"])
def test_tags_that_are_words_are_read_back(ending: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"x{ending}")
    lists = [NbestList(name, [Hypothesis("<|en|> a")]) for name in ("u1", "u2")]
    with formats.opened(path) as opened:
        pairs = [(nbest, nbest.hypotheses[0].text) for nbest in lists]
        formats.write_best(path, pairs, opened)
    reference = tmp_path / "ref"
    reference.write_text("a\nb\n" if ending == ".txt" else "u1 a\nu2 b\n")
    read = formats.read_output(path, str(reference))
    assert [nbest.hypotheses[0].text for nbest in read] == ["<|en|> a"] * 2
