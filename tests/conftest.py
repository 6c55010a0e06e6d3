"""Fixtures that several tests share. Models here are tiny and random; what is trained
is tested on the shipped one.
"""

from __future__ import annotations

import gc
import io
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import hypothesis
import pytest

# on a busy machine threads that wait by turning take minutes
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# also of processes that tests start: tests run beside each other
os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

from rescore.asr.channel import Channel
from rescore.cli.main import COMMANDS, RECEIVED, cli, main
from rescore.large import server
from rescore.lms import checkpoint, ngram
from rescore.lms.base import ComputeOptions
from rescore.lms.config import NetworkConfig
from rescore.lms.lexicon import Lexicon
from rescore.lms.ngram import NgramKind
from rescore.lms.own import OwnNetwork
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.vocabulary import train_wordpiece
from rescore.metrics.base import SESSION
from rescore.parts import FEATURES, KINDS, METRICS
from rescore.scoring.cluster import kept_signals
from rescore.tuning import search

# of `make test`: a test's own make would print its folders
for name in ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "TESTS"):
    os.environ.pop(name, None)
# the networks here are tiny: threads would only wait for each other
torch.set_num_threads(1)
# a busy one is slow, not wrong
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

ROOT = Path(__file__).parents[1]
OF_TEXTS = [name for name in METRICS.shipped if METRICS[name].reads != SESSION]
"""The metrics that measure texts: all but those of recordings with speakers."""
SENTENCES = (ROOT / "data" / "sentences.txt").read_text(encoding="utf-8").splitlines()
WORDS = (
    "gardener",
    "lantern",
    "harbour",
    "kettle",
    "meadow",
    "ladder",
    "candle",
    "winter",
    "orchard",
    "pepper",
)
LEXICON = Lexicon(dict.fromkeys((*WORDS, "the", "old", "by"), 100), 10_000)
"""A lexicon of these words, for tests of respelling."""
TINY = {
    "layers": 1,
    "d_model": 16,
    "heads": 2,
    "d_ff": 16,
    "vocab_size": 200,
    "max_positions": 40,
}
"""A file for --config: a network that is trained in a moment."""


def pytest_collection() -> None:
    """Look for no garbage while modules are imported and tests are collected."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not among modules and tests: they stay."""
    gc.collect()
    gc.freeze()
    gc.enable()


def shared(path: str) -> Path:
    """Real lists beside the checkout; a test that needs them is skipped where there are
    none.
    """
    found = ROOT.parent / "shared" / "data" / path
    if not found.exists():
        pytest.skip(f"needs the real data {path} beside the checkout")
    return found


@pytest.fixture(scope="session", autouse=True)
def shipped_tables() -> Iterator[None]:
    """A shipped lexicon or channel is read once in a process: they have 150,000 words
    and 14,000 pairs of blocks, and their files stay as they are.
    """
    with pytest.MonkeyPatch.context() as patch:
        for table in (Lexicon, Channel):
            patch.setattr(table, "load", shipped_once(table.load))
        yield


def shipped_once(load: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Return a function that reads each file below the shipped models once."""
    shipped = cache(load)
    return lambda path: (shipped if (ROOT / "models") in path.parents else load)(path)


@pytest.fixture(scope="session", autouse=True)
def networks() -> Iterator[None]:
    """A shipped network is loaded once in a process for each way to compute, as its
    files stay as they are: scorers only read it, and a training loads weights of its
    own.
    """
    load = OwnNetwork.__init__
    loaded: dict[tuple[object, ...], dict[str, Any]] = {}

    def load_once(
        network: OwnNetwork, folder: Path, kind: str, computing: ComputeOptions
    ) -> None:
        key = (folder, kind, computing)
        if key not in loaded:
            load(network, folder, kind, computing)
            if (ROOT / "models") not in folder.parents:
                return
            loaded[key] = dict(vars(network))
        vars(network).update(loaded[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnNetwork, "__init__", load_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def little_memory() -> Iterator[None]:
    """Give lmplz little memory: usually it clears half of the machine's, which takes a
    second. A program that a test starts has the usual memory.
    """
    run = ngram._run_lmplz

    def run_in_little(
        lmplz: str, options: NgramKind.Options, text: Path, arpa: Path
    ) -> None:
        if options.memory == NgramKind.Options().memory:
            options = replace(options, memory="64M")
        run(lmplz, options, text, arpa)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram, "_run_lmplz", run_in_little)
        yield


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return train_wordpiece(SENTENCES, 400)


@pytest.fixture(scope="session")
def config(tokenizer: Tokenizer) -> NetworkConfig:
    return NetworkConfig(
        "tta",
        tokenizer.vocab_size,
        layers=3,
        d_model=32,
        heads=4,
        d_ff=64,
        max_positions=24,
    )


@pytest.fixture(scope="session")
def models(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> dict[str, Path]:
    """A folder with a random network of each kind."""
    folders = {}
    for kind in (name for name in KINDS.names if KINDS[name].is_network):
        torch.manual_seed(1)
        folder = folders[kind] = tmp_path_factory.mktemp(kind)
        checkpoint.save(folder, checkpoint.build(config.of_kind(kind)), tokenizer)
        (folder / "README.md").write_text(
            "---\nrecommended_weight: 0.3\n---\n", encoding="utf-8"
        )
    return folders


def networks_with_sentences(
    configs: Iterable[NetworkConfig],
    tokenizer: Tokenizer,
    folders: pytest.TempPathFactory,
) -> dict[str, Path]:
    """A folder with a random network of each configuration, by kind. Embeddings of
    sentences, zero before any training, are random, too.
    """
    saved = {}
    for config in configs:
        torch.manual_seed(2)
        network = checkpoint.build(config)
        torch.nn.init.normal_(network.sentence_embedding.weight)
        saved[config.kind] = folders.mktemp(config.kind)
        checkpoint.save(saved[config.kind], network, tokenizer)
    return saved


@pytest.fixture(scope="session")
def model(models: dict[str, Path]) -> Path:
    """A folder with a random T-TA."""
    return models["tta"]


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


def run_main(*arguments: str | Path, input: str | bytes = "") -> Done:  # noqa: A002 (as subprocess calls it)
    """The command line in this process, with streams of its own."""
    data = input.encode() if isinstance(input, str) else input
    streams = [
        io.TextIOWrapper(io.BytesIO(start), encoding="utf-8", write_through=True)
        for start in (data, b"", b"")
    ]
    before = (sys.argv, sys.stdin, sys.stdout, sys.stderr)
    sys.argv = ["rescore", *map(str, arguments)]
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        with usual_signals():
            main()
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    out, err = (stream.buffer.getvalue().decode() for stream in streams[1:])  # type: ignore[attr-defined]
    assert isinstance(status, int)
    return Done(status, out, err)


@contextmanager
def usual_signals() -> Iterator[None]:
    """Give signals back to their handlers: a command that a signal ends ignores further
    signals, and programs that later tests start would inherit that.
    """
    try:
        with kept_signals():
            yield
    finally:
        RECEIVED.clear()


@pytest.fixture
def heeded() -> Iterator[None]:
    """A shell's background jobs inherit that SIGINT is ignored; here it is not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """A test that fails may leave a process of `tests.processes`, which would disturb
    other tests, and Python would wait for it at its end.
    """
    yield
    for process in multiprocessing.active_children():
        process.kill()
        process.join()


@pytest.fixture(autouse=True)
def no_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """No messages of slow loops and bars: which of them appear depends on the
    machine.
    """
    monkeypatch.setattr("rescore.pace.FIRST", float("inf"))
    monkeypatch.setattr("rescore.cli.progress.LogProgress.FIRST", float("inf"))


@pytest.fixture(autouse=True)
def all_messages() -> None:
    """A command with --quiet ran before, perhaps, and left its level of messages. The
    lines that say what was read are left out, unless a test is about these lines
    (`told_what_is_read`): they stand beside each output of a command.
    """
    set_level("rescore", logging.NOTSET)
    set_level("rescore.understood", logging.WARNING)


def set_level(name: str, level: int) -> None:
    """Set the level of a logger that has another one: a new level costs a look at each
    logger of each library.
    """
    logger = logging.getLogger(name)
    if logger.level != level:
        logger.setLevel(level)


@pytest.fixture
def told_what_is_read(all_messages: None) -> Iterator[None]:
    """Commands say what they read."""
    set_level("rescore.understood", logging.NOTSET)
    yield
    set_level("rescore.understood", logging.WARNING)


def fewer_samples(patch: pytest.MonkeyPatch) -> None:
    """Tuning draws a few bootstrap samples: for tests that commands run, or that
    several give the same.
    """
    patch.setattr(search, "SAMPLES", 3)
    patch.setattr(search, "TRIALS", 50)


@contextmanager
def quick_folder(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Work in a folder, with `fewer_samples`: for a fixture of a whole module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        fewer_samples(patch)
        yield patch


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are repeated soon, and no key is in the environment."""
    monkeypatch.setattr(server, "BACKOFF", 0.01)
    for name in server.KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def rescore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run_main


def assert_one_line_error(
    done: Done | subprocess.CompletedProcess[str], *parts: str
) -> None:
    """Exit 2, nothing on stdout, one line on stderr that says all of `parts`."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(
        "rescore: error: "
    ), done.stderr
    for part in parts:
        assert part in done.stderr


def parameters_of(name: str) -> list[click.Parameter]:
    """Arguments and options of a command, as below `rescore`: click keeps the names of
    help from the first context.
    """
    command = COMMANDS[name]
    return command.get_params(
        click.Context(command, parent=click.Context(cli, **cli.context_settings))
    )


def near(lines: str) -> list[Any]:
    """JSON Lines to compare with others: numbers equal those that differ by up to 1e-4.

    Kernels round differently for batches of another shape, so scores of two
    computations are promised to 1e-4.
    """
    return [
        json.loads(line, parse_float=lambda text: pytest.approx(float(text), abs=1e-4))
        for line in lines.splitlines()
    ]


def parsed(lines: str) -> list[Any]:
    """JSON Lines as they are."""
    return [json.loads(line) for line in lines.splitlines()]


def some_lists(folder: Path, name: str, number: int) -> Path:
    """A file with the first of the demo lists `name`: as many as a test needs."""
    table = json.loads((ROOT / "data" / f"{name}.json").read_text(encoding="utf-8"))
    return write_json(folder / f"{name}.json", dict(list(table.items())[:number]))


def write_json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def read_report(path: Path) -> dict[str, Any]:
    """A results file, with its choice and the figures of its first metric on top."""
    written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return written | written["choice"] | next(iter(written["metrics"]), {})


@pytest.fixture
def plugin_feature(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The feature of examples/plugin, as if the package were installed."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples" / "plugin"), *sys.path])
    FEATURES.register("numbers", "rescore_example.numbers:Numbers")
    yield
    FEATURES.remove("numbers")
