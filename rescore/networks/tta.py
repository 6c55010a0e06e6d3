"""The Transformer-based Text Autoencoder (Shin et al., ACL 2020, section 4)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from rescore.networks.batch import Batch, Packing, real_positions
from rescore.networks.config import NetworkConfig
from rescore.networks.memory import NgramMemory
from rescore.networks.tokenizer import MASK_ID
from rescore.networks.towers import Towers, on_both_sides
from rescore.networks.transformer import Transformer, additive, attend, initialise, padding_mask


class TTA(Transformer):
    """Predicts every token from all the others, in one pass.

    Input isolation: keys and values are X + P in every layer; only the query, which starts as P, is updated.
    Diagonal masking: position i never attends to itself. Together they make the network self-unknown: the hidden vector
    at i does not depend on token i.

    With `towers` keys and values are those of two causal towers, the same in every layer, and the first query is P plus
    what both towers have where they meet. With `ngram_memory` what it has on the neighbours of i is added, too.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.towers = Towers(config) if config.towers else None
        if self.towers is not None:
            self.towers.apply(initialise)
        sizes = config.ngram_memory, config.vocab_size, config.d_model
        self.ngram_memory = NgramMemory(*sizes) if config.ngram_memory else None

    def forward(self, tokens: Tensor, lengths: Tensor, layers: int | None = None) -> Tensor:
        """tokens (batch, n) with [BOS] and [EOS], lengths (batch,) -> hidden vectors (batch, n, d).

        layers: of so many blocks only, before the transform to the softmax; 0 gives the first queries, of positions
            alone unless there are towers.
        """
        size = tokens.shape[1]
        memory = self.embedding_dropout(self.embed(tokens))
        query = self.empty(self.places(tokens), tokens // self.config.vocab_size).expand_as(memory)
        if self.towers is None:
            others = ~torch.eye(size, dtype=torch.bool, device=tokens.device)
            mask = padding_mask(lengths, size)[:, None, :] & others
        else:
            mask = on_both_sides(lengths, torch.arange(size, device=tokens.device)[None], size)
            memory = self.towers(memory, lengths)
            query = query + self.towers.meet(memory)
        if self.ngram_memory is not None:
            query = query + self.ngram_memory(
                self.ngram_memory.neighbours(tokens, lengths), self.token_embedding.weight
            )
        mask = mask[:, None]
        for block in self.layers()[:layers]:
            query = block(query, memory, mask)
        return query if layers is not None else cast(Tensor, self.output_transform(query))

    def empty(self, places: Tensor, sentences: Tensor) -> Tensor:
        """The first queries (..., d), which know no token: of places in sentences, and the sentences' own."""
        if self.config.first_query == "mask":
            return self.embed_pairs(MASK_ID + sentences * self.config.vocab_size, places)
        found: Tensor = self.position_embedding(places)
        return found if self.config.sentences == 1 else found + self.sentence_embedding(sentences)

    def predict(self, batch: Batch) -> Tensor:
        """`forward` at the positions asked for, less what cannot change them.

        - Queries of other positions ([BOS], [EOS], padding, neighbouring sentences) are nobody's keys: they are not
          computed, and those that are stand close together.
        - Keys and values depend on a token and its position alone, and their sum comes apart, W (x + p) = W x + W p:
          W x is computed once for each distinct token, W p once for each position. (With a LayerNorm on the embeddings
          it does not come apart: then once for each distinct pair of both.)
        - The first layer's query depends on the position alone, in the sentence and of the sentence (unless there is
          an n-gram memory).
        """
        if self.towers is not None:
            return self._predict_from_towers(batch, self.towers)
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
        packing, column = asked_together(batch.at, rows, columns)
        others = torch.arange(columns, device=column.device) != packing.pad(column[:, None])
        mask = additive(padding_mask(batch.lengths, columns)[:, None, :] & others, positions.dtype)
        sentence = batch.tokens.flatten()[batch.at] // self.config.vocab_size
        asked = places.expand_as(batch.tokens).flatten()[batch.at] * self.config.sentences + sentence
        asked, where = asked.unique(return_inverse=True)
        first = self.empty(asked // self.config.sentences, asked % self.config.sentences)
        query = first[where]
        query = self._remember(batch, query)
        for number, block in enumerate(self.layers()):
            attention = block.attention
            alike = number == 0 and self.ngram_memory is None
            projected = attention.query(first)[where] if alike else attention.query(query)
            key, value = (
                F.embedding(which, F.linear(memory, linear.weight)) + F.embedding(places, linear(positions))
                if apart
                else F.embedding(which, linear(memory))
                for linear in (attention.key, attention.value)
            )
            context = attend(attention.heads, packing.pad(projected), key, value, mask)
            query = block.finish(query, packing.pack(context))
        return cast(Tensor, self.output_transform(query))

    def _remember(self, batch: Batch, query: Tensor) -> Tensor:
        """The first queries (k, d) at the positions asked for, with what the memory adds to them."""
        if self.ngram_memory is None:
            return query
        near = self.ngram_memory.neighbours(batch.tokens, batch.lengths).at(batch.at)
        return query + self.ngram_memory(near, self.token_embedding.weight)

    def _predict_from_towers(self, batch: Batch, towers: Towers) -> Tensor:
        """The same with towers, whose states of padding, and queries of other positions, are not computed."""
        rows, columns = batch.tokens.shape
        places = self.places(batch.tokens).expand_as(batch.tokens)
        real = Packing(real_positions(batch), rows, columns)
        memory = towers.fast(
            real, self.embed_pairs(batch.tokens.flatten()[real.at], places.flatten()[real.at]), batch.lengths
        )
        packing, column = asked_together(batch.at, rows, columns)
        mask = additive(on_both_sides(batch.lengths, packing.pad(column[:, None])[..., 0], columns), memory.dtype)
        sentence = batch.tokens.flatten()[batch.at] // self.config.vocab_size
        query = self.empty(places.flatten()[batch.at], sentence) + towers.meet(memory).flatten(0, 1)[batch.at]
        query = self._remember(batch, query)
        for block in self.layers():
            attention = block.attention
            context = attend(
                attention.heads,
                packing.pad(attention.query(query)),
                attention.key(memory),
                attention.value(memory),
                mask,
            )
            query = block.finish(query, packing.pack(context))
        return cast(Tensor, self.output_transform(query))


def asked_together(at: Tensor, rows: int, columns: int) -> tuple[Packing, Tensor]:
    """Queries (k,) of a (rows, columns) grid as a narrower one that has no others, and their columns (k,)."""
    row, column = at // columns, at % columns
    rank = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)  # of a query in its row
    width = int(rank.max()) + 1
    return Packing(row * width + rank, rows, width), column
