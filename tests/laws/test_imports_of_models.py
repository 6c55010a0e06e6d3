"""Law: training a network and scoring texts with it import no library that counts
errors, and no KenLM.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import rescore.lms
from rescore.lms.backends import shipped
from rescore.parts import KINDS
from tests.conftest import ROOT

ABSENT = ("jiwer", "kenlm", "sacrebleu", "sklearn", "transformers")
"""Libraries that a machine for training need not have."""
COUNTING = ("rapidfuzz", "re2")
"""Libraries that commands import, and `rescore.lms` does not."""
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(rescore.lms.__path__, "rescore.lms.")
    if not module.ispkg
)
NETWORKS = [name for name in shipped() if KINDS[name.split("-")[0]].is_network]


def run(absent: Sequence[str], *lines: str) -> str:
    """Return what a program prints in an interpreter without some libraries."""
    # the import of a module that is None raises ImportError
    block = [f"sys.modules[{name!r}] = None" for name in absent]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(["import sys", *block, *lines])],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [*ABSENT, *COUNTING])
def test_a_blocked_library_cannot_be_imported(name: str) -> None:
    with pytest.raises(AssertionError, match=f"import of {name} halted"):
        run([name], f"import {name}")


def test_all_modules_of_language_models_are_imported() -> None:
    assert "rescore.lms.training.loop" in MODULES
    run([*ABSENT, *COUNTING], *(f"import {name}" for name in MODULES))


def test_all_shipped_networks_score() -> None:
    assert "tta" in NETWORKS
    lines = ["from rescore.lms import load, without_context"]
    for name in NETWORKS:
        questions = "without_context(['the old house'])"
        lines.append(f"print(load({name!r}).score({questions})[0].sum)")
    scores = run([*ABSENT, *COUNTING], *lines).split()
    assert len(scores) == len(NETWORKS)
    assert all(float(score) < 0 for score in scores)


def test_the_command_trains(tmp_path: Path) -> None:
    text = str(ROOT / "data" / "sentences.txt")
    command = f"rescore train --lm tta --text {text} --size 200 --steps 2"
    arguments = [*command.split(), "--config", "small", "--out", str(tmp_path / "tta")]
    run(
        ABSENT,
        "from rescore.cli.main import main",
        f"sys.argv = {arguments}",
        "sys.exit(main())",
    )
    assert (tmp_path / "tta" / "model.safetensors").exists()
