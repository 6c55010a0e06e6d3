"""What a kind of network or a lesson from outside brings to a training: a loss of its
own, parameters of the objective, a curriculum, fields of the configuration, options.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.base import Kind
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import TtaKind
from rescore.lms.networks import TTA, Network
from rescore.lms.training.objectives import (
    CausalLanguageModelling,
    Example,
    LanguageAutoencoding,
    Objective,
    Task,
    WrappedObjective,
)
from rescore.lms.training.options import Lesson, NeuralOptions, TrainingData
from rescore.options import Declared, option
from rescore.parts import KINDS, LESSONS
from tests.conftest import SENTENCES, Run, assert_one_line_error

LONGEST = 12


class Counting(TTA):
    """A T-TA with a head beside its softmax: the length of a sentence, from [BOS]."""

    def __init__(self, config: CountingConfig) -> None:
        super().__init__(config)
        self.length_head = nn.Linear(config.d_model, config.longest)


@dataclass(frozen=True, slots=True)
class CountingConfig(NetworkConfig):
    longest: int = LONGEST


@dataclass(frozen=True, slots=True)
class Labelled(Example):
    classes: Tensor
    """(batch,) the length of each sentence, cut."""


class LengthToo(LanguageAutoencoding):
    """LAE, and the length of the sentence by the network's head."""

    seen: list[float]

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.seen = []

    def __call__(
        self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]
    ) -> Labelled:
        plain = super().__call__(tokens, lengths, seed)
        classes = (lengths - 2).clamp_max(self.longest - 1)
        return Labelled(
            plain.tokens, plain.lengths, plain.predicted, plain.targets, classes
        )

    def at(self, done: float) -> LengthToo:
        self.seen.append(done)
        return self

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        assert isinstance(network, Counting) and isinstance(example, Labelled)
        logits = network.length_head(hidden[:, 0].float())
        lengths = F.cross_entropy(logits, example.classes)
        return super().loss(network, hidden, example) + len(example.targets) * lengths

    def right(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        guesses = hidden[example.predicted] @ network.output_weight.T
        return (guesses.argmax(dim=1) == example.targets).sum()


OBJECTIVES: list[LengthToo] = []


class CountingKind(TtaKind):
    """A kind from outside with a configuration of its own."""

    Config = CountingConfig
    architecture = f"{__name__}:Counting"
    trained_with = "rescore.lms.training.options:NeuralOptions"
    options = ()

    def objective(self, tokenizer: Any, options: Any) -> LengthToo:
        OBJECTIVES.append(LengthToo(LONGEST))
        return OBJECTIVES[-1]


class Halves(WrappedObjective):
    """A second task: which of two words stands at a place, by a head of its own."""

    perplexity = "perplexity of halves"

    def __init__(self, inner: Objective, width: int) -> None:
        super().__init__(inner)
        self.head = nn.Linear(width, 2)
        self.perplexity = "perplexity of halves"

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        example = self.inner(tokens, lengths, seed)
        return replace(example, targets=example.targets % 2)

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        assert self.head is not None
        logits = self.head(hidden[example.predicted].float())
        return F.cross_entropy(logits, example.targets, reduction="sum")


class HalvesLesson(Lesson):
    """Adds the task to networks that predict tokens from both sides."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        halves: float | None = option(None, "Also tell halves of the vocabulary.")

    @classmethod
    def suits(cls, kind: Kind) -> bool:
        return kind.capabilities.pseudo

    def tasks(self, tasks: list[Task], data: TrainingData) -> list[Task]:
        objective = Halves(tasks[0].objective, data.config.d_model)
        return [*tasks, Task("halves", data.text, objective)]


@pytest.fixture(autouse=True)
def registered(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "text").write_text("\n".join(SENTENCES * 2))
    NetworkConfig(
        "tta", 200, layers=1, d_model=16, heads=2, d_ff=16, max_positions=40
    ).save(tmp_path / "tiny.json")
    KINDS.register("counting", CountingKind, "with a head")
    LESSONS.register("halves", HalvesLesson, "halves")
    OBJECTIVES.clear()
    yield
    KINDS.remove("counting")
    LESSONS.remove("halves")


TRAIN = ("--text", "text", "--config", "tiny.json", "--held-out", "20", "--seed", "3")
CPU = ("--device", "cpu", "--precision", "float32", "--batch-tokens", "300")


def test_a_loss_trains_the_head_beside_the_softmax(
    rescore: Run, tmp_path: Path
) -> None:
    train = ("train", "--lm", "counting", *TRAIN, *CPU)
    assert rescore(*train, "--steps", "0", "--out", "before").returncode == 0
    done = rescore(*train, "--steps", "40", "--out", "after", "--learning-rate", "1e-2")
    assert done.returncode == 0 and "  accuracy 0." in done.stderr, done.stderr
    first, second = (
        load_file(tmp_path / name / "model.safetensors") for name in ("before", "after")
    )
    moved = (first["length_head.weight"] - second["length_head.weight"]).abs().max()
    assert moved > 0.01
    config = json.loads((tmp_path / "after" / "config.json").read_text())
    assert config["kind"] == "counting" and config["longest"] == 12
    lists = {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "the old clock"}}}
    (tmp_path / "l.json").write_text(json.dumps(lists))
    assert (
        '"counting": -' in rescore("score", "l.json", "--lm", "counting:after").stdout
    )
    config["longest"] = "many"
    (tmp_path / "after" / "config.json").write_text(json.dumps(config))
    assert_one_line_error(
        rescore("score", "l.json", "--lm", "counting:after"), "longest: expected"
    )


def test_a_curriculum_knows_how_far_training_is(rescore: Run, tmp_path: Path) -> None:
    train = ("train", "--lm", "counting", *TRAIN, *CPU, "--steps", "4", "--out", "x")
    assert rescore(*train).returncode == 0
    (objective,) = OBJECTIVES
    assert objective.seen == [0.0, 0.25, 0.5, 0.75, 1.0]  # the last is validation


def test_parameters_of_an_objective_are_trained_and_resumed(
    rescore: Run, tmp_path: Path
) -> None:
    train = ("train", "--lm", "tta", "--halves", "1", *TRAIN, *CPU)
    whole = rescore(*train, "--steps", "8", "--out", "whole")
    assert whole.returncode == 0 and "perplexity of halves" in whole.stderr
    state = tmp_path / "whole.state" / "training.safetensors"
    with safe_open(state, "pt") as file:
        weight = file.get_tensor("head.halves.weight")
    assert weight.shape == (2, 16)
    assert not any(
        name.startswith("head")
        for name in load_file(tmp_path / "whole" / "model.safetensors")
    )
    # A saved state goes on as if nothing had happened, the head with it.
    again = rescore(*train, "--steps", "12", "--out", "whole", "--resume")
    straight = rescore(*train, "--steps", "12", "--out", "straight")
    assert again.returncode == straight.returncode == 0
    with safe_open(state, "pt") as file:
        after = file.get_tensor("head.halves.weight")
    assert not torch.equal(after, weight)
    other = rescore(
        *train[:3], *train[5:], "--steps", "13", "--out", "whole", "--resume"
    )
    assert_one_line_error(other, "was made with")


def test_a_lesson_is_refused_where_it_does_not_suit(rescore: Run) -> None:
    help_of_tta = rescore("train", "--lm", "tta", "--help-all").stdout
    assert "--halves" in help_of_tta
    done = rescore("train", "--lm", "unilm", "--halves", "1", *TRAIN, "--out", "x")
    assert_one_line_error(done, "--lm unilm takes no --halves; give it to --lm tta or")
    done = rescore("train", "--lm", "ngram", "--halves", "1", "--out", "x")
    assert_one_line_error(done, "train --lm ngram takes no --halves; give it to")


def test_a_wrapped_objective_has_the_curriculum_of_the_other() -> None:
    class Later(CausalLanguageModelling):
        def at(self, done: float) -> Objective:
            return LanguageAutoencoding() if done > 0.5 else self

    wrapped = WrappedObjective(Later())
    assert wrapped.at(0.1) is wrapped and wrapped.predicts_end
    later = wrapped.at(0.9)
    assert isinstance(later, WrappedObjective)
    assert isinstance(later.inner, LanguageAutoencoding)
    assert isinstance(wrapped.inner, Later)


class Blank(LanguageAutoencoding):
    """Sees no token: its network predicts all tokens with equal probability."""

    def hidden(self, network: Network, example: Example) -> Tensor:
        return 0 * network(example.tokens, example.lengths)


class BlankLesson(HalvesLesson):
    """Hides the tokens of a task."""

    def tasks(self, tasks: list[Task], data: TrainingData) -> list[Task]:
        return [replace(task, objective=WrappedBlank(Blank())) for task in tasks]


class WrappedBlank(WrappedObjective):
    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        return self.inner(tokens, lengths, seed)


def test_an_objective_computes_hidden_vectors_in_its_own_way(
    rescore: Run, tmp_path: Path
) -> None:
    LESSONS.register("halves", BlankLesson, "no tokens")
    train = ("train", "--lm", "tta", "--halves", "1", *TRAIN, *CPU, "--steps", "3")
    done = rescore(*train, "--out", "x")
    assert done.returncode == 0, done.stderr
    vocabulary = json.loads((tmp_path / "x" / "config.json").read_text())["vocab_size"]
    assert f"validation loss {math.log(vocabulary):.4f}" in done.stderr


def test_configurations_of_other_kinds() -> None:
    config = NetworkConfig(layers=2, d_model=64, heads=2, d_ff=64)
    other = config.of_kind("counting", vocab_size=77)
    assert isinstance(other, CountingConfig)
    assert (other.kind, other.layers, other.vocab_size) == ("counting", 2, 77)
    assert other.of_kind("tta") == replace(config, vocab_size=77)
    assert NeuralOptions.declared()
