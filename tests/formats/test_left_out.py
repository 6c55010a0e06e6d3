"""Utterances without a reference are an error; --allow-missing leaves them out, says
how many, and signs the figure with the number of all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rescore as package
from rescore.errors import UserError
from tests.conftest import Run, assert_one_line_error

LISTS = "".join(
    f'{{"id": "u{number}", "hyps": [{{"text": "a b", "score": -1}}]}}\n'
    for number in (1, 2, 3)
)
OWN = LISTS.replace('"id": "u1"', '"id": "u1", "ref": "a c"').replace(
    '"id": "u3"', '"id": "u3", "ref": "a b"'
)
INPUTS = {
    "lists": {"in.jsonl": LISTS, "r.txt": "u1 a c\nu3 a b\n"},
    "lists with references": {"in.jsonl": OWN},
    "lists and trn": {"in.jsonl": LISTS, "r.trn": "a c (u1)\na b (u3)\n"},
    "lists and a table": {"in.jsonl": LISTS, "r.csv": "id,ref\nu1,a c\nu3,a b\n"},
    "texts": {"in.txt": "u1 a b\nu2 a b\nu3 a b\n", "r.txt": "u1 a c\nu3 a b\n"},
    "trn": {
        "in.trn": "a b (u1)\n{ a / b } (u2)\na b (u3)\n",
        "r.trn": "a c (u1)\na b (u3)\n",
    },
}


CASES = [("eval", kind) for kind in INPUTS]
"""A command and an input; `eval` alone reads texts."""
for kind, files in INPUTS.items():
    if "in.jsonl" in files:
        CASES += [("run", kind), ("convert", kind)]


@pytest.mark.parametrize(("command", "kind"), CASES)
def test_utterances_without_a_reference(
    command: str, kind: str, rescore: Run, tmp_path: Path
) -> None:
    for name, text in INPUTS[kind].items():
        (tmp_path / name).write_text(text)
    path, *ref = INPUTS[kind]
    line = [command, path, *(f"--ref={one}" for one in ref)]
    line += ["-o", "out.jsonl"] if command == "convert" else []
    assert_one_line_error(rescore(*line), "--allow-missing", "1 of 3 missing")
    done = rescore(*line, "--allow-missing")
    assert done.returncode == 0, done.stderr
    assert ": no reference for 1 of 3 utterances, which are left out (first: u2)" in (
        done.stderr
    )
    if command != "convert":
        assert "|lists:2of3@2-" in done.stdout
        assert " 25.00 " in done.stdout


def test_in_python(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(OWN)
    with pytest.raises(UserError, match="allow_missing=True to leave them out"):
        package.read(tmp_path / "in.jsonl")
    lists = package.read(tmp_path / "in.jsonl", allow_missing=True)
    assert [nbest.id for nbest in lists] == ["u1", "u3"]
    assert "|lists:2of3@" in str(package.evaluate(lists).signature)


def test_no_utterance_has_a_reference(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(LISTS)
    (tmp_path / "r.txt").write_text("v-1 a c\nv-2 a b\n")
    line = ("eval", "in.jsonl", "--ref", "r.txt", "--allow-missing")
    assert_one_line_error(rescore(*line), "3 of 3 missing")


def test_no_list_is_left_out_for_want_of_a_source(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        OWN.replace('"id": "u2"', '"id": "u2", "ref": "a"')
    )
    (tmp_path / "s.txt").write_text("u1 ein\nu3 zwei\n")
    line = ("eval", "in.jsonl", "--src", "s.txt", "--allow-missing")
    assert_one_line_error(rescore(*line), "no source text for utterance u2")
