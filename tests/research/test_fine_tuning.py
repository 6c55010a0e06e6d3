"""A network that is trained together with a classifier: its features are those of the
probe, and it learns more.
"""

from __future__ import annotations

import json
import random
from importlib.metadata import version
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from rescore.errors import UserError
from rescore.lms import load, without_context
from rescore.lms.own import OwnNetwork
from rescore.research.fine_tuning import (
    batch_features,
    fine_tuned,
    learning_rate,
    train_and_classify,
    trainable,
)
from rescore.research.probe import pair_features, probe, side_vectors
from rescore.research.probe_tasks import Examples, Side
from rescore.research.vector_options import FineTuning, VectorOptions
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.large.test_huggingface import build
from tests.research.test_words_in_context import ANSWERS, ROWS

pytest.importorskip("sklearn")

FIRST = [*SENTENCES[:6], ""]
SECOND = [*SENTENCES[20:26], " ".join(SENTENCES[:6])]
PLACES = [0, 1, 2, 1, 0, 2]
EXAMPLES = {
    "sentences": Examples(Side(FIRST), Side(SECOND), ["T"] * 7),
    "words": Examples(Side(FIRST[:6], PLACES), Side(SECOND[:6], PLACES), ["T"] * 6),
}


def named(models: dict[str, Path], backend: str) -> str:
    return f"{backend}:{models[backend.partition(':')[0]]}"


@pytest.mark.parametrize("of", EXAMPLES)
@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("tta", VectorOptions()),
        (
            "tta",
            VectorOptions(
                layers={1: 0.3, 3: 0.7}, pooling="first", special_tokens=True
            ),
        ),
        ("bilm", VectorOptions(pooling="max")),
        ("bilm:intact", VectorOptions("embed")),
        ("unilm", VectorOptions(pooling="sum")),
        ("unilm-bw", VectorOptions("hidden", pooling="last")),
    ],
    ids=str,
)
def test_features_are_those_of_the_probe(
    backend: str, options: VectorOptions, of: str, models: dict[str, Path]
) -> None:
    """And the weights that they depend on have gradients."""
    examples = EXAMPLES[of]
    lm = load(named(models, backend))
    frozen = Embedder([lm], options)
    expected = pair_features(
        side_vectors(frozen, examples.first), side_vectors(frozen, examples.second)
    )
    embedder = Embedder([trainable(lm)], options)
    found = batch_features(embedder, examples, np.arange(len(examples.labels)))
    assert found.detach().numpy() == pytest.approx(expected, abs=2e-3, rel=1e-3)
    found.square().sum().backward()
    network = cast(OwnNetwork, embedder.lms[0].network).network
    trained = {
        name
        for name, value in network.named_parameters()
        if value.grad is not None and value.grad.any()
    }
    assert "token_embedding.weight" in trained
    has_last_layer = any(name.startswith("blocks.2.") for name in trained)
    assert has_last_layer == (options.kind != "embed")


def test_a_trainable_copy_scores_as_the_model(models: dict[str, Path]) -> None:
    """Until it is trained; then it scores with its new weights, and the model does not
    change.
    """
    lm = load(named(models, "tta"))
    copied = trainable(lm)
    questions = without_context(SENTENCES[:3])
    before = [scores.sum for scores in lm.score(questions)]
    assert [scores.sum for scores in copied.score(questions)] == pytest.approx(
        before, abs=1e-3
    )
    network = cast(OwnNetwork, Embedder([copied]).lms[0].network).network
    with torch.no_grad():
        for value in network.parameters():
            value.zero_()
    flat = [scores.log_probs.std() for scores in copied.score(questions)]
    assert flat == pytest.approx([0, 0, 0], abs=1e-6)
    assert [scores.sum for scores in lm.score(questions)] == before


def same_kind(number: int) -> Examples:
    """Two words, each of one of two kinds that nothing shows: are they of the same
    kind?
    """
    words = sorted({word for line in SENTENCES for word in line.split()})
    words = [word for word in words if len(word) > 3][:12]
    lots = random.Random(0)
    first = lots.choices(words, k=number)
    second = lots.choices(words, k=number)
    labels = []
    for one, other in zip(first, second, strict=True):
        same = words.index(one) % 2 == words.index(other) % 2
        labels.append("T" if same else "F")
    tested = np.arange(number) >= number * 4 // 5
    return Examples(Side(first), Side(second), labels, tested)


def test_the_network_learns_with_the_classifier(models: dict[str, Path]) -> None:
    """It learns what frozen vectors do not show; the model itself does not change."""
    lm = load(named(models, "bilm:intact"))
    options = VectorOptions("hidden")
    before = Embedder([lm], options).sentences(FIRST)
    examples = same_kind(400)
    training = FineTuning(epochs=8, learning_rate=1e-2, dropout=0.0)
    told: list[int] = []
    found = fine_tuned("sick", examples, lm, options, training, told.append)
    frozen = probe("sick", examples, Embedder([lm], options))
    assert found.tested == frozen.tested == 80
    assert found.majority == frozen.majority
    assert found.accuracy > 95 > frozen.accuracy + 5
    assert sum(told) == 8 * examples.trained == 8 * 320
    assert np.array_equal(before, Embedder([lm], options).sentences(FIRST))


def test_a_training_can_be_repeated(models: dict[str, Path]) -> None:
    lm = load(named(models, "bilm:intact"))
    training = FineTuning(epochs=1, dropout=0.3)
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        examples = same_kind(100)
        results.append(fine_tuned("sick", examples, lm, VectorOptions(), training))
    assert results[0] == results[1]


def test_every_fold_begins_anew(models: dict[str, Path]) -> None:
    """Classes are lots here: a network that was trained on the tested pairs would know
    them.
    """
    lots = random.Random(1)
    words = sorted({word for line in SENTENCES for word in line.split()})[:60]
    examples = Examples(Side(words), Side(words), [lots.choice("TF") for _ in words])
    lm = load(named(models, "bilm:intact"))
    training = FineTuning(epochs=6, learning_rate=1e-2)
    found = fine_tuned("sick", examples, lm, VectorOptions("token"), training)
    assert found.tested == 60
    assert found.accuracy < 75


def test_classes_of_the_test_pairs_in_their_order(models: dict[str, Path]) -> None:
    lm = load(named(models, "bilm:intact"))
    embedder = Embedder([trainable(lm)], VectorOptions("token"))
    side = Side(["the", "old", "house"] * 20)
    examples = Examples(side, side, ["a", "b", "c"] * 20)
    classes = np.array([0, 1, 2] * 20)
    tested = np.arange(60) % 7 == 0
    training = FineTuning(epochs=10, learning_rate=1e-2)
    found = train_and_classify(embedder, examples, classes, 3, tested, training)
    assert found.tolist() == classes[tested].tolist()


def test_the_learning_rate_rises_and_falls() -> None:
    training = FineTuning(learning_rate=1.0)
    rates = [learning_rate(step, 100, training) for step in range(100)]
    assert rates[:10] == pytest.approx(np.arange(1, 11) / 10)
    assert rates[10:] == pytest.approx(np.arange(90, 0, -1) / 90)
    assert learning_rate(0, 1, training) == 1.0


def test_a_loss_that_is_not_finite(models: dict[str, Path]) -> None:
    embedder = Embedder([trainable(load(named(models, "tta")))], VectorOptions("token"))
    network = cast(OwnNetwork, embedder.lms[0].network).network
    with torch.no_grad():
        network.token_embedding.weight.fill_(float("inf"))
    side = Side(["the"] * 20)
    examples = Examples(side, side, ["T", "F"] * 10)
    tested = np.arange(20) >= 15
    with pytest.raises(UserError, match=r"the loss is nan; give a lower --learning"):
        train_and_classify(
            embedder, examples, np.array([0, 1] * 10), 2, tested, FineTuning()
        )


def test_the_command(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "w").write_text(ROWS, encoding="utf-8")
    (tmp_path / "g").write_text(ANSWERS, encoding="utf-8")
    task = ("probe", "wic", "w", "--gold", "g", "--lm", f"tta:{models['tta']}")
    training = ("--fine-tune", "--epochs", "1", "--learning-rate", "0.001")
    done = rescore(*task, *training, "-o", "figures.json")
    assert done.returncode == 0, done.stderr
    assert "tta, fine-tuned" in done.stdout
    frozen, tuned = json.loads((tmp_path / "figures.json").read_text())
    assert tuned["fine_tuned"] and not frozen["fine_tuned"]
    assert tuned["tested"] == frozen["tested"] == 20
    assert "|fine-tuned:1 epochs|rate:0.001|" in tuned["signature"]
    assert tuned["signature"].endswith(f"|torch:{version('torch')}")
    assert "fine-tuned" not in frozen["signature"]
    for arguments, message in (
        (("--epochs", "2"), "--epochs needs --fine-tune"),
        (("--learning-rate", "0.1"), "--learning-rate needs --fine-tune"),
    ):
        assert_one_line_error(rescore(*task, *arguments), message)
    build("gpt2", tmp_path / "hf")
    foreign = (*task[:-1], "hf-causal:hf", "--fine-tune")
    message = "hf-causal: --fine-tune is for networks that `rescore train` makes"
    assert_one_line_error(rescore(*foreign), message)
