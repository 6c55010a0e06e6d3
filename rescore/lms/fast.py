"""Fast scoring: the hidden vectors and probabilities of `rescore.lms.networks`, at less
cost.

- `predict`: only the requested positions; what tokens, positions or prefixes have in
  common is computed once.
- `TiedSoftmax`: the vocabulary in slices that stay in the cache; the matrix of all
  logits never exists.
- `convert`: matrices in half precision or int8, packed for the cache.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, singledispatch
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

STEPS = 63
"""Steps between 0 and 1 of an input of int8, as in PyTorch: seven bits with the sign,
so that no sum of products overflows.
"""
ZERO = 64
"""The step that stands for 0."""
MULTIPLY = "linear_with_input_q_dq_qweight_dq_output_fp32"
"""PyTorch's product with packed weights that quantises inputs with a given scale."""
SMALLEST = 1e-30
"""The least divisor of an input of int8: an input may be zero throughout."""


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
    """Sequences of different lengths, and the positions whose hidden vectors are
    wanted.
    """

    tokens: Tensor
    """(batch, n), padded behind."""
    lengths: Tensor
    """(batch,)."""
    at: Tensor
    """(k,), ascending: the positions whose hidden vectors are wanted, counted row by
    row (row * n + column).
    """
    tree: Tree | None = None
    """The structure of the rows, where they are trees."""
    past: tuple[int, ...] = ()
    """Tokens before each of the trees, for a network that keeps what it has read
    (`Network.keeps_past`).
    """

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device.

        Args:
            device: The device.
        """
        tree = self.tree
        if tree is not None:
            tree = Tree(tree.depth.to(device), tree.visible.to(device))
        return self._replace(
            tokens=self.tokens.to(device),
            lengths=self.lengths.to(device),
            at=self.at.to(device),
            tree=tree,
        )


class Packing:
    """The positions of a (rows, columns) grid that are computed, one after another."""

    def __init__(self, at: Tensor, rows: int, columns: int) -> None:
        """Make a packing.

        Args:
            at: The positions of shape (k,), ascending, as in `Batch`.
            rows: Rows of the grid.
            columns: Columns of the grid.
        """
        self.at = at
        self.shape = (rows, columns)
        self._whole = len(at) == rows * columns

    def pad(self, packed: Tensor) -> Tensor:
        """Return packed vectors in the grid, with zeros elsewhere.

        Args:
            packed: Vectors of shape (k, d).

        Returns:
            Vectors of shape (rows, columns, d).
        """
        if self._whole:
            return packed.view(*self.shape, -1)
        grid = packed.new_zeros(self.shape[0] * self.shape[1], packed.shape[-1])
        return grid.index_copy_(0, self.at, packed).view(*self.shape, -1)

    def pack(self, grid: Tensor) -> Tensor:
        """Return the vectors of the positions.

        Args:
            grid: Vectors of shape (rows, columns, d).

        Returns:
            Vectors of shape (k, d).
        """
        flat = grid.flatten(0, 1)
        return flat if self._whole else flat.index_select(0, self.at)


def real_positions(batch: Batch) -> Tensor:
    """Return the positions that are not padding, as in `Batch.at`.

    Args:
        batch: The batch.
    """
    columns = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    return (columns < batch.lengths[:, None]).flatten().nonzero().squeeze(-1)


@singledispatch
def predict(network: Network, batch: Batch) -> Tensor:
    """Return the hidden vectors of `forward` at the positions `batch.at`, without
    computations that cannot change them.

    A class of networks registers its own function here; without one its `forward` is
    used, and it reads no trees.

    Args:
        network: The network.
        batch: The batch, with k positions.

    Returns:
        Hidden vectors of shape (k, d).
    """
    return cast(Tensor, network(batch.tokens, batch.lengths).flatten(0, 1)[batch.at])


def reads_trees(network: Network) -> bool:
    """Return whether batches for a network may be trees.

    Args:
        network: The network.
    """
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
    row = batch.at // columns
    column = batch.at % columns
    # the number of a query in its row
    rank = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
    width = int(rank.max()) + 1
    packing = Packing(row * width + rank, rows, width)
    visible = network.visible(tokens, batch.lengths).expand(rows, columns, columns)
    own_columns = packing.pad(column[:, None])[..., 0]
    mask = additive(visible[torch.arange(rows)[:, None], own_columns], network)
    places = network.places(tokens)
    normed = network.config.embedding_norm
    positions = network.position_embedding.weight[:columns]
    if normed:
        pairs, which = (tokens * columns + places).unique(return_inverse=True)
        memory = network.embed_at(pairs // columns, pairs % columns)
    else:
        distinct, which = tokens.unique(return_inverse=True)
        memory = network.embed_tokens(distinct)

    def of_memory(linear: nn.Linear) -> Tensor:
        """Return keys or values (batch, n, d)."""
        if normed:
            return F.embedding(which, linear(memory))
        of_tokens = F.embedding(which, F.linear(memory, linear.weight))
        return of_tokens + F.embedding(places, linear(positions))

    first, start = _first_queries(network, batch, places)
    query = first[start]  # (k, d)
    for number, block in enumerate(network.layers()):
        attention = block.attention
        projected = attention.query(query) if number else attention.query(first)[start]
        key = of_memory(attention.key)
        value = of_memory(attention.value)
        context = attend(attention.heads, packing.pad(projected), key, value, mask)
        query = finish(block, query, packing.pack(context))
    return cast(Tensor, network.output_transform(query))


def _first_queries(network: TTA, batch: Batch, places: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct queries before the first layer, and the query (k,) of each of
    the positions `batch.at`.
    """
    tokens = batch.tokens
    sentences = network.config.sentences
    numbers = tokens.flatten()[batch.at] // network.config.vocab_size % sentences
    starts = places.expand_as(tokens).flatten()[batch.at] * sentences + numbers
    starts, which = starts.unique(return_inverse=True)
    return network.query_at(starts // sentences, starts % sentences), which


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
    real = Packing(real_positions(batch), rows, columns)
    wanted = Packing(batch.at, rows, columns)
    if batch.tree is None:
        visible = network.visible(batch.tokens, batch.lengths)
        places = network.places(batch.tokens)
    else:
        visible = batch.tree.visible
        places = _places_in_tree(network, batch.tokens, batch.tree)
    mask = additive(visible, network)
    size = network.config.max_positions
    pairs = (batch.tokens * size + places).flatten()[real.at]
    pairs, which = pairs.unique(return_inverse=True)
    distinct = network.embed_at(pairs // size, pairs % size) * network.scale
    hidden = distinct[which]
    *inner, last = network.layers()
    for number, block in enumerate(inner):
        attention = block.attention
        projected = []
        for linear in (attention.query, attention.key, attention.value):
            vectors = linear(hidden) if number else linear(distinct)[which]
            projected.append(real.pad(vectors))
        query, key, value = projected
        context = attend(attention.heads, query, key, value, mask)
        hidden = finish(block, hidden, real.pack(context))
    grid = real.pad(hidden)
    query = wanted.pack(grid)
    attention = last.attention
    row = batch.at // columns
    if torch.equal(row, torch.arange(rows, device=row.device)):
        every_mask = mask.expand(rows, 1, columns, columns)
        own_mask = every_mask[row, 0, batch.at % columns]
        context = _attend_once(attention, query, grid, own_mask)
    else:
        queries = wanted.pad(attention.query(query))
        key = real.pad(attention.key(hidden))
        value = real.pad(attention.value(hidden))
        context = wanted.pack(attend(attention.heads, queries, key, value, mask))
    return cast(Tensor, network.output_transform(finish(last, query, context)))


def _places_in_tree(network: Transformer, tokens: Tensor, tree: Tree) -> Tensor:
    """Return the position of each node in its sentence: (batch, n)."""
    if network.config.sentences == 1:
        return tree.depth
    number = tokens // network.config.vocab_size
    own_sentence = tree.visible & (number[:, :, None] == number[:, None, :])
    depths = tree.depth[:, None, :].expand_as(own_sentence)
    # A sentence starts at the least depth that a node sees in it; padding sees nothing.
    start = depths.masked_fill(~own_sentence, torch.iinfo(depths.dtype).max).amin(-1)
    return (tree.depth - start).clamp(0, network.config.max_positions - 1)


def additive(visible: Tensor, network: Transformer) -> Tensor:
    """Return a mask that is added to the logits of attention.

    Args:
        visible: (batch or 1, n or 1, n), True where attention may look.
        network: The network, whose number format the mask has.

    Returns:
        The mask of shape (batch or 1, 1, n or 1, n).
    """
    dtype = network.position_embedding.weight.dtype
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    # The least number, not minus infinity: padding sees nothing, and must not become
    # NaN.
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]


def attend(
    heads: int, query: Tensor, key: Tensor, value: Tensor, mask: Tensor
) -> Tensor:
    """Return the attention of projected queries, before the map `output`.

    Args:
        heads: Number of heads.
        query: Projected queries of shape (batch, m, d).
        key: Projected keys of shape (batch, n, d).
        value: Projected values of shape (batch, n, d).
        mask: Additive mask of shape (batch or 1, 1, m or 1, n).

    Returns:
        Vectors of shape (batch, m, d).
    """
    context = F.scaled_dot_product_attention(
        split_heads(query, heads),
        split_heads(key, heads),
        split_heads(value, heads),
        attn_mask=mask,
    )
    return context.transpose(1, 2).flatten(-2)


def _attend_once(
    attention: Attention, query: Tensor, hidden: Tensor, mask: Tensor
) -> Tensor:
    """Return the attention of one query (batch, d) per row over unprojected hidden
    vectors (batch, n, d): (batch, d).

    The additive mask is (batch, n). A key's bias adds a constant to all logits of a
    query, which softmax ignores.
    """
    heads = attention.heads
    size = hidden.shape[-1] // heads
    key = attention.key.weight.unflatten(0, (heads, size))
    value = attention.value.weight.unflatten(0, (heads, size))
    query = attention.query(query).unflatten(-1, (heads, size))
    query = torch.einsum("bhe,hed->bhd", query, key) * size**-0.5
    weights = (query @ hidden.transpose(-2, -1) + mask[:, None, :]).softmax(-1)
    context = torch.einsum("bhd,hed->bhe", weights @ hidden, value)
    return context.flatten(-2) + attention.value.bias


def finish(block: Block, query: Tensor, context: Tensor) -> Tensor:
    """Return the hidden vectors of a block, from its attention on.

    Args:
        block: The block.
        query: Vectors of shape (k, d) that the block read.
        context: Vectors of shape (k, d) that its attention gave.

    Returns:
        Vectors of shape (k, d).
    """
    hidden = block.attention_norm(query + block.attention.output(context))
    feed_forward = block.fc2(F.gelu(block.fc1(hidden)))
    return cast(Tensor, block.feed_forward_norm(hidden + feed_forward))


CPU_ROWS = 2048
"""Hidden vectors that are multiplied together on a CPU."""
CPU_SLICE = 2048
"""Tokens of a slice of the vocabulary on a CPU: with `CPU_ROWS` its logits stay in the
cache. Without slices, memory traffic costs half more.
"""
GPU_ROWS = 4096
"""Hidden vectors that are multiplied together on a GPU."""
GPU_SLICE = 16384
"""Tokens of a slice of the vocabulary on a GPU: with `GPU_ROWS` it bounds memory."""

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
        """Make the softmax of a matrix.

        Args:
            weight: The matrix of shape (vocabulary, d).
            bias: The bias of shape (vocabulary,); None for none.
            packed: The type in which slices of the matrix are packed; None to leave
                them as they are.
        """
        self._weight = weight
        self._bias = bias
        is_cpu = weight.device.type == "cpu"
        self._rows = CPU_ROWS if is_cpu else GPU_ROWS
        size = CPU_SLICE if is_cpu else GPU_SLICE
        self._slices: list[Linear] = []
        for start in range(0, len(weight), size):
            part = weight[start : start + size]
            part_bias = None if bias is None else bias[start : start + size]
            if packed is None:
                linear: Linear = partial(F.linear, weight=part, bias=part_bias)
            else:
                linear = _packed(part, part_bias, packed)
            self._slices.append(linear)

    def log_probs(self, hidden: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
        """Return the log-probability of each target, given a hidden vector.

        Args:
            hidden: Hidden vectors of shape (m, d).
            rows: The hidden vector of each target, of shape (k,).
            targets: Tokens of shape (k,).

        Returns:
            Log-probabilities of shape (k,), natural log, in float32.
        """
        totals = []
        for chunk in hidden.split(self._rows):
            parts = [log_sum_exp(linear(chunk)) for linear in self._slices]
            totals.append(torch.stack(parts).logsumexp(0))
        chosen = (hidden.float()[rows] * self._weight[targets].float()).sum(-1)
        if self._bias is not None:
            chosen = chosen + self._bias[targets].float()
        return chosen - torch.cat(totals)[rows]

    def best(self, hidden: Tensor) -> Tensor:
        """Return the most probable token for each hidden vector.

        Args:
            hidden: Hidden vectors of shape (m, d).

        Returns:
            Tokens of shape (m,).
        """
        return torch.cat([self._best(chunk) for chunk in hidden.split(self._rows)])

    def _best(self, hidden: Tensor) -> Tensor:
        """Return the most probable token for each of some hidden vectors."""
        logits = []
        tokens = []
        first = 0
        for linear in self._slices:
            part_logits = linear(hidden).float()
            highest, place = part_logits.max(-1)
            logits.append(highest)
            tokens.append(first + place)
            first += part_logits.shape[-1]
        winner = torch.stack(logits).argmax(0, keepdim=True)
        return torch.stack(tokens).gather(0, winner)[0]


def log_sum_exp(logits: Tensor) -> Tensor:
    """Return the log-sum-exp of each row, in float32. The logits are overwritten.

    Args:
        logits: Logits of shape (k, n).

    Returns:
        Numbers of shape (k,), natural log.
    """
    logits = logits.float()
    peak = logits.amax(-1, keepdim=True)
    return logits.sub_(peak).exp_().sum(-1).log_().add_(peak.squeeze(-1))


def convert(network: Network, precision: str) -> TiedSoftmax:
    """Convert a network in place, and return its softmax.

    With int8, weights and inputs are quantised by row. With float32 on a
    CPU, weights that fit into float16, as in every checkpoint, are kept in float16,
    packed for the cache. Products and sums are float32, so results differ only by
    rounding, and small batches are multiplied up to three times faster.

    Keys and values are not converted: most of them are computed for distinct tokens
    only.

    Args:
        network: The network.
        precision: A key of `rescore.lms.devices.DTYPES`.
    """
    network.to(DTYPES[precision])
    weight = network.output_weight.detach()
    bias = None if network.output_bias is None else network.output_bias.detach()
    kind = None
    if precision == "int8":
        kind = torch.qint8
    elif precision == "float32" and _fits_float16(network):
        kind = torch.float16
    if kind is None:
        return TiedSoftmax(weight, bias)
    for block in network.modules():
        if isinstance(block, Block):
            attention = block.attention
            attention.query = quantised(attention.query, kind)
            attention.output = quantised(attention.output, kind)
            block.fc1 = quantised(block.fc1, kind)
            block.fc2 = quantised(block.fc2, kind)
    return TiedSoftmax(weight, bias, kind)


def _fits_float16(network: Network) -> bool:
    """Return whether the weights can be packed in float16 without a loss, on this
    machine.
    """
    weights = list(network.parameters())
    return (
        weights[0].device.type == "cpu"
        and "fbgemm" in torch.backends.quantized.supported_engines
        and all(torch.equal(weight, weight.half().float()) for weight in weights)
    )


def quantised(module: nn.Module, kind: torch.dtype = torch.qint8) -> Any:
    """Return a copy of a module whose linear maps have weights of another type
    (PyTorch's dynamic quantisation). With int8, each input has its own scale
    (`RowScaled`).

    Args:
        module: The module.
        kind: The type of the weights.
    """
    from torch.ao.nn.quantized import dynamic
    from torch.ao.quantization import quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it moves to another package, some day
        copy = quantize_dynamic(nn.Sequential(module), {nn.Linear}, dtype=kind)
    if kind == torch.qint8:
        for part in list(copy.modules()):
            for name, child in part.named_children():
                if isinstance(child, dynamic.Linear):
                    setattr(part, name, RowScaled(child))
    return copy[0]


class RowScaled(nn.Module):
    """A linear map in int8 where each input vector has a scale of its own.

    PyTorch gives all vectors of a batch one scale, so that the score of a text would
    depend on the texts beside it. Here vectors are divided by their largest number
    first.
    """

    def __init__(self, linear: Any) -> None:
        """Make the map.

        Args:
            linear: A map of PyTorch's dynamic quantisation; it loses its bias.
        """
        super().__init__()
        self.bias = linear.bias()
        linear.set_weight_bias(linear.weight(), None)
        self.linear = linear
        self.in_features: int = linear.in_features
        self.out_features: int = linear.out_features

    def _product(self, rows: Tensor) -> Tensor:
        """Return the outputs of vectors whose largest number is 1 or -1."""
        packed = self.linear._packed_params._packed_params
        try:
            multiply = getattr(torch.ops.quantized, MULTIPLY)
            return cast(Tensor, multiply(rows, 1 / STEPS, ZERO, packed))
        except (AttributeError, RuntimeError):
            # Not on every processor. Two more vectors make the range of the numbers,
            # and so the scale, the same in every batch.
            ends = rows.new_zeros(2, rows.shape[-1])
            ends[0, 0] = 1
            ends[1, 0] = -1
            return cast(Tensor, self.linear(torch.cat([rows, ends]))[:-2])

    def weight(self) -> Tensor:
        """Return the weights."""
        return cast(Tensor, self.linear.weight())

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the outputs, of shape (..., out_features).

        Args:
            vectors: Inputs of shape (..., in_features).
        """
        rows = vectors.reshape(-1, self.in_features)
        largest = rows.abs().amax(-1, keepdim=True).clamp_min_(SMALLEST)
        outputs = self._product(rows / largest)
        outputs.mul_(largest)
        if self.bias is not None:
            outputs.add_(self.bias)
        return outputs.reshape(*vectors.shape[:-1], self.out_features)


def _packed(weight: Tensor, bias: Tensor | None, kind: torch.dtype) -> Linear:
    """Return the linear map of a matrix, with weights of another type."""
    outputs, inputs = weight.shape
    linear = nn.Linear(inputs, outputs, bias=bias is not None, device="meta")
    linear.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias, requires_grad=False)
    return cast(Linear, quantised(linear, kind))
