"""The LSTM is what its equations say, and reads trees of prefixes as it reads sequences."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, Tree, convert, predict
from rescore.research.lstm import LSTM


def network(config: NetworkConfig) -> LSTM:
    torch.manual_seed(2)
    made = checkpoint.build(replace(config, kind="lstm"))
    assert isinstance(made, LSTM)
    return made.double().eval()


def definition(made: LSTM, tokens: list[int]) -> torch.Tensor:
    """Hochreiter and Schmidhuber's cells with a forget gate (Gers et al. 2000), a token and a gate at a time."""
    inputs = [made.token_embedding.weight[token] for token in tokens]
    for layer in made.cells:
        biases = layer.bias_ih_l0 + layer.bias_hh_l0
        parts = (values.chunk(4) for values in (layer.weight_ih_l0, layer.weight_hh_l0, biases))
        gates = list(zip(*parts, strict=True))
        hidden = cell = torch.zeros(made.config.d_model, dtype=torch.float64)
        outputs = []
        for vector in inputs:
            i, f, g, o = (read @ vector + recurrent @ hidden + bias for read, recurrent, bias in gates)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            outputs.append(hidden)
        inputs = outputs
    return torch.stack(inputs)


def test_equals_its_equations(config: NetworkConfig) -> None:
    made = network(config)
    tokens = [2, 7, 8, 7, 9, 3]
    with torch.no_grad():
        slow = definition(made, tokens)
        torch.testing.assert_close(made(torch.tensor([tokens]), torch.tensor([6]))[0], slow)
        found = predict(made, Batch(torch.tensor([tokens]), torch.tensor([6]), torch.arange(6)))
        torch.testing.assert_close(found, slow)


def test_the_past_alone_is_known(config: NetworkConfig) -> None:
    """A later token changes nothing, an earlier one does."""
    made = network(config)
    tokens = torch.randint(5, 300, (1, 12))
    with torch.no_grad():
        before = made(tokens, torch.tensor([12]))[0]
        for place in range(12):
            changed = tokens.clone()
            changed[0, place] = 4
            moved = (made(changed, torch.tensor([12]))[0] - before).abs().amax(-1) > 0
            assert moved.tolist() == [False] * place + [True] * (12 - place)


def test_branches_of_a_tree_do_not_see_each_other(config: NetworkConfig) -> None:
    """2 7 8 and 2 7 9 5 as a tree, in another order than that of depth, beside a row of padding."""
    made = network(config)
    tokens, depth = torch.tensor([[2, 7, 8, 9, 5], [2, 9, 0, 0, 0]]), torch.tensor([[0, 1, 2, 2, 3], [0, 1, 0, 0, 0]])
    visible = torch.zeros(2, 5, 5, dtype=torch.bool)
    for node, ancestors in enumerate(([0], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 3, 4])):
        visible[0, node, ancestors] = True
    visible[1, 0, 0] = visible[1, 1, 0] = visible[1, 1, 1] = True
    with torch.no_grad():
        found = predict(made, Batch(tokens, torch.tensor([5, 2]), torch.tensor([2, 4, 6]), Tree(depth, visible)))
        for vector, path in zip(found, ([2, 7, 8], [2, 7, 9, 5], [2, 9]), strict=True):
            torch.testing.assert_close(vector, made(torch.tensor([path]), torch.tensor([len(path)]))[0, -1])


def test_no_tensor_is_for_nothing(config: NetworkConfig) -> None:
    """Embeddings and four gates a layer; no attention, no positions."""
    wide = config.d_model
    count = sum(value.numel() for value in network(config).parameters())
    assert count == config.vocab_size * wide + config.layers * (8 * wide * wide + 8 * wide)


def test_cells_need_no_heads(config: NetworkConfig) -> None:
    assert network(replace(config, kind="lstm", d_model=30, heads=4)).config.d_model == 30
    with pytest.raises(UserError, match="cannot be divided among 4 heads"):
        replace(config, kind="unilm", d_model=30, heads=4)


def test_int8_leaves_the_cells(config: NetworkConfig) -> None:
    """As docs/performance.md says."""
    made = network(config)
    before = {name: value.clone() for name, value in made.cells.state_dict().items()}
    convert(made, "int8")
    assert all(torch.equal(value, before[name]) for name, value in made.cells.state_dict().items())
