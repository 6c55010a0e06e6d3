"""The training on a rented GPU, rehearsed on the CPU with a tiny network: a text is
packed, shards arrive one after another, and a save becomes a model that scores.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import rescore
from rescore.errors import UserError
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from tests.conftest import ROOT, SENTENCES
from tests.processes import lines_until, running

DOCUMENTS = [SENTENCES[start : start + 37] for start in range(0, len(SENTENCES), 37)]
JOB = ROOT / "benchmarks" / "gpu"


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `shards` of the job."""
    monkeypatch.syspath_prepend(str(JOB))
    monkeypatch.delitem(sys.modules, "shards", raising=False)
    return importlib.import_module("shards")


CLOCKED = """
import queue, runpy, sys, threading, time  # of these, two keep the real clock
from pathlib import Path

clock, shards = [0.0], int(sys.argv[1])
time.monotonic = lambda: clock[0]
from rescore.lms.training.loop import Trainer

update = Trainer.update


def clocked(trainer, *batch):
    (task,) = trainer.tasks.values()
    while clock[0] > 4 and len(task.corpus.shards) < shards:
        time.sleep(0.01)
    clock[0] += 0.01
    return update(trainer, *batch)


Trainer.update = clocked
sys.argv = sys.argv[2:]
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script of the job by a clock on which an update takes 0.01 s and nothing else
takes any time. At 4 s this clock waits for the last shard.
"""


def clocked(folder: Path, shards: int) -> list[str]:
    """Return the command that runs a script by a clock that waits for some shards."""
    (folder / "clocked.py").write_text(CLOCKED, encoding="utf-8")
    return [sys.executable, str(folder / "clocked.py"), str(shards)]


def start(
    folder: Path, python: list[str], script: str, *arguments: str
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start a script of the job in a folder."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return running(
        [*python, str(JOB / script), *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def output(process: subprocess.Popen[str]) -> str:
    """Return what a script prints; it must succeed."""
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0, printed
    return printed


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    """A folder with a tokenizer, two configurations, and the text in two shards."""
    folder = tmp_path_factory.mktemp("job")
    tokenizer.save(folder / "tokenizer.json")
    texts = ["\n".join(document) for document in DOCUMENTS]
    (folder / "text").write_text("\n\n".join(texts))
    for name, width in (("config", 32), ("narrow", 16)):
        config = NetworkConfig(
            "tta", tokenizer.vocab_size, layers=1, d_model=width, heads=2, d_ff=width
        )
        config.save(folder / f"{name}.json")
    size = ("--megabytes", "0.0155", "--block-tokens", "1000", "--processes", "1")
    usual = ("text", "--tokenizer", "tokenizer.json", "--out", "packed")
    with start(folder, [sys.executable], "pack.py", *usual, *size) as process:
        output(process)
    return folder


@pytest.fixture
def job(packed: Path, tmp_path: Path) -> Path:
    """A folder in which no shard has arrived yet."""
    shutil.copytree(packed, tmp_path, dirs_exist_ok=True)
    (tmp_path / "shards").mkdir()
    return tmp_path


def until(condition: Callable[[], bool], log: Path) -> None:
    """Wait until a condition holds, for some minutes at most."""
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, log.read_text(encoding="utf-8")
        time.sleep(0.05)


def options(minutes: float, *more: str) -> list[str]:
    """Return the arguments of a short training."""
    usual = (
        "--shards shards --out run --tokenizer tokenizer.json --batch-tokens 500"
        " --held-out 20 --device cpu --learning-rate 0.01"
    )
    return [*usual.split(), "--minutes", str(minutes), *more]


def sentences(shards: ModuleType, path: Path, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the sentences of a shard as numbers, in order."""
    shard = shards.read_shard(path, tokenizer, 0)
    for ids in np.split(shard.ids, shard.starts[1:]):
        yield " ".join(map(str, ids))


def test_shards_are_small_and_hold_the_whole_text(
    packed: Path, shards: ModuleType, tokenizer: Tokenizer
) -> None:
    paths = sorted((packed / "packed").iterdir())
    assert len(paths) == 2
    assert all(path.stat().st_size <= 15_500 for path in paths)
    held = []
    for path in paths:
        held += sentences(shards, path, tokenizer)
    assert sorted(held) == sorted(
        " ".join(map(str, ids)) for ids in tokenizer.encode(SENTENCES)
    )


def test_batches_hold_each_sentence_once_a_pass(
    packed: Path, shards: ModuleType, tokenizer: Tokenizer
) -> None:
    path = packed / "packed" / "shard-000.safetensors"
    shard = shards.read_shard(path, tokenizer, 20)
    text = shards.Shards(packed, tokenizer, 20, 0, print, [shard])
    wanted = sorted(sentences(shards, path, tokenizer))
    for _ in range(2):  # a second pass is in another order
        rows = []
        held_out = list(text.held_out(500))
        before = shard.passes
        stream = text.batches(500)
        batches = []
        count = 0
        while count < len(shard.training):
            batches.append(next(stream))
            count += len(batches[-1].tokens)
        assert shard.passes == before + 1
        for batch in [*held_out, *batches]:
            assert batch.tokens.size <= 500 and batch.tokens.shape[1] % 8 == 0
            for tokens, length in zip(batch.tokens, batch.lengths, strict=True):
                assert tokens[0] == tokenizer.bos
                assert tokens[length - 1] == tokenizer.eos
                assert (tokens[length:] == tokenizer.pad).all()
                rows.append(" ".join(map(str, tokens[1 : length - 1])))
        assert sorted(rows) == wanted


def test_a_late_shard_catches_up(
    packed: Path, shards: ModuleType, tokenizer: Tokenizer
) -> None:
    paths = sorted((packed / "packed").iterdir())
    first, second = (shards.read_shard(path, tokenizer, 20) for path in paths)
    text = shards.Shards(packed, tokenizer, 20, 0, print, [first])
    stream = text.batches(500)
    while first.passes < 3:
        next(stream)
    text.shards.append(second)
    while second.passes < 2:
        next(stream)
    assert first.passes == 3


def step(job: Path, *arguments: str) -> str:
    """Run a step of job.sh, and return what it prints."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHON": str(job / "python"),
        "TOKENIZER": str(job / "tokenizer.json"),
        "WORK": str(job / "work"),
    }
    done = subprocess.run(
        ["bash", str(JOB / "job.sh"), *arguments],
        env=environment,
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def work(job: Path) -> Iterator[Path]:
    """The folder of job.sh. Its trainer lives on when a test fails, and is ended."""
    work = job / "work"
    yield work
    pid = work / "run" / "pid"
    if pid.exists() and not (work / "log").read_text().endswith("finished\n"):
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.long
def test_it_trains_on_shards_that_arrive_and_its_save_scores(
    job: Path, work: Path
) -> None:
    """The steps of job.sh in the order of the time table."""
    python = job / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(clocked(job, 2))} "$@"\n')
    python.chmod(0o755)
    usual = "--batch-tokens 500 --held-out 20 --device cpu --learning-rate 0.01"
    saving = "--save-every 0.03 --part-megabytes 0.01"
    config = ("--config", str(job / "config.json"))
    step(job, "start", "0.15", *config, *usual.split(), *saving.split())
    packed = sorted(map(str, (job / "packed").iterdir()))
    # not whole yet
    (work / "shards" / "shard-000.safetensors").write_bytes(b"\x10" * 20)
    step(job, "shard", packed[0])
    until(lambda: any((work / "run").glob("save-*")), work / "log")
    step(job, "shard", packed[1])
    assert "tokens" in step(job, "show")
    out = job / "out"
    assert "saved" in step(job, "finish", "200", str(out))
    lines = (out / "log").read_text()
    assert re.search(r"shard 2: shard-001.*in all\n(.*\n)*.* step \d+  tokens", lines)
    losses = [float(loss) for loss in re.findall(r" loss (\S+)  [\d,]+ tok", lines)]
    assert losses[-1] < losses[0] - 0.5
    assert lines.endswith("finished\n")
    saves = sorted((work / "run").glob("save-*"))
    assert len(saves) == 2
    sizes = [part.stat().st_size for part in out.glob("model.safetensors.*")]
    assert len(sizes) > 1 and max(sizes) == 10_000
    progress = json.loads((out / "progress.json").read_text())
    assert progress["runs"] == 1 and progress["tokens"] > 1000

    command = "cat model.safetensors.* > model.safetensors && rm model.safetensors.*"
    subprocess.run(command, shell=True, check=True, cwd=out)
    score = rescore.load(f"tta:{out}").score([SENTENCES[0]])[0]
    assert score.sum < 0


@pytest.mark.long
def test_a_slow_machine_is_stopped_and_another_goes_on(job: Path) -> None:
    shutil.copy(job / "packed" / "shard-000.safetensors", job / "shards")
    networks = ("--config", "config.json", "--narrow", "narrow.json")
    judging = ("--judge-after", "1.5", "--least-tokens", "1e15")
    python = clocked(job, 1)
    training = (*networks, *judging, *options(600, "--save-every", "600"))
    with start(job, python, "trainer.py", *training) as process:
        lines_until("too slow", process, process.stdout)
        lines_until("tokens/s", process, process.stdout)
        os.kill(int((job / "run" / "pid").read_text()), signal.SIGTERM)
        rest, _ = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGTERM, rest
    (save,) = (job / "run").glob("save-*")
    progress = json.loads((save / "progress.json").read_text())
    again = ("--resume", str(save), *options(0.1))
    with start(job, python, "trainer.py", *again) as resumed:
        before = re.search(r"validation loss (\S+)", output(resumed))
    assert before is not None
    assert float(before[1]) == pytest.approx(progress["loss"], abs=0.02)
    last = job / "run" / "save-002"
    assert NetworkConfig.load(last / "config.json").d_model == 16
    more = json.loads((last / "progress.json").read_text())
    assert more["runs"] == 2 and more["tokens"] > progress["tokens"]


def test_a_shard_of_another_tokenizer_is_refused(
    packed: Path, shards: ModuleType, tokenizer: Tokenizer
) -> None:
    other = Tokenizer.load(ROOT / "models" / "tta" / "tokenizer.json")
    with pytest.raises(UserError, match="was packed with another tokenizer"):
        shards.read_shard(packed / "packed" / "shard-000.safetensors", other, 20)
    text = shards.Shards(packed, other, 20, 0, print)
    assert text.read(packed / "packed" / "shard-001.safetensors")
    assert text.problem is not None and not text.shards
