"""The discriminator of ELECTRA (Clark et al. 2020): of each token, whether it was put in place of another."""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor, nn

from rescore.networks.config import NetworkConfig
from rescore.networks.encoder import Encoder


class Verdict(IntEnum):
    ORIGINAL = 0
    REPLACED = 1


class Electra(Encoder):
    """A biLM whose softmax is over two verdicts, not over the vocabulary. Nothing is masked, and one pass is enough."""

    causal = False

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.verdict_embedding = nn.Embedding(len(Verdict), config.d_model)
        self.output_bias = nn.Parameter(torch.zeros(len(Verdict)))
        nn.init.normal_(self.verdict_embedding.weight, std=config.d_model**-0.5)

    @property
    def output_weight(self) -> Tensor:
        return self.verdict_embedding.weight
