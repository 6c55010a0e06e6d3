"""The blocks that our networks share: batches, attention, layers, the tied softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.config import NetworkConfig


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
    past: tuple[int, ...] = ()
    """Tokens before each of the trees, for a network that keeps what it has read (`Network.keeps_past`)."""

    def to(self, device: torch.device) -> Batch:
        tree = self.tree and Tree(*(part.to(device) for part in self.tree))
        return self._replace(
            tokens=self.tokens.to(device), lengths=self.lengths.to(device), at=self.at.to(device), tree=tree
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


class Network(nn.Module):
    """Reads tokens, and predicts tokens, or something of them, by a softmax.

    Dropout is a habit of training, not a property of the network: `set_dropout` sets it, checkpoints do not know it.
    """

    config: NetworkConfig
    token_embedding: nn.Embedding
    output_bias: nn.Parameter | None

    @property
    def output_weight(self) -> Tensor:
        """(classes, d): the matrix of the softmax, usually the embeddings."""
        return self.token_embedding.weight

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens (batch, n) -> the input of the first layer (batch, n, d)."""
        raise NotImplementedError

    def forward(self, tokens: Tensor, lengths: Tensor, layers: int | None = None) -> Tensor:
        """tokens (batch, n) with their frame, lengths (batch,) -> hidden vectors (batch, n, d).

        layers: number of layers to compute, without the transform to the softmax; 0 gives the input of the first layer.
        """
        raise NotImplementedError

    def predict(self, batch: Batch) -> Tensor:
        """The hidden vectors of `forward` (k, d) at the k requested positions, computed as cheaply as possible."""
        raise NotImplementedError

    def set_dropout(self, probability: float) -> None:
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = probability


ROWS = 4096  # of hidden vectors, at most: with a slice of the vocabulary they bound memory
CPU_SLICE, GPU_SLICE = 2048, 16384  # on a CPU a slice's logits stay in the cache; whole, memory traffic costs half more

Linear = Callable[[Tensor], Tensor]


class TiedSoftmax:
    """log softmax(hidden @ embeddings.T), natural log, without the matrix of all logits.

    The log-sum-exp is taken over slices of the vocabulary, each with its own largest logit taken out, and then over
    these: it cannot overflow.
    """

    def __init__(self, embeddings: Tensor, slices: Sequence[Linear] | None = None, bias: Tensor | None = None) -> None:
        """
        Args:
            embeddings: (vocabulary, d). bias: (vocabulary,), added to the logits.
            slices: maps of hidden vectors to the logits of parts of the vocabulary, where these are not to be plain
                products with `split(embeddings)`.
        """
        self._embeddings = embeddings
        self._parts = split(embeddings)
        self._slices, self._bias = slices, bias

    def log_probs(self, hidden: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
        """The log-probability of each target (k,) given the hidden vector in its row (k,) of (m, d); float32 (k,)."""
        total = torch.cat([self._log_sum_exp(chunk) for chunk in hidden.split(ROWS)])
        chosen = (hidden.float()[rows] * self._embeddings[targets].float()).sum(-1)
        if self._bias is not None:
            chosen = chosen + self._bias[targets].float()
        return chosen - total[rows]

    def most_probable(self, hidden: Tensor) -> Tensor:
        """The token with the largest logit for each hidden vector of (m, d): (m,)."""
        return torch.cat([self._largest(chunk) for chunk in hidden.split(ROWS)])

    def _largest(self, hidden: Tensor) -> Tensor:
        values, tokens, start = [], [], 0
        for number, part in enumerate(self._parts):
            logits = self._slices[number](hidden) if self._slices else hidden @ part.T
            if self._bias is not None and not self._slices:  # a slice's map has its part of the bias
                logits = logits + self._bias[start : start + len(part)]
            value, token = logits.float().max(-1)
            values.append(value)
            tokens.append(token + start)
            start += len(part)
        return torch.stack(tokens).gather(0, torch.stack(values).argmax(0)[None])[0]

    def _log_sum_exp(self, hidden: Tensor) -> Tensor:
        if self._slices:
            parts = [log_sum_exp_(linear(hidden)) for linear in self._slices]
        elif self._bias is not None:
            biases = split(self._bias)
            parts = [log_sum_exp_(hidden @ part.T + bias) for part, bias in zip(self._parts, biases, strict=True)]
        else:  # into the same memory each time: asking the system for more costs as much as the exponentials
            memory = hidden.new_empty(len(hidden) * len(self._parts[0]))
            parts = []
            for part in self._parts:
                logits = memory[: len(hidden) * len(part)].view(len(hidden), len(part))
                parts.append(log_sum_exp_(torch.mm(hidden, part.T, out=logits)))
        return torch.stack(parts).logsumexp(0)


def log_sum_exp_(logits: Tensor) -> Tensor:
    """Of each row, in float32; the logits are overwritten."""
    logits = logits.float()
    peak = logits.amax(-1, keepdim=True)
    return logits.sub_(peak).exp_().sum(-1).log_().add_(peak.squeeze(-1))


def split(embeddings: Tensor) -> Sequence[Tensor]:
    """The slices of the vocabulary."""
    return embeddings.split(CPU_SLICE if embeddings.device.type == "cpu" else GPU_SLICE)


class Attention(nn.Module):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key = nn.Linear(config.d_model, config.d_model)
        self.value = nn.Linear(config.d_model, config.d_model)
        self.output = nn.Linear(config.d_model, config.d_model)
        self.dropout = nn.Dropout(0.0)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """query (batch, n, d), memory (batch, m, d), mask (batch or 1, 1, n, m), True where attention may look."""
        query, key, value = (
            split_heads(x, self.heads) for x in (self.query(query), self.key(memory), self.value(memory))
        )
        if query.device.type == "cpu" and query.dtype == torch.bfloat16:
            # Forward and backward pass of PyTorch's own function take 2.9 times as long for that (2.13, 20 tokens).
            logits = (query * key.shape[-1] ** -0.5) @ key.transpose(-2, -1)
            weights = logits.masked_fill(~mask, float("-inf")).softmax(-1)
            context = self.dropout(weights).to(value.dtype) @ value
        else:
            dropout = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return self.output(context.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """H = g(Norm(Q + Attention(Q, K, V))), g(x) = Norm(x + FFN(x)): equation (1) of the paper."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.fc1 = nn.Linear(config.d_model, config.d_ff)
        self.fc2 = nn.Linear(config.d_ff, config.d_model)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(0.0)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        hidden = self.attention_norm(query + self.dropout(self.attention(query, memory, mask)))
        return self.feed_forward_norm(hidden + self.dropout(self.fc2(F.gelu(self.fc1(hidden)))))

    def finish(self, query: Tensor, context: Tensor) -> Tensor:
        """The part of a block after the attention, for scoring: query and context before `output` (k, d) -> hidden (k,
        d)."""
        hidden = self.attention_norm(query + self.attention.output(context))
        return self.feed_forward_norm(hidden + self.fc2(F.gelu(self.fc1(hidden))))


class OutputTransform(nn.Module):
    """BERT's dense layer, gelu and LayerNorm between the last block and the softmax."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = nn.LayerNorm(config.d_model)

    def forward(self, hidden: Tensor) -> Tensor:
        return cast(Tensor, self.norm(F.gelu(self.dense(hidden))))


class Transformer(Network):
    """Embeddings, blocks, and the softmax tied to the embeddings; subclasses define the attention."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.position_embedding = nn.Embedding(config.max_positions, config.d_model)
        if config.sentences > 1:
            self.sentence_embedding = nn.Embedding(config.sentences, config.d_model)
        self.embedding_norm = nn.LayerNorm(config.d_model) if config.embedding_norm else nn.Identity()
        self.embedding_dropout = nn.Dropout(0.0)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output_transform = OutputTransform(config) if config.output_transform else nn.Identity()
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None
        self.apply(initialise)
        if config.sentences > 1:  # at first a sentence reads alike wherever it stands: weights without these fit
            nn.init.zeros_(self.sentence_embedding.weight)

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        """Token embeddings without positions: tokens of any shape -> (..., d).

        In sequences of several sentences, a token of sentence s has the number `id + s * vocab_size`.
        """
        if self.config.sentences == 1:
            return cast(Tensor, self.token_embedding(tokens))
        size = self.config.vocab_size
        return cast(Tensor, self.token_embedding(tokens % size) + self.sentence_embedding(tokens // size))

    def places(self, tokens: Tensor) -> Tensor:
        """The position of each token (batch, n) in its sentence: (n,) or, of several sentences, (batch, n)."""
        columns = torch.arange(tokens.shape[1], device=tokens.device)
        if self.config.sentences == 1 or int(tokens.max()) < self.config.vocab_size:
            return columns
        number = tokens // self.config.vocab_size
        begins = number != number.roll(1, dims=1)
        start = torch.where(begins, columns, 0).cummax(dim=1).values
        return (columns - start).clamp_max(self.config.max_positions - 1)  # padding may go on for longer

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens (batch, n) -> X + P (batch, n, d), through a LayerNorm where the configuration has one."""
        return self.embed_pairs(tokens, self.places(tokens))

    def embed_pairs(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Token embeddings at given positions: the shapes are equal, or the positions broadcast -> (..., d)."""
        return cast(Tensor, self.embedding_norm(self.embed_tokens(tokens) + self.position_embedding(positions)))

    def layers(self) -> list[Block]:
        return [cast(Block, block) for block in self.blocks]


def initialise(module: nn.Module) -> None:
    """Fresh random weights of one module, as `apply` wants it."""
    # Variances are kept from layer to layer (Glorot and Bengio 2010). BERT's 0.02 everywhere presumes its LayerNorm on
    # the embeddings; without one, as here, values start so small that training stays at unigram statistics for long.
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(batch, n, d) -> (batch, heads, n, d / heads)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(heads: int, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Scaled dot-product attention for scoring: projected (batch, n, d), mask (batch or 1, 1, n or 1, n) to add."""
    query, key, value = (split_heads(x, heads) for x in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(-2)


def additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """(batch or 1, n or 1, n), True where attention may look -> (batch or 1, 1, n or 1, n) to add to its logits."""
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    # The least number, not minus infinity: padding sees nothing, and must not become NaN.
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """lengths (batch,) -> (batch, size), True where a sentence has a token."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


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
