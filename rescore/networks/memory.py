"""An n-gram memory: vectors of the neighbours of a position, in a table that a hash of their ids looks up.

Keys and values of a T-TA are single tokens, so no layer sees a phrase. Here the first query at position i depends on
the two tokens beside i and on three pairs of neighbours. None of them is token i, so the network stays self-unknown.
Hashed n-gram embeddings are those of Huang et al. 2025 (Over-Tokenized Transformer, arXiv 2501.16975), which in their
causal network have the tokens up to i.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

PAIRS = ((-1, 1), (-2, -1), (1, 2))
"""The pairs, as distances to i."""
BESIDE = (-1, 1)
"""The single tokens, as distances to i."""
WIDTH = 64
"""Of a row of the table."""
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 over the golden ratio (Knuth, multiplicative hashing), as a signed number


class Neighbours(NamedTuple):
    """The neighbours of some positions."""

    rows: Tensor
    """(..., 3): of the table, for each of `PAIRS`."""
    beside: Tensor
    """(..., 2): token ids for each of `BESIDE`; the vocabulary's size where the sentence has none."""

    def at(self, where: Tensor) -> Neighbours:
        """The same at some of the positions, which are counted row by row."""
        return Neighbours(self.rows.flatten(0, 1)[where], self.beside.flatten(0, 1)[where])


class NgramMemory(nn.Module):
    """Adds W [m(i-1, i+1); m(i-2, i-1); m(i+1, i+2)] + U e(i-1) + V e(i+1); all zero at first."""

    def __init__(self, rows: int, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.table_embedding = nn.Embedding(rows, WIDTH)
        self.project = nn.Linear(len(PAIRS) * WIDTH, d_model, bias=False)
        self.beside = nn.Linear(d_model, len(BESIDE) * d_model, bias=False)
        nn.init.normal_(self.table_embedding.weight)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.beside.weight)

    def neighbours(self, tokens: Tensor, lengths: Tensor) -> Neighbours:
        """Of every position of tokens (batch, n), lengths (batch,). A neighbour in another sentence is none."""
        near = {distance: self._near(tokens, lengths, distance) for pair in PAIRS for distance in pair}
        rows = [
            hashed(near[first], near[second], number, self.vocab_size, self.table_embedding.num_embeddings)
            for number, (first, second) in enumerate(PAIRS)
        ]
        return Neighbours(torch.stack(rows, -1), torch.stack([near[distance] for distance in BESIDE], -1))

    def _near(self, tokens: Tensor, lengths: Tensor, distance: int) -> Tensor:
        """(batch, n): the token at i + distance; where there is none, the vocabulary's size."""
        size = tokens.shape[1]
        places = torch.arange(size, device=tokens.device) + distance
        there = tokens[:, places.clamp(0, size - 1)]
        same = (there // self.vocab_size == tokens // self.vocab_size) & (places >= 0) & (places < lengths[:, None])
        return torch.where(same, there % self.vocab_size, self.vocab_size)

    def forward(self, near: Neighbours, embeddings: Tensor) -> Tensor:
        """Compute what is added to the first queries (..., d), given the tokens' embeddings (vocabulary, d)."""
        added = self.project(self.table_embedding(near.rows).flatten(-2))
        # Each distinct token is multiplied once, as in `TTA.predict`; the one behind the last stands for none.
        distinct, which = near.beside.unique(return_inverse=True)
        there = (distinct < self.vocab_size)[:, None]
        vectors = embeddings[distinct.clamp_max(self.vocab_size - 1)] * there
        for number, part in enumerate(self.beside(vectors).chunk(len(BESIDE), dim=-1)):
            added = added + nn.functional.embedding(which[..., number], part)
        return cast(Tensor, added)


def hashed(first: Tensor, second: Tensor, pair: int, vocab_size: int, rows: int) -> Tensor:
    """The row of a table of `rows` for two tokens, or none, at the distances of `PAIRS[pair]`."""
    key = (first * (vocab_size + 1) + second) * len(PAIRS) + pair
    return ((key * _ODD) >> 32 & 0x7FFFFFFF) % rows
