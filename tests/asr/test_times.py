"""Times of words: read from what toolkits write, kept by native lists, and given to the
words that were chosen.
"""

from __future__ import annotations

import ast
import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import rescore as package
from rescore import formats
from rescore.asr.systems import combined, header_of, one_list
from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.best import SEAM, word_times, write_best
from rescore.formats.times import ROUNDING, BackwardsError, Span, timed_pieces
from rescore.ids import piece_id
from rescore.metrics.normalise import EXACT
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error

TIMES = ((0.5, 1.0), (1.5, 2.0))
WORDS = [
    {"word": "a", "start": 0.5, "end": 1.0},
    {"word": "bb", "start": 1.5, "end": 2.0},
]
FILES: dict[str, object] = {
    # Whisper with word_timestamps, Vosk with SetWords, Google v1 and v2, Azure with
    # wordLevelTimestamps.
    "whisper": {
        "segments": [
            {"text": " a", "words": WORDS[:1]},
            {"text": " bb", "words": WORDS[1:]},
        ]
    },
    "vosk": {"alternatives": [{"text": "a bb", "confidence": 9, "result": WORDS}]},
    "google": {
        "results": [
            {
                "alternatives": [
                    {
                        "transcript": "a bb",
                        "confidence": 0.9,
                        "words": [
                            {"word": "a", "startTime": "0.500s", "endTime": "1s"},
                            {"word": "bb", "startTime": "1.5s", "endTime": "2s"},
                        ],
                    }
                ]
            }
        ]
    },
    "azure": {
        "NBest": [
            {
                "Lexical": "a bb",
                "Confidence": 0.9,
                "Words": [
                    {"Word": "a", "Offset": 5_000_000, "Duration": 5_000_000},
                    {"Word": "bb", "Offset": 15_000_000, "Duration": 5_000_000},
                ],
            }
        ]
    },
}


@pytest.mark.parametrize("toolkit", FILES)
def test_toolkits(toolkit: str, tmp_path: Path) -> None:
    (tmp_path / "call.json").write_text(json.dumps(FILES[toolkit]))
    (nbest,) = formats.read([tmp_path / "call.json"])
    assert np.allclose(nbest.hypotheses[0].times, TIMES)
    for name in ("l.jsonl", "l.json"):
        formats.write([nbest], str(tmp_path / name))
        (again,) = formats.read([tmp_path / name])
        assert (
            again.hypotheses == nbest.hypotheses and again.recording == nbest.recording
        )


def test_sherpa_says_when_tokens_begin(tmp_path: Path) -> None:
    line = {"text": " AB C", "timestamps": [0.1, 0.3, 0.5], "tokens": [" A", "B", " C"]}
    (tmp_path / "log").write_text(f"x.wav\n{json.dumps(line)}\n")
    assert formats.read([tmp_path / "log"])[0].hypotheses[0].times == (
        (0.1, 0.5),
        (0.5, 0.7),
    )


def test_changed_words_have_the_times_of_what_they_replaced() -> None:
    times = ((0.0, 1.0), (1.0, 2.0), (3.0, 4.0))
    nbest = NbestList(
        "u",
        [
            Hypothesis("a b c", {"s2s": -1.0}, times=times),
            Hypothesis("a x c", {"s2s": -2.0}),
        ],
    )
    assert word_times(nbest, "a x c") == [
        ("a", 0.0, 1.0),
        ("x", 1.0, 2.0),
        ("c", 3.0, 4.0),
    ]
    assert word_times(nbest, "a xx yy c") == [
        ("a", 0, 1),
        ("xx", 1.0, 1.5),
        ("yy", 1.5, 2.0),
        ("c", 3, 4),
    ]
    assert word_times(nbest, "a b n c") == [
        ("a", 0, 1),
        ("b", 1, 2),
        ("n", 2.0, 3.0),
        ("c", 3, 4),
    ]
    assert word_times(nbest, "b c d") == [("b", 1, 2), ("c", 3, 4), ("d", 4.0, 4.0)]
    assert (
        word_times(nbest, "") == []
        and word_times(NbestList("u", [Hypothesis("a")]), "a") is None
    )
    own = NbestList(
        "u",
        [
            nbest.hypotheses[0],
            Hypothesis("a x c", {"s2s": -2.0}, times=((0, 1), (1, 3), (3, 4))),
        ],
    )
    assert word_times(own, "a x c") == [("a", 0, 1), ("x", 1, 3), ("c", 3, 4)]


def test_files(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "call.json").write_text(json.dumps(FILES["vosk"]))
    for name, text in {
        "o.ctm": "call 1 0.50 0.50 a\ncall 1 1.50 0.50 bb\n",
        "o.srt": "1\n00:00:00,500 --> 00:00:02,000\na bb\n\n",
        "o.vtt": "WEBVTT\n\n00:00:00.500 --> 00:00:02.000\na bb\n",
    }.items():
        done = rescore("rerank", "call.json", "--best", name)
        assert done.returncode == 0 and (tmp_path / name).read_text() == text, (
            done.stderr
        )
    (tmp_path / "segments").write_text("call talk 10 20\n")
    assert (
        rescore(
            "rerank", "call.json", "--best", "s.ctm", "--segments", "segments"
        ).returncode
        == 0
    )
    assert (tmp_path / "s.ctm").read_text().startswith("talk 1 10.50 0.50 a\n")
    done = rescore("call.json", "--best", "r.ctm", "--segments", "segments")
    assert (
        done.returncode == 0
        and (tmp_path / "r.ctm").read_bytes() == (tmp_path / "s.ctm").read_bytes()
    ), done.stderr
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    assert_one_line_error(
        rescore("rerank", "l.jsonl", "--best", "o.srt"),
        "utterance u",
        "no times of words",
    )


def test_subtitles_are_of_one_recording_and_of_one_list_each(
    rescore: Run, tmp_path: Path
) -> None:
    hypotheses = [
        {"text": text, "score": -1, "times": [[at, at + 1.5]]}
        for text, at in (("a", 0), ("b", 3661))
    ]
    lines = [
        {"id": f"u{at}", "hyps": [hypothesis]}
        for at, hypothesis in enumerate(hypotheses)
    ]
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps({**line, "recording": "r"}) + "\n" for line in lines)
    )
    assert rescore("rerank", "l.jsonl", "--best", "o.srt").returncode == 0
    assert (
        (tmp_path / "o.srt")
        .read_text()
        .endswith("\n2\n01:01:01,000 --> 01:01:02,500\nb\n\n")
    )
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    assert_one_line_error(
        rescore("rerank", "l.jsonl", "--best", "p.srt"),
        "subtitles need lists of a single recording",
    )


@pytest.mark.parametrize(
    "times", ["[[0, 1]]", "[[0, 1], [1, NaN]]", "[[0, 1], [2, 1]]"]
)
def test_times_that_are_not_those_of_the_words(
    times: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "l.jsonl").write_text(
        f'{{"id": "u", "hyps": [{{"text": "a b", "score": -1, "times": {times}}}]}}\n'
    )
    said = {
        "[[0, 1]]": "times are not a start and an end",
        "[[0, 1], [1, NaN]]": "time is nan",
    }
    message = said.get(times, "from 2 s to 1 s")
    assert_one_line_error(rescore("convert", "l.jsonl"), f"hypothesis 1: {message}")


@pytest.mark.parametrize("time", ["nan", "inf", "1e400", "1e308", "x", "-1"])
def test_times_are_finite_numbers(time: str, rescore: Run, tmp_path: Path) -> None:
    """In every file that has times, one line names the place."""
    (tmp_path / "b.txt").write_text("hello there\n")
    (tmp_path / "t.txt").write_text("Aoife\n")
    for cells in (f"{time} 0.3", f"0.0 {time}"):
        (tmp_path / "a.ctm").write_text(
            f"talk 1 {cells} hello\ntalk 1 0.50 0.30 there\n"
        )
        assert_one_line_error(rescore("combine", "a.ctm", "b.txt"), "a.ctm: line 1: ")
        done = rescore("correct", "a.ctm", "--format", "ctm", "--words", "t.txt")
        assert_one_line_error(done, "a.ctm: line 1: ")
    if time[:1] != "-":  # a word whose end is before its start has no times
        (tmp_path / "call.json").write_text(
            json.dumps(
                {
                    "segments": [
                        {"text": "a", "words": [{"word": "a", "start": 0, "end": time}]}
                    ]
                }
            )
        )
        assert_one_line_error(
            rescore("convert", "call.json"), "call.json: segment 1: time is"
        )


def test_a_time_becomes_a_number_in_one_place() -> None:
    """Readers of times call `Span.read`: no other code makes a number of a time."""
    house = Path(package.__file__).parent
    files = [
        *(house / "formats").glob("*.py"),
        *(house / "asr").rglob("*.py"),
        *(house / "service").glob("*.py"),
    ]
    wrong = []
    for path in files:
        for call in (
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ):
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            arguments = list(
                map(
                    ast.unparse,
                    [*call.args, *(keyword.value for keyword in call.keywords)],
                )
            )
            numbers = name in ("float", "as_number", "json_number") or (
                name == "map" and arguments[0] == "float"
            )
            if (
                numbers
                and re.search(TIME, " ".join(arguments), re.IGNORECASE)
                and path.name != "times.py"
            ):
                wrong.append(f"{path.name}:{call.lineno}: {ast.unparse(call)}")
    assert not wrong


TIME = (
    r"time|clock|begins|ends?\b|duration|offset|seconds|ticks"
    r"|\b(match|row|cells|fields|line)\[[23]|\[2:"
)
"""What the arguments of a call have in them that reads a time."""


def test_spans() -> None:
    assert Span.read("1.300s", 2, "p") == (1.3, 2.0)
    assert Span.read("00:01:02,500", "01:02.75", "p") == (62.5, 62.75)
    assert Span.read(5_000_000, 5_000_000, "p", True, 1e-7) == (0.5, 1.0)
    for start, end in ((2, 1), (-1, 1)):
        with pytest.raises(BackwardsError, match=r"p: from .* s to 1 s"):
            Span.read(start, end, "p")
    for time in (
        None,
        True,
        "x",
        "",
        "nan",
        "inf",
        float("nan"),
        10**400,
        10**9 + 1,
        [],
        {"a": 1},
    ):
        with pytest.raises(UserError, match="p: time is"):
            Span.read(0, time, "p")


def test_texts_that_are_rewritten_keep_their_times(
    rescore: Run, tmp_path: Path
) -> None:
    times = "[[0, 1], [1, 1.5], [2, 3]]"
    line = (
        '{"id": "u", "hyps": [{"text": "well , go", "score": -1, "times":'
        f" {times}}}]}}\n"
    )
    (tmp_path / "l.jsonl").write_text(line)
    done = rescore("convert", "l.jsonl", "--detokenize", "en", "-o", "o.jsonl")
    assert done.returncode == 0, done.stderr
    (hypothesis,) = formats.read([tmp_path / "o.jsonl"])[0].hypotheses
    assert hypothesis.text == "well, go" and hypothesis.times == (
        (0.0, 1.5),
        (2.0, 3.0),
    )


def test_merged_hypotheses_keep_their_times() -> None:
    ours = NbestList("u", [Hypothesis("a b", {"s2s": -1.0}, times=((0, 1), (1, 2)))])
    theirs = NbestList("u", [Hypothesis("a c", {"s2s": -1.0}, times=((0, 1), (1, 3)))])
    (merged,) = combined({"a": [ours], "b": [theirs]})
    assert [one.times for one in merged.hypotheses] == [
        ((0, 1), (1, 2)),
        ((0, 1), (1, 3)),
    ]


@pytest.mark.parametrize("text", ["你好 世界", "ありがとう", "สวัสดีครับ", "a 你好 b"])
def test_times_of_texts_without_blanks(text: str, rescore: Run, tmp_path: Path) -> None:
    """Whisper cuts such texts as its tokenizer does; each letter takes its part of the
    time.
    """
    letters = "".join(text.split())
    words = [
        {
            "word": letters[at : at + 2],
            "start": float(at),
            "end": float(min(at + 2, len(letters))),
        }
        for at in range(0, len(letters), 2)
    ]
    (tmp_path / "call.json").write_text(
        json.dumps({"segments": [{"text": text, "words": words}]})
    )
    (hypothesis,) = formats.read([tmp_path / "call.json"])[0].hypotheses
    pieces = timed_pieces(text)
    assert "".join(pieces) == text and len(hypothesis.times) == len(pieces)
    assert hypothesis.times[0][0] == 0 and hypothesis.times[-1][1] == len(letters)
    assert all(end == start for (_, end), (start, _) in pairwise(hypothesis.times))
    formats.write(
        [NbestList("u", [replace(hypothesis, scores={"s2s": -1.0})])],
        str(tmp_path / "l.jsonl"),
    )
    assert (
        formats.read([tmp_path / "l.jsonl"])[0].hypotheses[0].times == hypothesis.times
    )
    assert rescore("rerank", "l.jsonl", "--best", "o.srt").returncode == 0
    assert (tmp_path / "o.srt").read_text().splitlines()[2] == text
    assert rescore("rerank", "l.jsonl", "--best", "o.ctm").returncode == 0
    assert [
        line.split()[-1] for line in (tmp_path / "o.ctm").read_text().splitlines()
    ] == [piece.strip() for piece in pieces]


def test_times_that_run_backwards_are_none(tmp_path: Path) -> None:
    words = [{"word": "a", "start": 1.0, "end": 0.5}]
    (tmp_path / "call.json").write_text(
        json.dumps({"segments": [{"text": " a", "words": words}]})
    )
    assert formats.read([tmp_path / "call.json"])[0].hypotheses[0].times == ()


def test_marks_of_subtitles_are_escaped(rescore: Run, tmp_path: Path) -> None:
    hypothesis = {
        "text": "<unk> --> R&D",
        "score": -1,
        "times": [[0, 1], [1, 2], [2, 3]],
    }
    (tmp_path / "l.jsonl").write_text(
        json.dumps({"id": "u", "hyps": [hypothesis]}) + "\n"
    )
    for name, text in {
        "o.vtt": "&lt;unk&gt; --&gt; R&amp;D",
        "o.srt": "<unk> -> R&D",
    }.items():
        assert rescore("rerank", "l.jsonl", "--best", name).returncode == 0
        assert (tmp_path / name).read_text().splitlines().count(text) == 1


def test_a_silent_recording_has_no_words(rescore: Run, tmp_path: Path) -> None:
    lines = [
        {"id": "u", "hyps": [{"text": "", "score": -1}]},
        {"id": "v", "hyps": [{"text": "a", "score": -1}]},
    ]
    (tmp_path / "l.jsonl").write_text(json.dumps(lines[0]) + "\n")
    for name in ("o.ctm", "o.vtt"):
        assert rescore("rerank", "l.jsonl", "--best", name).returncode == 0
    assert (tmp_path / "o.ctm").read_text() == ""
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    assert_one_line_error(
        rescore("rerank", "l.jsonl", "--best", "o.ctm"),
        "utterance v",
        "no times of words",
    )


def pieces(*texts: tuple[str, list[list[float]]], recording: str = "r") -> str:
    """Native lists of one recording: texts, with the times of their words or none."""
    lines = [
        {
            "id": f"{recording}-{at}",
            "recording": recording,
            "hyps": [{"text": text, "score": -1, "times": times}],
        }
        for at, (text, times) in enumerate(texts, 1)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_lists_without_times_share_the_time_between_their_neighbours(
    rescore: Run, tmp_path: Path
) -> None:
    """One warning for the file; a recording without any times is refused."""
    lists = pieces(
        ("aa", []),
        ("b", [[1, 2]]),
        ("c d", []),
        ("ee", []),
        ("f", [[6, 7]]),
        ("", []),
        ("g", []),
    )
    (tmp_path / "l.jsonl").write_text(lists + pieces(("h", [[0, 1]]), recording="s"))
    rows = [
        "r 1 0.80 0.20 aa",
        "r 1 1.00 1.00 b",
        "r 1 2.00 1.00 c",
        "r 1 3.00 1.00 d",
        "r 1 4.00 2.00 ee",
        "r 1 6.00 1.00 f",
        "r 1 7.00 0.10 g",
        "s 1 0.00 1.00 h",
    ]
    for command in (["rerank", "l.jsonl"], ["l.jsonl"]):
        done = rescore(*command, "--best", "o.ctm")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "o.ctm").read_text().splitlines() == rows
        assert (
            "o.ctm: no times of words in 4 utterances (first: r-1); these words share"
            in done.stderr
        )
        assert done.stderr.count("no times of words") == 1
    (tmp_path / "l.jsonl").write_text(lists)
    assert rescore("rerank", "l.jsonl", "--best", "o.srt").returncode == 0
    assert "3\n00:00:02,000 --> 00:00:04,000\nc d\n" in (tmp_path / "o.srt").read_text()
    (tmp_path / "l.jsonl").write_text(
        pieces(("b", [[1, 2]])) + pieces(("c d", []), recording="s")
    )
    for command in (["rerank", "l.jsonl"], ["l.jsonl"]):
        assert_one_line_error(
            rescore(*command, "--best", "o.ctm"), "utterance s-1", "no times of words"
        )
    (tmp_path / "segments").write_text("r-1 r 10 20\ns-1 s 5 7\n")
    assert (
        rescore(
            "rerank", "l.jsonl", "--best", "o.ctm", "--segments", "segments"
        ).returncode
        == 0
    )
    assert (
        tmp_path / "o.ctm"
    ).read_text() == "r 1 11.00 1.00 b\ns 1 5.00 1.00 c\ns 1 6.00 1.00 d\n"


@pytest.mark.parametrize("voted", [False, True])
@pytest.mark.parametrize("overlap", [-1.0, 0.0, 0.04, 0.5, 3.0, 9.0, 15.0])
def test_only_where_pieces_of_a_vote_meet_do_times_move(
    overlap: float, voted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Two speakers overlap, or lists stand out of order: their words keep their times,
    and a line says so. Pieces of a vote have the clocks of several systems.
    """
    spans = [((20.0, 20.5), (21.0, 22.0)), ((21.0 - overlap, 30.0), (31.0, 32.0))]
    lists = []
    for number, times in enumerate(spans, 1):
        own = NbestList(
            piece_id("r", number),
            [Hypothesis("a b", {FIRST_PASS: 0.0}, times=times)],
            recording="r",
        )
        lists.append(one_list({"x": own}, EXACT, header_of("x")) if voted else own)
    file = io.StringIO()
    write_best("x.ctm", [(nbest, "a b") for nbest in lists], file)
    starts = [float(line.split()[2]) for line in file.getvalue().splitlines()]
    moved = overlap > 0 and overlap <= (SEAM if voted else ROUNDING)
    expected = 21.0 if moved else round(21.0 - overlap, 2)
    assert starts == [20, 21, expected, 31]
    is_told = overlap > 0 and not moved
    assert ("sort -k1,1" in caplog.text) is is_told


def test_utterances_of_several_systems_are_no_pieces_of_a_vote() -> None:
    """Speakers of a meeting overlap also where systems voted on each utterance."""
    file = io.StringIO()
    best = []
    for name, start in (("r-mary-1", 5.0), ("r-tom-1", 4.0)):
        heard = Hypothesis("a", {FIRST_PASS: 0.0}, times=((start, start + 1),))
        own = NbestList(name, [heard], recording="r")
        best.append((one_list({"x": own}, EXACT, header_of("x")), "a"))
    write_best("x.ctm", best, file)
    assert file.getvalue() == "r 1 5.00 1.00 a\nr 1 4.00 1.00 a\n"


def test_words_at_the_edge_of_a_list_have_the_room_beside_it(
    rescore: Run, tmp_path: Path
) -> None:
    """A list whose best text has more words than the hypothesis with times."""
    first, second = (
        {"text": "a b c", "score": -1},
        {"text": "b", "score": -2, "times": [[5, 6]]},
    )
    lines = [
        {"id": f"r-{at}", "recording": "r", "hyps": [first, second]} for at in (1, 2)
    ]
    lines[1]["hyps"] = [first, {**second, "times": [[9, 10]]}]  # type: ignore[dict-item]
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    assert rescore("rerank", "l.jsonl", "--best", "o.ctm").returncode == 0
    assert (tmp_path / "o.ctm").read_text().splitlines() == [
        "r 1 4.90 0.10 a",
        "r 1 5.00 1.00 b",
        "r 1 6.00 1.50 c",
        "r 1 7.50 1.50 a",
        "r 1 9.00 1.00 b",
        "r 1 10.00 0.10 c",
    ]


def test_names_with_blanks(rescore: Run, tmp_path: Path) -> None:
    hypothesis = {"text": "a", "score": -1, "times": [[0, 1]]}
    (tmp_path / "l.jsonl").write_text(
        json.dumps({"id": "my talk", "hyps": [hypothesis]}) + "\n"
    )
    assert_one_line_error(rescore("rerank", "l.jsonl", "--best", "o.ctm"), "my talk")
