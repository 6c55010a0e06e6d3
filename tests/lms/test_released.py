"""The T-TA of the authors' code, and the training of the paper (section 5.1)."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.numpy import load_file

from rescore.lms import checkpoint, load, without_context
from rescore.lms.config import NAMED, NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import Corpus, encode_corpus
from rescore.lms.training.loop import Trainer
from rescore.lms.training.objectives import FramedAutoencoding, Task
from rescore.lms.training.options import TtaOptions
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.lms.test_neural import short

Floats = npt.NDArray[np.float64]
Weights = dict[str, Floats]

RECIPE = (
    *("--config", "released", "--optimizer", "adamw", "--learning-rate", "1e-4"),
    *("--warmup", "0.05", "--decay", "0.95", "--batch-sentences", "64"),
    *("--batch-tokens", "8192", "--predict-frame"),
)
"""The options of the paper's training, but its length."""


def test_the_sizes_are_the_papers() -> None:
    released = NAMED["released"]()
    own = {
        "embedding_norm": True,
        "output_transform": True,
        "output_bias": True,
        "first_query": "mask",
    }
    assert asdict(released) == asdict(NAMED["base"]()) | own


def linear(weights: Weights, name: str, x: Floats) -> Floats:
    return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]


def layer_norm(weights: Weights, name: str, x: Floats) -> Floats:
    normal = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    return normal * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x: Floats) -> Floats:
    return np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])


def softmax(x: Floats) -> Floats:
    exponentials = np.exp(x - x.max())
    return exponentials / exponentials.sum()


def forward(weights: Weights, config: NetworkConfig, tokens: list[int]) -> list[Floats]:
    """The paper's equations and the additions of the authors' code, a step at a time:
    log-probabilities (vocabulary,) at each position.
    """
    embedding = weights["token_embedding.weight"]
    position = weights["position_embedding.weight"]
    places = range(len(tokens))
    memory = [
        layer_norm(weights, "embedding_norm", embedding[token] + position[place])
        for place, token in enumerate(tokens)
    ]
    mask = embedding[4]
    query = [
        layer_norm(weights, "embedding_norm", mask + position[place])
        for place in places
    ]
    width = config.d_model // config.heads
    for number in range(config.layers):
        block = f"blocks.{number}"
        keys = [linear(weights, f"{block}.attention.key", x) for x in memory]
        values = [linear(weights, f"{block}.attention.value", x) for x in memory]
        updated = []
        for place in places:
            own = linear(weights, f"{block}.attention.query", query[place])
            heads = []
            for head in range(config.heads):
                part = slice(head * width, (head + 1) * width)
                logits = [key[part] @ own[part] / math.sqrt(width) for key in keys]
                logits[place] = -math.inf  # the diagonal mask
                shares = softmax(np.array(logits))
                heads.append(sum(shares[i] * values[i][part] for i in places))
            context = linear(
                weights, f"{block}.attention.output", np.concatenate(heads)
            )
            hidden = layer_norm(
                weights, f"{block}.attention_norm", query[place] + context
            )
            inner = gelu(linear(weights, f"{block}.fc1", hidden))
            outer = linear(weights, f"{block}.fc2", inner)
            updated.append(
                layer_norm(weights, f"{block}.feed_forward_norm", hidden + outer)
            )
        query = updated
    log_probs = []
    for hidden in query:
        transformed = gelu(linear(weights, "output_transform.dense", hidden))
        transformed = layer_norm(weights, "output_transform.norm", transformed)
        logits = embedding @ transformed + weights["output_bias"]
        log_probs.append(
            logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        )
    return log_probs


def test_scores_equal_the_equations(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig
) -> None:
    sizes = {"layers": 3, "d_model": 16, "heads": 2, "d_ff": 32, "max_positions": 24}
    small = replace(NAMED["released"](), vocab_size=tokenizer.vocab_size, **sizes)
    torch.manual_seed(0)
    network = checkpoint.build(small)
    with torch.no_grad():
        for value in network.parameters():  # no bias and no norm keeps its default
            if value.dim() == 1:
                value.add_(torch.randn_like(value) * 0.3)
    checkpoint.save(tmp_path, network, tokenizer)
    file = load_file(tmp_path / "model.safetensors")
    weights = {name: value.astype(np.float64) for name, value in file.items()}
    texts = short(tmp_path)[:6]
    for text, scores in zip(
        texts, load(f"tta:{tmp_path}").score(without_context(texts)), strict=True
    ):
        ids = tokenizer.encode([text])[0]
        slow = forward(weights, small, [tokenizer.bos, *ids, tokenizer.eos])
        expected = [slow[place][token] for place, token in enumerate(ids, 1)]
        assert scores.log_probs == pytest.approx(expected, abs=1e-4)


def test_the_frame_is_predicted() -> None:
    tokens = torch.tensor([[2, 7, 8, 3], [2, 9, 3, 0]])
    example = FramedAutoencoding()(tokens, torch.tensor([4, 3]), [0])
    assert torch.equal(example.tokens, tokens)
    assert example.targets.tolist() == [2, 7, 8, 3, 2, 9, 3]
    assert example.predicted.tolist() == [[True] * 4, [True] * 3 + [False]]


def test_the_learning_rate_is_the_papers(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig
) -> None:
    """Up to 1e-4 in the first 50,000 of a million steps, then linearly down to 0; Adam
    with the paper's coefficients.
    """
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "corpus", 22)
    corpus = Corpus(tmp_path / "corpus", tokenizer, 20, 0)
    options = TtaOptions(
        out=tmp_path,
        steps=1_000_000,
        optimizer="adamw",
        learning_rate=1e-4,
        warmup=0.05,
        decay=0.95,
        device="cpu",
    )
    network = checkpoint.build(config)
    tasks = [Task("tta", corpus, FramedAutoencoding())]
    trainer = Trainer(network, tokenizer, tasks, options, tmp_path)
    for step, rate in (
        (0, 0.0),
        (25_000, 0.5e-4),
        (50_000, 1e-4),
        (525_000, 0.5e-4),
        (999_999, 0.0),
    ):
        trainer.progress.step = step
        assert trainer.learning_rate() == pytest.approx(rate, abs=1e-8)
    (adam,) = trainer.optimizers
    assert isinstance(adam, torch.optim.AdamW)
    assert all(group["betas"] == (0.9, 0.999) for group in adam.param_groups)
    assert options.dropout == 0.1


def test_the_command(rescore: Run, tmp_path: Path) -> None:
    """Trained, resumed and scored with; a state belongs to these options."""
    (tmp_path / "text").write_text("\n".join(SENTENCES[:80]))
    train = ["train", "--lm", "tta", "--text", "text", "--size", "200"]
    train += ["--device", "cpu", "--held-out", "5", "--out", "lm"]
    done = rescore(*train, *RECIPE, "--steps", "1")
    assert done.returncode == 0, done.stderr
    assert "pseudo-perplexity (with [BOS] and [EOS]) " in done.stderr
    done = rescore(*train, *RECIPE, "--steps", "2", "--resume")
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "lm" / "config.json").read_text())
    assert made == asdict(replace(NAMED["released"](), vocab_size=200))
    card = (tmp_path / "lm" / "README.md").read_text()
    assert "| 2 of at most 8,192 tokens and 64 sentences |" in card
    other = [option for option in RECIPE if option != "--predict-frame"]
    done = rescore(*train, *other, "--steps", "3", "--resume")
    assert_one_line_error(done, "was made with predict-frame True, not False")
    (tmp_path / "t").write_text("the old clock\n")
    done = rescore("score", "--text", "t", "--lm", "tta:lm")
    assert done.returncode == 0 and "tta" in done.stdout, done.stderr
