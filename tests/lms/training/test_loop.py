"""Training learns, and after a kill goes on exactly as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import NeuralKind
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training import loop
from rescore.lms.training.corpus import Corpus, SentenceBatch, encode_corpus
from rescore.lms.training.loop import STATE, Trainer, check_same
from rescore.lms.training.objectives import (
    BackwardLanguageModelling,
    CausalLanguageModelling,
    ContextObjective,
    LanguageAutoencoding,
    MaskedLanguageModelling,
    Objective,
    Task,
    tied_cross_entropy,
)
from rescore.lms.training.options import MaskingOptions, NeuralOptions, TrainingData
from rescore.lms.training.spent import Spent
from rescore.parts import KINDS
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.processes import ended, start, until


def test_loss_and_gradients_are_those_of_cross_entropy() -> None:
    torch.manual_seed(0)
    hidden, embeddings = (
        torch.randn(37, 8, requires_grad=True),
        torch.randn(11, 8, requires_grad=True),
    )
    targets = torch.randint(0, 11, (37,))
    ours = tied_cross_entropy(hidden, embeddings, targets, rows=5) * 0.3
    theirs = F.cross_entropy(hidden @ embeddings.T, targets, reduction="sum") * 0.3
    assert torch.allclose(ours, theirs)
    for one, other in zip(
        torch.autograd.grad(ours, (hidden, embeddings)),
        torch.autograd.grad(theirs, (hidden, embeddings)),
        strict=True,
    ):
        assert torch.allclose(one, other, atol=1e-5)


def test_language_autoencoding_predicts_the_sentence_and_not_its_frame(
    tokenizer: Tokenizer,
) -> None:
    tokens = torch.tensor([[2, 7, 8, 3], [2, 9, 3, 0]])
    example = LanguageAutoencoding()(tokens, torch.tensor([4, 3]), [0])
    assert example.predicted.tolist() == [
        [False, True, True, False],
        [False, True, False, False],
    ]
    assert example.targets.tolist() == [7, 8, 9] and example.tokens is tokens


FRAMED = torch.tensor([[2, 7, 8, 9, 3], [2, 5, 3, 0, 0]])
LENGTHS = torch.tensor([5, 3])


def test_masked_language_modelling_always_masks(tokenizer: Tokenizer) -> None:
    objective = MaskedLanguageModelling(tokenizer)
    tokens, lengths = FRAMED.repeat(500, 1), LENGTHS.repeat(500)
    example = objective(tokens, lengths, [1, 2])
    assert example.predicted.any(dim=1).all()  # at least one per sentence
    assert (example.tokens[example.predicted] == tokenizer.mask).all()
    assert torch.equal(example.targets, tokens[example.predicted]) and set(
        example.targets.tolist()
    ) == {5, 7, 8, 9}
    assert torch.equal(example.tokens[~example.predicted], tokens[~example.predicted])
    assert torch.equal(example.tokens, objective(tokens, lengths, [1, 2]).tokens)
    assert not torch.equal(example.tokens, objective(tokens, lengths, [1, 3]).tokens)


@pytest.mark.parametrize(
    ("rate", "cap", "size", "masked"),
    [
        (0.15, None, 100, 15),
        (0.15, None, 20, 3),
        (0.15, None, 2, 1),
        (0.15, 4, 100, 4),
        (0.15, 4, 12, 2),
        (0.5, None, 10, 5),
    ],
)
def test_so_many_tokens_are_masked(
    rate: float, cap: int | None, size: int, masked: int, tokenizer: Tokenizer
) -> None:
    """In every sentence, whatever stands beside it in the batch; each token as often as
    the others.
    """
    objective = MaskedLanguageModelling(tokenizer, rate, cap)
    tokens = torch.full((400, 110), 7)
    lengths = torch.where(torch.arange(400) % 2 == 0, size + 2, 110)
    predicted = objective(tokens, lengths, [0]).predicted[::2]
    assert predicted.sum(dim=1).tolist() == [masked] * 200
    assert not predicted[:, [0, *range(size + 1, 110)]].any()
    often = predicted[:, 1 : size + 1].float().mean(dim=0)
    assert often.max() < 3 * masked / size + 0.1 and often.std() < 0.1


def test_options_of_objectives(tokenizer: Tokenizer) -> None:
    assert (
        "25 % masked, at most 4"
        in MaskedLanguageModelling(tokenizer, 0.25, 4).perplexity
    )
    for wrong in ({"mask_rate": 0.0}, {"mask_rate": 1.0}, {"mask_cap": 0}):
        with pytest.raises(UserError, match="--mask-"):
            MaskingOptions(**wrong)


def test_options_of_the_command_reach_the_objective(
    monkeypatch: pytest.MonkeyPatch, rescore: Run
) -> None:
    """Each by its own name."""
    asked: list[NeuralOptions] = []
    monkeypatch.setattr(
        "rescore.lms.training.train.train",
        lambda kind, options, report: asked.append(options),
    )
    rescore(
        "train", "--lm", "tta", "--dropout", "0.2", "--pairs", "a", "b", "--out", "x"
    )
    rescore(
        "train", "--lm", "bilm", "--mask-rate", "0.2", "--mask-cap", "4", "--out", "x"
    )
    pairs = (Path("a"), Path("b"))
    assert asked == [
        KINDS["tta"].training_options()(dropout=0.2, pairs=pairs, out=Path("x")),
        KINDS["bilm"].training_options()(mask_rate=0.2, mask_cap=4, out=Path("x")),
    ]


def test_causal_language_modelling_predicts_the_next(tokenizer: Tokenizer) -> None:
    example = CausalLanguageModelling()(FRAMED, LENGTHS, [0])
    assert example.predicted.sum(dim=1).tolist() == [
        4,
        2,
    ] and example.targets.tolist() == [7, 8, 9, 3, 5, 3]
    example = BackwardLanguageModelling()(FRAMED, LENGTHS, [0])
    assert example.tokens.tolist() == [[2, 9, 8, 7, 3], [2, 5, 3, 0, 0]]
    assert example.targets.tolist() == [9, 8, 7, 3, 5, 3]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bilm", "unilm", "unilm-bw"])
def test_other_kinds_learn(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig, kind: str
) -> None:
    settings = {
        "steps": 150,
        "batch_tokens": 500,
        "learning_rate": 1e-2,
        "dropout": 0.0,
    }
    made = trainer(tmp_path, tokenizer, replace(config, kind=kind), settings, repeats=5)
    made.validate(lambda line: None)
    before = made.progress.validation_loss
    after = made.run(lambda line: None).validation_loss
    assert before is not None and after is not None and after < before - 0.5


def tasks_of(
    config: NetworkConfig,
    tokenizer: Tokenizer,
    options: NeuralOptions,
    *corpora: Corpus,
) -> list[Task]:
    """What a network learns from a text."""
    kind: NeuralKind = KINDS[config.kind](config.kind)
    return kind.tasks(TrainingData(tokenizer, options, config, *corpora))


def options_of(config: NetworkConfig, settings: dict[str, Any]) -> NeuralOptions:
    """Options of a training that makes such a network."""
    more: dict[str, Any] = (
        {"context": config.neighbours[0]} if config.sentences > 1 else {}
    )
    usual = {"device": "cpu", "precision": "float32"}
    options: NeuralOptions = KINDS[config.kind].training_options()(
        **{**usual, **settings}, **more
    )
    return options


def trainer(
    folder: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
    settings: dict[str, Any],
    repeats: int = 1,
) -> Trainer:
    folder.mkdir(exist_ok=True)
    (folder / "text").write_text("\n".join(SENTENCES * repeats))
    os.utime(folder / "text", ns=(0, 0))
    encode_corpus([folder / "text"], tokenizer, folder / "corpus", 22)
    options = options_of(config, settings)
    torch.manual_seed(options.seed)
    corpus = Corpus(folder / "corpus", tokenizer, 20, options.seed, config.sentences)
    tasks = tasks_of(config, tokenizer, options, corpus)
    return Trainer(checkpoint.build(config), tokenizer, tasks, options, folder)


def test_it_learns(tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig) -> None:
    said: list[str] = []
    settings = {
        "steps": 150,
        "batch_tokens": 500,
        "learning_rate": 1e-2,
        "dropout": 0.0,
    }
    # so that what is held out can be known
    made = trainer(tmp_path, tokenizer, config, settings, repeats=5)
    made.validate(said.append)
    before = made.progress.validation_loss
    progress = made.run(said.append)
    assert before is not None and progress.validation_loss is not None
    assert progress.validation_loss < before - 1
    assert progress.step == 150 and 0 < progress.tokens < 150 * 500
    assert "pseudo-perplexity" in said[-1]


def test_a_network_that_cannot_be_compiled_is_trained_uncompiled(
    tmp_path: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whether the compiler fails in the forward or in the backward pass, the weights
    are those of a training without compilation, and one warning says so.
    """
    settings = {"steps": 3, "batch_tokens": 200, "dropout": 0.0}

    def failing(hidden: torch.Tensor, in_backward: bool) -> torch.Tensor:
        if not in_backward:
            raise RuntimeError("no C compiler")
        hidden.register_hook(fail)
        return hidden

    def fail(gradient: torch.Tensor) -> None:
        raise RuntimeError("no C compiler")

    weights = []
    for name in ("uncompiled", "forward", "backward"):
        made = trainer(tmp_path / name, tokenizer, config, settings)
        network = made.network
        if name != "uncompiled":

            def compiled(
                *tensors: torch.Tensor,
                network: Network = network,
                in_backward: bool = name == "backward",
            ) -> torch.Tensor:
                return failing(network(*tensors), in_backward)

            made._model = compiled  # type: ignore[assignment]
        made.run(lambda line: None)
        weights.append(network.state_dict())
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name
        assert torch.equal(value, weights[2][name]), name
    wanted = "PyTorch cannot compile the network (no C compiler); training"
    assert [record.message[: len(wanted)] for record in caplog.records] == [wanted] * 2


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tta", "bilm", "unilm"])
def test_sentences_are_learned_among_others(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig, kind: str
) -> None:
    """Of these sentences each repeats the one before it: a network that reads it can
    copy.
    """
    config = replace(config, kind=kind, layers=2).with_neighbours(1)
    lots, letters = random.Random(0), "abcdefghijklmnop"
    lines = [" ".join(lots.choices(letters, k=3)) for _ in range(3000)]
    (tmp_path / "text").write_text("\n".join(f"{line}\n{line}\n" for line in lines))
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "corpus", 22)
    corpus = Corpus(tmp_path / "corpus", tokenizer, 20, 0, config.sentences)
    torch.manual_seed(0)
    options = options_of(
        config,
        {"steps": 150, "batch_tokens": 1000, "learning_rate": 1e-2, "dropout": 0.0},
    )
    tasks = tasks_of(config, tokenizer, options, corpus)
    losses = (
        Trainer(checkpoint.build(config), tokenizer, tasks, options, tmp_path)
        .run(lambda line: None)
        .losses
    )
    assert losses["context"] < losses[kind] - 0.5, losses


def test_windows_predict_words_and_show_frames(tokenizer: Tokenizer) -> None:
    bos, eos, pad, size = (
        tokenizer.bos,
        tokenizer.eos,
        tokenizer.pad,
        tokenizer.vocab_size,
    )
    tokens = torch.tensor(
        [[bos, 10, 11, eos, bos, 12, eos], [bos, 13, eos, pad, pad, pad, pad]]
    )
    lengths = torch.tensor([7, 3])
    numbered = torch.tensor([bos, 10, 11, eos, bos + size, 12 + size, eos + size])
    alone = ContextObjective(LanguageAutoencoding(), tokenizer)(tokens, lengths, [0])
    assert torch.equal(alone.tokens[0], numbered) and alone.targets.tolist() == [
        10,
        11,
        12,
        13,
    ]
    assert alone.predicted[0].tolist() == [False, True, True, False, False, True, False]
    causal = ContextObjective(CausalLanguageModelling(), tokenizer)(
        tokens, lengths, [0]
    )
    assert torch.equal(causal.tokens[0], numbered) and causal.targets.tolist() == [
        10,
        11,
        eos,
        12,
        eos,
        13,
        eos,
    ]
    assert causal.predicted[0].tolist() == [True, True, True, False, True, True, False]
    for seed in range(30):
        masked = ContextObjective(MaskedLanguageModelling(tokenizer), tokenizer)(
            tokens, lengths, [seed]
        )
        assert not masked.predicted[0, [0, 3, 4, 6]].any() and bool(
            (masked.targets > 9).all()
        )
        shown = masked.tokens % size
        assert torch.equal(shown == tokenizer.mask, masked.predicted)
        assert torch.equal(shown[~masked.predicted], tokens[~masked.predicted])
        assert torch.equal(masked.tokens[0] // size, numbered // size)


class KilledError(Exception):
    pass


@pytest.mark.parametrize(
    ("kind", "neighbours"),
    [
        ("tta", 0),
        ("tta", 2),
        ("unilm", 0),
    ],
)
def test_resume_is_exact(
    tmp_path: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    neighbours: int,
) -> None:
    config = replace(config, kind=kind).with_neighbours(neighbours)
    settings = {"steps": 30, "batch_tokens": 300, "learning_rate": 1e-2, "dropout": 0.1}
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    whole = trainer(tmp_path / "whole", tokenizer, config, settings)
    whole.run(lambda line: None)

    first = trainer(tmp_path / "killed", tokenizer, config, settings)
    step = first.update

    def step_until_killed(
        objective: Objective, batch: SentenceBatch
    ) -> tuple[float, int]:
        if first.progress.step == 13:
            raise KilledError
        return step(objective, batch)

    monkeypatch.setattr(first, "update", step_until_killed)
    with pytest.raises(KilledError):
        first.run(lambda line: None)
    second = trainer(tmp_path / "killed", tokenizer, config, settings)
    second.resume()
    assert second.progress.step == 13
    second.run(lambda line: None)
    assert second.progress.tokens == whole.progress.tokens
    for one, other in zip(
        whole.network.parameters(), second.network.parameters(), strict=True
    ):
        assert torch.equal(one, other)


def test_rate_rises_and_falls(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig
) -> None:
    made = trainer(
        tmp_path,
        tokenizer,
        config,
        {"steps": 100, "learning_rate": 1.0, "warmup": 0.1, "decay": 0.2},
    )
    rates = []
    for made.progress.step in range(100):
        rates.append(made.learning_rate())
    assert rates[0] > 0 and rates[:11] == sorted(rates[:11])
    assert rates[11:79] == [1.0] * 68  # constant, so that training can be prolonged
    assert rates[80:] == sorted(rates[80:], reverse=True) and 0 < rates[-1] < 0.06


def test_resume_refuses(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig
) -> None:
    made = trainer(tmp_path, tokenizer, config, {"steps": 1, "batch_tokens": 300})
    with pytest.raises(UserError, match="not a whole safetensors file"):
        made.resume()
    made.save()
    other = trainer(tmp_path, tokenizer, config, {"steps": 1, "batch_tokens": 400})
    with pytest.raises(UserError, match="batch-tokens 300, not 400"):
        other.resume()
    other = trainer(
        tmp_path,
        tokenizer,
        replace(config, d_ff=128),
        {"steps": 1, "batch_tokens": 300},
    )
    with pytest.raises(UserError, match="was made with d-ff 64, not 128"):
        other.resume()
    younger = {
        **other.key,
        "network": other.key["network"] | {"later": 1},
    }
    with pytest.raises(UserError, match="was made with later 1, not none"):
        check_same(tmp_path, younger, other.key)
    (tmp_path / STATE).write_bytes(b"x" * 20)
    with pytest.raises(UserError, match="not a whole safetensors file"):
        made.resume()


def test_bfloat16_stays_close(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig
) -> None:
    settings = {"steps": 40, "batch_tokens": 500, "learning_rate": 5e-3, "dropout": 0.0}
    full = trainer(tmp_path, tokenizer, config, settings).run(lambda line: None)
    half = trainer(tmp_path, tokenizer, config, settings | {"precision": "bfloat16"})
    found = half.run(lambda line: None)
    assert found.validation_loss == pytest.approx(full.validation_loss, rel=0.02)


TRAIN = (
    "train",
    "--lm",
    "tta",
    "--config",
    "tiny.json",
    "--held-out",
    "20",
    "--batch-tokens",
    "300",
    "--device",
    "cpu",
)


def tiny(folder: Path) -> None:
    (folder / "text.txt").write_text("\n".join(SENTENCES))
    NetworkConfig(
        "tta", 400, layers=2, d_model=16, heads=2, d_ff=32, max_positions=24
    ).save(folder / "tiny.json")


OFTEN = """
from rescore.cli.start import main
from rescore.lms.training import loop
loop.CHECKPOINT_SECONDS = 0.0
main()
"""
"""A program as `rescore`, whose trainings write a checkpoint after each step."""


def run_by_clock(
    trained: Trainer,
    monkeypatch: pytest.MonkeyPatch,
    clock: list[float],
    reading: float,
    validating: float,
    updating: float,
) -> tuple[list[str], list[float]]:
    """Run a training that computes nothing, by a clock of the test.

    Args:
        trained: The training.
        clock: The time, in seconds.
        reading: Seconds of reading the text.
        validating: Seconds of a validation.
        updating: Seconds of an update.

    Returns:
        What the training said, and the learning rate of each update.
    """
    rates = []

    def update(objective: Objective, batch: SentenceBatch) -> tuple[float, int]:
        rates.append(trained.learning_rate())
        clock[0] += updating
        return 1.0, int(batch.lengths.sum())

    def validation_loss(task: Task) -> tuple[float, None]:
        clock[0] += validating
        return 1.0 / (1 + clock[0]), None

    monkeypatch.setattr(trained, "update", update)
    monkeypatch.setattr(trained, "_validation_loss", validation_loss)
    clock[0] += reading
    trained.progress.other_seconds += reading
    said: list[str] = []
    trained.run(said.append)
    return said, rates


@pytest.mark.parametrize("reading", [0.0, 60.0, 130.0, 900.0])
@pytest.mark.parametrize("validating", [0.5, 5.0, 20.0])
@pytest.mark.parametrize("adapts", [False, True])
def test_minutes_include_reading_and_validations(
    adapts: bool,
    validating: float,
    reading: float,
    tmp_path: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The learning rate falls to 0 within this time. A tenth of it is for updates."""
    clock = [0.0]
    settings = {"minutes": 3.0, "steps": None}
    trained = trainer(tmp_path, tokenizer, config, settings)
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])
    trained._adapts = adapts
    said, rates = run_by_clock(trained, monkeypatch, clock, reading, validating, 0.5)
    steps = [line.split()[1] for line in said if "validation loss" in line]
    assert len(set(steps)) == len(steps)  # nothing is measured twice
    updates = 0.5 * len(rates)
    assert trained.is_done and rates[-1] < 0.2 * max(rates)
    assert updates >= 180 * loop.LEAST_SHARE
    if updates < 180 * loop.LEAST_SHARE + 1:
        return  # reading took nearly all
    # the time of the last validation is known from another, or estimated
    assert clock[0] <= 180 + validating + 1
    if adapts:
        assert 180 - validating - 1 <= clock[0] <= 181


@pytest.mark.parametrize("minutes", [0.5, 10.0])
@pytest.mark.parametrize("sentence", [0.0001, 0.01, 0.2])
def test_validations_take_a_tenth_of_the_minutes(
    sentence: float,
    minutes: float,
    tmp_path: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They measure as many of the held-out sentences as this time allows."""
    monkeypatch.setattr(loop, "FEWEST_VALIDATED", 5)
    duration = minutes / 10  # of an update: 600 updates at most
    clock = [0.0]
    spent = []
    trained = trainer(
        tmp_path, tokenizer, config, {"minutes": minutes, "steps": None}, repeats=5
    )
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])
    trained._adapts = True

    def update(objective: Objective, batch: SentenceBatch) -> tuple[float, int]:
        clock[0] += duration
        return 1.0, int(batch.lengths.sum())

    def validation_loss(task: Task) -> tuple[float, None]:
        held_out = task.corpus.held_out(500, trained.progress.held_out_share)
        taken = sentence * sum(len(batch.tokens) for batch in held_out)
        clock[0] += taken
        spent.append(taken)
        return 1.0 / (1 + clock[0]), None

    monkeypatch.setattr(trained, "update", update)
    monkeypatch.setattr(trained, "_validation_loss", validation_loss)
    said: list[str] = []
    trained.run(said.append)
    (task,) = trained.tasks.values()
    measured = task.corpus.validated(trained.progress.held_out_share)
    allowed = loop.VALIDATION_SHARE * 60 * minutes
    wanted = min(20, max(5, allowed / sentence))
    assert abs(measured - wanted) <= 1
    assert clock[0] <= 60 * minutes + 1
    if 5 * sentence <= allowed:
        assert sum(spent) <= 0.13 * 60 * minutes
    assert len(spent) > 2
    assert sum("fit into" in line for line in said) == 1


def test_minutes_that_hold_few_updates_are_told(
    tmp_path: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seconds, advice in ((0.5, False), (40.0, True)):
        clock = [0.0]
        settings = {"minutes": 10.0, "steps": None}
        trained = trainer(tmp_path, tokenizer, config, settings)
        monkeypatch.setattr(loop.time, "monotonic", lambda clock=clock: clock[0])

        def update(
            objective: Objective,
            batch: SentenceBatch,
            clock: list[float] = clock,
            seconds: float = seconds,
        ) -> tuple[float, int]:
            clock[0] += seconds
            return 1.0, int(batch.lengths.sum())

        monkeypatch.setattr(trained, "update", update)
        said: list[str] = []
        trained.run(said.append)
        (line,) = [one for one in said if "fit into" in one]
        told = int(line.split("about ")[1].split()[0].replace(",", ""))
        assert told == pytest.approx(600 / seconds, rel=0.1)
        assert ("give more --minutes" in line) is advice


@pytest.mark.parametrize("cores", [0.3, 1.9])
@pytest.mark.parametrize("adapts", [False, True])
@pytest.mark.parametrize("reading", [0.0, 300.0])
def test_the_time_of_a_training_is_told(
    reading: float,
    adapts: bool,
    cores: float,
    tmp_path: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its parts are all of the time, also with the last validation; the advice is about
    the cause.
    """
    clock = [0.0]
    settings = {"minutes": 10.0, "steps": None}
    trained = trainer(tmp_path, tokenizer, config, settings)
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(loop.time, "process_time", lambda: cores * clock[0])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    trained._adapts = adapts

    said, _ = run_by_clock(trained, monkeypatch, clock, reading, 3.0, 40.0)
    (line,) = [one for one in said if one.startswith("time: ")]
    seconds = [int(word) for word in line.split() if word.isdigit()]
    assert seconds[0] == reading and sum(seconds) == clock[0]
    (told,) = [one for one in said if "fit into" in one]
    assert ("set OMP_NUM_THREADS=1 (" in told) is (cores < 1)
    assert "give more --minutes" in told and "fewer --batch-tokens" in told


@pytest.mark.parametrize(
    ("spent", "advice"),
    [
        (Spent(100, 5, 5, 90, 1, 0.2), "usual"),  # one thread waits for no other
        (Spent(100, 5, 5, 90, 2, 1.2), "usual"),
        (Spent(100, 5, 5, 90, 16, None), "usual"),  # on a GPU
        (Spent(100, 5, 5, 90, 2, 0.9), "set OMP_NUM_THREADS=1 (other programs use the"),
        (
            Spent(100, 5, 5, 90, 16, 6.4),
            "set OMP_NUM_THREADS=6 (other programs use the",
        ),
        (Spent(100, 80, 5, 9, 2, 1.9), "give more --minutes (reading the text took"),
    ],
)
def test_the_advice_fits_the_cause(spent: Spent, advice: str) -> None:
    assert spent.advice("usual").startswith(advice)


def test_command_killed_and_resumed(rescore: Run, tmp_path: Path) -> None:
    tiny(tmp_path)
    train = (*TRAIN, "--text", "text.txt", "--out", "lm", "--minutes", "30")
    long = start(train, tmp_path, Path(os.devnull), OFTEN)
    until((tmp_path / "lm.state" / STATE).exists, long)
    long.kill()
    assert ended(long) == -signal.SIGKILL
    assert (tmp_path / "lm.state" / STATE).exists() and not (
        tmp_path / "lm" / "model.safetensors"
    ).exists()
    again = rescore(*TRAIN, "--text", "text.txt", "--out", "lm", "--steps", "5")
    assert_one_line_error(again, "started here; continue it with --resume")
    done = rescore(
        *TRAIN, "--text", "text.txt", "--out", "lm", "--minutes", "0.01", "--resume"
    )
    assert done.returncode == 0, done.stderr
    network, _ = checkpoint.load(tmp_path / "lm")
    assert network.config.d_model == 16
    card = (tmp_path / "lm" / "README.md").read_text()
    assert "\ntokens_per_word: 1." in card and "pseudo-perplexity" in card


def test_a_model_holds_no_training_text(rescore: Run, tmp_path: Path) -> None:
    """Law: the folder of a model holds what scoring reads, and no more; what only the
    training needs is in a folder beside it.
    """
    tiny(tmp_path)
    train = (*TRAIN, "--text", "text.txt", "--out", "lm", "--steps", "2")
    done = rescore(*train)
    assert done.returncode == 0, done.stderr
    of_model = {path.name for path in (tmp_path / "lm").rglob("*")}
    assert of_model == {
        *("README.md", "config.json", "model.safetensors", "tokenizer.json"),
        "lexicon.txt.xz",
    }
    state = tmp_path / "lm.state"
    assert {path.name for path in state.iterdir()} == {STATE, "corpus"}
    shutil.rmtree(state)
    assert rescore("score", "--text", "text.txt", "--lm", "tta:lm").returncode == 0


def test_the_state_of_earlier_versions_is_resumed(rescore: Run, tmp_path: Path) -> None:
    """It was in the folder of the model."""
    tiny(tmp_path)
    train = (*TRAIN, "--text", "text.txt", "--out", "lm")
    assert rescore(*train, "--steps", "2").returncode == 0
    for path in (tmp_path / "lm.state").iterdir():
        path.rename(tmp_path / "lm" / path.name)
    (tmp_path / "lm.state").rmdir()
    again = rescore(*train, "--steps", "4")
    assert_one_line_error(again, "started here; continue it with --resume")
    done = rescore(*train, "--steps", "4", "--resume")
    assert done.returncode == 0, done.stderr
    metadata = checkpoint_metadata(tmp_path / "lm" / STATE)
    assert json.loads(metadata["progress"])["step"] == 4
    assert not (tmp_path / "lm.state").exists()


def test_command_writes_a_random_model_and_starts_from_one(
    rescore: Run, tmp_path: Path
) -> None:
    tiny(tmp_path)
    assert (
        rescore(
            *TRAIN, "--text", "text.txt", "--out", "random", "--steps", "0"
        ).returncode
        == 0
    )
    begun = rescore(
        *TRAIN, "--text", "text.txt", "--out", "lm", "--steps", "3", "--init", "random"
    )
    assert begun.returncode == 0, begun.stderr
    one, other = (
        checkpoint.load(tmp_path / "random")[0],
        checkpoint.load(tmp_path / "lm")[0],
    )
    distance = (one.token_embedding.weight - other.token_embedding.weight).abs().max()
    assert 0 < distance < 0.01  # three small steps from there


def test_an_adaptation_keeps_the_best_weights_and_stops(
    rescore: Run, tmp_path: Path
) -> None:
    tiny(tmp_path)
    adapt = (*TRAIN, "--text", "text.txt", "--init", "good", "--steps", "60")
    begun = rescore(
        *TRAIN,
        "--text",
        "text.txt",
        "--out",
        "good",
        "--steps",
        "40",
        "--learning-rate",
        "1e-2",
    )
    assert begun.stderr and begun.returncode == 0
    harmful = rescore(*adapt, "--out", "worse", "--learning-rate", "1")
    stderr = harmful.stderr
    assert harmful.returncode == 0, stderr
    assert (
        "step 0  tokens 0  validation loss" in stderr
        and "stopped: 3 validations in a row gained nothing" in stderr
    )
    assert "nothing gained: worse has the weights of good" in stderr
    start, kept = (
        checkpoint.load(tmp_path / name)[0].state_dict() for name in ("good", "worse")
    )
    assert all(torch.equal(value, kept[name]) for name, value in start.items())
    card = (tmp_path / "worse" / "README.md").read_text()
    before = next(
        line.split()[-1] for line in stderr.splitlines() if line.startswith("step 0 ")
    )
    assert (
        f"| {before} a token, on 20 held-out sentences |" in card
        and "the weights are those of step 0 |" in card
    )
    state = tmp_path / "worse.state" / STATE
    steps = json.loads(checkpoint_metadata(state)["progress"])["step"]
    more = (*adapt[:-1], "200", "--out", "worse", "--learning-rate", "1e-4", "--resume")
    assert rescore(*more).stderr
    later = json.loads(checkpoint_metadata(state)["progress"])["step"]
    assert later > steps + 1


def checkpoint_metadata(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as state:
        return dict(state.metadata())


def test_several_texts_are_one_text(rescore: Run, tmp_path: Path) -> None:
    tiny(tmp_path)
    half = len(SENTENCES) // 2
    for name, lines in (
        ("first.txt", SENTENCES[:half]),
        ("second.txt", SENTENCES[half:]),
    ):
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    texts = {
        "both": ("--text", "first.txt", "--text", "second.txt"),
        "one": ("--text", "text.txt"),
    }
    for out, text in texts.items():
        done = rescore(*TRAIN, *text, "--out", out, "--steps", "3")
        assert done.returncode == 0, done.stderr
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in texts]
    assert weights[0] == weights[1]
    assert (
        "| text | first.txt, second.txt |"
        in (tmp_path / "both" / "README.md").read_text()
    )
    ends = [
        (tmp_path / f"{out}.state" / "corpus" / "documents.bin").stat().st_size // 8
        for out in texts
    ]
    assert ends == [2, 1]  # the end of a text ends a document
    resumed = rescore(
        *TRAIN, *texts["both"], "--out", "both", "--steps", "4", "--resume"
    )
    assert resumed.returncode == 0, resumed.stderr


def test_command_masks_as_it_is_told(rescore: Run, tmp_path: Path) -> None:
    tiny(tmp_path)
    command = (
        "train",
        *TRAIN[TRAIN.index("--config") :],
        "--text",
        "text.txt",
        "--out",
        "lm",
        "--lm",
    )
    done = rescore(
        *command, "bilm", "--steps", "2", "--mask-rate", "0.5", "--mask-cap", "4"
    )
    assert done.returncode == 0, done.stderr
    assert (
        "pseudo-perplexity (at 50 % masked, at most 4)"
        in (tmp_path / "lm" / "README.md").read_text()
    )
    resumed = rescore(*command, "bilm", "--steps", "4", "--resume")
    assert (
        resumed.returncode == 2
        and "was made with mask-rate 0.5, not 0.15" in resumed.stderr
    )
    command = (*command[:-2], "other", "--lm")
    assert_one_line_error(
        rescore(*command, "tta", "--mask-cap", "4"),
        "train --lm tta takes no --mask-cap; give it to --lm bilm",
    )


def test_command_goes_on_among_neighbours(rescore: Run, tmp_path: Path) -> None:
    tiny(tmp_path)
    for out, more in (
        ("alone", ()),
        ("context", ("--init", "alone", "--context", "2")),
    ):
        done = rescore(
            *TRAIN, "--text", "text.txt", "--out", out, "--steps", "2", *more
        )
        assert done.returncode == 0, done.stderr
    assert "context: validation loss" in done.stderr
    assert checkpoint.load(tmp_path / "context")[0].config.neighbours == (2, 2)
    done = rescore(
        *TRAIN, "--text", "text.txt", "--out", "on", "--steps", "2", "--init", "context"
    )
    # by default sentences are alone
    assert done.returncode == 0 and "context" not in done.stderr, done.stderr
    assert checkpoint.load(tmp_path / "on")[0].config.neighbours == (2, 2)
    wrong = rescore(
        *TRAIN,
        "--text",
        "text.txt",
        "--out",
        "x",
        "--steps",
        "2",
        "--init",
        "context",
        "--context",
        "1",
    )
    assert_one_line_error(wrong, "reads 2 neighbours on a side")


def test_several_processes_are_refused(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = rescore(*TRAIN, "--text", "text.txt", "--out", "lm", "--steps", "2")
    assert_one_line_error(done, "start it without torchrun")
