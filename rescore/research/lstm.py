"""The recurrent language model: layers of long short-term memory (Hochreiter and
Schmidhuber 1997; as language model Sundermeyer et al. 2012).
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, predict, real_positions
from rescore.lms.networks import Network, initialise


class LSTM(Network):
    """Each layer has `d_model` cells. There are no position embeddings, and `heads` and
    `d_ff` of the configuration are ignored.

    The hidden vector at position i depends on tokens 0 to i and predicts token i + 1.
    Dropout is between the layers, not in the recurrence (Zaremba et al. 2014). The
    backward model is the same network on reversed sentences.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        size = config.d_model
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, size)
        self.embedding_norm: nn.Module = nn.Identity()
        if config.embedding_norm:
            self.embedding_norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(0.0)
        self.cells = nn.ModuleList(
            nn.LSTM(size, size, batch_first=True) for _ in range(config.layers)
        )
        self.add_output(config)
        self.apply(initialise)
        for cells in self.layers():
            # At first nothing is forgotten (Jozefowicz et al. 2015). The gates stand in
            # the order of PyTorch: input, forget, cell, output.
            nn.init.ones_(cast(Tensor, cells.bias_ih_l0)[size : 2 * size])

    def layers(self) -> list[nn.LSTM]:
        return [cast(nn.LSTM, cells) for cells in self.cells]

    def embed(self, tokens: Tensor) -> Tensor:
        return cast(Tensor, self.embedding_norm(self.token_embedding(tokens)))

    def forward(
        self, tokens: Tensor, lengths: Tensor, layers: int | None = None
    ) -> Tensor:
        # Padding stands behind a sentence, so no token of the sentence knows it.
        hidden = self.dropout(self.embed(tokens))
        for cells in self.layers()[:layers]:
            hidden = self.dropout(cells(hidden)[0])
        if layers is None:
            hidden = self.output_transform(hidden)
        return cast(Tensor, hidden)


@predict.register
def _lstm(network: LSTM, batch: Batch) -> Tensor:
    """The nodes of a depth are computed together, each from the state of its parent, so
    sequences share the computation of a common beginning. The first layer's products
    are computed once for each distinct token.
    """
    nodes = _by_depth(batch)
    distinct, which = batch.tokens.flatten()[nodes.at].unique(return_inverse=True)
    hidden = network.embed(distinct)
    for number, cells in enumerate(network.layers()):
        weight = cast(Tensor, cells.weight_ih_l0)
        bias = cast(Tensor, cells.bias_ih_l0) + cast(Tensor, cells.bias_hh_l0)
        read = F.linear(hidden, weight, bias)  # (k, 4 d), or of distinct tokens
        if number == 0:
            read = read[which]
        hidden = _recur(read, cast(Tensor, cells.weight_hh_l0), nodes)
    wanted = hidden[nodes.rank[batch.at]]
    return cast(Tensor, network.output_transform(wanted))


def _recur(read: Tensor, recurrent: Tensor, nodes: _Nodes) -> Tensor:
    """Return the outputs (k, d) of a layer.

    Args:
        read: (k, 4 d) what the gates of each node have from the node's token.
        recurrent: (4 d, d) the matrix for the output of the node's parent.
        nodes: The nodes.
    """
    # The last row is the state before the first token.
    hidden = read.new_zeros(len(read) + 1, recurrent.shape[1])
    state = torch.zeros_like(hidden)
    start = 0
    for size in nodes.sizes:
        level = slice(start, start + size)
        parents = nodes.parents[level]
        gates = read[level] + F.linear(hidden[parents], recurrent)
        let_in, kept, new, out = gates.chunk(4, dim=-1)
        state[level] = kept.sigmoid() * state[parents] + let_in.sigmoid() * new.tanh()
        hidden[level] = out.sigmoid() * state[level].tanh()
        start += size
    return hidden[:-1]


class _Nodes(NamedTuple):
    """The k positions of a batch that are no padding, sorted by their depth."""

    at: Tensor
    """(k,): the positions, counted row by row."""
    rank: Tensor
    """(rows * columns,): the place of a position among them."""
    parents: Tensor
    """(k,): the place of each node's parent; k for a node without a parent."""
    sizes: list[int]
    """Number of nodes of each depth."""


def _by_depth(batch: Batch) -> _Nodes:
    """Return the nodes of a batch of trees, or of sequences, whose nodes have one child
    each.
    """
    rows, columns = batch.tokens.shape
    depth = torch.arange(columns, device=batch.tokens.device).expand(rows, columns)
    parent = depth - 1
    if batch.tree is not None:
        depth = batch.tree.depth
        one_above = depth[:, None, :] == depth[:, :, None] - 1
        parent = (batch.tree.visible & one_above).int().argmax(-1)
    real = real_positions(batch)
    depths = depth.flatten()[real]
    order = depths.argsort(stable=True)
    at = real[order]
    rank = torch.zeros(rows * columns, dtype=torch.long, device=at.device)
    rank[at] = torch.arange(len(at), device=at.device)
    row_starts = at // columns * columns
    # The first position has no parent; its row is set below.
    parents = rank[(row_starts + parent.flatten()[at]).clamp_min(0)]
    parents[depths[order] == 0] = len(at)
    return _Nodes(at, rank, parents, depths.bincount().tolist())
