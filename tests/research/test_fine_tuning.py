"""A network that is trained on with a classifier: its features are those of the probe, and it learns more."""

from __future__ import annotations

import json
import random
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

from rescore.lms import load
from rescore.lms.networks import Network
from rescore.research import probe
from rescore.research.fine_tuning import FineTuning, Side, features, fine_tune, trainable
from rescore.research.kinds import VectorOptions
from rescore.research.probe import Examples
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.large.test_huggingface import build as causal_model

pytest.importorskip("sklearn")

ONE, OTHER = [*SENTENCES[:6], ""], [*SENTENCES[20:26], " ".join(SENTENCES[:6])]
KINDS = [
    ("tta", VectorOptions()),
    ("tta", VectorOptions(layer=2)),
    ("bilm", VectorOptions()),
    ("bilm:intact", VectorOptions(kind="embed")),
    ("unilm", VectorOptions()),
    ("unilm-bw", VectorOptions()),
    ("lstm", VectorOptions(kind="hidden")),
    ("unified:l2r", VectorOptions()),
]


def named(models: dict[str, Path], backend: str) -> str:
    return f"{backend}:{models[backend.partition(':')[0]]}"


@pytest.mark.parametrize(("backend", "options"), KINDS)
def test_features_are_those_of_the_probe(backend: str, options: VectorOptions, models: dict[str, Path]) -> None:
    """And every weight that they depend on has a gradient."""
    lm = load(named(models, backend))
    frozen = Embedder([lm], options)
    expected = probe.features(*(frozen.sentences(side).astype(float) for side in (ONE, OTHER)))
    embedder = Embedder([trainable(lm)], options)
    sides = [Side(side) for side in (ONE, OTHER)]
    found = features(embedder, (sides[0], sides[1]), np.arange(len(ONE)))
    assert np.allclose(found.detach().numpy(), expected, atol=1e-4)
    found.square().sum().backward()
    network: Network = vars(embedder.lms[0].network)["network"]
    given = {name for name, value in network.named_parameters() if value.grad is not None and value.grad.any()}
    assert "token_embedding.weight" in given
    assert options.kind in ("embed", "token") or any(str((options.layer or 3) - 1) in name for name in given)


def test_words_are_pooled_as_in_the_probe(models: dict[str, Path]) -> None:
    lm = load(f"unilm:{models['unilm']}")
    embedder, places = Embedder([trainable(lm)]), [0, 1, 2, 1, 0, 2]
    found = embedder.pooled(ONE[:6], places)
    assert found.requires_grad
    assert np.allclose(found.detach(), Embedder([lm]).words(ONE[:6], places), atol=1e-5)


def either(number: int) -> Examples:
    """Two words, each of one of two kinds that nothing shows: are they of the same kind?"""
    words = sorted({word for line in SENTENCES for word in line.split() if len(word) > 3})[:12]
    lots = random.Random(0)
    first, second = (lots.choices(words, k=number) for _ in range(2))
    kinds = {word: place % 2 for place, word in enumerate(words)}
    labels = ["FT"[kinds[one] == kinds[other]] for one, other in zip(first, second, strict=True)]
    return Examples((Side(first), Side(second)), labels, np.arange(number) >= number * 4 // 5)


def test_the_network_learns_with_the_classifier(models: dict[str, Path]) -> None:
    """What frozen vectors do not show; the model itself stays as it is, and nothing is left to chance."""
    lm, options = load(f"bilm:intact:{models['bilm']}"), VectorOptions(kind="hidden")
    before = Embedder([lm], options).sentences(ONE)
    examples, how = either(400), FineTuning(epochs=8, learning_rate=1e-2, dropout=0.0)
    said: list[int] = []
    found = probe.fine_tuned("sick", examples, lm, options, how, said.append)
    frozen = probe.probe("sick", examples, lm, options)
    assert found.tested == frozen.tested == 80 and found.majority == frozen.majority
    assert found.accuracy > 95 > frozen.accuracy + 5, (found, frozen)
    assert sum(said) == 8 * probe.trained_on(examples) == 8 * 320
    assert np.array_equal(before, Embedder([lm], options).sentences(ONE))
    short = FineTuning(epochs=1, dropout=0.3)
    torch.manual_seed(1)
    once = probe.fine_tuned("sick", examples, lm, options, short)
    torch.manual_seed(2)
    assert once == probe.fine_tuned("sick", examples, lm, options, short)


def test_every_fold_begins_anew(models: dict[str, Path]) -> None:
    """Had a network been trained on what is tested, it would know it: here classes are lots."""
    lots = random.Random(1)
    words = sorted({word for line in SENTENCES for word in line.split()})[:60]
    examples = Examples((Side(words), Side(words)), [lots.choice("TF") for _ in words])
    lm, options = load(f"bilm:intact:{models['bilm']}"), VectorOptions(kind="token")
    found = probe.fine_tuned("sick", examples, lm, options, FineTuning(epochs=6, learning_rate=1e-2))
    assert found.tested == 60 and found.accuracy < 75, found


def test_classes_are_told_by_number(models: dict[str, Path]) -> None:
    """Of the tested ones, in their order."""
    embedder = Embedder([trainable(load(f"bilm:intact:{models['bilm']}"))], VectorOptions(kind="token"))
    words = [SENTENCES[0].split()[0], SENTENCES[1].split()[-1], SENTENCES[2].split()[1]] * 20
    side = Side(words)
    tested = np.arange(60) % 7 == 0
    classes = np.array([0, 1, 2] * 20)
    found = fine_tune(embedder, (side, side), classes, tested, FineTuning(epochs=10, learning_rate=1e-2))
    assert found.tolist() == classes[tested].tolist()


def test_the_command(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "w").write_text("clock\tN\t2-1\tthe old clock\tthe clock ticked\nwall\tN\t1-0\tthe wall\twall\n" * 10)
    (tmp_path / "g").write_text("T\nF\n" * 10)
    lm = ("--lm", f"tta:{models['tta']}")
    task = ("probe", "wic", "w", "--gold", "g", *lm)
    done = rescore(*task, "--fine-tune", "--epochs", "1", "--learning-rate", "0.001", "-o", "p.json")
    assert done.returncode == 0 and "tta, fine-tuned" in done.stdout, done.stderr
    frozen, tuned = json.loads((tmp_path / "p.json").read_text())
    assert not frozen["fine_tuned"] and tuned["fine_tuned"] and tuned["tested"] == frozen["tested"] == 20
    assert "|fine-tuned:1 epochs|rate:0.001|" in tuned["signature"] and "fine-tuned" not in frozen["signature"]
    assert tuned["signature"].endswith(f"|torch:{version('torch')}")
    assert rescore(*task).stdout.splitlines()[1].split() == done.stdout.splitlines()[1].split()
    for arguments, part in (
        (("--epochs", "2"), "--epochs goes with --fine-tune"),
        (("--learning-rate", "0.1"), "--learning-rate goes with --fine-tune"),
    ):
        assert_one_line_error(rescore(*task, *arguments), part)
    causal_model("gpt2", tmp_path / "hf")
    foreign = ("probe", "wic", "w", "--gold", "g", "--lm", "hf-causal:hf", "--fine-tune")
    assert_one_line_error(rescore(*foreign), "--fine-tune is for networks that `rescore train` makes")
