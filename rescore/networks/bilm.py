"""The masked bidirectional language model (dissertation, chapters 3 and 4): BERT's encoder at the T-TA's size."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from rescore.networks import inference
from rescore.networks.batch import Batch
from rescore.networks.transformer import Transformer, padding_mask


class BiLM(Transformer):
    """Every position attends to every other and to itself; what is to be predicted has to be masked in the input."""

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (batch, n) with [BOS] and [EOS], lengths (batch,) -> hidden vectors (batch, n, d)."""
        dropout = self.active_dropout()
        hidden = self.embed(tokens)[0] * self.config.d_model**0.5  # Vaswani et al. 2017, section 3.4
        hidden = F.dropout(hidden, dropout, self.training)
        mask = padding_mask(lengths, tokens.shape[1])
        for block in self.blocks:
            hidden = block(hidden, hidden, mask, dropout)
        return hidden

    def predict(self, batch: Batch) -> Tensor:
        return inference.contextual(self, batch, self.config.d_model**0.5, causal=False)
