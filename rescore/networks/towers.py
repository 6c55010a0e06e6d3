"""Two causal towers, one from each side, under a T-TA (Baevski et al. 2019, Cloze-driven pretraining, section 3).

A T-TA's keys and values are single tokens. Here they are what the left tower makes of the tokens up to j, and the right
one of those from j on. Position i looks at the left tower's states before i and at the right one's behind i, so it
still knows nothing of token i; one pass is still enough for all positions.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from rescore.networks.batch import Packing
from rescore.networks.config import NetworkConfig
from rescore.networks.transformer import Block, additive, attend, padding_mask


class Towers(nn.Module):
    """`config.towers` blocks from the left, and as many others from the right."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.left = nn.ModuleList(Block(config) for _ in range(config.towers))
        self.right = nn.ModuleList(Block(config) for _ in range(config.towers))
        self.join = nn.Linear(2 * config.d_model, config.d_model)

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """embedded (batch, n, d), lengths (batch,) -> states (batch, 2 n, d), the left tower's first."""
        size = embedded.shape[1]
        real = padding_mask(lengths, size)[:, None, None, :]
        found = []
        for tower, visible in ((self.left, up_to(size, embedded)), (self.right, up_to(size, embedded).T)):
            state = embedded
            mask = visible & (real | torch.eye(size, dtype=torch.bool, device=embedded.device))
            for block in tower:
                state = block(state, state, mask)
            found.append(state.masked_fill(~real[:, 0].mT, 0.0))  # nothing stands behind [EOS]
        return torch.cat(found, dim=1)

    def fast(self, real: Packing, embedded: Tensor, lengths: Tensor) -> Tensor:
        """The same without gradients, for the positions that are no padding: embedded (k, d)."""
        size = real.shape[1]
        found = []
        for tower, visible in ((self.left, up_to(size, embedded)), (self.right, up_to(size, embedded).T)):
            state = embedded
            mask = additive(visible & padding_mask(lengths, size)[:, None, :], embedded.dtype)
            for block in (cast(Block, one) for one in tower):
                attention = block.attention
                query, key, value = (
                    real.pad(part(state)) for part in (attention.query, attention.key, attention.value)
                )
                state = block.finish(state, real.pack(attend(attention.heads, query, key, value, mask)))
            found.append(real.pad(state))
        return torch.cat(found, dim=1)

    def meet(self, states: Tensor) -> Tensor:
        """states (batch, 2 n, d) -> (batch, n, d): at i the left state before it and the right one behind it."""
        left, right = states.chunk(2, dim=1)
        before = nn.functional.pad(left[:, :-1], (0, 0, 1, 0))
        behind = nn.functional.pad(right[:, 1:], (0, 0, 0, 1))
        return cast(Tensor, self.join(torch.cat([before, behind], dim=-1)))


def up_to(size: int, like: Tensor) -> Tensor:
    """(n, n), True at [i, j] where j is i or stands before it."""
    return torch.ones(size, size, dtype=torch.bool, device=like.device).tril()


def on_both_sides(lengths: Tensor, columns: Tensor, size: int) -> Tensor:
    """(batch, ..., 2 n), True where a query at `columns` (batch or 1, ...) may look: see `Towers.forward`."""
    places = torch.arange(size, device=lengths.device)
    real = padding_mask(lengths, size).view(-1, *[1] * (columns.dim() - 1), size)
    return torch.cat([(places < columns[..., None]) & real, (places > columns[..., None]) & real], dim=-1)
