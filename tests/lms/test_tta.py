"""The T-TA is what the paper says: self-unknown, independent of padding and neighbours,
equal to its definition.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.lms.config import NAMED, NetworkConfig
from rescore.lms.fast import Batch, convert, predict
from rescore.lms.networks import TTA, Block

VOCABULARY, SIZE = 50, 16
SENTENCE = st.lists(st.integers(5, VOCABULARY - 1), min_size=1, max_size=SIZE - 2)


AUTHORS: dict[str, Any] = {
    "embedding_norm": True,
    "output_transform": True,
    "output_bias": True,
    "first_query": "mask",
}
"""What the authors' released code has beside the paper's equations."""


WAYS = st.sampled_from([{}, AUTHORS])


def network(seed: int, dtype: torch.dtype = torch.float32, **options: Any) -> TTA:
    torch.manual_seed(seed)
    config = NetworkConfig(
        "tta",
        VOCABULARY,
        layers=3,
        d_model=16,
        heads=2,
        d_ff=32,
        max_positions=SIZE,
        **options,
    )
    made = TTA(config).to(dtype).eval()
    with torch.no_grad():  # biases and norms are trained too: none may leak a token
        for value in made.parameters():
            if value.dim() == 1:
                value.add_(torch.randn_like(value) * 0.1)
    return made


def framed(sentence: list[int]) -> torch.Tensor:
    return torch.tensor([[2, *sentence, 3]])


def hidden(
    made: TTA, tokens: torch.Tensor, lengths: list[int] | None = None
) -> torch.Tensor:
    with torch.no_grad():
        return made(tokens, torch.tensor(lengths or [tokens.shape[1]] * len(tokens)))


@settings(max_examples=40, deadline=None)
@given(SENTENCE, st.integers(0, 100), WAYS, st.data())
def test_self_unknown(
    sentence: list[int], seed: int, options: dict[str, Any], data: st.DataObject
) -> None:
    made = network(seed, **options)
    before = hidden(made, framed(sentence))[0]
    for position in range(1, len(sentence) + 1):
        old = sentence[position - 1]
        other = data.draw(
            st.sampled_from([token for token in range(5, VOCABULARY) if token != old])
        )
        changed = framed(sentence)
        changed[0, position] = other
        difference = (hidden(made, changed)[0] - before).abs().amax(-1)
        assert difference[position] < 1e-6
        elsewhere = torch.cat([difference[:position], difference[position + 1 :]])
        assert (elsewhere > 1e-6).all()  # every other position saw the change


@settings(max_examples=20, deadline=None)
@given(SENTENCE, SENTENCE, st.integers(0, 100), WAYS)
def test_padding_and_neighbours_change_nothing(
    sentence: list[int], neighbour: list[int], seed: int, options: dict[str, int]
) -> None:
    made = network(seed, **options)
    alone = hidden(made, framed(sentence))[0]
    tokens = torch.zeros((2, SIZE), dtype=torch.long)
    for row, one in zip(tokens, (sentence, neighbour), strict=True):
        row[: len(one) + 2] = framed(one)[0]
    together = hidden(made, tokens, [len(sentence) + 2, len(neighbour) + 2])[
        0, : len(sentence) + 2
    ]
    assert torch.allclose(alone, together, atol=1e-5)


def definition(made: TTA, tokens: list[int]) -> torch.Tensor:
    """Equations (1) and (2), a position, a head and a key at a time."""
    config, size = made.config, len(tokens)
    positions = made.position_embedding.weight
    memory = [
        made.embedding_norm(made.token_embedding.weight[token] + positions[index])
        for index, token in enumerate(tokens)
    ]
    query = [positions[index] for index in range(size)]
    # the released code's constant token, [MASK], at each position
    if config.first_query == "mask":
        query = [
            made.embedding_norm(made.token_embedding.weight[4] + position)
            for position in query
        ]
    width = config.d_model // config.heads
    for block in made.blocks:
        attention = block.attention
        updated = []
        for index in range(size):
            heads = []
            for head in range(config.heads):
                part = slice(head * width, (head + 1) * width)
                asked = attention.query(query[index])[part]
                others = [other for other in range(size) if other != index]
                seen = [memory[other] for other in others]
                logits = torch.stack(
                    [
                        asked @ attention.key(one)[part] / math.sqrt(width)
                        for one in seen
                    ]
                )
                values = torch.stack([attention.value(one)[part] for one in seen])
                heads.append(logits.softmax(0) @ values)
            context = attention.output(torch.cat(heads))
            state = block.attention_norm(query[index] + context)
            inner = block.fc2(torch.nn.functional.gelu(block.fc1(state)))
            updated.append(block.feed_forward_norm(state + inner))
        query = updated
    return made.output_transform(torch.stack(query))


@pytest.mark.parametrize("options", [{}, AUTHORS], ids=["paper", "released code"])
@pytest.mark.parametrize("sentence", [[7], [5, 6, 7, 8], [9] * 14])
def test_equals_the_definition(sentence: list[int], options: dict[str, Any]) -> None:
    made = network(0, torch.float64, **options)
    tokens = framed(sentence)
    with torch.no_grad():
        slow = definition(made, tokens[0].tolist())
    assert torch.allclose(hidden(made, tokens)[0], slow, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(SENTENCE, min_size=1, max_size=4), st.booleans(), WAYS, st.data())
def test_predicts_what_is_defined(
    sentences: list[list[int]],
    together: bool,
    options: dict[str, int],
    data: st.DataObject,
) -> None:
    made = network(1, **options, sentences=4)
    if together:  # one window of several sentences
        flat = [
            token + n * VOCABULARY
            for n, one in enumerate(sentences)
            for token in (2, *one, 3)
        ]
        tokens, lengths = torch.tensor([flat]), torch.tensor([len(flat)])
    else:
        lengths = torch.tensor([len(one) + 2 for one in sentences])
        tokens = torch.zeros((len(sentences), int(lengths.max())), dtype=torch.long)
        for row, one in zip(tokens, sentences, strict=True):
            row[: len(one) + 2] = framed(one)[0]
    inner = (tokens % VOCABULARY > 4).flatten().nonzero()[:, 0].tolist()
    asked = torch.tensor(sorted(data.draw(st.sets(st.sampled_from(inner), min_size=1))))
    with torch.no_grad():
        fast = predict(made, Batch(tokens, lengths, asked))
        assert torch.allclose(
            fast, made(tokens, lengths).flatten(0, 1)[asked], atol=1e-5
        )


@pytest.mark.parametrize(("precision", "error"), [("float32", 1e-4), ("int8", 0.5)])
def test_packed_weights_predict_alike(precision: str, error: float) -> None:
    made, tokens = network(0).half().float(), framed([5, 6, 7, 8])
    batch = Batch(tokens, torch.tensor([6]), torch.arange(1, 5))
    with torch.no_grad():
        before = predict(made, batch)
        convert(made, precision)
        blocks = [one for one in made.modules() if isinstance(one, Block)]
        assert len(blocks) == 3
        # packed
        assert not any(isinstance(block.fc1, torch.nn.Linear) for block in blocks)
        assert (predict(made, batch) - before).abs().max() < error


def test_named_sizes_are_the_papers() -> None:
    base = NAMED["base"]()
    assert (base.layers, base.d_model, base.heads, base.d_ff, base.max_positions) == (
        3,
        512,
        8,
        2048,
        128,
    )
    made = TTA(NAMED["small"]())
    assert sum(
        value.numel() for value in made.parameters()
    ) == 8000 * 256 + 128 * 256 + 3 * (
        4 * (256 * 256 + 256) + (256 * 1024 + 1024) + (1024 * 256 + 256) + 4 * 256
    )
