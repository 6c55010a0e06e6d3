"""Law: the ending of each output chooses its packing, `-` is stdout and nothing else is
printed there, and the outputs of a command are written together or none.

The outputs are the options of all commands that declare a file to write; the command
lines are those of `test_options`.
"""

from __future__ import annotations

import gzip
import lzma
import shlex
from pathlib import Path

import click
import pytest

from rescore.cli.bridge import entry_of
from rescore.errors import UserError
from rescore.files import PACKED, together, write_text
from tests.conftest import parameters_of
from tests.laws.test_options import BASES, COMMANDS_HERE, SCENARIOS, folder, outcome

__all__ = ["folder"]  # the inputs of all command lines

UNPACKED = {".gz": gzip.decompress, ".xz": lzma.decompress}


AS_STDOUT = {
    "d.tsv": "x.jsonl",
    "out.trn": "x",
    "out.json": "x.jsonl",
    "v.npy": "x.jsonl",
    "t.md": "t.txt",
}
"""Files of another form than stdout has, and files of this form."""
OF_ONE_FORM = [(command, "--output") for command in ("analyse", "probe", "similarity")]
"""Outputs that are JSON, on stdout, too."""


def written_options() -> list[tuple[str, str]]:
    """Each command with each option that names files to write."""
    pairs = []
    for name in COMMANDS_HERE:
        for parameter in parameters_of(name):
            entry = entry_of(parameter)
            if isinstance(parameter, click.Option) and entry and entry.about.writes:
                pairs.append((name, max(parameter.opts, key=len)))
    return pairs


def scenario(command: str, option: str) -> tuple[str, str]:
    """A command line without the option, and the file that the option names."""
    lines = SCENARIOS[option]
    beside, _, line = lines.get(command, lines["*"]).partition("|")
    if beside.startswith("!"):
        beside = beside.removeprefix("!")
    else:
        beside = f"{BASES[command]} {beside}"
    return beside, shlex.split(line)[-1]


def test_outputs_are_known() -> None:
    assert len(written_options()) > 30


@pytest.mark.parametrize(("command", "option"), written_options())
def test_an_output_is_packed_by_its_ending(command: str, option: str) -> None:
    beside, file = scenario(command, option)
    done, files = outcome(command, f"{beside} {option} {file}")
    assert done.returncode in (0, 1), done.stderr
    for packing in PACKED:
        packed, packed_files = outcome(command, f"{beside} {option} {file}{packing}")
        if packed.returncode == 2:
            assert f"{file}{packing}" in packed.stderr
            assert packed_files == {}
            continue
        content = UNPACKED[packing](packed_files[f"{file}{packing}"])
        assert kind_of(content) == kind_of(files[file])


def kind_of(content: bytes) -> tuple[int, bytes]:
    """Something that tells formats apart, without times and speeds."""
    return len(content.splitlines()), content[:20]


@pytest.mark.parametrize(("command", "option"), written_options())
def test_stdout_is_an_output_and_nothing_else(command: str, option: str) -> None:
    beside, file = scenario(command, option)
    done, files = outcome(command, f"{beside} {option} -")
    assert "-" not in files
    if done.returncode == 2:
        assert option in done.stderr or "-: " in done.stderr
        return
    if option == "--explain":  # for which - is stderr
        return
    same = AS_STDOUT.get(file, file)
    if (command, option) in OF_ONE_FORM:
        same = file
    _, its_files = outcome(command, f"{beside} {option} {same}")
    expected = its_files[same]
    assert len(done.stdout.encode().splitlines()) == len(expected.splitlines())
    assert done.stdout.encode()[:20] == expected[:20]


# --- together ------------------------------------------------------------------------


def test_outputs_are_written_together_or_none(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write_text(one, "old")
    outputs = [str(one), str(other), str(tmp_path / "folder")]
    with pytest.raises(UserError), together(outputs):
        write_text(one, "new")
        write_text(other, "new")
        (tmp_path / "folder").mkdir()
        write_text(tmp_path / "folder" / "inner", "new")
        raise UserError("the last output fails")
    assert one.read_text() == "old"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "one"]
    with together(outputs):
        write_text(one, "new")
        write_text(other, "new")
        assert one.read_text() == "old"
    assert one.read_text() == other.read_text() == "new"


def test_outputs_are_written_where_the_reader_of_stdout_goes(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), together([str(tmp_path / "one")]):
        write_text(tmp_path / "one", "new")
        raise BrokenPipeError
    assert (tmp_path / "one").read_text() == "new"


@pytest.mark.parametrize(
    "line",
    [
        "rerank test.jsonl --weights w.json --table t.md --best o.ctm",
        "rerank test.jsonl --weights w.json -o o.moses --best o.trn",
        "run test.jsonl --dev dev.jsonl -o o.moses --best o.trn",
        "run test.jsonl --report o.json --best o.json.moses",
        "score test.jsonl --lm ngram:one --tokens t.jsonl -o o.moses",
        "score test.jsonl --lm ngram:one --tokens t.jsonl -o o.trn",
        "convert test.jsonl -o o.srt",
        "combine alike.1 alike.2 -o o.ctm",
    ],
)
def test_a_refused_output_leaves_no_other(line: str) -> None:
    command, rest = line.split(" ", 1)
    done, files = outcome(command, rest)
    assert done.returncode == 2
    assert "o." in done.stderr
    assert files == {}
