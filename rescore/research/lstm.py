"""The recurrent language model: layers of long short-term memory (Hochreiter and Schmidhuber 1997)."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, predict, real_positions
from rescore.lms.networks import Network, OutputTransform, initialise


class LSTM(Network):
    """Each layer has `d_model` cells; `heads` and `d_ff` are ignored, and position embeddings are absent.

    The hidden vector at position i depends on tokens 0 ... i and predicts token i + 1. Dropout is between the
    layers, not in the recurrence (Zaremba et al. 2014). The backward model is the same network on reversed sentences.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.embedding_norm = nn.LayerNorm(config.d_model) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(0.0)
        self.cells = nn.ModuleList(
            nn.LSTM(config.d_model, config.d_model, batch_first=True) for _ in range(config.layers)
        )
        self.output_transform = OutputTransform(config) if config.output_transform else nn.Identity()
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None
        self.apply(initialise)
        for layer in self.cells:  # at first nothing is forgotten (Jozefowicz et al. 2015)
            nn.init.ones_(cast(Tensor, layer.bias_ih_l0)[config.d_model : 2 * config.d_model])

    def embed(self, tokens: Tensor) -> Tensor:
        return cast(Tensor, self.embedding_norm(self.token_embedding(tokens)))

    def forward(self, tokens: Tensor, lengths: Tensor, layers: int | None = None) -> Tensor:
        hidden = self.dropout(self.embed(tokens))
        for layer in list(self.cells)[:layers]:
            hidden = self.dropout(layer(hidden)[0])  # padding stands behind, so real tokens do not see it
        return hidden if layers is not None else cast(Tensor, self.output_transform(hidden))


@predict.register
def _lstm(network: LSTM, batch: Batch) -> Tensor:
    """Nodes of a depth are computed together, each from the state of its parent, so sequences share the computation of
    a common beginning. The first layer's products are computed once for each distinct token."""
    nodes = _by_depth(batch)
    distinct, which = batch.tokens.flatten()[nodes.at].unique(return_inverse=True)
    hidden = network.embed(distinct)
    for number, layer in enumerate(network.cells):
        recurrent, bias = cast(Tensor, layer.weight_hh_l0), cast(Tensor, layer.bias_hh_l0)
        read = F.linear(hidden, cast(Tensor, layer.weight_ih_l0), cast(Tensor, layer.bias_ih_l0) + bias)
        read = read if number else read[which]
        hidden = read.new_zeros(len(read) + 1, network.config.d_model)  # the last row: before the first token
        cells = torch.zeros_like(hidden)
        start = 0
        for size in nodes.sizes:
            level = slice(start, start + size)
            parents = nodes.parents[level]
            gates = read[level] + F.linear(hidden[parents], recurrent)
            let_in, kept, new, out = gates.chunk(4, dim=-1)  # PyTorch's order
            cells[level] = kept.sigmoid() * cells[parents] + let_in.sigmoid() * new.tanh()
            hidden[level] = out.sigmoid() * cells[level].tanh()
            start += size
        hidden = hidden[:-1]
    return cast(Tensor, network.output_transform(hidden[nodes.rank[batch.at]]))


class _Nodes(NamedTuple):
    """The k real positions of a batch, grouped by depth, the roots first."""

    at: Tensor
    """(k,): the positions, counted row by row."""
    rank: Tensor
    """(rows * columns,): the place of a position among them."""
    parents: Tensor
    """(k,): the place of each one's parent; k for a root."""
    sizes: list[int]
    """Number of positions of each depth."""


def _by_depth(batch: Batch) -> _Nodes:
    rows, columns = batch.tokens.shape
    column = torch.arange(columns, device=batch.tokens.device).expand(rows, columns)
    if batch.tree is None:
        depth, parent = column, column - 1
    else:
        depth = batch.tree.depth
        above = batch.tree.visible & (depth[:, None, :] == depth[:, :, None] - 1)
        parent = above.int().argmax(-1)
    real = real_positions(batch)
    depths = depth.flatten()[real]
    order = depths.argsort(stable=True)
    at = real[order]
    rank = torch.zeros(rows * columns, dtype=torch.long, device=at.device)
    rank[at] = torch.arange(len(at), device=at.device)
    parents = rank[(at // columns * columns + parent.flatten()[at]).clamp_min(0)]
    parents[depths[order] == 0] = len(at)
    return _Nodes(at, rank, parents, depths.bincount().tolist())
