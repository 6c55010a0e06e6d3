"""One network, four attention masks (Dong et al. 2019, UniLM): what a position may see is decided by its segment.

A token of segment s has the number `id + s * vocab_size`: batches, trees and masked copies are what they are for the
other networks, and say with their tokens in which way they are to be read.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.networks.config import NetworkConfig
from rescore.networks.encoder import Encoder
from rescore.networks.transformer import padding_mask


class Segment(IntEnum):
    """What a token belongs to. As in the paper the segment also tells the network the objective (section 2.2)."""

    BOTH = 0
    """A sentence read from both sides; what is predicted is masked (cloze)."""
    FORWARD = 1
    """A sentence read from left to right; each position predicts the next token."""
    BACKWARD = 2
    """A sentence in reversed order, read in the same way."""
    SOURCE = 3
    """[BOS] source [EOS], which sees itself from both sides."""
    TARGET = 4
    """target [EOS] behind it, which sees the source and its own past; the source's [EOS] predicts its first token."""
    SECOND = 5
    """Another sentence and its [EOS], behind one that is BOTH; each sees the other as itself, and is masked."""


class Unified(Encoder):
    """A position sees all of a BOTH, SECOND or SOURCE segment, and of the others itself and what stands before it.

    The paper predicts masked tokens under all masks, and with `cloze` so does this. Without, only BOTH and SECOND
    do; the others predict the next token, as uniLM does: all tokens are learned from instead of 15 %.
    """

    causal = False

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.segment_embedding = nn.Embedding(Segment.SECOND, config.d_model)
        nn.init.normal_(self.segment_embedding.weight, std=config.d_model**-0.5)
        # What SECOND has beside BOTH: nothing at first, so that weights that were trained without it fit.
        self.second = nn.Parameter(torch.zeros(config.d_model)) if config.bi_source else None

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        size, segments = self.config.vocab_size, self.segment_embedding.weight
        if self.second is not None:
            segments = torch.cat([segments, segments[:1] + self.second])
        return self.token_embedding(tokens % size) + F.embedding(tokens // size, segments)

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        size = tokens.shape[1]
        segments = tokens // self.config.vocab_size
        open_to_all = (segments == Segment.BOTH) | (segments == Segment.SECOND) | (segments == Segment.SOURCE)
        before = torch.ones(size, size, dtype=torch.bool, device=tokens.device).tril()
        return padding_mask(lengths, size)[:, None, :] & (before | open_to_all[:, None, :])
