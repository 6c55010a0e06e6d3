"""examples/digits: its programs on tones, and the plan of its Makefile."""

from __future__ import annotations

import io
import json
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from rescore import formats
from rescore.cli.main import COMMANDS
from tests.conftest import ROOT, shared

DIGITS = ROOT / "examples" / "digits"
RATE = 8_000


def run(name: str, *arguments: str | Path) -> None:
    """Run a program of the folder in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [name, *map(str, arguments)])
        runpy.run_path(str(DIGITS / name), run_name="__main__")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings 0 to 11 of ten digits by two speakers; the number of a recording is in
    its first sample, its digit in the second.
    """
    path = tmp_path_factory.mktemp("archive") / "recordings.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for digit in range(10):
            for speaker in ("anna", "bert"):
                for number in range(12):
                    samples = np.full(400 + 16 * digit, 7, np.int16)
                    samples[:2] = (number + 100, digit + 200)
                    file = io.BytesIO()
                    soundfile.write(file, samples, RATE, format="WAV")
                    name = f"recordings/{digit}_{speaker}_{number}.wav"
                    member = tarfile.TarInfo(name)
                    member.size = file.tell()
                    file.seek(0)
                    tar.addfile(member, file)
    return path


def test_strings_are_joined(archive: Path, tmp_path: Path) -> None:
    """Texts and times are those of the sound; each set has recordings of its own."""
    run("strings.py", archive, tmp_path)
    numbers = {"train": {110, 111}, "dev": set(range(105, 110))}
    numbers["test"] = set(range(100, 105))
    for part, count in (("train", 900), ("dev", 240), ("test", 240)):
        folder = tmp_path / part
        texts = [line.split() for line in (folder / "text").read_text().splitlines()]
        times = [
            line.split() for line in (folder / "words.ctm").read_text().split("\n")
        ]
        assert len(texts) == count == len({name for name, *_ in texts})
        for name, *words in texts[:: count // 20]:
            assert 3 <= len(words) <= 7
            own = [row for row in times if row[:1] == [name]]
            assert [row[4] for row in own] == words
            sound, rate = soundfile.read(folder / "wav" / f"{name}.wav", dtype="int16")
            assert rate == RATE
            for _, _, start, duration, word in own:
                assert round(float(duration) * RATE) == 400 + 16 * int(word)
                about = round(float(start) * RATE)  # times are in milliseconds
                near = sound[max(0, about - 5) : about + 7].tolist()
                first = near.index(int(word) + 200)
                assert near[first - 1] in numbers[part]


def test_lists_are_decoded(tones: Path, ctc: Path, tmp_path: Path) -> None:
    """The first hypothesis is right, and scores fall."""
    run("decode.py", ctc, tones, tmp_path / "lists.jsonl")
    lists = formats.read([tmp_path / "lists.jsonl"])
    assert len(lists) == 60
    right = 0
    for nbest in lists:
        scores = nbest.column("s2s")
        assert len(nbest.hypotheses) == len({one.text for one in nbest.hypotheses})
        assert 1 < len(scores) <= 10 and list(scores) == sorted(scores, reverse=True)
        right += nbest.hypotheses[0].text == nbest.references[0]
    assert right > 40


def test_distortion_is_measured(
    tones: Path, a3t: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The distortion is below the distortion of the mean and of the reversed text. The
    command writes five sounds, and JSON with the printed figures.
    """
    data = tmp_path / "data"
    shutil.copytree(tones, data)
    (data / "letters.ctm").rename(data / "words.ctm")
    written = tmp_path / "distortion.json"
    run("distortion.py", data, a3t, "--listen", tmp_path / "sounds", "-o", written)
    lines = [line.split(": ") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["model", "MCD of 60 strings in dB"]
    figures = {name.strip(): float(value) for name, value in lines[1:]}
    assert figures["A3T"] < figures["mean of the other frames"]
    assert figures["A3T"] < figures["reversed text"]
    means = json.loads(written.read_text(encoding="utf-8"))["model"]
    assert {name: round(mean, 2) for name, mean in means.items()} == figures
    sounds = sorted((tmp_path / "sounds").glob("*.wav"))
    assert len(sounds) == 5 and soundfile.info(sounds[0]).samplerate == RATE


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_makefile_calls_commands_that_there_are(tmp_path: Path) -> None:
    done = subprocess.run(
        [*("make", "-n", "-f", DIGITS / "Makefile"), "PYTHON=python"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.replace("\\\n", " ").splitlines()
    calls = [shlex.split(line) for line in lines]
    commands = [call[3:] for call in calls if call[:3] == ["python", "-m", "rescore"]]
    assert [command[0] for command in commands].count("train") == 6
    assert [command[0] for command in commands].count("compare") == 1
    for call in commands:
        name, *arguments = call if call[0] in COMMANDS else ("run", *call)
        COMMANDS[name].make_context(name, arguments)
    programs = {Path(call[1]).name for call in calls if call[0] == "python"}
    assert {"strings.py", "decode.py", "distortion.py"} <= programs


@pytest.mark.slow
def test_digits_are_rescored(tmp_path: Path) -> None:
    """The whole chain: models that listen gain, and alignment embeddings help."""
    archive = shared("spoken-digits/recordings.tar.xz")
    python = f"PYTHON={sys.executable}"
    done = subprocess.run(
        ["make", "-C", DIGITS, f"WORK={tmp_path}", f"ARCHIVE={archive}", python],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wer: dict[str, float] = {}
    mcd: dict[str, dict[str, float]] = {}
    model = ""
    for line in done.stdout.splitlines():
        words = line.split()
        if line.startswith(("first pass ", "ctc ", "a3t ")):
            wer.setdefault(words[0], float(words[3]))
        if "MCD of" in line:
            model = words[0].rstrip(":")
            mcd[model] = {}
        elif line.startswith("  ") and ": " in line:
            name, value = line.strip().rsplit(": ", 1)
            mcd[model][name] = float(value)
    assert wer["ctc"] < 0.8 * wer["first"] and wer["a3t"] < 0.8 * wer["first"]
    full = mcd["a3t-full"]
    assert full["A3T"] < mcd["a3t-no-post-net"]["A3T"]
    assert full["A3T"] < mcd["a3t-no-alignment"]["A3T"] - 0.5
    assert full["A3T"] < full["reversed text"] - 1
