"""What a network is asked: sequences, and the positions at which something is predicted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Tree(NamedTuple):
    """Sequences that share prefixes, packed into one: each node stands once, behind its parent."""

    depth: Tensor
    """(batch, n): the position of each node in its sequence."""
    visible: Tensor
    """(batch, n, n), True at [i, j] where j is i or one of its ancestors."""


class Batch(NamedTuple):
    """Sequences of different lengths, and where they are to be read off."""

    tokens: Tensor
    """(batch, n), padded behind."""
    lengths: Tensor
    """(batch,)."""
    at: Tensor
    """(k,), ascending: the positions whose hidden vectors are wanted, counted row by row (row * n + column)."""
    tree: Tree | None = None

    def to(self, device: torch.device) -> Batch:
        tree = self.tree and Tree(*(part.to(device) for part in self.tree))
        return Batch(self.tokens.to(device), self.lengths.to(device), self.at.to(device), tree)


class Packing:
    """Some positions of a (rows, columns) grid, one after another: those that are worth computing."""

    def __init__(self, at: Tensor, rows: int, columns: int) -> None:
        """at: (k,), ascending, as in `Batch`."""
        self.at, self.shape = at, (rows, columns)
        self._whole = len(at) == rows * columns

    def pad(self, packed: Tensor) -> Tensor:
        """(k, d) -> (rows, columns, d), zero elsewhere."""
        if self._whole:
            return packed.view(*self.shape, -1)
        grid = packed.new_zeros(self.shape[0] * self.shape[1], packed.shape[-1])
        return grid.index_copy_(0, self.at, packed).view(*self.shape, -1)

    def pack(self, grid: Tensor) -> Tensor:
        """(rows, columns, d) -> (k, d)."""
        flat = grid.flatten(0, 1)
        return flat if self._whole else flat.index_select(0, self.at)


def real_positions(batch: Batch) -> Tensor:
    """The positions that are no padding, as in `Batch.at`."""
    columns = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    return (columns < batch.lengths[:, None]).flatten().nonzero().squeeze(-1)
