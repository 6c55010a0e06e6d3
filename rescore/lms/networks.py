"""The definition of the networks: T-TA, biLM and uniLM are one Transformer with three
masks of attention.

`rescore.lms.fast` computes the same hidden vectors at less cost, and a test holds both
equal. It uses the masks of `visible`, except where a uniLM reads a list as a tree of
prefixes: that mask is `PrefixTree.visible` of `rescore.lms.causal`, and must agree.
"""

from __future__ import annotations

from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import MASK_ID


class Network(nn.Module):
    """Reads tokens, and predicts tokens by a softmax whose matrix is the embeddings.

    Dropout belongs to the training, not to the network: `set_dropout` sets it, and
    checkpoints do not have it.
    """

    config: NetworkConfig
    token_embedding: nn.Embedding
    output_transform: nn.Module
    output_bias: nn.Parameter | None

    def add_output(self, config: NetworkConfig) -> None:
        """Add what stands between the last layer and the softmax: the transform and the
        bias, where the configuration has them.

        Args:
            config: The configuration of the network.
        """
        self.output_transform = nn.Identity()
        if config.output_transform:
            self.output_transform = OutputTransform(config)
        self.output_bias = None
        if config.output_bias:
            self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))

    @property
    def output_weight(self) -> Tensor:
        """The matrix of the softmax (vocabulary, d): the token embeddings, unless the
        network has another.
        """
        return self.token_embedding.weight

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the input of the first layer.

        Args:
            tokens: Tokens of shape (batch, n), with their frame.

        Returns:
            Vectors of shape (batch, n, d).
        """
        raise NotImplementedError

    def forward(
        self, tokens: Tensor, lengths: Tensor, layers: int | None = None
    ) -> Tensor:
        """Return hidden vectors.

        Args:
            tokens: Tokens of shape (batch, n), with their frame, padded behind.
            lengths: Lengths of shape (batch,).
            layers: Number of layers to compute, without the transform to the softmax; 0
                gives the input of the first layer. None for all layers and the
                transform.

        Returns:
            Vectors of shape (batch, n, d).
        """
        raise NotImplementedError

    def set_dropout(self, probability: float) -> None:
        """Set the dropout of all layers.

        Args:
            probability: The probability that a value becomes 0 in training.
        """
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = probability


class Attention(nn.Module):
    """Multi-head scaled dot-product attention (Vaswani et al. 2017)."""

    def __init__(self, config: NetworkConfig) -> None:
        """Make the four linear maps.

        Args:
            config: The configuration of the network.
        """
        super().__init__()
        self.heads = config.heads
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key = nn.Linear(config.d_model, config.d_model)
        self.value = nn.Linear(config.d_model, config.d_model)
        self.output = nn.Linear(config.d_model, config.d_model)
        self.dropout = nn.Dropout(0.0)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Return the attention of queries over a memory.

        Args:
            query: Vectors of shape (batch, n, d).
            memory: Vectors of shape (batch, m, d), which give keys and values.
            mask: (batch or 1, 1, n or 1, m), True where attention may look.

        Returns:
            Vectors of shape (batch, n, d).
        """
        query = split_heads(self.query(query), self.heads)
        key = split_heads(self.key(memory), self.heads)
        value = split_heads(self.value(memory), self.heads)
        if query.device.type == "cpu" and query.dtype == torch.bfloat16:
            # Forward and backward pass of PyTorch's own function take 2.9 times as long
            # for that (2.13, 20 tokens).
            logits = (query * key.shape[-1] ** -0.5) @ key.transpose(-2, -1)
            weights = logits.masked_fill(~mask, float("-inf")).softmax(-1)
            context = self.dropout(weights).to(value.dtype) @ value
        else:
            dropout = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, dropout_p=dropout
            )
        return self.output(context.transpose(1, 2).flatten(-2))


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return vectors cut into heads.

    Args:
        x: Vectors of shape (batch, n, d).
        heads: Number of heads.

    Returns:
        Vectors of shape (batch, heads, n, d / heads).
    """
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """H = g(Norm(Q + Attention(Q, K, V))), g(x) = Norm(x + FFN(x)): equation (1) of the
    paper.
    """

    def __init__(self, config: NetworkConfig) -> None:
        """Make the attention and the feed-forward layer.

        Args:
            config: The configuration of the network.
        """
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.fc1 = nn.Linear(config.d_model, config.d_ff)
        self.fc2 = nn.Linear(config.d_ff, config.d_model)
        self.feed_forward_norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(0.0)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Return the hidden vectors of the block.

        Args:
            query: Vectors of shape (batch, n, d).
            memory: Vectors of shape (batch, m, d), which give keys and values.
            mask: (batch or 1, 1, n or 1, m), True where attention may look.

        Returns:
            Vectors of shape (batch, n, d).
        """
        context = self.dropout(self.attention(query, memory, mask))
        hidden = self.attention_norm(query + context)
        feed_forward = self.dropout(self.fc2(F.gelu(self.fc1(hidden))))
        return self.feed_forward_norm(hidden + feed_forward)


class OutputTransform(nn.Module):
    """BERT's dense layer, gelu and LayerNorm between the last block and the softmax."""

    def __init__(self, config: NetworkConfig) -> None:
        """Make the layers.

        Args:
            config: The configuration of the network.
        """
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = nn.LayerNorm(config.d_model)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the vectors that the softmax reads.

        Args:
            hidden: Vectors of shape (..., d).

        Returns:
            Vectors of shape (..., d).
        """
        return cast(Tensor, self.norm(F.gelu(self.dense(hidden))))


class Transformer(Network):
    """Embeddings, blocks, and the softmax tied to the embeddings; a subclass defines
    where its positions look.

    In sequences of several sentences, a token of sentence s has the number `id + s *
    vocab_size`.
    """

    isolated: ClassVar[bool] = False
    """Whether keys and values are X + P in every layer (input isolation), and not the
    hidden vectors.
    """

    def __init__(self, config: NetworkConfig) -> None:
        """Make a network with fresh random weights.

        Args:
            config: The configuration of the network.
        """
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.position_embedding = nn.Embedding(config.max_positions, config.d_model)
        if config.sentences > 1:
            self.sentence_embedding = nn.Embedding(config.sentences, config.d_model)
        self.embedding_norm: nn.Module = nn.Identity()
        if config.embedding_norm:
            self.embedding_norm = nn.LayerNorm(config.d_model)
        self.embedding_dropout = nn.Dropout(0.0)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.add_output(config)
        self.apply(initialise)
        # At first a sentence reads alike wherever it stands, so that weights of a model
        # without sentence embeddings fit.
        if config.sentences > 1:
            nn.init.zeros_(self.sentence_embedding.weight)

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the mask of attention.

        Args:
            tokens: Tokens of shape (batch, n), padded behind.
            lengths: Lengths of shape (batch,).

        Returns:
            (batch or 1, n or 1, n), True at [b, i, j] where position i looks at
            position j.
        """
        raise NotImplementedError

    def forward(
        self, tokens: Tensor, lengths: Tensor, layers: int | None = None
    ) -> Tensor:
        """Return hidden vectors (batch, n, d), as `Network.forward` says."""
        memory = self.embedding_dropout(self.embed(tokens) * self.scale)
        hidden = self.first_query(tokens) if self.isolated else memory
        mask = self.visible(tokens, lengths)[:, None]
        for block in self.layers()[:layers]:
            hidden = block(hidden, memory if self.isolated else hidden, mask)
        if layers is not None:
            return hidden
        return cast(Tensor, self.output_transform(hidden))

    @property
    def scale(self) -> float:
        """The factor of the embeddings before the first layer."""
        if self.config.scaled_embeddings and not self.isolated:
            return self.config.d_model**0.5
        return 1.0

    def embed(self, tokens: Tensor) -> Tensor:
        """Return X + P, through a LayerNorm where the configuration has one.

        Args:
            tokens: Tokens of shape (batch, n), with their frame.

        Returns:
            Vectors of shape (batch, n, d).
        """
        return self.embed_at(tokens, self.places(tokens))

    def embed_at(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Return X + P for tokens at given places.

        Args:
            tokens: Tokens of any shape.
            places: Positions of the same shape, or of a shape that broadcasts.

        Returns:
            Vectors of shape (..., d).
        """
        embedded = self.embed_tokens(tokens) + self.position_embedding(places)
        return cast(Tensor, self.embedding_norm(embedded))

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        """Return token embeddings without positions.

        Args:
            tokens: Tokens of any shape.

        Returns:
            Vectors of shape (..., d).
        """
        if self.config.sentences == 1:
            return cast(Tensor, self.token_embedding(tokens))
        size = self.config.vocab_size
        of_tokens = self.token_embedding(tokens % size)
        return cast(Tensor, of_tokens + self.sentence_embedding(tokens // size))

    def first_query(self, tokens: Tensor) -> Tensor:
        """Return the query of an isolated network before the first layer, which knows
        no token.

        Args:
            tokens: Tokens of shape (batch, n), which tell sentences and positions.

        Returns:
            Vectors of shape (batch, n, d).
        """
        sentences = tokens // self.config.vocab_size
        query = self.query_at(self.places(tokens), sentences)
        return query.expand(*tokens.shape, -1)

    def query_at(self, places: Tensor, sentences: Tensor) -> Tensor:
        """Return the first queries at places in sentences.

        Args:
            places: Positions of any shape.
            sentences: Numbers of sentences, of the same shape or of a shape that
                broadcasts.

        Returns:
            Vectors of shape (..., d).
        """
        if self.config.first_query == "mask":
            return self.embed_at(MASK_ID + sentences * self.config.vocab_size, places)
        query: Tensor = self.position_embedding(places)
        if self.config.sentences == 1:
            return query
        return query + self.sentence_embedding(sentences)

    def places(self, tokens: Tensor) -> Tensor:
        """Return the position of each token in its sentence.

        Args:
            tokens: Tokens of shape (batch, n).

        Returns:
            Positions of shape (n,), or (batch, n) if there are several sentences.
        """
        columns = torch.arange(tokens.shape[1], device=tokens.device)
        if self.config.sentences == 1 or int(tokens.max()) < self.config.vocab_size:
            return columns
        number = tokens // self.config.vocab_size
        begins = number != number.roll(1, dims=1)
        start = torch.where(begins, columns, 0).cummax(dim=1).values
        # padding may go on for longer
        return (columns - start).clamp_max(self.config.max_positions - 1)

    def layers(self) -> list[Block]:
        """Return the blocks, from the first to the last."""
        return [cast(Block, block) for block in self.blocks]


class TTA(Transformer):
    """Predicts every token from all the others, in one pass.

    Input isolation: keys and values are X + P in every layer; only the query, which
    starts as P, is updated. Diagonal masking: position i never attends to itself.
    Together they make the network self-unknown: the hidden vector at i does not depend
    on token i.
    """

    isolated = True

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return a mask (batch, n, n): all tokens but the position itself."""
        itself = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
        return padding_mask(lengths, tokens.shape[1])[:, None, :] & ~itself


class BiLM(Transformer):
    """BERT's encoder: every position looks at all positions."""

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return a mask (batch, 1, n): all tokens."""
        return padding_mask(lengths, tokens.shape[1])[:, None, :]


class UniLM(Transformer):
    """Every position looks at itself and the positions before it; padding stands
    behind, so no token sees it.
    """

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return a mask (1, n, n): the position itself and the positions before it."""
        size = tokens.shape[1]
        return torch.ones(1, size, size, dtype=torch.bool, device=tokens.device).tril()


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """Return a mask of tokens.

    Args:
        lengths: Lengths of shape (batch,).
        size: Number of positions n.

    Returns:
        (batch, n), True where a sentence has a token.
    """
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def initialise(module: nn.Module) -> None:
    """Give a module fresh random weights, as `nn.Module.apply` calls it.

    Variances are kept from layer to layer (Glorot and Bengio 2010). BERT's 0.02
    everywhere presumes its LayerNorm on the embeddings; without one, as here, values
    start so small that training stays at unigram statistics for long.

    Args:
        module: The module.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
