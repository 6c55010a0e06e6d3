"""A disk that is full or fails, a network file system that lost a file: one line, exit
status 2, no half of a file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, SENTENCES, TINY, Run, write_json
from tests.lms.test_ngram import ARPA
from tests.reliability.failing import CALLS, COMMANDS, ERRORS

ENTRY = {
    "ref": "the old",
    "hyp_1": {"score": -1, "text": "the owl"},
    "hyp_2": {"score": -2, "text": "the old"},
}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_every_output_on_a_file_system_that_fails(
    rescore: Run, model: Path, tmp_path: Path
) -> None:
    library = tmp_path / "failing.so"
    source = Path(__file__).with_name("failing.c")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True
    )
    write_json(tmp_path / "l.json", {f"u{number}": ENTRY for number in range(30)})
    write_json(tmp_path / "w.json", {"weights": {"s2s": 0.9, "ngram": 0.1}})
    write_json(tmp_path / "c.json", TINY)
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES[:60]), encoding="utf-8")
    shutil.copytree(model, tmp_path / "tta")
    (tmp_path / "broken-disk").mkdir()
    assert (
        rescore(
            "score", "l.json", "--lm", "ngram:lm.arpa", "-o", "scored.jsonl"
        ).returncode
        == 0
    )
    assert rescore("run", "l.json", "--report", "r.json").returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "tests.reliability.failing"],
        cwd=tmp_path,
        env=os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(COMMANDS) * len(CALLS) * len(ERRORS)
    failed = {(one["command"], one["call"]) for one in found if one["status"]}
    assert {name for name, call in failed if call == "write"} == {*COMMANDS}
    for one in found:
        assert one["status"] in (0, 2), one
        if one["status"]:
            assert one["stderr"].splitlines()[-1].startswith("rescore: error: "), one
            assert one["stderr"].count("rescore: error: ") == 1, one
            assert one["kept"] in (True, None), one
        assert not [path for path in one["left"] if path.endswith(".tmp")], one
