"""Names of files that are not UTF-8: every command works, or ends in one line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run
from tests.lms.test_ngram import ARPA

ODD = os.fsdecode(b"de\xff.json")
FOLDER = os.fsdecode(b"d\xff")


@pytest.mark.parametrize(
    "command",
    [
        ("run", ODD, "--report", "r.json", "--table", "r.md"),
        (
            "run",
            ODD,
            "--lm",
            "ngram:lm.arpa",
            "--dev",
            ODD,
            "--report",
            "r.json",
            "--save-weights",
            "w.json",
        ),
        ("tune", "scored.json", "-o", "w.json"),
        ("eval", ODD, "--report", "r.json"),
        ("compare", ODD, "--dev", ODD, "--lm", "ngram:lm.arpa", "-o", "c.json"),
        ("combine", ODD, f"{FOLDER}/dev.json", "-o", "m.jsonl"),
        ("rerank", ODD, "--report", "r.json", "--best", "b.trn"),
        ("init", FOLDER),
    ],
    ids=lambda command: command[0],
)
def test_a_name_that_is_not_utf8(
    command: tuple[str, ...], rescore: Run, tmp_path: Path
) -> None:
    lists = json.loads((ROOT / "data" / "dev.json").read_text(encoding="utf-8"))
    few = dict(list(lists.items())[:12])
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (tmp_path / FOLDER).mkdir()
    try:
        (tmp_path / ODD).write_text(json.dumps(few), encoding="utf-8")
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    shutil.copy(tmp_path / ODD, tmp_path / FOLDER / "dev.json")
    if command[0] == "tune":
        assert (
            rescore("score", ODD, "--lm", "ngram:lm.arpa", "-o", ODD + "l").returncode
            == 0
        )
        command = ("tune", ODD + "l", *command[2:])
    done = rescore(*command)
    assert done.returncode == 0, done.stderr
    for name in ("r.json", "w.json", "c.json", "r.md"):
        if (tmp_path / name).exists():
            (tmp_path / name).read_text(encoding="utf-8")
            assert not name.endswith(".json") or json.loads(
                (tmp_path / name).read_text(encoding="utf-8")
            )
