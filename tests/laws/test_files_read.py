"""Law: no output takes the place of a file that the command reads, whichever path,
link, pattern or folder leads to the file.

The pairs are the options and arguments of all commands that declare files to read and
files to write. Folders are read by the commands themselves.
"""

from __future__ import annotations

import json
import os
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rescore.cli.bridge import entry_of
from rescore.cli.main import COMMANDS
from rescore.errors import OptionError, UserError
from rescore.file_options import Typed, check_files
from rescore.files import note_read, opened, together
from rescore.formats.audio import digest
from rescore.nbest import Audio
from rescore.options import Field
from tests.conftest import parameters_of, run_main


def declared(command: str) -> Iterator[Field]:
    for parameter in parameters_of(command):
        entry = entry_of(parameter)
        if entry is not None:
            yield entry


def pairs() -> list[tuple[str, Field, Field]]:
    """Each command with each option that reads files and each that writes a file."""
    found = []
    for command in COMMANDS:
        entries = list(declared(command))
        for reading in entries:
            for writing in entries:
                if reading.about.reads and writing.about.writes:
                    found.append((command, reading, writing))
    return found


PAIRS = pairs()

WAYS: dict[str, Callable[[Path, Path], object]] = {
    "same": lambda file, place: None,
    "symbolic link": lambda file, place: place.symlink_to(file),
    "hard link": lambda file, place: os.link(file, place),
    "link of a folder": lambda file, place: place.symlink_to(file.parent),
}


def ways_to(file: Path, name: str) -> str:
    """Another path to a file."""
    place = file.parent.parent / f"{file.parent.name}.{name.replace(' ', '-')}"
    WAYS[name](file, place)
    if name == "same":
        return str(file)
    return str(place / file.name if place.is_dir() else place)


def test_pairs_are_known() -> None:
    assert len(PAIRS) > 150
    assert len({command for command, _, _ in PAIRS}) > 15


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("prefix", ["", "kind:", "kind:context=2:"])
def test_no_output_is_a_file_that_is_typed(
    way: str, prefix: str, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / "file.json"
    file.touch()
    other = ways_to(file, way)
    for read, written in ((str(file), other), (other, str(file))):
        for command, reading, writing in PAIRS:
            if prefix and reading.about.metavar != "KIND[:PATH]":
                continue
            typed = [
                Typed(reading.named(), prefix + read, reading.about),
                Typed(writing.named(), written, writing.about),
            ]
            if reading.about.lists and not Path(prefix + read).exists():
                continue
            with pytest.raises((OptionError, UserError)) as error:
                check_files(typed)
            assert "would write over" in str(error.value), command


def one_whisper(folder: Path) -> None:
    for name in "ab":
        segment = {"start": 0, "end": 1, "text": name, "avg_logprob": -0.2}
        content = {"text": name, "segments": [segment], "language": "en"}
        (folder / f"{name}.json").write_text(json.dumps(content))


def kaldi(folder: Path) -> None:
    (folder / "words_text").write_text("a-1 a b\nb-1 c d\n")
    (folder / "ac_cost").write_text("a-1 1\nb-1 2\n")
    (folder / "lm_cost").write_text("a-1 1\nb-1 2\n")


def espnet2(folder: Path) -> None:
    best = folder / "1best_recog"
    best.mkdir()
    (best / "text").write_text("a a b\nb c d\n")
    (best / "score").write_text("a -1\nb -2\n")


def texts(folder: Path) -> None:
    for name in "ab":
        (folder / f"{name}.txt").write_text(f"{name} b\n")


def recordings(folder: Path) -> None:
    for name in "ab":
        with wave.open(str(folder / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(bytes(32000))


FOLDERS = {"whisper": one_whisper, "kaldi": kaldi, "espnet2": espnet2}
LISTS = '{"id": "a", "nbest": [{"text": "a b", "score": -1}], "ref": "a b"}\n'
LINES = {
    "convert in -o": FOLDERS,
    "convert z.jsonl in -o": FOLDERS,
    "run in --best": {"kaldi": kaldi, "espnet2": espnet2},
    "run in -o": FOLDERS,
    "eval in --ref ref --allow-missing --report": FOLDERS,
    "eval whole --ref in --whole --report": {"texts": texts},
    "combine a.txt b.txt in -o": {"kaldi": kaldi, "whisper": one_whisper},
    "correct in --words words -o new --explain": {"texts": texts},
}
"""Command lines that end in an option that writes, and the folders that they read."""


@pytest.mark.parametrize(
    ("line", "form"), [(line, form) for line in LINES for form in LINES[line]]
)
def test_no_output_is_a_file_in_a_folder_that_is_read(
    line: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    LINES[line][form](Path("in"))
    Path("l.jsonl").write_text(LISTS)
    Path("z.jsonl").write_text(LISTS.replace('"a"', '"z"'))
    Path("ref").write_text("a a b\nb c d\n")
    Path("a.txt").write_text("a a b\nb c d\n")
    Path("b.txt").write_text("a a b\nb c d\n")
    Path("words").write_text("Goldman Sachs\n")
    Path("whole").mkdir()
    texts(Path("whole"))
    files = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    for file in sorted(files):
        if "in" not in file.parts:
            continue
        os.link(file, "hard")
        for output in (str(file), "hard"):
            done = run_main(*line.split(), output)
            assert done.returncode == 2, (output, done.stdout)
            assert "would write over" in done.stderr, done.stderr
            for path, content in files.items():
                assert path.read_bytes() == content
        Path("hard").unlink()


def test_a_recording_is_a_file_that_is_read(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    recordings(tmp_path)
    output = str(tmp_path / "a.wav")
    with pytest.raises(UserError, match="would write over"), together([output]):
        digest(Audio(output, name="a"))


def test_a_file_that_is_not_read_may_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are often written beside the lists, again and again."""
    monkeypatch.chdir(tmp_path)
    for name, make in (("kaldi", kaldi), ("espnet2", espnet2)):
        Path(name).mkdir()
        make(Path(name))
        Path("ref").write_text("a a b\nb c d\n")
        for _ in range(2):
            line = f"run {name} --ref ref --report {name}/results.json --best"
            done = run_main(*line.split(), f"{name}/best.txt")
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("reads_first", [True, False])
def test_a_file_of_an_output_folder_is_an_output(
    reads_first: bool, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    match = "file: is read, and an output would write over it"
    with pytest.raises(UserError, match=match), together([str(tmp_path)]):
        if reads_first:
            note_read(file)
        with opened(str(file)) as stream:
            stream.write("new")
        note_read(file)
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_another_process_may_replace_an_output(tmp_path: Path) -> None:
    """The system may give the identity of the replaced file to a file that is read."""
    output, other, read = tmp_path / "output", tmp_path / "other", tmp_path / "read"
    output.write_text("old")
    other.write_text("other")
    with together([str(output)]):
        read.hardlink_to(output)
        other.replace(output)
        note_read(read)
        with opened(str(output)) as stream:
            stream.write("new")
    assert output.read_text() == "new" and read.read_text() == "old"
