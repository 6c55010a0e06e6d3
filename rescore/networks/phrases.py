"""Phrase keys: what a T-TA looks at is a token with the two before it, or with the two behind it.

Keys and values of the paper's T-TA are single tokens, so no layer sees a phrase. Here each token has two of them: from
the left, E(x_j) + P_j + f(x_j, x_j-1, x_j-2), which only positions behind j look at, and from the right, E(x_j) + P_j +
g(x_j, x_j+1, x_j+2), for positions before j. So position i still knows nothing of token i, and one pass is enough. The
first query at i is P_i plus what the phrases on both sides of i add to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.networks.transformer import padding_mask

WIDTH = 3
"""Tokens in a phrase."""


class Keys(NamedTuple):
    """What one side has found in some sequences."""

    vectors: Tensor
    """(k, d): E(token) + f of each phrase."""
    which: Tensor
    """(batch, n): the phrase of each position."""
    added: Tensor
    """(k + 1, d): what each phrase adds to the query of the next position; the last one is none."""
    beside: Tensor
    """(batch, n): the phrase next to each position."""


class Phrases(nn.Module):
    """One side: f(a, b, c) = K gelu(A E(a) + B E(b) + C E(c) + bias), and the same with another K for the query.

    Both K are zero at first, so that weights of a T-TA without phrases fit, and compute what they did.
    """

    def __init__(self, d_model: int, units: int, none: int) -> None:
        """none: a number that no token has, for what lies beyond the sequence; all tokens are below it."""
        super().__init__()
        self.none = none
        self.words = nn.Linear(d_model, WIDTH * units, bias=False)
        self.bias = nn.Parameter(torch.zeros(units))
        self.key = nn.Linear(units, d_model, bias=False)
        self.query = nn.Linear(units, d_model, bias=False)
        nn.init.xavier_uniform_(self.words.weight)
        nn.init.zeros_(self.key.weight)
        nn.init.zeros_(self.query.weight)

    def forward(self, tokens: Tensor, backwards: bool, embed: Callable[[Tensor], Tensor], distinct: bool) -> Keys:
        """Find the phrases of tokens (batch, n), with `none` as padding.

        Args:
            backwards: they stand behind their token, not before it.
            embed: of tokens of any shape -> (..., d).
            distinct: find phrases that stand in several places, as in an N-best list, and compute them once.
        """
        steps = [-k if backwards else k for k in range(WIDTH)]
        found = torch.stack([shifted(tokens, step, self.none) for step in steps], -1)
        if distinct:
            base = self.none + 1
            numbers = (found[..., 0] * base + found[..., 1]) * base + found[..., 2]
            numbers, which = numbers.unique(return_inverse=True)
            found = torch.stack([numbers // base**2, numbers // base % base, numbers % base], -1)
        else:
            found, which = found.flatten(0, 1), torch.arange(tokens.numel(), device=tokens.device).view(tokens.shape)
        units = self.units(found, embed)
        added = self.query(units) * (found[:, :1] < self.none)
        vectors = embed(found[:, 0].clamp_max(self.none - 1)) + self.key(units)
        return Keys(vectors, which, F.pad(added, (0, 0, 0, 1)), shifted(which, -1 if backwards else 1, len(found)))

    def units(self, phrases: Tensor, embed: Callable[[Tensor], Tensor]) -> Tensor:
        """(k, WIDTH), the nearest token first -> (k, units)."""
        words, which = phrases.unique(return_inverse=True)  # each is multiplied once
        table = self.words(embed(words.clamp_max(self.none - 1))) * (words < self.none)[:, None]
        found = self.bias.to(table.dtype)
        for place, part in enumerate(table.chunk(WIDTH, dim=-1)):
            found = found + F.embedding(which[:, place], part)
        return F.gelu(found)


def shifted(grid: Tensor, step: int, fill: int) -> Tensor:
    """grid (batch, n), `step` places to the right, or to the left where it is negative."""
    return F.pad(grid, (step, -step), value=fill)


def before_and_behind(lengths: Tensor, columns: Tensor, size: int) -> Tensor:
    """(batch, ..., 2 n), True where a query at `columns` (batch or 1, ...) may look: at keys from the left that stand
    before it, and at those from the right behind it."""
    places = torch.arange(size, device=lengths.device)
    real = padding_mask(lengths, size).view(-1, *[1] * (columns.dim() - 1), size)
    return torch.cat([(places < columns[..., None]) & real, (places > columns[..., None]) & real], dim=-1)
