"""The network of a T-TA and its objective.

With phrase keys, a T-TA attends to a token together with the two tokens before it, or behind it.

Keys and values of the paper's T-TA are single tokens, so no layer sees a phrase. Here, each token has two keys: from
the left, E(x_j) + P_j + f(x_j, x_j-1, x_j-2), which only positions behind j look at, and from the right, E(x_j) + P_j +
g(x_j, x_j+1, x_j+2), for positions before j. So position i still knows nothing of token i, and one pass is enough. The
first query at i is P_i plus what the phrases on both sides of i add to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.config import NetworkConfig
from rescore.lms.networks import Batch, Packing, Transformer, additive, attend, padding_mask
from rescore.lms.tokenizer import MASK_ID
from rescore.lms.training.objectives import Example, Objective, inner_positions

WIDTH = 3
"""Tokens in a phrase."""


class Keys(NamedTuple):
    """The phrases of one side in some sequences."""

    vectors: Tensor
    """(k, d): E(token) + f of each phrase."""
    which: Tensor
    """(batch, n): the phrase of each position."""
    added: Tensor
    """(k + 1, d): the addition of each phrase to the query of the next position; the last row stands for no phrase."""
    beside: Tensor
    """(batch, n): the phrase next to each position."""


class Phrases(nn.Module):
    """One side: f(a, b, c) = K gelu(A E(a) + B E(b) + C E(c) + bias), and the same with another K for the query.

    Both K are zero at first, so weights of a T-TA without phrases fit and give the same results.
    """

    def __init__(self, d_model: int, units: int, none: int) -> None:
        """none: a number above all tokens, for places beyond the sequence."""
        super().__init__()
        self.none = none
        self.words = nn.Linear(d_model, WIDTH * units, bias=False)
        self.bias = nn.Parameter(torch.zeros(units))
        self.key = nn.Linear(units, d_model, bias=False)
        self.query = nn.Linear(units, d_model, bias=False)
        nn.init.xavier_uniform_(self.words.weight)
        nn.init.zeros_(self.key.weight)
        nn.init.zeros_(self.query.weight)

    def forward(self, tokens: Tensor, backwards: bool, embed: Callable[[Tensor], Tensor], distinct: bool) -> Keys:
        """Find the phrases of tokens (batch, n), with `none` as padding.

        Args:
            backwards: phrases extend behind their token, not before it.
            embed: of tokens of any shape -> (..., d).
            distinct: compute phrases that occur several times, as in an N-best list, once.
        """
        steps = [-k if backwards else k for k in range(WIDTH)]
        phrases = torch.stack([shifted(tokens, step, self.none) for step in steps], -1)
        if distinct:
            base = self.none + 1
            numbers = (phrases[..., 0] * base + phrases[..., 1]) * base + phrases[..., 2]
            numbers, which = numbers.unique(return_inverse=True)
            phrases = torch.stack([numbers // base**2, numbers // base % base, numbers % base], -1)
        else:
            phrases, which = (
                phrases.flatten(0, 1),
                torch.arange(tokens.numel(), device=tokens.device).view(tokens.shape),
            )
        units = self.units(phrases, embed)
        added = self.query(units) * (phrases[:, :1] < self.none)
        vectors = embed(phrases[:, 0].clamp_max(self.none - 1)) + self.key(units)
        return Keys(vectors, which, F.pad(added, (0, 0, 0, 1)), shifted(which, -1 if backwards else 1, len(phrases)))

    def units(self, phrases: Tensor, embed: Callable[[Tensor], Tensor]) -> Tensor:
        """(k, WIDTH), the nearest token first -> (k, units)."""
        words, which = phrases.unique(return_inverse=True)  # each is multiplied once
        table = self.words(embed(words.clamp_max(self.none - 1))) * (words < self.none)[:, None]
        total = self.bias.to(table.dtype)
        for place, part in enumerate(table.chunk(WIDTH, dim=-1)):
            total = total + F.embedding(which[:, place], part)
        return F.gelu(total)


def shifted(grid: Tensor, step: int, fill: int) -> Tensor:
    """grid (batch, n), `step` places to the right, or to the left where it is negative."""
    return F.pad(grid, (step, -step), value=fill)


def before_and_behind(lengths: Tensor, columns: Tensor, size: int) -> Tensor:
    """(batch, ..., 2 n), True where a query at `columns` (batch or 1, ...) may look: at keys from the left that stand
    before it, and at those from the right behind it."""
    places = torch.arange(size, device=lengths.device)
    real = padding_mask(lengths, size).view(-1, *[1] * (columns.dim() - 1), size)
    return torch.cat([(places < columns[..., None]) & real, (places > columns[..., None]) & real], dim=-1)


class TTA(Transformer):
    """Predicts every token from all the others, in one pass.

    Input isolation: keys and values are X + P in every layer; only the query, which starts as P, is updated.
    Diagonal masking: position i never attends to itself. Together they make the network self-unknown: the hidden vector
    at i does not depend on token i.

    With `phrases`, keys and values belong to phrases: positions behind j see the phrase that ends at j, positions
    before j the phrase that begins at j. The first query is P plus the additions of the two neighbouring phrases.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        none = config.vocab_size * config.sentences
        self.phrases = nn.ModuleList(
            Phrases(config.d_model, config.phrases, none) for _ in range(2 if config.phrases else 0)
        )

    def forward(self, tokens: Tensor, lengths: Tensor, layers: int | None = None) -> Tensor:
        """tokens (batch, n) with [BOS] and [EOS], lengths (batch,) -> hidden vectors (batch, n, d).

        layers: number of blocks to compute, without the transform to the softmax; 0 gives the first queries, which
        depend on positions alone unless the network has phrases.
        """
        columns = torch.arange(tokens.shape[1], device=tokens.device)[None]
        mask = self.visible(tokens, lengths, columns)
        tokens = self.key_tokens(tokens)
        places = self.places(tokens)
        query = self.initial_query(places, tokens // self.config.vocab_size).expand(*tokens.shape, -1)
        if self.phrases:
            keys = self._phrases(tokens, lengths, distinct=False)
            positions = self.position_embedding(places)
            memory = torch.cat([F.embedding(side.which, side.vectors) + positions for side in keys], dim=1)
            query = query + sum(F.embedding(side.beside, side.added) for side in keys)
        else:
            memory = self.embed_pairs(tokens, places)
        memory, mask = self.embedding_dropout(memory), mask[:, None]
        for block in self.layers()[:layers]:
            query = block(query, memory, mask)
        return query if layers is not None else cast(Tensor, self.output_transform(query))

    def key_tokens(self, tokens: Tensor) -> Tensor:
        """The tokens (batch, n), without information that only `visible` reads."""
        return tokens

    def visible(self, tokens: Tensor, lengths: Tensor, columns: Tensor) -> Tensor:
        """(batch, m, keys), True at keys that queries at `columns` (batch or 1, m) may see: all but their own tokens;
        with phrases (two keys per token), all phrases without their own tokens."""
        size = tokens.shape[1]
        if self.phrases:
            return before_and_behind(lengths, columns, size)
        elsewhere = torch.arange(size, device=tokens.device) != columns[..., None]
        return padding_mask(lengths, size)[:, None, :] & elsewhere

    def _phrases(self, tokens: Tensor, lengths: Tensor, distinct: bool) -> list[Keys]:
        """From the left and from the right; see `Phrases.forward`."""
        sides = [cast(Phrases, side) for side in self.phrases]
        if not sides:
            return []
        real = tokens.masked_fill(~padding_mask(lengths, tokens.shape[1]), sides[0].none)
        return [side(real, backwards, self.embed_tokens, distinct) for backwards, side in enumerate(sides)]

    def initial_query(self, places: Tensor, sentences: Tensor) -> Tensor:
        """The first queries (..., d), which know no token: of places in sentences, and the sentences' own."""
        if self.config.first_query == "mask":
            return self.embed_pairs(MASK_ID + sentences * self.config.vocab_size, places)
        query: Tensor = self.position_embedding(places)
        return query if self.config.sentences == 1 else query + self.sentence_embedding(sentences)

    def predict(self, batch: Batch) -> Tensor:
        """`forward` at the requested positions, without computations that cannot change them.

        Returns:
            (k, d), a hidden vector for each of the k positions `batch.at`.

        - Queries of other positions ([BOS], [EOS], padding, neighbouring sentences) are not used as keys: they are
          skipped, and the computed queries are packed.
        - Keys and values depend on a token and its position alone, and their sum separates, W (x + p) = W x + W p:
          W x is computed once for each distinct token, W p once for each position. (With a LayerNorm on the embeddings
          it does not separate; they are computed once for each distinct pair.)
        - The first layer's query depends on the position alone, in the sentence and of the sentence (unless there are
          phrases).
        """
        rows, columns = batch.tokens.shape
        packing, column = pack_positions(batch.at, rows, columns)
        visible = self.visible(batch.tokens, batch.lengths, packing.pad(column[:, None])[..., 0])
        batch = batch._replace(tokens=self.key_tokens(batch.tokens))
        places = self.places(batch.tokens)
        phrases = self._phrases(batch.tokens, batch.lengths, distinct=True)
        memory, which = self._memory(batch.tokens, places, phrases)
        first, where = self._first_queries(batch, places)
        query = first[where]  # (k, d)
        for side in phrases:
            query = query + F.embedding(side.beside.flatten()[batch.at], side.added)
        positions = self.position_embedding.weight[:columns]
        mask = additive(visible, positions.dtype)
        places = torch.cat([places.expand_as(batch.tokens)] * 2, dim=1) if phrases else places
        for number, block in enumerate(self.layers()):
            attention = block.attention
            alike = number == 0 and not phrases
            projected = attention.query(first)[where] if alike else attention.query(query)
            key, value = (  # (batch, keys, d)
                F.embedding(which, linear(memory))
                if self.config.embedding_norm
                else F.embedding(which, F.linear(memory, linear.weight)) + F.embedding(places, linear(positions))
                for linear in (attention.key, attention.value)
            )
            context = attend(attention.heads, packing.pad(projected), key, value, mask)
            query = block.finish(query, packing.pack(context))
        return cast(Tensor, self.output_transform(query))

    def _memory(self, tokens: Tensor, places: Tensor, phrases: Sequence[Keys]) -> tuple[Tensor, Tensor]:
        """The vectors (distinct, d) from which keys and values are computed, and the vector of each key (batch, keys).

        The vectors are phrases (two keys per token), or distinct tokens, or with a LayerNorm on the embeddings distinct
        pairs of token and position. For the tokens 5 7 5 of a sentence, the distinct tokens are 5 7, and `which` is
        0 1 0.

        Args:
            tokens: (batch, n). places: (batch or 1, n), the position of each token in its sentence.
        """
        if phrases:
            left, right = phrases
            which = torch.cat([left.which, right.which + len(left.vectors)], dim=1)
            return torch.cat([left.vectors, right.vectors]), which
        if not self.config.embedding_norm:
            distinct, which = tokens.unique(return_inverse=True)
            return self.embed_tokens(distinct), which
        columns = tokens.shape[1]
        pairs, which = (tokens * columns + places).unique(return_inverse=True)
        return self.embed_pairs(pairs // columns, pairs % columns), which

    def _first_queries(self, batch: Batch, places: Tensor) -> tuple[Tensor, Tensor]:
        """The distinct first queries (distinct, d), and which of them is that of each position in `batch.at` (k,)."""
        sentences = batch.tokens.flatten()[batch.at] // self.config.vocab_size
        pairs = places.expand_as(batch.tokens).flatten()[batch.at] * self.config.sentences + sentences
        pairs, where = pairs.unique(return_inverse=True)
        return self.initial_query(pairs // self.config.sentences, pairs % self.config.sentences), where


def pack_positions(at: Tensor, rows: int, columns: int) -> tuple[Packing, Tensor]:
    """Queries (k,) of a (rows, columns) grid packed into a narrower grid that has no other queries, and their columns
    (k,)."""
    row, column = at // columns, at % columns
    rank = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)  # of a query in its row
    width = int(rank.max()) + 1
    return Packing(row * width + rank, rows, width), column


class LanguageAutoencoding(Objective):
    """LAE (section 4.1 of the T-TA paper): every token of the intact sentence is predicted.

    [BOS] and [EOS] are context: nothing that is scored depends on how well they are predicted.
    """

    perplexity = "pseudo-perplexity"

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        predicted = inner_positions(tokens, lengths)
        return Example(tokens, lengths, predicted, tokens[predicted])
