"""The LSTM is what its equations say, and reads trees of prefixes as it reads
sequences.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.lms import ComputeOptions, LanguageModel, checkpoint, load, without_context
from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, Tree, convert, predict, reads_trees
from rescore.lms.own import OwnNetwork
from rescore.lms.scorers import NetworkScorer
from rescore.research.lstm import LSTM
from rescore.research.vectors import Embedder, VectorOptions
from tests.conftest import SENTENCES, Run, assert_one_line_error, some_lists

TEXTS = [*SENTENCES[:8], "the old clock", "the old house", "the"]


@pytest.fixture
def network(config: NetworkConfig) -> LSTM:
    """A random network in float64."""
    torch.manual_seed(2)
    lstm = checkpoint.build(config.of_kind("lstm"))
    assert isinstance(lstm, LSTM)
    return lstm.double().eval()


def definition(network: LSTM, tokens: list[int]) -> list[Tensor]:
    """Return the outputs of each layer (n, d), the embeddings first: cells with a
    forget gate (Gers et al. 2000), a token and a gate at a time.
    """
    inputs = [network.token_embedding.weight[token] for token in tokens]
    of_layers = [torch.stack(inputs)]
    for cells in network.layers():
        read = cells.weight_ih_l0.chunk(4)
        recurrent = cells.weight_hh_l0.chunk(4)
        bias = (cells.bias_ih_l0 + cells.bias_hh_l0).chunk(4)
        hidden = state = torch.zeros(network.config.d_model, dtype=torch.float64)
        outputs = []
        for vector in inputs:
            let_in, kept, new, out = (
                read[gate] @ vector + recurrent[gate] @ hidden + bias[gate]
                for gate in range(4)
            )
            state = kept.sigmoid() * state + let_in.sigmoid() * new.tanh()
            hidden = out.sigmoid() * state.tanh()
            outputs.append(hidden)
        inputs = outputs
        of_layers.append(torch.stack(inputs))
    return of_layers


@torch.no_grad()
def test_it_equals_its_equations(network: LSTM) -> None:
    tokens = [2, 7, 8, 7, 9, 3]
    batch, lengths = torch.tensor([tokens]), torch.tensor([6])
    slow = definition(network, tokens)
    torch.testing.assert_close(network(batch, lengths)[0], slow[-1])
    fast = predict(network, Batch(batch, lengths, torch.arange(6)))
    torch.testing.assert_close(fast, slow[-1])
    for layer, outputs in enumerate(slow):
        torch.testing.assert_close(network(batch, lengths, layer)[0], outputs)
    torch.testing.assert_close(network.embed(batch)[0], slow[0])


@torch.no_grad()
def test_it_knows_the_past_alone(network: LSTM) -> None:
    """A token changes the vectors from its place on, and none before it."""
    tokens = torch.randint(5, 300, (1, 12))
    before = network(tokens, torch.tensor([12]))[0]
    for place in range(12):
        changed = tokens.clone()
        changed[0, place] = 4
        moved = (network(changed, torch.tensor([12]))[0] - before).abs().amax(-1) > 0
        assert moved.tolist() == [False] * place + [True] * (12 - place)


@torch.no_grad()
def test_branches_of_a_tree_do_not_see_each_other(network: LSTM) -> None:
    """2 7 8 and 2 7 9 5 are one tree, beside a row with padding."""
    tokens = torch.tensor([[2, 7, 8, 9, 5], [2, 9, 0, 0, 0]])
    depth = torch.tensor([[0, 1, 2, 2, 3], [0, 1, 0, 0, 0]])
    visible = torch.zeros(2, 5, 5, dtype=torch.bool)
    for node, seen in enumerate(([0], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 3, 4])):
        visible[0, node, seen] = True
    for node, seen in enumerate(([0], [0, 1])):
        visible[1, node, seen] = True
    at = torch.tensor([2, 4, 6])
    batch = Batch(tokens, torch.tensor([5, 2]), at, Tree(depth, visible))
    paths = ([2, 7, 8], [2, 7, 9, 5], [2, 9])
    for vector, path in zip(predict(network, batch), paths, strict=True):
        torch.testing.assert_close(vector, definition(network, path)[-1][-1])


@pytest.mark.parametrize("budget", [None, 40])
@pytest.mark.parametrize("kind", ["lstm", "lstm-bw"])
def test_scores_equal_the_definition(
    kind: str, budget: int | None, models: dict[str, Path]
) -> None:
    """Lists are read as trees; the definition reads a sentence at a time."""
    slow, tokenizer = checkpoint.load(models[kind])
    assert isinstance(slow, LSTM)
    slow.double()
    lm = loaded(kind, models, budget)
    assert reads_trees(network_of(lm).network)
    for text, scores in zip(TEXTS, lm.score(without_context(TEXTS)), strict=True):
        (ids,) = tokenizer.encode([text])
        if kind == "lstm-bw":
            ids = ids[::-1]
        sequence = [tokenizer.bos, *ids, tokenizer.eos]
        with torch.no_grad():
            hidden = definition(slow, sequence[:-1])[-1]
            logits = hidden @ slow.token_embedding.weight.T
        rows = torch.arange(len(sequence) - 1)
        expected = logits.log_softmax(-1)[rows, sequence[1:]].numpy()
        if kind == "lstm-bw":
            expected = expected[::-1]
        np.testing.assert_allclose(scores.log_probs, expected, atol=1e-4)


def loaded(kind: str, models: dict[str, Path], budget: int | None) -> LanguageModel:
    return load(f"{kind}:{models[kind]}", ComputeOptions(batch_tokens=budget))


def network_of(lm: LanguageModel) -> OwnNetwork:
    assert isinstance(lm, NetworkScorer)
    assert isinstance(lm.network, OwnNetwork)
    return lm.network


def test_layers_give_vectors(models: dict[str, Path]) -> None:
    """The context vector of a token is what the layer has at the token before it."""
    slow, tokenizer = checkpoint.load(models["lstm"])
    assert isinstance(slow, LSTM)
    slow.double()
    (ids,) = tokenizer.encode(["the old clock"])
    with torch.no_grad():
        of_layers = definition(slow, [tokenizer.bos, *ids])
    lm = loaded("lstm", models, None)
    for layer in (1, 3):
        options = VectorOptions(layers={layer: 1.0})
        ((_, vectors),) = Embedder([lm], options).tokens(["the old clock"])
        np.testing.assert_allclose(vectors, of_layers[layer][:-1], atol=1e-4)
    ((_, vectors),) = Embedder([lm], VectorOptions(kind="embed")).tokens(
        ["the old clock"]
    )
    np.testing.assert_allclose(vectors, of_layers[0][1:], atol=1e-4)


def test_it_has_embeddings_and_four_gates(network: LSTM, config: NetworkConfig) -> None:
    size = config.d_model
    gates = config.layers * (8 * size * size + 8 * size)
    count = sum(value.numel() for value in network.parameters())
    assert count == config.vocab_size * size + gates


def test_additions_of_the_configuration(config: NetworkConfig) -> None:
    """A LayerNorm on the embeddings, a transform and a bias before the softmax."""
    more = replace(config, embedding_norm=True, output_transform=True, output_bias=True)
    network = checkpoint.build(more.of_kind("lstm"))
    tokens, lengths = torch.tensor([[2, 7, 8]]), torch.tensor([3])
    with torch.no_grad():
        embedded = network.embed(tokens)
        whole, last = network(tokens, lengths), network(tokens, lengths, 3)
        at = torch.arange(3)
        fast = predict(network, Batch(tokens, lengths, at))
    assert embedded.std().item() == pytest.approx(1.0, abs=0.1)
    assert not torch.allclose(whole, last)
    torch.testing.assert_close(fast, whole[0])
    assert network.output_bias is not None


def test_cells_need_no_heads(config: NetworkConfig) -> None:
    assert replace(config, d_model=32, heads=4).of_kind("lstm", d_model=30).heads == 4
    with pytest.raises(UserError, match="cannot be divided among 4 heads"):
        replace(config, d_model=30)
    with pytest.raises(UserError, match="an lstm reads one sentence at a time"):
        config.of_kind("lstm", sentences=2)


def test_int8_leaves_the_cells(network: LSTM) -> None:
    """As docs/performance.md says."""
    before = {name: value.clone() for name, value in network.cells.state_dict().items()}
    convert(network, "int8")
    after = network.cells.state_dict()
    assert all(
        torch.equal(value.float(), after[name]) for name, value in before.items()
    )


@pytest.mark.parametrize("kind", ["lstm", "lstm-bw"])
def test_trained_resumed_and_compared(kind: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES[:80]), encoding="utf-8")
    NetworkConfig("tta", 300, layers=1, d_model=16, heads=2, d_ff=16).save(
        tmp_path / "tiny.json"
    )
    train = ("train", "--lm", kind, "--text", "text", "--config", "tiny.json")
    train += ("--held-out", "5", "--batch-tokens", "300", "--precision", "float32")
    train += ("--device", "cpu", "--learning-rate", "1e-2")
    first = rescore(*train, "--steps", "20", "--out", "lm")
    assert first.returncode == 0 and "perplexity" in first.stderr, first.stderr
    again = rescore(*train, "--steps", "60", "--out", "lm", "--resume")
    assert loss(again.stderr) < loss(first.stderr)
    assert_one_line_error(
        rescore(*train, "--context", "1", "--out", "x"),
        f"train --lm {kind} takes no --context; give it to --lm tta",
    )
    lists = some_lists(tmp_path, "test", 12)
    compared = rescore("compare", lists, "--lm", f"{kind}:lm", "--dev", lists)
    assert compared.returncode == 0 and kind in compared.stdout, compared.stderr
    scored = rescore("score", lists, "--lm", f"{kind}:lm")
    record = json.loads(scored.stdout.splitlines()[-1])
    assert record["hyps"][0]["scores"][kind] < 0


def loss(log: str) -> float:
    """Return the last validation loss of a training's messages."""
    return float(log.rpartition("validation loss ")[2].split()[0])
