"""The Transformer-based Text Autoencoder (Shin et al., ACL 2020, section 4)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from rescore.networks.batch import Batch, Packing
from rescore.networks.transformer import Transformer, additive, attend, padding_mask


class TTA(Transformer):
    """Predicts every token from all the others, in one pass.

    Input isolation: keys and values are X + P in every layer; only the query, which starts as P, is updated.
    Diagonal masking: position i never attends to itself. Together they make the network self-unknown: the hidden vector
    at i does not depend on token i.
    """

    def forward(self, tokens: Tensor, lengths: Tensor, layers: int | None = None) -> Tensor:
        """tokens (batch, n) with [BOS] and [EOS], lengths (batch,) -> hidden vectors (batch, n, d).

        layers: of so many blocks only, before the transform to the softmax; 0 gives positions, which know no token.
        """
        size = tokens.shape[1]
        memory = self.embedding_dropout(self.embed(tokens))
        query = self.empty(self.places(tokens), tokens // self.config.vocab_size).expand_as(memory)
        others = ~torch.eye(size, dtype=torch.bool, device=tokens.device)
        mask = padding_mask(lengths, size)[:, None, None, :] & others
        for block in self.layers()[:layers]:
            query = block(query, memory, mask)
        return query if layers is not None else cast(Tensor, self.output_transform(query))

    def empty(self, places: Tensor, sentences: Tensor) -> Tensor:
        """The first queries (..., d), which know no token: of places in sentences, and the sentences' own."""
        found: Tensor = self.position_embedding(places)
        return found if self.config.sentences == 1 else found + self.sentence_embedding(sentences)

    def predict(self, batch: Batch) -> Tensor:
        """`forward` at the positions asked for, less what cannot change them.

        - Queries of other positions ([BOS], [EOS], padding, neighbouring sentences) are nobody's keys: they are not
          computed, and those that are stand close together.
        - Keys and values depend on a token and its position alone, and their sum comes apart, W (x + p) = W x + W p:
          W x is computed once for each distinct token, W p once for each position. (With a LayerNorm on the embeddings
          it does not come apart: then once for each distinct pair of both.)
        - The first layer's query depends on the position alone, in the sentence and of the sentence.
        """
        rows, columns = batch.tokens.shape
        positions = self.position_embedding.weight[:columns]
        places = self.places(batch.tokens)
        apart = not self.config.embedding_norm
        if apart:
            distinct, which = batch.tokens.unique(return_inverse=True)
            memory = self.embed_tokens(distinct)
        else:
            pairs, which = (batch.tokens * len(positions) + places).unique(return_inverse=True)
            memory = self.embed_pairs(pairs // len(positions), pairs % len(positions))
        row, column = batch.at // columns, batch.at % columns
        rank = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)  # of a query in its row
        width = int(rank.max()) + 1
        packing = Packing(row * width + rank, rows, width)
        others = torch.arange(columns, device=row.device) != packing.pad(column[:, None])
        mask = additive(padding_mask(batch.lengths, columns)[:, None, :] & others, positions.dtype)
        sentence = batch.tokens.flatten()[batch.at] // self.config.vocab_size
        asked = places.expand_as(batch.tokens).flatten()[batch.at] * self.config.sentences + sentence
        asked, where = asked.unique(return_inverse=True)
        first = self.empty(asked // self.config.sentences, asked % self.config.sentences)
        query = first[where]
        for number, block in enumerate(self.layers()):
            attention = block.attention
            projected = attention.query(query) if number else attention.query(first)[where]
            key, value = (
                F.embedding(which, F.linear(memory, linear.weight)) + F.embedding(places, linear(positions))
                if apart
                else F.embedding(which, linear(memory))
                for linear in (attention.key, attention.value)
            )
            context = attend(attention.heads, packing.pad(projected), key, value, mask)
            query = block.finish(query, packing.pack(context))
        return cast(Tensor, self.output_transform(query))
