"""Law: every command reads the same files of a folder. A warning names the other files
with lists.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Run

LISTS = [
    json.dumps(
        {"id": f"u-{number}", "ref": "a", "hyps": [{"text": "a"}, {"text": "b"}]}
    )
    + "\n"
    for number in range(4)
]
FAIRSEQ = [
    f"S-{number}\ts\nT-{number}\ta\nH-{number}\t-0.1\ta\nH-{number}\t-0.3\tb\n"
    for number in range(4)
]
FOLDERS = {
    "lines": ("a.jsonl", "b.jsonl"),
    "packed": ("a.jsonl", "b.jsonl.xz"),
    "all packed": ("a.jsonl.gz", "b.jsonl.xz"),
    "capitals": ("A.JSONL", "b.Jsonl.GZ"),
    "one": ("all.jsonl.xz",),
    "fairseq": ("generate-test.txt",),
    "fairseq shards": ("generate-test.shard0.txt", "generate-test.shard1.txt"),
}
"""Folders of lists by their files."""
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
}


def folder_of(folder: Path, names: tuple[str, ...]) -> Path:
    """A folder whose files have parts of the four lists."""
    folder.mkdir()
    parts = FAIRSEQ if names[0].startswith("generate") else LISTS
    share = len(parts) // len(names)
    for place, name in enumerate(names):
        own = "".join(parts[place * share : (place + 1) * share]).encode()
        pack = PACK.get(Path(name).suffix.lower(), bytes)
        (folder / name).write_bytes(pack(own))
    return folder


@pytest.mark.parametrize("names", FOLDERS.values(), ids=FOLDERS)
def test_each_command_reads_all_lists(
    names: tuple[str, ...], tmp_path: Path, rescore: Run
) -> None:
    folder_of(tmp_path / "sets", names)
    folder_of(tmp_path / "other", FOLDERS["lines"])
    read = {
        "convert": rescore("convert", "sets"),
        "combine": rescore("combine", "sets", "sets", "--name", "a", "--name", "b"),
    }
    if not names[0].startswith("generate"):
        read["other"] = rescore("combine", "sets", "other")
    for command, done in read.items():
        assert done.returncode == 0, (command, done.stderr)
        lists = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(lists) == 4, command
        assert all(len(nbest["hyps"]) == 2 for nbest in lists), command
        assert "left out" not in done.stderr
    measured = rescore("eval", "sets", "--metric", "wer")
    assert measured.stdout.splitlines()[1].split()[-1] == "4", measured.stderr


OTHERS = {
    "a.json": json.dumps([json.loads(line) for line in LISTS]),
    "a.csv": "id,text,score\nu-9,a,-1\n",
    "generic.json": json.dumps([{"id": "u-9", "hypotheses": ["a"]}]),
}
NO_LISTS = {
    "weights.json": '{"lm": 0.5}',
    "notes.txt": "two sentences\nof a plain text\n",
    "ref": "u-0 a\nu-1 a\n",
}


@pytest.mark.parametrize("name", [*OTHERS, *NO_LISTS])
def test_lists_that_are_left_out_are_named(
    name: str, tmp_path: Path, rescore: Run
) -> None:
    folder_of(tmp_path / "sets", FOLDERS["packed"])
    (tmp_path / "sets" / name).write_text({**OTHERS, **NO_LISTS}[name])
    for command in ("convert", "eval"):
        done = rescore(command, "sets")
        assert done.returncode == 0, done.stderr
        told = f"N-best lists in {name} are left out: give the files"
        assert done.stderr.count(told) == (name in OTHERS), done.stderr


@pytest.mark.parametrize("name", ["OUT.CSV", "out.Jsonl.GZ", "OUT.TSV.XZ", "o.JSON"])
def test_endings_have_no_case(name: str, tmp_path: Path, rescore: Run) -> None:
    (tmp_path / "l.jsonl").write_text("".join(LISTS))
    for path in (name, name.lower()):
        done = rescore("convert", "l.jsonl", "-o", path)
        assert done.returncode == 0, done.stderr
    assert Path(name).read_bytes() == Path(name.lower()).read_bytes()
