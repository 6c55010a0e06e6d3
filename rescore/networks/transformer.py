"""The blocks that all networks share. Post-norm Transformer layers whose query and memory are given apart.

With `memory is query` a block is the usual self-attention layer (biLM, uniLM); with a memory that stays the same in all
layers it is the T-TA's (input isolation).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.networks.batch import Batch
from rescore.networks.config import NetworkConfig


class Attention(nn.Module):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key = nn.Linear(config.d_model, config.d_model)
        self.value = nn.Linear(config.d_model, config.d_model)
        self.output = nn.Linear(config.d_model, config.d_model)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor, dropout: float) -> Tensor:
        """query (batch, n, d), memory (batch, m, d), mask (batch or 1, 1, n, m), True where attention may look."""

        def split(x: Tensor) -> Tensor:  # (batch, n, d) -> (batch, heads, n, d / heads)
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        query, key, value = split(self.query(query)), split(self.key(memory)), split(self.value(memory))
        logits = (query * key.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        weights = logits.masked_fill(~mask, float("-inf")).softmax(-1)
        context = F.dropout(weights, dropout, self.training).to(value.dtype) @ value
        return self.output(context.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """H = g(Norm(Q + Attention(Q, K, V))), g(x) = Norm(x + FFN(x)): equation (1) of the paper."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.widen = nn.Linear(config.d_model, config.d_ff)
        self.narrow = nn.Linear(config.d_ff, config.d_model)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor, dropout: float) -> Tensor:
        context = self.attention(query, memory, mask, dropout)
        hidden = self.attention_norm(query + F.dropout(context, dropout, self.training))
        inner = self.narrow(F.gelu(self.widen(hidden)))
        return self.feed_forward_norm(hidden + F.dropout(inner, dropout, self.training))


class Transformer(nn.Module):
    """Embeddings, blocks, and the softmax tied to the embeddings; what attends to what is the subclass's.

    `dropout` is a habit of training, not a property of the network: the training loop sets it, checkpoints do not.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = 0.0
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_positions, config.d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.apply(_initialise)

    def embed(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """tokens (batch, n) -> X + P (batch, n, d) and P (n, d)."""
        positions = self.positions.weight[: tokens.shape[1]]
        return self.tokens(tokens) + positions, positions

    def layers(self) -> list[Block]:
        return [cast(Block, block) for block in self.blocks]

    def predict(self, batch: Batch) -> Tensor:
        """The hidden vectors of `forward` (k, d) at the k positions asked for, computed as cheaply as possible."""
        raise NotImplementedError

    def active_dropout(self) -> float:
        return self.dropout if self.training else 0.0


def _initialise(module: nn.Module) -> None:
    # Variances are kept from layer to layer (Glorot and Bengio 2010). BERT's 0.02 everywhere presumes its LayerNorm on
    # the embeddings; without one, as here, values start so small that training stays at unigram statistics for long.
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """lengths (batch,) -> (batch, 1, 1, size), True where a sentence has a token."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]
