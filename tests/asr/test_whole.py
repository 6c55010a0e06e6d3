"""Files of whole recordings: the format by the contents, and the recordings, channels
and pieces in them.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rescore import formats, read
from rescore.asr.combine import combine
from rescore.asr.measured import closest_readings, measured_recordings
from rescore.asr.whole import Recording, are_whole, read_systems
from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.shapes import read_shape
from rescore.formats.source import ReadOptions, Source
from rescore.formats.times import timed_pieces
from rescore.metrics.base import text_value
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error

STM = (
    ";; a comment\ntalk A s1 0.00 1.00 hello there\ntalk A s2 1.00 2.00 <o,f0,male>"
    " good bye\n"
)
CTM = (
    "talk 1 0.00 0.30 hello\ntalk 1 0.40 0.30 there\ntalk 1 1.10 0.30 good\ntalk 1 1.50"
    " 0.30 bye\n"
)


def files(folder: Path, **texts: str) -> list[Path]:
    """Files in a folder; `__` stands for the dot in a name."""
    paths = [folder / name.replace("__", ".") for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def read_recordings(path: Path) -> dict[str, Recording]:
    return read_systems([path])[0]


def wer(output: Path, reference: Path, normaliser: Normaliser | None = None) -> float:
    (lists,) = measured_recordings([str(output)], str(reference))
    return text_value(
        ErrorRate(normaliser=normaliser or Normaliser()),
        lists,
        [nbest.hypotheses[0].text for nbest in lists],
    )


@pytest.mark.parametrize(
    "text",
    [
        "talk-1 hello there\ntalk-2 good bye\n",
        "hello there (talk-1)\ngood bye (talk-2)\n",
        "talk-00001 hello there\ntalk-00002 good bye\n",
        "talk hello there good bye\n",
        "hello there good bye (talk)\n",
        (
            '{"id": "talk-1", "hyps": [{"text": "hello there", "score": 0}]}\n'
            '{"id": "talk-2", "hyps": [{"text": "good bye", "score": 0}]}\n'
        ),
        CTM,
    ],
)
def test_ids_tell_the_recordings_of_the_reference(text: str, tmp_path: Path) -> None:
    output, reference = files(tmp_path, hyp=text, ref=STM)
    assert wer(output, reference) == 0.0


@pytest.mark.parametrize("form", ["{} {}\n", "{1} ({0})\n"])
def test_a_recording_on_each_line(form: str, tmp_path: Path) -> None:
    """The ids are no words."""
    spoken = {"call-a": "one two three four", "call-b": "five six seven eight"}
    heard = spoken | {"call-b": "five six seven nine"}
    output, reference = (
        files(
            tmp_path, **{name: "".join(form.format(*each) for each in texts.items())}
        )[0]
        for name, texts in (("x__trn", heard), ("y__trn", spoken))
    )
    if form.startswith("{} "):
        output, reference = (
            output.rename(tmp_path / "x"),
            reference.rename(tmp_path / "y"),
        )
    assert read_systems([output, reference])[0].keys() == spoken.keys()
    assert wer(output, reference) == 12.5


@pytest.mark.parametrize(
    "text",
    [
        "ISO-27001 is a norm\n",
        "thank you (applause)\n",
        "talk is cheap\n",
        "1. go\n2. come\n",
        "ISO-00001 x\n",
    ],
)
def test_words_at_the_edge_of_lines_are_no_ids(text: str, tmp_path: Path) -> None:
    """Also beside another system with the same words."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files(tmp_path / folder, talk__txt=text)
    for recordings in read_systems([tmp_path / "a", tmp_path / "b"]):
        assert {name: recording.words for name, recording in recordings.items()} == {
            "talk": text.split()
        }


@pytest.mark.parametrize("name", ["talk.ctm.filt", "ctm", "talk.ctm", "x.txt"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize(
    "text",
    [CTM, STM, "talk A 2830 0.00 1.00 hello there\ntalk A 174 1.00 2.00 good bye\n"],
)
def test_contents_tell_the_format(
    name: str, pack: Callable[[bytes], bytes], text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(pack(text.encode()))
    recordings = read_recordings(tmp_path / name)
    assert recordings.keys() == {"talk"}
    assert (
        recordings["talk"].words == ["hello", "there", "good", "bye"]
        and len(recordings["talk"].times) == 4
    )


def test_numbers_as_words_or_speakers(tmp_path: Path) -> None:
    ctm, stm = files(
        tmp_path,
        a="f 1 0.10 0.30 7 0.9\nf 1 0.50 0.30 8 0.9\n",
        b="f 1 12 0.0 0.5 7\nf 1 12 0.5 1.0 8\n",
    )
    for path in (ctm, stm):
        assert read_recordings(path)["f"].words == ["7", "8"]


@pytest.mark.parametrize(
    "text",
    [
        "ignoretimesegmentinscoring",
        "IGNORETIMESEGMENTINSCORING x",
        "a Ignore_Time_Segment_In_Scoring b",
    ],
)
def test_marked_segments_are_not_measured(text: str, tmp_path: Path) -> None:
    stm = f"talk A s 0.00 1.00 so\ntalk A s 1.00 2.00 {text}\n"
    ctm = "talk A 0.1 0.2 so\ntalk A 1.4 0.2 noise\n"
    output, reference = files(tmp_path, out=ctm, ref=stm)
    assert wer(output, reference) == 0.0


@pytest.mark.parametrize("content", ["", ";; no words\n"])
def test_an_output_without_words_has_deletions(
    rescore: Run, tmp_path: Path, content: str
) -> None:
    (tmp_path / "out.ctm").write_text(content)
    (tmp_path / "ref.stm").write_text("talk A s 0.00 1.00 so it is\n")
    done = rescore("eval", "out.ctm", "--whole", "--ref", "ref.stm")
    assert done.returncode == 0
    assert "100.00" in done.stdout
    assert "out.ctm: no output for recording talk" in done.stderr


def test_marks_of_stm_mean_what_they_mean_in_sclite(tmp_path: Path) -> None:
    """Alternatives that the output has are right, and segments that sclite ignores are
    not measured.
    """
    stm = (
        "talk A s 0.00 1.00 so { good / nice } day\n"
        "talk A s 1.00 2.00 IGNORE_TIME_SEGMENT_IN_SCORING\n"
        "talk A s 2.00 3.00 { uh / @ } see { you / them all }\n"
    )
    spoken = [
        ("so", 0.1),
        ("nice", 0.4),
        ("day", 0.7),
        ("noise", 1.4),
        ("see", 2.1),
        ("them", 2.5),
        ("all", 2.7),
    ]
    ctm = "".join(f"talk A {start} 0.2 {word}\n" for word, start in spoken)
    output, reference = files(tmp_path, out=ctm, ref=stm)
    assert wer(output, reference) == 0.0
    first, system = read_systems([reference, output])
    resolved = closest_readings(first["talk"], system["talk"].without([(1.0, 2.0)]))
    assert (
        resolved.words == ["so", "nice", "day", "see", "them", "all"]
        and len(resolved.times) == 6
    )


def test_words_go_to_the_segments_of_their_time(rescore: Run, tmp_path: Path) -> None:
    """A CTM against an STM: each segment is aligned by itself, up to the word whose
    middle is at its end.
    """
    stm = (
        "talk a x-1 0 1 a b\ntalk a y 1 2 c\ntalk a x-1 2 3"
        " IGNORE_TIME_SEGMENT_IN_SCORING\ntalk a y 3 4 d\n"
    )
    ctm = (
        "talk A 0.1 0.2 a\ntalk A 0.9 0.2 b\ntalk A 2.1 0.2 x\ntalk A 3.1 0.2 d\ntalk A"
        " 9 1 e\n"
    )
    output, reference = files(tmp_path, out__ctm=ctm, ref__stm=stm)
    ((first, second, last),) = measured_recordings([str(output)], str(reference))
    assert [first.id, second.id, last.id] == [
        "x.1-talk-00001",
        "y-talk-00002",
        "y-talk-00004",
    ]
    pairs = [
        (nbest.hypotheses[0].text, *nbest.references) for nbest in (first, second, last)
    ]
    assert pairs == [("a", "a b"), ("b", "c"), ("d e", "d")]
    (tmp_path / "out.txt").write_text("talk a b c d\n")
    done = rescore("eval", "out.ctm", "out.txt", "--whole", "--ref", "ref.stm")
    assert (
        "out.txt: is no CTM: recordings are aligned whole" in done.stderr
        and done.stderr.count("\n") <= 3
    )
    (tmp_path / "two.ctm").write_text("talk A 0.1 0.2 a\ntalk A 0.5 0.2 b\n")
    reference.write_text(stm.replace("a b", "a { b / @ }"))
    # outputs that are close to different readings
    for pair in (["out.ctm", "two.ctm"], ["out.txt", "two.ctm"]):
        done = rescore("eval", *pair, "--whole", "--ref", "ref.stm")
        assert done.returncode == 0 and "two.ctm" in done.stdout, done.stderr
    assert (
        "only 2 speakers"
        in rescore(
            "eval", "out.ctm", "--whole", "--ref", "ref.stm", "--by-speaker"
        ).stderr
    )


@pytest.mark.parametrize("seed", range(8))
def test_alternatives_of_long_recordings(seed: int, tmp_path: Path) -> None:
    """An output with any of the alternatives is right; there are too many combinations
    to try them all.
    """
    places = range(40)
    choices = [
        ("a", f"b{place} c", "@")[(place * 7 + seed * place // 3 + seed) % 3]
        for place in places
    ]
    lines = [f"w{place} {{ a / b{place} c / @ }} v{place}" for place in places]
    heard = [
        f"w{place} {choice.replace('@', '')} v{place}"
        for place, choice in zip(places, choices, strict=True)
    ]
    output, reference = files(
        tmp_path,
        talk__txt="\n".join(heard),
        ref="talk A s 0.0 1.0 "
        + "\n".join(
            (line if place == 0 else f"talk A s {place}.0 {place + 1}.0 {line}")
            for place, line in enumerate(lines)
        ),
    )
    assert wer(output, reference) == 0.0


ALTERNATIVES = """talk 1 0.00 0.30 hello
talk 1 * * <ALT_BEGIN>
talk 1 0.40 0.10 @
talk 1 * * <alt>
talk 1 0.40 0.10 the
talk 1 * * <ALT>
talk 1 0.40 0.30 there
talk 1 * * <ALT_END>
talk 1 1.10 0.30 good
talk 1 * * <ALT_BEGIN>
talk 1 1.50 0.10 by
talk 1 1.60 0.10 ye
talk 1 * * <ALT>
talk 1 1.50 0.30 bye
talk 1 * * <ALT_END>
"""


def test_alternatives_of_a_ctm(rescore: Run, tmp_path: Path) -> None:
    """The best alternative is measured; the first alternative is combined, with its
    times.
    """
    output, reference = files(tmp_path, x__ctm=ALTERNATIVES, y__stm=STM)
    assert wer(output, reference) == 0.0
    recording = read_recordings(output)["talk"]
    assert recording.words == ["hello", "good", "by", "ye"]
    assert np.allclose(
        recording.times, [(0.0, 0.3), (1.1, 1.4), (1.5, 1.6), (1.6, 1.7)]
    )
    (tmp_path / "b.ctm").write_text(CTM)
    (tmp_path / "talk.txt").write_text("hello the good bye\n")
    assert wer(output, tmp_path / "b.ctm") == wer(tmp_path / "b.ctm", output) == 0.0
    assert (
        wer(output, tmp_path / "talk.txt") == wer(tmp_path / "talk.txt", output) == 0.0
    )
    done = rescore("combine", "x.ctm", "b.ctm", "-o", "both.jsonl")
    assert (
        done.returncode == 0 and "<ALT" not in (tmp_path / "both.jsonl").read_text()
    ), done.stderr
    output.write_text(ALTERNATIVES.replace("* * <alt>", "* 0.1 <alt>"))
    with pytest.raises(UserError, match=r"line 4: time is '\*'"):
        read_recordings(output)


def test_alternatives_of_an_output_in_trn(tmp_path: Path) -> None:
    """The closest alternative is measured, as in trn of utterances."""
    output, reference = files(
        tmp_path,
        x__trn=(
            "hello { the / there } (talk-1)\n{ @ / good } { by ye / bye } (talk-2)\n"
        ),
        y__trn="hello there (talk-1)\ngood { bye / goodbye } (talk-2)\n",
    )
    assert wer(output, reference) == 0.0
    reference.write_text("hello there (talk-1)\nbad bye (talk-2)\n")
    assert wer(output, reference) == 25.0


@pytest.mark.parametrize(
    ("word", "expected"),
    [("{bye}", 25.0), ("{bye/x}", 25.0), ("bye/x", 25.0), ("@", 25.0), ("bye", 0.0)],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_brackets_and_slashes_of_a_ctm_are_letters(
    word: str, expected: float, grouped: bool, tmp_path: Path
) -> None:
    """The rates are those of sclite 2.4.10: only lines of their own begin, part and end
    alternatives.
    """
    ctm = "".join(
        f"talk 1 {start} 0.1 {each}\n"
        for start, each in enumerate(["hello", "there", "good"])
    )
    last = f"talk 1 3 0.1 {word}\n"
    if grouped:
        mark = "talk 1 * * <ALT"
        last = f"{mark}_BEGIN>\n{last}{mark}>\ntalk 1 3 0.1 x/\n{mark}_END>\n"
    stm = "talk 1 s 0.00 9.00 hello there good bye\n"
    output, reference, same = files(
        tmp_path, x__ctm=ctm + last, y__stm=stm, z__ctm=ctm + f"talk 1 3 0.1 {word}\n"
    )
    assert wer(output, reference) == expected
    (tmp_path / "talk.txt").write_text("hello there good bye\n")
    assert wer(output, tmp_path / "talk.txt") == expected
    assert wer(output, same) == wer(same, output) == 0.0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<ALT_END>"], "line 2: talk 1 * * <ALT_END> cannot stand here"),
        (["<ALT>"], "line 2: talk 1 * * <ALT> cannot stand here"),
        (["<ALT_BEGIN>", "<ALT>", "<ALT_END>"], "line 4: talk 1 * * <ALT_END> cannot"),
        (
            ["<ALT_BEGIN>", "1 2 b", "<ALT_BEGIN>"],
            "line 4: talk 1 * * <ALT_BEGIN> cannot",
        ),
        (["<ALT_BEGIN>", "1 2 b", "talk 2 1 2 b"], "line 4: talk 2 1 2 b cannot"),
        (
            ["<ALT_BEGIN>", "1 2 b", "other 1 * * <ALT_END>"],
            "line 4: other 1 * * <ALT_END> cannot",
        ),
        (
            ["1 2 b", "<ALT_BEGIN>", "3 2 b", "<ALT>"],
            "line 5: <ALT_BEGIN> without <ALT_END> up to here; add",
        ),
    ],
)
def test_broken_marks_of_alternatives(
    lines: list[str], message: str, tmp_path: Path
) -> None:
    full = [
        line if line[0] in "to" else f"talk 1 {'* * ' if line[0] == '<' else ''}{line}"
        for line in lines
    ]
    (path,) = files(tmp_path, x__ctm="\n".join(["talk 1 0.00 0.30 a", *full, ""]))
    with pytest.raises(UserError, match=re.escape(f"x.ctm: {message}")):
        read_recordings(path)


def test_channels_that_a_single_system_has(tmp_path: Path) -> None:
    """A system that heard one channel is combined with the channel of a system that
    heard both.
    """
    both = "talk A 0.0 0.5 hello\ntalk A 0.5 0.5 there\ntalk B 1.0 0.5 hi\n"
    paths = files(
        tmp_path,
        a=both,
        b="talk A 0.0 0.5 hello\ntalk A 0.5 0.5 there\n",
        talk__B__txt="hi\n",
    )
    systems = read_systems(paths[:2])
    assert [list(system) for system in systems] == [["talk-A", "talk-B"], ["talk-A"]]
    lists = list(combine(dict(zip("ab", systems, strict=True)), Normaliser()))
    assert [tuple(nbest.hypotheses[0].scores) for nbest in lists] == [
        ("s2s", "a", "b"),
        ("s2s", "a"),
    ]
    paths[2] = paths[2].rename(tmp_path / "talk-A.txt")
    assert [list(system) for system in read_systems(paths[1:])] == [
        ["talk-A"],
        ["talk-A"],
    ]
    assert list(read_recordings(paths[1])) == ["talk"]


def test_case_does_not_count_in_channels(tmp_path: Path) -> None:
    """As in sclite."""
    ctm = "talk a 0.0 0.5 hello\ntalk a 0.5 0.4 there\ntalk b 1.0 0.5 hi\n"
    output, reference = files(
        tmp_path, out__ctm=ctm, ref__stm="talk A s 0 1 hello there\ntalk B s 1 2 hi\n"
    )
    assert read_systems([output, reference])[0].keys() == {"talk-A", "talk-B"}
    assert wer(output, reference) == 0.0


def test_the_lines_of_a_cue_share_its_time(tmp_path: Path) -> None:
    (path,) = files(
        tmp_path, talk__srt="1\n00:00:00,000 --> 00:00:04,000\naa bb\ncc dd\n\n"
    )
    recording = read_recordings(path)["talk"]
    assert recording.words == ["aa", "bb", "cc", "dd"]
    assert recording.times == [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a < b and c > d", "a < b and c > d"),
        ("<i>so</i> <font color='#ff0000'>it</font> <b>is</b>", "so it is"),
        ("<v.loud Mary Ann>so <c.red.big>it</c> <00:00:00.500>is</v>", "so it is"),
        ("{\\an8}so <lang en>it</lang> is <unk>", "so it is <unk>"),
        ("<ruby>so<rt>it</rt></ruby> <B>is</B>", "soit is"),
        ("I <love> it &amp; you", "I <love> it & you"),
    ],
)
def test_tags_of_subtitles(line: str, words: str, tmp_path: Path) -> None:
    (path,) = files(tmp_path, talk=f"WEBVTT\n\n00:00.000 --> 00:04.000\n{line}\n")
    assert read_recordings(path)["talk"].words == words.split()


@pytest.mark.parametrize("ending", ["txt", "stm", "srt", "ctm", "jsonl"])
def test_brackets_in_two_pieces_do_not_remove_the_words_between(
    ending: str, tmp_path: Path
) -> None:
    """Whisper's normaliser removes words in brackets; each piece is normalised by
    itself.
    """
    lines = ["so [ we begin", *["ten words " * 5] * 12, "and we end ] now"]
    texts = {
        "txt": "\n".join(lines),
        "stm": "".join(
            f"talk 1 s {3 * at}.0 {3 * at + 1}.0 {line}\n"
            for at, line in enumerate(lines)
        ),
        "srt": "".join(
            f"{at}\n00:00:{at:02},000 --> 00:00:{at:02},900\n{line}\n\n"
            for at, line in enumerate(lines)
        ),
        "ctm": "".join(
            f"talk 1 {3 * at + place / 20:.2f} 0.05 {word}\n"
            for at, line in enumerate(lines)
            for place, word in enumerate(line.split())
        ),
        "jsonl": "".join(
            json.dumps(
                {
                    "id": f"talk-{at}",
                    "recording": "talk",
                    "hyps": [{"text": line, "score": 0}],
                }
            )
            + "\n"
            for at, line in enumerate(lines)
        ),
    }
    output, reference = files(
        tmp_path, **{f"talk__{ending}": texts[ending], "ref": texts["stm"]}
    )
    (lists,) = measured_recordings([str(output)], str(reference))
    words = [
        word
        for nbest in lists
        for word in Normaliser(whisper_english=True)(nbest.hypotheses[0].text)
    ]
    assert words.count("10") + words.count("ten") >= 60
    assert wer(output, reference, Normaliser(whisper_english=True)) == 0.0


def test_the_default_json_of_aws(tmp_path: Path) -> None:
    item = {
        "type": "pronunciation",
        "start_time": "0.04",
        "end_time": "0.5",
        "alternatives": [{"content": "Hello"}],
    }
    items = [
        item,
        {
            "type": "punctuation",
            "alternatives": [{"confidence": "0.0", "content": ","}],
        },
        item
        | {
            "start_time": "0.6",
            "end_time": "1.1",
            "alternatives": [{"confidence": "0.9", "content": "there"}],
        },
    ]
    results = {"transcripts": [{"transcript": "Hello, there"}], "items": items}
    (path,) = files(
        tmp_path,
        talk__json=json.dumps(
            {"jobName": "j", "results": results, "status": "COMPLETED"}
        ),
    )
    recording = read_recordings(path)["talk"]
    assert recording.words == ["Hello,", "there"] and recording.times == [
        (0.04, 0.5),
        (0.6, 1.1),
    ]
    (path,) = files(
        tmp_path,
        x__json=json.dumps(
            {"results": {"transcripts": [{"transcript": "a"}], "items": [1]}}
        ),
    )
    with pytest.raises(UserError, match="word 1: expected an object"):
        read_recordings(path)


WORDS = [
    "Hello",
    "there,",
    "R&D",
    "it's",
    "a",
    "<",
    "b",
    "naïve",
    "你好",
    "1,000",
    "&amp",
    "well-known",
]
TIMES = [
    (round(0.5 * place, 2), round(0.5 * place + 0.4, 2)) for place in range(len(WORDS))
]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize(
    "ending", [".ctm", ".srt", ".vtt", ".trn", "", ".txt", ".jsonl", ".json"]
)
def test_all_written_formats_are_read_back(
    ending: str, crlf: bool, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """The same words, with times within a millisecond or none, also packed, renamed and
    with Windows' line ends.
    """
    lists = [
        NbestList(
            "talk",
            [
                Hypothesis(
                    word, {FIRST_PASS: 0.0}, times=(span,) * len(timed_pieces(word))
                )
            ],
        )
        for word, span in zip(WORDS, TIMES, strict=True)
    ]
    lists = [
        replace(nbest, id=f"talk-{number:05}", recording="talk")
        for number, nbest in enumerate(lists, 1)
    ]  # as pieces of `rescore combine`
    path = tmp_path / f"talk{ending}"
    if ending.startswith(".json"):
        formats.write(lists, str(path))
    else:
        with formats.opened(str(path)) as file:
            formats.write_best(
                str(path), [(nbest, nbest.hypotheses[0].text) for nbest in lists], file
            )
    text = path.read_bytes().replace(b"\n", b"\r\n" if crlf else b"\n")
    for name in (f"talk{ending}", f"talk{ending}.old", "other"):
        (tmp_path / "new").mkdir(exist_ok=True)
        (tmp_path / "new" / name).write_bytes(pack(text))
        ((_, recording),) = read_recordings(tmp_path / "new" / name).items()
        assert recording.words == WORDS or (
            ending == ".ctm" and "".join(recording.words) == "".join(WORDS)
        )
        if recording.times and len(recording.times) == len(TIMES):
            assert np.allclose(recording.times, TIMES, atol=1e-3)
        else:
            assert ending not in (".srt", ".vtt")


def test_a_shape_describes_whole_recordings(rescore: Run, tmp_path: Path) -> None:
    """As the same texts in plain files do."""
    for name, said in (("one", "a b c"), ("two", "a b d d")):
        for ending, text in (
            ("json", json.dumps({"said": [{"mine": said}]})),
            ("txt", said),
        ):
            folder = tmp_path / f"{name}.{ending}"
            folder.mkdir()
            (folder / f"talk.{ending}").write_text(text)
    (tmp_path / "ref").mkdir()
    (tmp_path / "ref" / "talk.txt").write_text("a b d")
    (tmp_path / "s.toml").write_text('results = "said[]"\ntext = "mine"\n')
    beside = ("--whole", "--ref", "ref")
    for command in ("eval", "combine"):
        figures = []
        for ending, shape in (("json", ("--shape", "s.toml")), ("txt", ())):
            done = rescore(command, f"one.{ending}", f"two.{ending}", *beside, *shape)
            assert done.returncode == 0, done.stderr
            said = f"{done.stdout}{done.stderr}".replace("json", "txt")
            figures.append(said.split())
        assert figures[0] == figures[1]
    (nbest,) = read("one.json/talk.json", shape="s.toml")  # in Python, too
    assert nbest.hypotheses[0].text == "a b c"
    refused = rescore("eval", "one.txt", *beside, "--shape", "s.toml")
    assert refused.returncode == 2
    assert "--shape describes JSON" in refused.stderr


def test_a_json_without_an_id_is_named_by_its_file(tmp_path: Path) -> None:
    """Vosk's result of a recording without alternatives."""
    word = {"conf": 0.9, "start": 0.1, "end": 0.4, "word": "owl"}
    for folder in ("a", "b", "ref"):
        (tmp_path / folder).mkdir()
    for folder in ("a", "b"):
        for name in ("talk", "more"):
            said = {"result": [word], "text": "owl"}
            (tmp_path / folder / f"{name}.json").write_text(json.dumps(said))
    for name in ("talk", "more"):
        (tmp_path / "ref" / f"{name}.txt").write_text("owl\n")
    for other in ("b", "ref"):
        for system in read_systems([tmp_path / "a", tmp_path / other]):
            assert {name: one.words for name, one in system.items()} == {
                "talk": ["owl"],
                "more": ["owl"],
            }
    alone = tmp_path / "a" / "talk.json"
    assert wer(alone, tmp_path / "ref" / "talk.txt") == 0.0


def test_lists_without_ids_are_the_recording_of_their_file(tmp_path: Path) -> None:
    """But numbers that the other system has, too, are recordings."""
    lines = ['{"hyps": ["an owl"], "scores": [-1]}', '{"hyps": ["hoots"]}']
    paths = files(tmp_path, a__jsonl="\n".join(lines), b__jsonl="\n".join(lines))
    assert read_recordings(paths[0])["a"].words == ["an", "owl", "hoots"]
    assert [list(one) for one in read_systems(paths)] == [["1", "2"], ["1", "2"]]
    (tmp_path / "c").mkdir()
    (talk,) = files(tmp_path / "c", a__txt="an owl\nhoots\n")
    assert [list(one) for one in read_systems([paths[0], talk])] == [["a"], ["a"]]


def test_recordings_that_begin_with_the_same_word(tmp_path: Path) -> None:
    """No word is an id because another recording begins with it."""
    for folder in ("out", "ref"):
        (tmp_path / folder).mkdir()
    files(tmp_path / "out", talk__txt="so we begin")
    files(tmp_path / "ref", talk__txt="so we begin", more__txt="so it ends")
    _, expected = read_systems([tmp_path / "out", tmp_path / "ref"])
    assert {name: one.text for name, one in expected.items()} == {
        "talk": "so we begin",
        "more": "so it ends",
    }


def test_words_of_rttm_and_seglst_are_recordings(tmp_path: Path) -> None:
    words = ["hello", "there", "good", "bye"]
    rttm = "SPEAKER talk 1 0 9 <NA> <NA> s1 <NA> <NA>\n"
    entries = []
    for place, word in enumerate(words):
        start = place / 2
        rttm += f"LEXEME talk 1 {start} 0.25 {word} lex s1 0.9 <NA>\n"
        times = {"start_time": start, "end_time": start + 0.25}
        entry = {"session_id": "talk", "speaker": "s1", "words": word}
        entries.append(entry | times)
    paths = files(tmp_path, a=rttm, b=json.dumps(entries), c=STM)
    for path in paths[:2]:
        recording = read_recordings(path)["talk"]
        assert recording.words == words
        assert recording.times == [(at / 2, at / 2 + 0.25) for at in range(4)]
        assert wer(path, paths[2]) == 0.0


@pytest.mark.parametrize("number", [3, 9])
def test_every_file_is_opened_equally_often(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many files a folder has, and with options for their reader."""
    (tmp_path / "s.toml").write_text('text = "mine"\n')
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        for place in range(number):
            (folder / f"talk{place}.json").write_text('{"mine": "an owl"}')
    options = ReadOptions(shape=read_shape(tmp_path / "s.toml"))
    options.beside = list(map(str, folders))
    opened: Counter[str] = Counter()
    first = Source.__init__

    def counting(source: Source, path: str | Path, *others: Any) -> None:
        opened[str(path)] += 1
        first(source, path, *others)

    monkeypatch.setattr(Source, "__init__", counting)
    systems = read_systems(folders, options=options)
    assert [len(system) for system in systems] == [number, number]
    assert max(opened.values()) <= 5


TABLES = {
    "head": "uid,said,conf\n{}1,an owl,0.9\n{}2,hoots,0.8\n",
    "no head": "{}1,an owl,0.9\n{}2,hoots,0.8\n",
    "tabs": "uid\tsaid\n{}1\tan owl\n{}2\thoots\n",
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("ending", ["csv", "txt"])
def test_tables_are_no_recordings(table: str, ending: str, tmp_path: Path) -> None:
    """Also with different numbers of rows, which tell recordings in plain texts."""
    text = TABLES[table].format("u", "u")
    longer = text + text.splitlines()[-1].replace("2", "3") + "\n"
    paths = files(
        tmp_path, **{f"a__{ending}": text, f"b__{ending}": longer, "c": "a b\n"}
    )
    assert not are_whole(paths[:2])
    (more,) = files(tmp_path, d="a b\nc\n")
    assert are_whole([paths[2], more])


def test_lines_where_a_system_wrote_nothing_are_utterances(tmp_path: Path) -> None:
    paths = files(tmp_path, a="an owl\n\nhoots\n", b="an owl\nit\nhoots\n", c="it\n\n")
    assert not are_whole(paths[:2])
    assert are_whole(paths)


SAID = "numbers of lines"
ASKED = [[6, 6, 6, 5], [5, 5, 9]]
"""The lines of each system, where most have the same number."""
READ = [[6, 6, 5, 5], [6, 5], [6, 6, 1]]


def plain(numbers: list[int], silent: int = 0) -> list[str]:
    """Write a text for each number of lines; the first has some empty lines."""
    names = []
    for place, number in enumerate(numbers):
        empty = silent if place == 0 else 0
        lines = ["the owl hoots\n"] * (number - empty) + ["\n"] * empty
        Path(f"{place}.txt").write_text("".join(reversed(lines)))
        names.append(f"{place}.txt")
    return names


@pytest.mark.parametrize("silent", [0, 2])
@pytest.mark.parametrize("numbers", [*ASKED, *READ])
def test_lines_of_most_systems_are_utterances(
    numbers: list[int], silent: int, rescore: Run
) -> None:
    """Also if a system wrote nothing in some of its lines."""
    names = plain(numbers, silent)
    done = rescore("combine", *names, "-o", "out.jsonl")
    if numbers in ASKED:
        odd = f"{names[-1]}: {numbers[-1]} lines, where"
        assert_one_line_error(done, odd, "give --whole")
    else:
        assert done.returncode == 0, done.stderr
        assert SAID in done.stderr
    declared = rescore("combine", *names, "--whole", "-o", "out.jsonl")
    assert declared.returncode == 0, declared.stderr
    assert SAID not in declared.stderr


def test_nobody_is_asked_about_folders_and_ids(rescore: Run) -> None:
    folders = []
    names = plain(ASKED[0])
    for name in names:
        folder = Path(name).with_suffix("")
        folder.mkdir()
        lines = Path(name).read_text().splitlines()
        (folder / "talk.txt").write_text("\n".join(lines))
        folders.append(str(folder))
        with_ids = [f"u{number} {line}\n" for number, line in enumerate(lines)]
        Path(name).write_text("".join(with_ids))
    for outputs in (folders, names):
        done = rescore("combine", *outputs, "-o", "out.jsonl")
        assert done.returncode == 0, done.stderr
        assert SAID not in done.stderr


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.txt"])
def test_a_table_beside_recordings_is_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = "id,text,score\nu1,an owl,-1\nu1,a cowl,-2\n"
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.replace(",", "\t").encode()))
    else:
        path.write_text(text)
    (words,) = files(tmp_path, talk__ctm="talk A 0 1 owl\n")
    with pytest.raises(UserError, match="is a table, not the words of a recording"):
        read_systems([path, words])


def test_tables_with_fields_are_combined(rescore: Run, tmp_path: Path) -> None:
    text = TABLES["head"].format("u", "u")
    files(tmp_path, a__csv=text, b__csv=f"{text}u3,by night,0.7\n")
    fields = ("--field", "text=said", "--field", "id=uid")
    done = rescore("combine", "a.csv", "b.csv", *fields, "-o", "lists.jsonl")
    assert done.returncode == 0, done.stderr
    assert "1 of 3 utterances are missing" in done.stderr
    refused = rescore("combine", "a.csv", "b.csv", "-o", "lists.jsonl")
    assert refused.returncode == 2
    assert "which column has the hypotheses?" in refused.stderr


def test_a_silent_recording_is_measured_by_segments_as_others_are(
    rescore: Run,
) -> None:
    folder = Path("heard")
    folder.mkdir()
    (folder / "a.ctm").write_text("a 1 0.10 0.30 so\na 1 2.10 0.30 it\n")
    (folder / "b.ctm").write_text("")
    Path("ref.stm").write_text(
        "a 1 s 0.00 1.00 so\na 1 s 2.00 3.00 it is\nb 1 s 0.00 1.00 no\n"
    )
    done = rescore("eval", "heard", "--whole", "--ref", "ref.stm")
    assert done.returncode == 0, done.stderr
    assert "aligned whole" not in done.stderr
    assert done.stdout.splitlines()[1].split() == (
        ["heard", "50.00", "0.00-100.00", "0", "2", "0", "4", "3"]
    )


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ("1 1 0.0 0.5 hello\n2 1 0.0 0.5 good\n", "001 hello\n002 good\n"),
        ("1 1 0.0 0.5 hello\n2 1 0.0 0.5 good\n", "1 hello\n2 good\n"),
        ("1 1 0.0 0.5 hello\n2 1 0.0 0.5 good\n", "hello (01)\ngood (02)\n"),
        ("talk 1 0.0 0.5 hello\n", "in/talk.wav 1 s 0.0 0.5 hello\n"),
        ("a/talk.wav 1 s 0 1 hello\n", "talk.flac 1 s 0.0 0.5 hello\n"),
    ],
)
def test_names_of_recordings_are_compared_as_ids_are(
    output: str, reference: str, tmp_path: Path
) -> None:
    """Apart from leading zeros, folders and endings; and no id becomes a word."""
    for pair in ((output, reference), (reference, output)):
        paths = files(tmp_path, out=pair[0], ref=pair[1])
        assert wer(*paths) == 0.0
        first, second = read_systems(paths)
        assert first.keys() == second.keys()


def test_sentences_that_begin_with_numbers_are_words(tmp_path: Path) -> None:
    """Where no other system has a recording of this name."""
    folders = []
    for name in ("a", "b"):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        files(folders[-1], talk__txt="1. go\n2 cats come\n2 dogs too\n")
    for system in read_systems(folders):
        assert system["talk"].text.split()[0] == "1."
        assert len(system["talk"].words) == 8
