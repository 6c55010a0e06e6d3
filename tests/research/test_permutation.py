"""A permutation language model is the chain rule in any order: nothing that comes later in the order is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, predict
from rescore.lms.networks import TTA
from rescore.research.permutation import Permutation

VOCABULARY, SIZE = 50, 16
ORDER = st.integers(1, SIZE - 2).flatmap(lambda length: st.permutations(range(1, length + 1)))
"""The places of a sentence's tokens, first that which is predicted first."""


def network(seed: int) -> Permutation:
    torch.manual_seed(seed)
    config = NetworkConfig("permutation", VOCABULARY, layers=3, d_model=16, heads=2, d_ff=32, max_positions=SIZE)
    made = Permutation(config).double().eval()
    with torch.no_grad():
        for value in made.parameters():
            if value.dim() == 1:
                value.add_(torch.randn_like(value) * 0.1)
    return made


def ranked(tokens: list[int], order: list[int]) -> torch.Tensor:
    """[BOS] tokens [EOS], numbered by their ranks."""
    found = torch.tensor([[2, *tokens, 3]])
    for rank, place in enumerate(order):
        found[0, place] += (rank + 1) * VOCABULARY
    return found


def words(order: list[int], seed: int) -> list[int]:
    return torch.randint(5, VOCABULARY, (len(order),), generator=torch.Generator().manual_seed(seed)).tolist()


def definition(made: Permutation, tokens: list[int], order: list[int]) -> list[torch.Tensor]:
    """The chain rule, a factor at a time: the log-probabilities (vocabulary,) at the place that comes next, of a
    network that is given the frame and the tokens of the places before it, and no other."""
    found = []
    frame = [(0, 2), (len(tokens) + 1, 3)]
    position, width = made.position_embedding.weight, made.config.d_model // made.config.heads
    for step, place in enumerate(order):
        known = [*frame, *((before, tokens[before - 1]) for before in order[:step])]
        memory = torch.stack([made.token_embedding.weight[token] + position[where] for where, token in known])
        query = position[place]
        for block in made.layers():
            attention = block.attention
            heads = []
            for part in torch.arange(made.config.d_model).split(width):
                logits = attention.key(memory)[:, part] @ attention.query(query)[part] / math.sqrt(width)
                heads.append(logits.softmax(0) @ attention.value(memory)[:, part])
            state = block.attention_norm(query + attention.output(torch.cat(heads)))
            query = block.feed_forward_norm(state + block.fc2(torch.nn.functional.gelu(block.fc1(state))))
        found.append((made.token_embedding.weight @ query).log_softmax(-1))
    return found


@settings(max_examples=30, deadline=None)
@given(ORDER, st.integers(0, 100))
def test_equals_the_chain_rule(order: list[int], seed: int) -> None:
    made, tokens = network(seed), words(order, seed)
    batch = Batch(ranked(tokens, order), torch.tensor([len(tokens) + 2]), torch.arange(1, len(tokens) + 1))
    with torch.no_grad():
        slow = definition(made, tokens, order)
        for hidden in (made(batch.tokens, batch.lengths)[0, 1:-1], predict(made, batch)):
            found = (hidden @ made.token_embedding.weight.T).log_softmax(-1)
            for place, expected in zip(order, slow, strict=True):
                torch.testing.assert_close(found[place - 1], expected)
                assert found[place - 1].exp().sum().item() == pytest.approx(1.0)


@settings(max_examples=30, deadline=None)
@given(ORDER, st.integers(0, 100), st.data())
def test_later_tokens_are_unknown(order: list[int], seed: int, data: st.DataObject) -> None:
    """Another token at a place changes what is said of those behind it in the order, and of no other."""
    made, tokens = network(seed), words(order, seed)
    step = data.draw(st.integers(0, len(order) - 1))
    changed = list(tokens)
    changed[order[step] - 1] = 5 + (changed[order[step] - 1] - 4) % (VOCABULARY - 5)
    lengths = torch.tensor([len(tokens) + 2])
    with torch.no_grad():
        one, other = (made(ranked(some, order), lengths)[0] for some in (tokens, changed))
    moved = (one - other).abs().amax(-1) > 1e-12
    assert [bool(moved[place]) for place in order] == [rank > step for rank in range(len(order))]


def test_the_probabilities_of_all_sentences_are_one() -> None:
    """Of three words of a vocabulary of four, in one order, given the length."""
    torch.manual_seed(0)
    config = NetworkConfig("permutation", 4, layers=2, d_model=8, heads=2, d_ff=16, max_positions=6)
    made, order = Permutation(config).double().eval(), [2, 3, 1]
    total = 0.0
    with torch.no_grad():
        for number in range(4**3):
            tokens = [number // 16, number // 4 % 4, number % 4]
            inner = torch.tensor([[2, *tokens, 3]])
            for rank, place in enumerate(order):
                inner[0, place] += (rank + 1) * 4
            found = (made(inner, torch.tensor([5]))[0, 1:-1] @ made.token_embedding.weight.T).log_softmax(-1)
            total += math.exp(sum(found[place, token].item() for place, token in enumerate(tokens)))
    assert total == pytest.approx(1.0)


def test_without_an_order_it_is_a_tta() -> None:
    made = network(0)
    twin = TTA(replace(made.config, kind="tta")).double().eval()
    twin.load_state_dict(made.state_dict())
    tokens, lengths = torch.randint(5, VOCABULARY, (3, 9)), torch.tensor([9, 4, 7])
    with torch.no_grad():
        for row, length in enumerate(lengths):
            torch.testing.assert_close(made(tokens, lengths)[row, :length], twin(tokens, lengths)[row, :length])
