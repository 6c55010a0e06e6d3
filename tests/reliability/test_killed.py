"""SIGKILL at any moment: run again, and what comes out is the same as if nothing had
happened.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, SENTENCES, TINY, Run, near, parsed, write_json
from tests.processes import ended, start, until

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


STAYS = """
import time
from pathlib import Path
from rescore.cli.start import main
try:
    main()
finally:
    Path("begun").touch()
    time.sleep(600)
"""
"""A program as `rescore` that stays when it has done its work: however fast it is, it
can be killed.
"""
OFTEN = f"""
from rescore.lms.training import loop
loop.CHECKPOINT_SECONDS = 0.0
save = loop.Trainer.save
def told(trainer):
    save(trainer)
    Path("begun").touch()
loop.Trainer.save = told
{STAYS}
"""
"""A program whose trainings write a checkpoint after each step, and which leaves a file
when there is one.
"""
TOLD = f"""
from rescore.lms.cache import Cached
as_scored = Cached.as_scored
def told(*arguments):
    Path("begun").touch()
    return as_scored(*arguments)
Cached.as_scored = told
{STAYS}
"""
"""A program that leaves a file when it begins to score."""


def kill_after(
    seconds: float, program: str, arguments: list[str], folder: Path
) -> None:
    """Kill a program so long after it left the file `begun`."""
    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    process = start(arguments, folder, Path(os.devnull), program)
    until(begun.exists, process, pause=0.002)
    process.join(seconds)
    process.kill()
    assert ended(process) == -signal.SIGKILL


def timed(run: Run, arguments: list[str]) -> float:
    """The seconds that a command takes in this process."""
    began = time.monotonic()
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


@pytest.mark.long
@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_run_with_a_cache(
    kills: int, rescore: Run, model: Path, tmp_path: Path
) -> None:
    table = json.loads((ROOT / "data" / "test.json").read_text(encoding="utf-8"))
    write_json(tmp_path / "l.json", dict(list(table.items())[:40]))
    run = [
        "l.json",
        "--lm",
        f"tta:{model}",
        "--dev",
        "l.json",
        "-o",
        "out.jsonl",
        "--best",
        "best.trn",
    ]
    took = timed(rescore, run)
    lists, best = ((tmp_path / name).read_text() for name in ("out.jsonl", "best.trn"))
    draw = random.Random(0)
    for _ in range(kills):
        seconds = draw.random() * took
        kill_after(seconds, TOLD, [*run, "--cache", "cache"], tmp_path)
    timed(rescore, [*run, "--cache", "cache"])
    # batches are of what the cache lacks
    assert parsed((tmp_path / "out.jsonl").read_text()) == near(lists)
    assert (tmp_path / "best.trn").read_text() == best


@pytest.mark.long
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_training(kills: int, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    write_json(tmp_path / "c.json", TINY)
    options = [
        "--text",
        "t.txt",
        "--config",
        "c.json",
        "--held-out",
        "5",
        "--batch-tokens",
        "300",
    ]
    options += ["--steps", str(100 * kills)]
    took = timed(rescore, ["train", "--lm", "tta", *options, "--out", "one"]) / kills
    state = tmp_path / "two.state" / "training.safetensors"

    def command() -> list[str]:
        return [
            "train",
            "--lm",
            "tta",
            *options,
            "--out",
            "two",
            *(["--resume"] if state.exists() else []),
        ]

    draw = random.Random(0)
    for _ in range(kills):
        kill_after(draw.random() * took, OFTEN, command(), tmp_path)
    timed(rescore, command())
    weights = [
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")
    ]
    assert weights[0] == weights[1]


def test_writers_are_killed_at_any_moment(tmp_path: Path) -> None:
    """Of the old file and the new one there is one, whole; never a part."""
    (tmp_path / "loop.py").write_text(
        "import sys\nfrom pathlib import Path\nfrom rescore.files import replacing\n"
        "print('ready', flush=True)\n"
        "for number in range(10**9):\n"
        "    with replacing(Path('out')) as path:\n"
        "        path.write_text(f'{number % 10}' * 100_000)\n"
    )
    draw = random.Random(0)
    for _ in range(25):
        process = subprocess.Popen(
            [sys.executable, "loop.py"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        time.sleep(draw.uniform(0.001, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if (tmp_path / "out").exists():
            text = (tmp_path / "out").read_text()
            assert len(text) == 100_000 and len(set(text)) == 1


def test_two_processes_with_one_cache_and_one_output(
    rescore: Run,
    model: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    table = json.loads((ROOT / "data" / "test.json").read_text(encoding="utf-8"))
    write_json(tmp_path / "l.json", dict(list(table.items())[:20]))
    command = ["score", "l.json", "--lm", f"tta:{model}", "-o", "out.jsonl"]
    timed(rescore, command)
    alone = (tmp_path / "out.jsonl").read_text()
    said = [tmp_path_factory.mktemp("said") / "stderr" for _ in range(2)]
    both = [start([*command, "--cache", "cache"], tmp_path, path) for path in said]
    for process, path in zip(both, said, strict=True):
        status = ended(process)
        stderr = path.read_text(encoding="utf-8")
        assert status == 0 and "Traceback" not in stderr, stderr
    assert parsed((tmp_path / "out.jsonl").read_text()) == near(alone)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cache",
        "l.json",
        "out.jsonl",
    ]
