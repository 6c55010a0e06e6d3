"""What makes scoring fast: the hidden vectors and probabilities of
`rescore.lms.networks`, at less cost.

- `predict`: only the requested positions; what tokens, positions or prefixes have in
  common is computed once.
- `TiedSoftmax`: the vocabulary in slices that stay in the cache; the matrix of all
  logits never exists.
- `convert`: matrices in half precision or int8, packed for the cache.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial, singledispatch
from itertools import repeat
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.devices import DTYPES
from rescore.lms.networks import (
    TTA,
    Attention,
    Block,
    Network,
    Transformer,
    split_heads,
)


class Tree(NamedTuple):
    """Sequences that share prefixes, packed into one: each node stands once, behind its
    parent.
    """

    depth: Tensor
    """(batch, n): the position of each node in its sequence."""
    visible: Tensor
    """(batch, n, n), True at [i, j] where i looks at j: at itself and its ancestors. A
    network may let nodes look at others, too.
    """


class Batch(NamedTuple):
    """Sequences of different lengths, and where they are to be read off."""

    tokens: Tensor
    """(batch, n), padded behind."""
    lengths: Tensor
    """(batch,)."""
    at: Tensor
    """(k,), ascending: the positions whose hidden vectors are wanted, counted row by
    row (row * n + column).
    """
    tree: Tree | None = None
    past: tuple[int, ...] = ()
    """Tokens before each of the trees, for a network that keeps what it has read
    (`Network.keeps_past`).
    """

    def to(self, device: torch.device) -> Batch:
        tree = self.tree and Tree(*(part.to(device) for part in self.tree))
        return self._replace(
            tokens=self.tokens.to(device),
            lengths=self.lengths.to(device),
            at=self.at.to(device),
            tree=tree,
        )


class Packing:
    """The positions of a (rows, columns) grid that are computed, one after another."""

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


@singledispatch
def predict(network: Network, batch: Batch) -> Tensor:
    """The hidden vectors of `forward` (k, d) at the k positions `batch.at`, without
    computations that cannot change them. A class of networks registers its own function
    here; without one its `forward` is used, and it reads no trees.
    """
    return cast(Tensor, network(batch.tokens, batch.lengths).flatten(0, 1)[batch.at])


def reads_trees(network: Network) -> bool:
    """Whether batches for this network may be trees."""
    return predict.dispatch(type(network)) is not predict.dispatch(Network)


@predict.register
def _tta(network: TTA, batch: Batch) -> Tensor:
    """Keys and values are those of X + P in every layer.

    - Queries of other positions ([BOS], [EOS], padding, neighbouring sentences) are not
      used as keys: they are skipped, and the computed queries are packed.
    - Keys and values depend on a token and its position alone, and their sum separates,
      W (x + p) = W x + W p: W x is computed once for each distinct token, W p once for
      each position. (With a LayerNorm on the embeddings it does not separate; they are
      computed once for each distinct pair.)
    - The first layer's query depends on the position alone, in the sentence and of the
      sentence.
    """
    tokens = batch.tokens
    rows, columns = tokens.shape
    row, column = batch.at // columns, batch.at % columns
    # of a query in its row
    rank = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
    width = int(rank.max()) + 1
    packing = Packing(row * width + rank, rows, width)
    visible = network.visible(tokens, batch.lengths).expand(rows, columns, columns)
    mask = additive(
        visible[torch.arange(rows)[:, None], packing.pad(column[:, None])[..., 0]],
        network,
    )
    places = network.places(tokens)
    positions = network.position_embedding.weight[:columns]
    if network.config.embedding_norm:
        pairs, which = (tokens * columns + places).unique(return_inverse=True)
        memory = network.embed_at(pairs // columns, pairs % columns)
    else:
        distinct, which = tokens.unique(return_inverse=True)
        memory = network.embed_tokens(distinct)
    sentences = network.config.sentences
    numbers = tokens.flatten()[batch.at] // network.config.vocab_size % sentences
    starts = places.expand_as(tokens).flatten()[batch.at] * sentences + numbers
    starts, where = starts.unique(return_inverse=True)
    first = network.query_at(starts // sentences, starts % sentences)
    query = first[where]  # (k, d)
    for number, block in enumerate(network.layers()):
        attention = block.attention
        projected = attention.query(query) if number else attention.query(first)[where]
        key, value = (  # (batch, n, d)
            (
                F.embedding(which, linear(memory))
                if network.config.embedding_norm
                else F.embedding(which, F.linear(memory, linear.weight))
                + F.embedding(places, linear(positions))
            )
            for linear in (attention.key, attention.value)
        )
        context = attend(attention.heads, packing.pad(projected), key, value, mask)
        query = finish(block, query, packing.pack(context))
    return cast(Tensor, network.output_transform(query))


@predict.register
def _transformer(network: Transformer, batch: Batch) -> Tensor:
    """Keys and values are those of the hidden vectors.

    - Padding is never multiplied: linear maps see real positions only, packed.
    - The first layer's projections depend on a token and its position alone; they are
      computed once for each distinct pair in the batch.
    - In the last layer queries are computed only where something is predicted. Where
      that is one position a row, as in a masked row, keys and values are not computed
      at all: q . (W h) = (W' q) . h moves the projections from all positions to the
      one.
    """
    rows, columns = batch.tokens.shape
    real, wanted = (
        Packing(real_positions(batch), rows, columns),
        Packing(batch.at, rows, columns),
    )
    mask = additive(
        (
            batch.tree.visible
            if batch.tree
            else network.visible(batch.tokens, batch.lengths)
        ),
        network,
    )
    size = network.config.max_positions
    places = (
        _places_in_tree(network, batch.tokens, batch.tree)
        if batch.tree
        else network.places(batch.tokens)
    )
    pairs, which = (
        (batch.tokens * size + places).flatten()[real.at].unique(return_inverse=True)
    )
    distinct = network.embed_at(pairs // size, pairs % size) * network.scale
    hidden = distinct[which]
    *inner, last = network.layers()
    for number, block in enumerate(inner):
        query, key, value = (
            real.pad(linear(hidden) if number else linear(distinct)[which])
            for linear in (
                block.attention.query,
                block.attention.key,
                block.attention.value,
            )
        )
        hidden = finish(
            block,
            hidden,
            real.pack(attend(block.attention.heads, query, key, value, mask)),
        )
    grid = real.pad(hidden)
    query = wanted.pack(grid)
    attention = last.attention
    if torch.equal(batch.at // columns, torch.arange(rows, device=batch.at.device)):
        seen = mask.expand(rows, 1, columns, columns)[
            batch.at // columns, 0, batch.at % columns
        ]
        context = _attend_once(attention, query, grid, seen)
    else:
        key, value = real.pad(attention.key(hidden)), real.pad(attention.value(hidden))
        context = wanted.pack(
            attend(
                attention.heads, wanted.pad(attention.query(query)), key, value, mask
            )
        )
    return cast(Tensor, network.output_transform(finish(last, query, context)))


def _places_in_tree(network: Transformer, tokens: Tensor, tree: Tree) -> Tensor:
    """(batch, n): the position of each node in its sentence."""
    if network.config.sentences == 1:
        return tree.depth
    number = tokens // network.config.vocab_size
    own_sentence = tree.visible & (number[:, :, None] == number[:, None, :])
    depths = tree.depth[:, None, :].expand_as(own_sentence)
    # A sentence starts at the least depth that a node sees in it; padding sees nothing.
    start = depths.masked_fill(~own_sentence, torch.iinfo(depths.dtype).max).amin(-1)
    return (tree.depth - start).clamp(0, network.config.max_positions - 1)


def additive(visible: Tensor, network: Transformer) -> Tensor:
    """(batch or 1, n or 1, n), True where attention may look -> (batch or 1, 1, n or 1,
    n) to add to its logits.
    """
    dtype = network.position_embedding.weight.dtype
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    # The least number, not minus infinity: padding sees nothing, and must not become
    # NaN.
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]


def attend(
    heads: int, query: Tensor, key: Tensor, value: Tensor, mask: Tensor
) -> Tensor:
    """Attention of projected queries (batch, m, d) over keys and values (batch, n, d)
    -> (batch, m, d) before `output`.

    mask: (batch or 1, 1, m or 1, n), additive.
    """
    query, key, value = (split_heads(x, heads) for x in (query, key, value))
    return (
        F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        .transpose(1, 2)
        .flatten(-2)
    )


def _attend_once(
    attention: Attention, query: Tensor, hidden: Tensor, mask: Tensor
) -> Tensor:
    """Attention of one query (batch, d) per row over unprojected hidden vectors (batch,
    n, d).

    mask: (batch, n), additive. A key's bias adds a constant to all logits of a query,
    which softmax ignores.
    """
    heads, size = attention.heads, hidden.shape[-1] // attention.heads
    key, value = (
        linear.weight.unflatten(0, (heads, size))
        for linear in (attention.key, attention.value)
    )
    query = attention.query(query).unflatten(-1, (heads, size))
    query = torch.einsum("bhe,hed->bhd", query, key) * size**-0.5
    weights = (query @ hidden.transpose(-2, -1) + mask[:, None, :]).softmax(-1)
    return (
        torch.einsum("bhd,hed->bhe", weights @ hidden, value).flatten(-2)
        + attention.value.bias
    )


def finish(block: Block, query: Tensor, context: Tensor) -> Tensor:
    """A block behind its attention: query and context (k, d) -> hidden vectors (k,
    d).
    """
    hidden = block.attention_norm(query + block.attention.output(context))
    return cast(
        Tensor, block.feed_forward_norm(hidden + block.fc2(F.gelu(block.fc1(hidden))))
    )


# of hidden vectors, at most: with a slice of the vocabulary they bound memory
ROWS = 4096
# on a CPU a slice's logits stay in the cache; whole, memory traffic costs half more
CPU_SLICE, GPU_SLICE = 2048, 16384

Linear = Callable[[Tensor], Tensor]


class TiedSoftmax:
    """log softmax(hidden @ weight.T + bias), natural log, without the matrix of all
    logits.

    The log-sum-exp is taken over slices of the vocabulary, each with its own largest
    logit taken out, and then over these: it cannot overflow.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        packed: torch.dtype | None = None,
    ) -> None:
        """weight: (vocabulary, d). bias: (vocabulary,). packed: the type in which
        slices of the matrix are packed.
        """
        self._weight, self._bias = weight, bias
        size = CPU_SLICE if weight.device.type == "cpu" else GPU_SLICE
        parts = zip(
            weight.split(size),
            repeat(None) if bias is None else bias.split(size),
            strict=False,
        )
        self._slices: Sequence[Linear] = [
            (
                partial(F.linear, weight=part, bias=part_bias)
                if packed is None
                else _packed(part, part_bias, packed)
            )
            for part, part_bias in parts
        ]

    def log_probs(self, hidden: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
        """The log-probability of each target (k,) given the hidden vector in its row
        (k,) of (m, d); float32 (k,).
        """
        chunks = hidden.split(ROWS)
        total = torch.cat(
            [
                torch.stack([log_sum_exp(part(c)) for part in self._slices]).logsumexp(
                    0
                )
                for c in chunks
            ]
        )
        chosen = (hidden.float()[rows] * self._weight[targets].float()).sum(-1)
        if self._bias is not None:
            chosen = chosen + self._bias[targets].float()
        return chosen - total[rows]

    def best(self, hidden: Tensor) -> Tensor:
        """The most probable token for each hidden vector.

        Args:
            hidden: Hidden vectors of shape (m, d).

        Returns:
            Tokens of shape (m,).
        """
        return torch.cat([self._best(chunk) for chunk in hidden.split(ROWS)])

    def _best(self, hidden: Tensor) -> Tensor:
        logits, tokens = [], []
        first = 0
        for part in self._slices:
            part_logits = part(hidden).float()
            highest, place = part_logits.max(-1)
            logits.append(highest)
            tokens.append(first + place)
            first += part_logits.shape[-1]
        winner = torch.stack(logits).argmax(0, keepdim=True)
        return torch.stack(tokens).gather(0, winner)[0]


def log_sum_exp(logits: Tensor) -> Tensor:
    """Of each row, in float32; the logits are overwritten."""
    logits = logits.float()
    peak = logits.amax(-1, keepdim=True)
    return logits.sub_(peak).exp_().sum(-1).log_().add_(peak.squeeze(-1))


def convert(network: Network, precision: str) -> TiedSoftmax:
    """Convert a network in place, with the matrix of its softmax, usually its
    embeddings.

    With int8, weights are quantised by row and inputs dynamically. With float32 on a
    CPU, weights that fit into float16, as in every checkpoint, are kept in float16,
    packed for the cache. Products and sums are float32, so results differ only by
    rounding, and small batches are multiplied up to three times faster.

    Keys and values are not converted: most of them are computed for distinct tokens
    only.
    """
    network.to(DTYPES[precision])
    weight = network.output_weight.detach()
    bias = None if network.output_bias is None else network.output_bias.detach()
    kind = {"int8": torch.qint8, "float32": torch.float16}.get(precision)
    if kind is None or (precision == "float32" and not _fits_float16(network)):
        return TiedSoftmax(weight, bias)
    for block in (module for module in network.modules() if isinstance(module, Block)):
        attention = block.attention
        attention.query, attention.output = (
            quantised(attention.query, kind),
            quantised(attention.output, kind),
        )
        block.fc1, block.fc2 = quantised(block.fc1, kind), quantised(block.fc2, kind)
    return TiedSoftmax(weight, bias, kind)


def _fits_float16(network: Network) -> bool:
    weights = list(network.parameters())
    return (
        weights[0].device.type == "cpu"
        and "fbgemm" in torch.backends.quantized.supported_engines
        and all(torch.equal(weight, weight.half().float()) for weight in weights)
    )


def quantised(module: nn.Module, kind: torch.dtype = torch.qint8) -> Any:
    """A copy whose linear maps have weights of another type (PyTorch's dynamic
    quantisation).
    """
    from torch.ao.quantization import quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it moves to another package, some day
        return quantize_dynamic(nn.Sequential(module), {nn.Linear}, dtype=kind)[0]


def _packed(weight: Tensor, bias: Tensor | None, kind: torch.dtype) -> Linear:
    """A linear map with these weights, of another type."""
    linear = nn.Linear(
        weight.shape[1], weight.shape[0], bias=bias is not None, device="meta"
    )
    linear.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias, requires_grad=False)
    return cast(Linear, quantised(linear, kind))
