"""The network of A3T: what it sees, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rescore.errors import UserError
from rescore.research.a3t.layers import sinusoids
from rescore.research.a3t.network import (
    A3tConfig,
    A3tNetwork,
    Batch,
    Example,
    padded,
)

CONFIG = A3tConfig(
    units=("a", "b", "c"),
    rate=8_000,
    bands=20,
    d_model=16,
    layers=1,
    heads=2,
    alignment=True,
    conformer=True,
    post_net=True,
    mean=0.0,
    deviation=1.0,
)


def example(units: list[int], frames: int, seed: int = 0) -> Example:
    generator = torch.Generator().manual_seed(seed)
    owners = torch.arange(frames) * len(units) // frames + 1
    return Example(
        torch.randn(frames, CONFIG.bands, generator=generator),
        torch.tensor(units, dtype=torch.long),
        owners if units else torch.zeros(frames, dtype=torch.long),
    )


def network(config: A3tConfig) -> A3tNetwork:
    torch.manual_seed(1)
    return A3tNetwork(config).eval()


def refined(model: A3tNetwork, one: Example, hidden: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        result: torch.Tensor = model(Batch.of([one]), hidden[None])[1][0]
    return result


@pytest.mark.parametrize("conformer", [True, False])
def test_an_utterance_does_not_depend_on_its_batch(conformer: bool) -> None:
    model = network(replace(CONFIG, conformer=conformer))
    short, long = example([1, 2], 30), example([3, 1, 2, 2, 3], 70, 2)
    masks = [torch.arange(len(one.frames)) % 20 < 10 for one in (short, long)]
    with torch.inference_mode():
        together = model(Batch.of([short, long]), padded(masks))[1]
    alone = refined(model, short, masks[0])
    assert torch.allclose(together[0, :30], alone, atol=1e-5)


@pytest.mark.parametrize("conformer", [True, False])
def test_masked_frames_are_not_seen_but_the_text_is(conformer: bool) -> None:
    model = network(replace(CONFIG, conformer=conformer))
    one = example([1, 2], 30)
    hidden = torch.arange(30) % 20 < 10
    result = refined(model, one, hidden)
    changed = torch.where(hidden[:, None], one.frames + 5, one.frames)
    same = refined(model, replace(one, frames=changed), hidden)
    assert torch.allclose(same, result, atol=1e-6)
    for other in (
        replace(one, frames=torch.where(hidden[:, None], one.frames, changed + 5)),
        replace(one, units=torch.tensor([1, 3])),
        replace(one, units=torch.tensor([1, 0])),  # an unknown unit
        replace(one, units=torch.tensor([1])),
    ):
        assert not torch.allclose(refined(model, other, hidden), result, atol=1e-4)


def test_alignment_embeddings_are_all_that_alignments_change() -> None:
    one = example([1, 2, 3], 40)
    moved = replace(one, owners=one.owners.roll(5))
    hidden = torch.arange(40) < 20
    for alignment in (True, False):
        model = network(replace(CONFIG, alignment=alignment))
        before, after = refined(model, one, hidden), refined(model, moved, hidden)
        assert torch.allclose(before, after) != alignment


def test_frames_find_their_units_before_any_training() -> None:
    """A masked frame attends most to the unit with its alignment embedding."""
    config = replace(CONFIG, d_model=96)
    model = network(config)
    one = example([1, 2, 3, 1], 40)
    weights: list[torch.Tensor] = []
    attention = model.blocks[0].attention
    forward = attention.forward

    def look(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **more: object
    ) -> object:
        result = forward(query, key, value, **(more | {"need_weights": True}))
        weights.append(result[1])
        return result

    attention.forward = look
    with torch.no_grad():
        model(Batch.of([one]), torch.ones(1, 40, dtype=torch.bool))
    to_units = weights[0][0, :40, 40:].argmax(1)
    right = (to_units == one.owners - 1).float().mean()
    assert float(right) > 0.9


def test_empty_texts_are_read() -> None:
    model = network(CONFIG)
    hidden = torch.arange(30) < 10
    result = refined(model, example([], 30), hidden)
    assert result.shape == (30, 20) and result.isfinite().all()
    both = Batch.of([example([], 30), example([1], 30)])
    with torch.inference_mode():
        together = model(both, hidden.expand(2, -1))[1][0]
    assert torch.allclose(together, result, atol=1e-5)


def test_positions() -> None:
    """sin(place / 10,000^(2i / width)), and cosines between them."""
    table = sinusoids(7, 6)
    assert table.shape == (7, 6)
    expected = torch.tensor(5.0) / 10_000 ** (2 / 6)
    assert float(table[5, 2]) == pytest.approx(float(expected.sin()))
    assert float(table[5, 3]) == pytest.approx(float(expected.cos()))


def test_parts_that_are_left_out() -> None:
    plain = network(replace(CONFIG, alignment=False, conformer=False, post_net=False))
    names = " ".join(plain.state_dict())
    assert not any(part in names for part in ("alignment", "convolution", "post_net"))
    with torch.inference_mode():
        hidden = torch.ones(1, 30, dtype=torch.bool)
        first, last = plain(Batch.of([example([1], 30)]), hidden)
    assert torch.equal(first, last)
    with pytest.raises(UserError, match="units is empty"):
        replace(CONFIG, units=())
