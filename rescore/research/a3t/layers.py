"""Layers that both networks use: Conformer blocks, Transformer blocks, positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def sinusoids(length: int, width: int) -> Tensor:
    """Return position embeddings (Vaswani et al. 2017).

    Returns:
        (length, width).
    """
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class FeedForward(nn.Module):
    """The position-wise layer of a block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, states: Tensor) -> Tensor:
        return self.narrow(F.silu(self.wide(self.norm(states))))


class Convolution(nn.Module):
    """The convolution module of a Conformer (Gulati et al. 2020).

    It normalises layers where the paper normalises batches: the output for an utterance
    must not depend on its batch.
    """

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, 2 * width)
        self.depthwise = nn.Conv1d(
            width, width, kernel, padding=kernel // 2, groups=width
        )
        self.inner = nn.LayerNorm(width)
        self.out = nn.Linear(width, width)

    def forward(self, states: Tensor, used: Tensor, sizes: Sequence[int]) -> Tensor:
        gated = F.glu(self.gate(self.norm(states))) * used[..., None]
        parts = gated.transpose(1, 2).split(list(sizes), dim=-1)
        mixed = torch.cat([self.depthwise(part) for part in parts], dim=-1)
        return self.out(F.silu(self.inner(mixed.transpose(1, 2))))


class Block(nn.Module):
    """A Conformer block (thesis, Figure 4.3b), or a Transformer block.

    A Conformer block is half a feed-forward layer, attention, convolution, and half a
    feed-forward layer. A Transformer block is attention and a feed-forward layer. Each
    normalises its input and its output.
    """

    def __init__(self, width: int, heads: int, kernel: int | None) -> None:
        """
        Args:
            kernel: Width of the convolution; None for a Transformer block.
        """
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.after = FeedForward(width)
        self.last = nn.LayerNorm(width)
        self.is_conformer = kernel is not None
        if kernel is not None:
            self.before = FeedForward(width)
            self.convolution = Convolution(width, kernel)

    def forward(self, states: Tensor, used: Tensor, sizes: Sequence[int]) -> Tensor:
        """Return the states after the block.

        Args:
            states: (utterances, places, width).
            used: Which places are no padding, (utterances, places).
            sizes: How many places each modality has; convolutions do not mix them.
        """
        if self.is_conformer:
            states = states + 0.5 * self.before(states)
        normed = self.norm(states)
        heard, _ = self.attention(
            normed, normed, normed, key_padding_mask=~used, need_weights=False
        )
        states = states + heard
        if not self.is_conformer:
            return self.last(states + self.after(states))
        states = states + self.convolution(states, used, sizes)
        return self.last(states + 0.5 * self.after(states))
