"""Law: cpWER and tcpWER of recordings with speakers are meeteval's own figures, in
every format that has speakers.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rescore.asr.sessions import (
    measured_sessions,
    read_sessions,
    segments_of,
    text_of,
)
from rescore.errors import UserError
from rescore.formats.segments import Segment
from rescore.formats.times import Span
from rescore.metrics import METRICS, Normaliser
from tests.conftest import Run

WORDS = ["an", "old", "owl", "hoots", "at", "the", "clock", "by", "the", "sea"]


def some_segments(seed: int, sessions: int = 3) -> list[dict[str, Any]]:
    """Return segments of SegLST, of two to four speakers in each session."""
    draw = random.Random(seed)
    segments = []
    for session in range(sessions):
        speakers = [f"s{number}" for number in range(draw.randint(2, 4))]
        time = 0.0
        for _ in range(8):
            length = round(draw.uniform(0.5, 4), 2)
            words = draw.choices(WORDS, k=draw.randint(1, 6))
            segments.append(
                {
                    "session_id": f"talk{session}",
                    "speaker": draw.choice(speakers),
                    "start_time": round(time, 2),
                    "end_time": round(time + length, 2),
                    "words": " ".join(words),
                }
            )
            time += draw.uniform(0, length)
    return segments


def stm(segments: list[dict[str, Any]]) -> str:
    lines = []
    for one in segments:
        times = f"{one['start_time']} {one['end_time']}"
        lines.append(f"{one['session_id']} 1 {one['speaker']} {times} {one['words']}\n")
    return "".join(lines)


def words_alone(segments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a segment for each word, of half a second."""
    singles = []
    for one in segments:
        for place, word in enumerate(one["words"].split()):
            start = round(one["start_time"] + place / 2, 2)
            times = {"start_time": start, "end_time": start + 0.5}
            singles.append(one | times | {"words": word})
    return singles


def ctm(segments: list[dict[str, Any]]) -> str:
    lines = []
    for one in words_alone(segments):
        place = f"{one['session_id']} {one['speaker']} {one['start_time']} 0.5"
        lines.append(f"{place} {one['words']} 0.9\n")
    return "".join(lines)


def rttm(segments: list[dict[str, Any]]) -> str:
    lines = ["SPEAKER talk0 1 0.0 9.0 <NA> <NA> s0 <NA> <NA>\n"]
    for one in words_alone(segments):
        times = f"{one['start_time']} 0.5"
        said = f"{one['words']} lex {one['speaker']} 0.9 <NA>"
        lines.append(f"LEXEME {one['session_id']} 1 {times} {said}\n")
    return "".join(lines)


FORMATS = {
    "seglst.json": (json.dumps, False),
    "stm": (stm, False),
    "ctm": (ctm, True),
    "rttm": (rttm, True),
}
"""Writes segments; whether each word is a segment."""


@pytest.mark.parametrize("metric", ["cpwer", "tcpwer"])
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("seed", range(3))
def test_figures_are_meetevals(
    ending: str, metric: str, seed: int, rescore: Run, tmp_path: Path
) -> None:
    meeteval = pytest.importorskip("meeteval", reason="needs meeteval")
    write, singly = FORMATS[ending]
    sides = {"ref": some_segments(seed), "hyp": some_segments(seed + 50)}
    own = {}
    for side, segments in sides.items():
        (tmp_path / f"{side}.{ending}").write_text(write(segments))
        one = words_alone(segments) if singly else segments
        own[side] = meeteval.io.SegLST(one).groupby("session_id")
    paths = [f"hyp.{ending}", "--ref", f"ref.{ending}"]
    collar = ["--collar", "2"] if metric == "tcpwer" else []
    command = ["eval", *paths, "--metric", metric, *collar, "--report", "r.json"]
    done = rescore(*command)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "r.json").read_text())["systems"]
    errors = 0
    length = 0
    for name, reference in own["ref"].items():
        if metric == "cpwer":
            count = meeteval.wer.cp_word_error_rate(reference, own["hyp"][name])
        else:
            measure = meeteval.wer.time_constrained_minimum_permutation_word_error_rate
            count = measure(reference, own["hyp"][name], collar=2)
        errors += count.errors
        length += count.length
    assert row["value"] == pytest.approx(100 * errors / length)
    assert row["counts"]["ref_words"] == length
    assert row["utterances"] == 3
    assert row["low"] <= row["value"] <= row["high"]
    assert f"meeteval:{meeteval.__version__}" in done.stdout


def test_p_values_normalisers_and_absent_recordings(
    rescore: Run, tmp_path: Path
) -> None:
    pytest.importorskip("meeteval", reason="needs meeteval")
    segments = some_segments(1, 8)
    loud = [one | {"words": one["words"].upper() + "."} for one in segments]
    fewer = [one for one in loud if one["session_id"] != "talk3"]
    for name, some in (("ref", segments), ("loud", loud), ("few", fewer)):
        (tmp_path / f"{name}.json").write_text(json.dumps(some))
    command = ["eval", "loud.json", "few.json", "--ref", "ref.json"]
    done = rescore(*command, "--metric", "cpwer", "--drop-punctuation")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[1:3]
    assert " 0.00 " in first and " 0.00 " not in second.split("[")[0]
    assert "drop-punctuation:yes" in done.stdout
    done = rescore(*command, "--metric", "cpwer", "--test", "mapsswe")
    assert done.returncode == 2 and "mapsswe" in done.stderr


def test_a_collar_changes_the_figure_and_the_signature(
    rescore: Run, tmp_path: Path
) -> None:
    pytest.importorskip("meeteval", reason="needs meeteval")
    segments = some_segments(2)
    late = [
        one | {key: one[key] + 3 for key in ("start_time", "end_time")}
        for one in segments
    ]
    for name, some in (("ref", segments), ("late", late)):
        (tmp_path / f"{name}.json").write_text(json.dumps(some))
    command = ["eval", "late.json", "--ref", "ref.json", "--metric", "tcpwer"]
    wide = rescore(*command).stdout
    strict = rescore(*command, "--collar", "0").stdout
    assert " 0.00 " in wide and " 0.00 " not in strict.split("[")[0]
    assert "collar:5" in wide and "collar:0" in strict


def test_sessions_differ_by_speakers_and_times() -> None:
    segments = [
        Segment("x y", speaker="a b", span=Span(0.0, 1.5)),
        Segment("", speaker="\u00e9/%"),
        Segment("x", speaker="1", span=Span(0.1, 1e-7 + 0.1)),
    ]
    assert segments_of(text_of(segments)) == segments
    others = [
        [one._replace(speaker="z") for one in segments],
        [one._replace(span=None) for one in segments],
    ]
    assert len({text_of(one) for one in (segments, *others)}) == 3
    assert segments_of("") == []


WRONG = {
    '{"a": 1}': "not SegLST: expected a JSON list",
    '["a"]': "segment 1: not SegLST",
    '[{"session_id": "a", "speaker": "b"}]': "segment 1: words is None",
    '[{"session_id": "a", "speaker": "b", "words": 3}]': "words is 3",
    '[{"session_id": "a", "words": "b"}]': "speaker is None",
    '[{"session_id": "a", "speaker": "b", "words": "c", "start_time": "x"}]': "time",
    "an owl hoots\n": "no speakers in it",
    "SPEAKER t 1 0.0 9.0 <NA> <NA> s0 <NA> <NA>\n": "an RTTM without words",
}


@pytest.mark.parametrize("content", WRONG)
def test_a_file_without_speakers_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        read_sessions(str(path))
    assert WRONG[content] in str(error.value) and len(str(error.value)) < 300


def test_a_recording_without_reference_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        text = f"{name} 1 s 0 1 an owl\n"
        (tmp_path / f"{name}.stm").write_text(text)
    said = r"no reference for recording a \(1 of 1 missing\); its recordings .* as b;"
    with pytest.raises(UserError, match=said):
        measured_sessions([str(tmp_path / "a.stm")], str(tmp_path / "b.stm"))


def test_a_recording_that_the_output_lacks_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As with `--whole`: its words are deletions."""
    (tmp_path / "o.stm").write_text("a 1 s 0 1 an owl\n")
    (tmp_path / "r.stm").write_text("a 1 s 0 1 an owl\nb 1 s 0 1 an owl\n")
    measured_sessions([str(tmp_path / "o.stm")], str(tmp_path / "r.stm"))
    assert "no output for recording b" in caplog.text


def test_references_without_a_recording_are_refused(tmp_path: Path) -> None:
    """An output without words has deletions; see `tests/laws/test_empty_files.py`."""
    (tmp_path / "a.json").write_text("[]")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "a.json", tmp_path / "folder"):
        with pytest.raises(UserError, match="no recording in it"):
            measured_sessions([str(path)], str(path))


REFUSED = {
    "eval h.stm --metric cpwer": "needs one --ref",
    "eval h.stm --ref h.stm --metric cpwer --metric wer": "--metric wer reads texts",
    "eval h.stm --ref h.stm --metric cpwer --whole": "takes no --whole",
    "eval h.stm --ref h.stm --metric cpwer --details d.csv": "takes no --details",
    "eval h.stm --ref h.stm --metric cpwer --by-speaker": "takes no --by-speaker",
    "eval h.stm --ref h.stm --metric tcpwer --speaker ^(.)": "takes no --speaker",
    "eval h.stm --ref h.stm --metric cpwer --words h.stm": "takes no --words",
    "eval h.stm --ref h.stm --metric cpwer --format csv": "takes no --format",
    "eval h.stm --ref h.stm --metric cpwer --collar 2": "--collar needs --metric",
    "eval h.stm --ref h.stm --metric tcpwer --collar -1": "a number from 0 on",
    "run l.jsonl --metric cpwer": "--metric cpwer: no speakers in the references",
    "eval n.json --ref n.json --metric tcpwer": "no start_time and end_time",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_sessions_do_not_read_is_refused(
    line: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "h.stm").write_text("a 1 s 0 1 an owl\n")
    timeless = [{"session_id": "a", "speaker": "s", "words": "an owl"}]
    (tmp_path / "n.json").write_text(json.dumps(timeless))
    lists = '{"id": "u", "ref": "a", "hyps": [{"text": "a", "score": -1}]}\n'
    (tmp_path / "l.jsonl").write_text(lists)
    done = rescore(*line.split())
    assert done.returncode == 2 and REFUSED[line] in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


def test_the_package_is_imported_when_asked() -> None:
    metric = METRICS["tcpwer"](normaliser=Normaliser(nfkc=True))
    assert metric.settings["collar"] == "5.0" or metric.settings["collar"] == "5"
    assert metric.settings["nfkc"] == "yes"
