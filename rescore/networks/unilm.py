"""The unidirectional language model of the papers: causal attention, the T-TA's size."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rescore.networks import inference
from rescore.networks.batch import Batch
from rescore.networks.transformer import Transformer, padding_mask


class UniLM(Transformer):
    """Position i attends to 0 ... i, and its hidden vector predicts the token at i + 1.

    The backward model is the same network on reversed sentences.
    """

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (batch, n) with [BOS], lengths (batch,) -> hidden vectors (batch, n, d)."""
        size = tokens.shape[1]
        dropout = self.active_dropout()
        hidden = self.embed(tokens)[0] * self.config.d_model**0.5  # Vaswani et al. 2017, section 3.4
        hidden = F.dropout(hidden, dropout, self.training)
        past = torch.ones(size, size, dtype=torch.bool, device=tokens.device).tril()
        mask = padding_mask(lengths, size) & past
        for block in self.blocks:
            hidden = block(hidden, hidden, mask, dropout)
        return hidden

    def predict(self, batch: Batch) -> Tensor:
        return inference.contextual(self, batch, self.config.d_model**0.5, causal=True)
