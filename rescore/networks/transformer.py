"""The blocks that all networks share. Post-norm Transformer layers whose query and memory are given apart.

With `memory is query` a block is the usual self-attention layer (biLM, uniLM); with a memory that stays the same in all
layers it is the T-TA's (input isolation).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.networks.config import NetworkConfig
from rescore.networks.network import Network


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
        """What comes after the attention, for scoring: query and context before `output` (k, d) -> hidden (k, d)."""
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
    """Embeddings, blocks, and the softmax tied to the embeddings; what attends to what is the subclass's."""

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
        """What stands for a token wherever in its sentence it stands: tokens of any shape -> (..., d).

        Where a sequence has several sentences, a token of sentence s has the number `id + s * vocab_size`.
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
        """The same at given positions: both of one shape, or that of the positions broadcast -> (..., d)."""
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
