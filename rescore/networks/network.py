"""What training, checkpoints and scoring need of a network, whatever it is made of."""

from __future__ import annotations

from torch import Tensor, nn

from rescore.networks.batch import Batch
from rescore.networks.config import NetworkConfig


class Network(nn.Module):
    """Reads tokens, and predicts tokens, or something of them, by a softmax.

    Dropout is a habit of training, not a property of the network: `set_dropout` sets it, checkpoints do not know it.
    """

    config: NetworkConfig
    token_embedding: nn.Embedding
    output_bias: nn.Parameter | None

    @property
    def output_weight(self) -> Tensor:
        """(classes, d): the matrix of the softmax, usually the embeddings."""
        return self.token_embedding.weight

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens (batch, n) -> what the first layer reads (batch, n, d)."""
        raise NotImplementedError

    def forward(self, tokens: Tensor, lengths: Tensor, layers: int | None = None) -> Tensor:
        """tokens (batch, n) with their frame, lengths (batch,) -> hidden vectors (batch, n, d).

        layers: of so many only, before the transform to the softmax; 0 gives what the first layer reads.
        """
        raise NotImplementedError

    def predict(self, batch: Batch) -> Tensor:
        """The hidden vectors of `forward` (k, d) at the k positions asked for, computed as cheaply as possible."""
        raise NotImplementedError

    def set_dropout(self, probability: float) -> None:
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = probability
