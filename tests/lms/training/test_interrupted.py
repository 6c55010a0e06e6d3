"""Ctrl-C and SIGTERM save a training; what its log, its card and its options say."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.backends import shipped_models
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training import loop
from rescore.lms.training.corpus import MOST_HELD_OUT, Corpus, encode_corpus
from rescore.lms.training.loop import STATE, noted_signals
from rescore.lms.training.options import NeuralOptions
from rescore.lms.training.train import state_folder
from tests.conftest import SENTENCES, Run, run_main
from tests.lms.training.test_loop import TRAIN, tiny
from tests.processes import ended, send, start, until


def steps_of(folder: Path) -> int:
    header = (state_folder(folder) / STATE).read_bytes()
    about = json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])[
        "__metadata__"
    ]
    return int(json.loads(about["progress"])["step"])


SOON = """
from rescore.cli.start import main
from rescore.lms.training import loop
loop.LINE_STEPS = 5
main()
"""
"""A program as `rescore`, whose trainings write a line every few steps."""


def stopped_by(number: int, folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit status and the messages of a training that runs until its first line
    about steps, and then gets a signal.
    """
    messages = folder / "messages"
    messages.touch()
    process = start(arguments, folder, messages, SOON)
    until(lambda: "step " in messages.read_text(encoding="utf-8"), process)
    send(number, process)
    status = ended(process)
    return status, messages.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_saves_the_state(
    number: int, status: int, rescore: Run, tmp_path: Path
) -> None:
    tiny(tmp_path)
    train = (*TRAIN, "--text", "text.txt", "--out", "lm")
    ended_with, said = stopped_by(number, tmp_path, *train, "--minutes", "30")
    assert ended_with == status and "--resume goes on from" in said, said
    assert not (tmp_path / "lm" / "model.safetensors").exists()
    steps = steps_of(tmp_path / "lm")
    assert steps > 0  # no checkpoint was due: the signal saved it
    assert rescore(*train, "--steps", str(steps + 2), "--resume").returncode == 0
    assert steps_of(tmp_path / "lm") == steps + 2


@pytest.mark.usefixtures("heeded")
def test_a_second_signal_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), noted_signals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert signals == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_adapted_model_is_resumed_and_names_its_base_and_text(
    rescore: Run, tmp_path: Path
) -> None:
    tiny(tmp_path)
    assert (
        rescore(
            *TRAIN, "--text", "text.txt", "--out", "base", "--steps", "0"
        ).returncode
        == 0
    )
    train = (
        *TRAIN[:3],
        "--batch-tokens",
        "300",
        "--device",
        "cpu",
        "--init",
        "base",
        "--text",
        "text.txt",
    )
    # --init gives the size, also when resumed
    for more in (["--steps", "1"], ["--steps", "2", "--resume"]):
        done = rescore(*train, "--out", "lm", *more)
        assert done.returncode == 0, done.stderr
    assert checkpoint.load(tmp_path / "lm")[0].config.d_model == 16
    card = (tmp_path / "lm" / "README.md").read_text(encoding="utf-8")
    assert (
        "| started from | base, model.safetensors " in card
        and "\ntrained_on: text.txt\n" in card
    )


def test_shipped_models_to_start_from() -> None:
    assert NeuralOptions(init="tta-small").start == shipped_models() / "tta-small"
    assert (
        NeuralOptions(init=str(shipped_models() / "tta")).start
        == shipped_models() / "tta"
    )
    with pytest.raises(
        UserError, match=r"--init no-such: no such folder; .* tta-small"
    ):
        assert NeuralOptions(init="no-such").start


@pytest.mark.parametrize(
    ("sentences", "kept"), [(5, 1), (400, 20), (50_000, MOST_HELD_OUT)]
)
def test_a_twentieth_is_held_out(
    sentences: int, kept: int, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    lines = [
        SENTENCES[number % len(SENTENCES)].split()[0] for number in range(sentences)
    ]
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "corpus", 22)
    corpus = Corpus(tmp_path / "corpus", tokenizer, None, 0)
    assert corpus.held_out_sentences == kept and len(corpus) == sentences - kept


def test_the_help_says_defaults() -> None:
    said = " ".join(run_main("train", "--help-all").stdout.split())
    assert (
        "[default: 100,000, unless --minutes or --init is given]" in said
        and "a twentieth of the text, at most 2000" in said
    )


def test_the_pace_is_that_of_the_last_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop.time, "monotonic", lambda: 0.0)
    told = loop.Pace(0, 0.0, 0.0)
    assert told.line(1000, 100.0, 0.1) == "10 tokens/s  10.0% done, 15 minutes to go"
    # faster than on average
    assert told.line(2000, 110.0, 0.2) == "100 tokens/s  20.0% done, 1 minute to go"
    assert told.due(loop.LINE_STEPS) and not told.due(loop.LINE_STEPS + 1)
