"""The forward passes of the networks without what cannot change their results.

Each `forward` is the definition, and what is trained; these give the same hidden vectors (to rounding) at the positions
asked for. What is saved:

- Padding is never multiplied: linear maps see real positions only, packed.
- What depends on a token and its position alone is computed once for each distinct pair in the batch: the first
  layer's projections, and all keys and values of a T-TA. There even the sum comes apart, W (x + p) = W x + W p.
- In the last layer (in all of a T-TA's) queries are computed only where something is predicted. Where that is one
  position a row, as in a masked row, keys and values are not computed at all: q . (W h) = (W' q) . h moves the
  projections from all positions to the one.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rescore.networks.batch import Batch, Packing, real_positions
from rescore.networks.transformer import Attention, Block, Transformer


def isolated(network: Transformer, batch: Batch) -> Tensor:
    """A T-TA's hidden vectors (k, d) at `batch.at`.

    No position's query is any other's key, so that those in between ([BOS], [EOS], padding) are never needed.
    """
    rows, columns = batch.tokens.shape
    packing = Packing(batch.at, rows, columns)
    distinct, which = batch.tokens.unique(return_inverse=True)
    tokens = network.tokens(distinct)
    positions = network.positions.weight[:columns]
    column = batch.at % columns
    itself = torch.eye(columns, dtype=torch.bool, device=batch.tokens.device)
    mask = _additive(_padding(batch)[:, None, :] & ~itself, positions.dtype)
    query = positions[column]
    for number, block in enumerate(network.layers()):
        attention = block.attention
        projected = attention.query(query) if number else attention.query(positions)[column]
        key, value = (
            F.embedding(which, F.linear(tokens, linear.weight)) + linear(positions)
            for linear in (attention.key, attention.value)
        )
        context = _attend(attention.heads, packing.pad(projected), key, value, mask)
        query = _finish(block, query, packing.pack(context))
    return query


def contextual(network: Transformer, batch: Batch, scale: float, causal: bool) -> Tensor:
    """The hidden vectors (k, d) of a biLM or uniLM at `batch.at`.

    Args:
        scale: of the embeddings.
        causal: whether a position sees only itself and those before it; a tree says so by itself.
    """
    rows, columns = batch.tokens.shape
    real, wanted = Packing(real_positions(batch), rows, columns), Packing(batch.at, rows, columns)
    visible = batch.tree.visible if batch.tree else _past(batch) if causal else _padding(batch)[:, None, :]
    mask = _additive(visible, network.positions.weight.dtype)
    # Embeddings of distinct (token, position) pairs, and which of them stands where.
    size = network.positions.num_embeddings
    depth = batch.tree.depth if batch.tree else torch.arange(columns, device=batch.tokens.device)
    pairs, which = (batch.tokens * size + depth).flatten()[real.at].unique(return_inverse=True)
    distinct = (network.tokens(pairs // size) + network.positions(pairs % size)) * scale
    hidden = distinct[which]
    *inner, last = network.layers()
    for number, block in enumerate(inner):
        query, key, value = (
            real.pad(linear(hidden) if number else linear(distinct)[which])
            for linear in (block.attention.query, block.attention.key, block.attention.value)
        )
        context = real.pack(_attend(block.attention.heads, query, key, value, mask))
        hidden = _finish(block, hidden, context)
    grid = real.pad(hidden)
    query = wanted.pack(grid)
    if torch.equal(batch.at // columns, torch.arange(rows, device=batch.at.device)):
        context = _attend_once(last.attention, query, grid, _at(mask, batch))
    else:
        attention = last.attention
        key, value = real.pad(attention.key(hidden)), real.pad(attention.value(hidden))
        context = wanted.pack(_attend(attention.heads, wanted.pad(attention.query(query)), key, value, mask))
    return _finish(last, query, context)


def _attend(heads: int, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Scaled dot-product attention over (batch, n, d), projected; mask (batch or 1, 1, n or 1, n), additive."""
    query, key, value = (x.unflatten(-1, (heads, -1)).transpose(1, 2).contiguous() for x in (query, key, value))
    logits = (query @ key.transpose(-2, -1)).mul_(key.shape[-1] ** -0.5).add_(mask)
    return (logits.softmax(-1) @ value).transpose(1, 2).flatten(-2)


def _attend_once(attention: Attention, query: Tensor, hidden: Tensor, mask: Tensor) -> Tensor:
    """The same for one query a row, (batch, d) of hidden vectors, over hidden vectors (batch, n, d) as they are.

    mask: (batch, n), additive. A key's bias adds the same to all logits of a query, which softmax does not see.
    """
    heads, size = attention.heads, hidden.shape[-1] // attention.heads
    key, value = (linear.weight.unflatten(0, (heads, size)) for linear in (attention.key, attention.value))
    query = attention.query(query).unflatten(-1, (heads, size))
    query = torch.einsum("bhe,hed->bhd", query, key) * size**-0.5
    weights = (query @ hidden.transpose(-2, -1) + mask[:, None, :]).softmax(-1)
    return torch.einsum("bhd,hed->bhe", weights @ hidden, value).flatten(-2) + attention.value.bias


def _finish(block: Block, query: Tensor, context: Tensor) -> Tensor:
    """What of a block comes after the attention: query and context (k, d) -> hidden vectors (k, d)."""
    hidden = block.attention_norm(query + block.attention.output(context))
    return block.feed_forward_norm(hidden + block.narrow(F.gelu(block.widen(hidden))))


def _at(mask: Tensor, batch: Batch) -> Tensor:
    """(batch or 1, 1, n or 1, n) -> (batch, n): what the one position wanted of each row may see."""
    rows, columns = batch.tokens.shape
    return mask.expand(rows, 1, columns, columns)[batch.at // columns, 0, batch.at % columns]


def _padding(batch: Batch) -> Tensor:
    """(batch, n), True where there is a token."""
    return torch.arange(batch.tokens.shape[1], device=batch.tokens.device) < batch.lengths[:, None]


def _past(batch: Batch) -> Tensor:
    """(1, n, n): what is real sees only what is real, as padding comes behind."""
    size = batch.tokens.shape[1]
    return torch.ones(1, size, size, dtype=torch.bool, device=batch.tokens.device).tril()


def _additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """(batch or 1, n or 1, n), True where attention may look -> (batch or 1, 1, n or 1, n) to add to its logits."""
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    # The least number, not minus infinity: padding sees nothing, and must not become NaN.
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]
