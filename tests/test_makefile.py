"""`make demo` goes on where KenLM's module cannot be compiled, and says so in one line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT


def test_kenlm_is_no_condition(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("pyproject.toml", ".venv/torch", ".venv/installed"):
        (tmp_path / name).touch()
    for name in ("python", "pip"):  # a Python without kenlm, and one that installs nothing
        (tmp_path / ".venv" / "bin" / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tmp_path / ".venv" / "bin" / name).chmod(0o755)
    done = subprocess.run(["make", ".venv/ngram"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1, done.stderr
    assert "ngram:lm.arpa is read in NumPy" in done.stdout
    plan = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert "kenlm" in plan or (ROOT / ".venv" / "ngram").exists()
