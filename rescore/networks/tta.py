"""The Transformer-based Text Autoencoder (Shin et al., ACL 2020, section 4)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rescore.networks import inference
from rescore.networks.batch import Batch
from rescore.networks.transformer import Transformer, padding_mask


class TTA(Transformer):
    """Predicts every token from all the others, in one pass.

    Input isolation: keys and values are X + P in every layer; only the query, which starts as P, is updated.
    Diagonal masking: position i never attends to itself. Together they make the network self-unknown: the hidden vector
    at i does not depend on token i.
    """

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (batch, n) with [BOS] and [EOS], lengths (batch,) -> hidden vectors (batch, n, d)."""
        size = tokens.shape[1]
        dropout = self.active_dropout()
        memory, positions = self.embed(tokens)
        memory = F.dropout(memory, dropout, self.training)
        query = positions.expand_as(memory)
        others = ~torch.eye(size, dtype=torch.bool, device=tokens.device)
        mask = padding_mask(lengths, size) & others
        for block in self.blocks:
            query = block(query, memory, mask, dropout)
        return query

    def predict(self, batch: Batch) -> Tensor:
        return inference.isolated(self, batch)
