"""Law: the name of a file, or the first word of a line, changes no figure of a whole
recording. Where each side is one recording, and a file names none, the two are compared
under any names, and a line says so.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from rescore.asr.pieces import Look, read_file
from rescore.asr.whole import read_systems
from rescore.formats.source import ReadOptions, Source
from tests.conftest import Run

HEARD = "the cat sat on it\nand then we left\nuntil they all came back\n"
SPOKEN = "the cat sat on it\nand then he left\nuntil they came back here\n"
PAIRS = {
    "lines": (HEARD, SPOKEN),
    "a line": ("hello you all\n", "hello you\n"),
    "other lines": (HEARD, SPOKEN.replace("\n", " ", 1)),
    "the same first words": ("so it is\nso be it\n", "so it is\nso be it so\n"),
    "a number": ("2 cats sat\nthen they left\n", "2 cats sit\nthen they left\n"),
}
"""What a system wrote of a recording, and what was said."""


def row(rescore: Run, output: str, reference: str) -> list[str]:
    """The figures of an output of whole recordings."""
    done = rescore("eval", output, "--ref", reference, "--whole")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1].split()[1:]


@pytest.mark.parametrize("pair", PAIRS)
def test_other_names_change_no_figure(pair: str, rescore: Run) -> None:
    figures = []
    for output, reference in (("a/talk.txt", "b/talk.txt"), ("hyp.txt", "truth.txt")):
        for path, text in zip((output, reference), PAIRS[pair], strict=True):
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_text(text)
        figures.append(row(rescore, output, reference))
    assert figures[0] == figures[1]
    words = str(len(PAIRS[pair][1].split()))
    assert words in figures[1] and figures[1][-1] == "1"


@pytest.mark.parametrize("pair", PAIRS)
def test_systems_of_one_recording_are_combined(pair: str, rescore: Run) -> None:
    for name, text in zip(("one.txt", "two.txt"), PAIRS[pair], strict=True):
        Path(name).write_text(text)
    done = rescore("combine", "one.txt", "two.txt", "--whole")
    assert done.returncode == 0, done.stderr
    lists = [json.loads(line) for line in done.stdout.splitlines()]
    assert {nbest["recording"] for nbest in lists} == {"one"}
    said = " ".join(nbest["hyps"][0]["text"] for nbest in lists).split()
    assert said[0] == PAIRS[pair][0].split()[0]


CUES = "1\n00:00:01,000 --> 00:00:02,000\nan owl hoots\n"
WORD = {"conf": 0.9, "start": 0.1, "end": 0.4, "word": "owl"}
UNNAMED = {
    "txt": "an owl hoots\n",
    "srt": CUES,
    "vtt": "WEBVTT\n\n" + CUES.replace(",", "."),
    "json": json.dumps({"result": [WORD], "text": "owl"}),
}
"""Files of a recording that only the name of the file names, by their endings."""
NAMED = {
    "ctm": "{} 1 0.1 0.2 an\n{} 1 0.4 0.2 owl\n",
    "stm": "{} 1 s 0.0 1.0 an owl\n",
    "trn": "an owl ({}-1)\nhoots ({}-2)\n",
}
"""Forms that name the recording."""


def written(name: str, form: str) -> str:
    """The path of a file of a form."""
    text = UNNAMED.get(form) or NAMED[form].format(name, name)
    path = Path(f"{name}.{form}")
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("output", "reference"),
    [*product(UNNAMED, UNNAMED), *product(UNNAMED, ["ctm", "stm"])],
)
def test_a_recording_without_a_name_is_that_of_the_other_side(
    output: str, reference: str, rescore: Run
) -> None:
    done = rescore(
        "eval", written("out", output), "--ref", written("ref", reference), "--whole"
    )
    assert done.returncode == 0, done.stderr
    assert f"out.{output}: is one recording without a name" in done.stderr


@pytest.mark.parametrize(("output", "reference"), [*product(NAMED, NAMED)])
def test_recordings_with_other_names_are_others(
    output: str, reference: str, rescore: Run
) -> None:
    done = rescore(
        "eval", written("out", output), "--ref", written("ref", reference), "--whole"
    )
    assert (done.returncode, "no reference for recording out" in done.stderr) == (
        2,
        True,
    )


def test_files_of_folders_keep_their_names(tmp_path: Path, rescore: Run) -> None:
    for name in ("out", "ref"):
        (tmp_path / name).mkdir()
        written(f"{name}/{name}", "txt")
    done = rescore("eval", "out", "--ref", "ref", "--whole")
    assert "no reference for recording out" in done.stderr


LOOKS = {
    "anna hello\nbob you\n": Look.WORDS,
    "u-1 hello\n": Look.WORDS,
    "2 cats\nthen\n": Look.WORDS,
    "1. go\n2. come\n": Look.NUMBERS,
    "u-1 hello\nu-2 you\n": Look.IDS,
    "hello (anna)\nyou (bob)\n": Look.IDS,
    "anna_x hello\nbob_y you\ncarl_z all\n": Look.IDS,
}


@pytest.mark.parametrize("text", LOOKS)
def test_the_look_of_first_words(text: str, tmp_path: Path) -> None:
    (tmp_path / "talk").write_text(text)
    file = read_file(Source(tmp_path / "talk"), ReadOptions(), strict=False)
    assert file.look is LOOKS[text]


IDS = {
    "other side": ("anna one\nbob two\n", "anna 1 0 1 one\nbob 1 1 1 two\n"),
    "order": ("anna one\nbob two\ncarl it\n", "bob two\nanna one\ncarl it\n"),
    "marks": ("call-a one\ncall-b two\n", "call-a one\ncall-b too\n"),
    "digits": ("a1 one\nb1 two\n", "a1 one\nb1 too\n"),
    "brackets": ("one (anna)\n", "won (anna)\n"),
}
"""Pairs of texts whose ids are no words: what tells it."""


@pytest.mark.parametrize("pair", IDS)
def test_ids_that_are_told_are_no_words(pair: str, tmp_path: Path) -> None:
    paths = []
    for name, text in zip("ab", IDS[pair], strict=True):
        paths.append(tmp_path / name)
        paths[-1].write_text(text)
    first, second = read_systems(paths)
    assert first.keys() == second.keys()
    spoken = {word for one in first.values() for word in one.words}
    assert spoken <= {"one", "two", "it"}
