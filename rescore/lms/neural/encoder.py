"""The self-attention network of several kinds, which differ in who may see whom."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from rescore.lms.neural.blocks import (
    Attention,
    Batch,
    Packing,
    Transformer,
    additive,
    attend,
    padding_mask,
    real_positions,
)
from rescore.lms.neural.config import NetworkConfig


class Encoder(Transformer):
    """The T-TA's embeddings, then blocks whose memory is their query."""

    def __init__(self, config: NetworkConfig, causal: bool = False) -> None:
        """causal: whether a position sees only itself and those before it."""
        super().__init__(config)
        self.causal = causal

    @property
    def scale(self) -> float:
        return self.config.d_model**0.5 if self.config.scaled_embeddings else 1.0

    def forward(self, tokens: Tensor, lengths: Tensor, layers: int | None = None) -> Tensor:
        """tokens (batch, n) with their frame, lengths (batch,) -> hidden vectors (batch, n, d).

        layers: number of blocks to compute, without the transform to the softmax; 0 gives the embeddings.
        """
        hidden = self.embedding_dropout(self.embed(tokens) * self.scale)
        mask = self.visible(tokens, lengths)[:, None]
        for block in self.layers()[:layers]:
            hidden = block(hidden, hidden, mask)
        return hidden if layers is not None else cast(Tensor, self.output_transform(hidden))

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(batch, n or 1, n), True where a position may look."""
        size = tokens.shape[1]
        real = padding_mask(lengths, size)[:, None, :]
        return real & torch.ones(size, size, dtype=torch.bool, device=tokens.device).tril() if self.causal else real

    def predict(self, batch: Batch) -> Tensor:
        """`forward` at the requested positions, without computations that cannot change them.

        - Padding is never multiplied: linear maps see real positions only, packed.
        - The first layer's projections depend on a token and its position alone; they are computed once for each
        distinct pair in the batch. - In the last layer queries are computed only where something is predicted. Where
        that is one position a row,
          as in a masked row, keys and values are not computed at all: q . (W h) = (W' q) . h moves the projections
          from all positions to the one.
        """
        rows, columns = batch.tokens.shape
        real, wanted = Packing(real_positions(batch), rows, columns), Packing(batch.at, rows, columns)
        mask = additive(self._visible(batch), self.position_embedding.weight.dtype)
        size = self.position_embedding.num_embeddings
        pairs, which = (batch.tokens * size + self._places(batch)).flatten()[real.at].unique(return_inverse=True)
        distinct = self.embed_pairs(pairs // size, pairs % size) * self.scale
        hidden = distinct[which]
        *inner, last = self.layers()
        for number, block in enumerate(inner):
            query, key, value = (
                real.pad(linear(hidden) if number else linear(distinct)[which])
                for linear in (block.attention.query, block.attention.key, block.attention.value)
            )
            hidden = block.finish(hidden, real.pack(attend(block.attention.heads, query, key, value, mask)))
        grid = real.pad(hidden)
        query = wanted.pack(grid)
        if torch.equal(batch.at // columns, torch.arange(rows, device=batch.at.device)):
            context = _attend_once(last.attention, query, grid, _rows_of(mask, batch))
        else:
            attention = last.attention
            key, value = real.pad(attention.key(hidden)), real.pad(attention.value(hidden))
            context = wanted.pack(attend(attention.heads, wanted.pad(attention.query(query)), key, value, mask))
        return cast(Tensor, self.output_transform(last.finish(query, context)))

    def _places(self, batch: Batch) -> Tensor:
        """(n,) or (batch, n): the position of each token in its sentence."""
        if batch.tree is None:
            return self.places(batch.tokens)
        if self.config.sentences == 1:
            return batch.tree.depth
        number = batch.tokens // self.config.vocab_size
        before = batch.tree.visible & (number[:, :, None] == number[:, None, :])  # in its sentence, and itself
        return (before.sum(-1) - 1).clamp_min(0)

    def _visible(self, batch: Batch) -> Tensor:
        """(batch or 1, n or 1, n), True where a position may look."""
        if batch.tree:
            return batch.tree.visible
        size = batch.tokens.shape[1]
        if self.causal:  # real tokens see only real tokens, as padding comes behind
            return torch.ones(1, size, size, dtype=torch.bool, device=batch.tokens.device).tril()
        return self.visible(batch.tokens, batch.lengths)


def _attend_once(attention: Attention, query: Tensor, hidden: Tensor, mask: Tensor) -> Tensor:
    """Attention of one query (batch, d) per row over unprojected hidden vectors (batch, n, d).

    mask: (batch, n), additive. A key's bias adds a constant to all logits of a query, which softmax ignores.
    """
    heads, size = attention.heads, hidden.shape[-1] // attention.heads
    key, value = (linear.weight.unflatten(0, (heads, size)) for linear in (attention.key, attention.value))
    query = attention.query(query).unflatten(-1, (heads, size))
    query = torch.einsum("bhe,hed->bhd", query, key) * size**-0.5
    weights = (query @ hidden.transpose(-2, -1) + mask[:, None, :]).softmax(-1)
    return torch.einsum("bhd,hed->bhe", weights @ hidden, value).flatten(-2) + attention.value.bias


def _rows_of(mask: Tensor, batch: Batch) -> Tensor:
    """(batch or 1, 1, n or 1, n) -> (batch, n): the columns that the predicted position of each row may see."""
    rows, columns = batch.tokens.shape
    return mask.expand(rows, 1, columns, columns)[batch.at // columns, 0, batch.at % columns]
