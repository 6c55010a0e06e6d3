"""The network of `local`, and its objective with an auxiliary head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.networks import TTA, Network
from rescore.lms.training.objectives import Example, LanguageAutoencoding
from rescore_example.local import LocalConfig


class Local(TTA):
    """A T-TA whose positions see `reach` tokens on each side."""

    def __init__(self, config: LocalConfig) -> None:
        super().__init__(config)
        self.reach = config.reach
        self.length_head = nn.Linear(config.d_model, config.longest)

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(batch, n, n), True at [b, i, j] where position i looks at position j."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        near = (places - places[:, None]).abs() <= self.reach
        return super().visible(tokens, lengths) & near


@dataclass(frozen=True, slots=True)
class WithLength(Example):
    """An example with a second target for each sentence."""

    sizes: Tensor
    """(batch,) tokens of each sentence, without the frame."""


class WithLengths(LanguageAutoencoding):
    """Predicts each token from the others, and the length of the sentence from the
    vector of [BOS]. The second loss trains the head that the network brings.
    """

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def __call__(
        self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]
    ) -> WithLength:
        plain = super().__call__(tokens, lengths, seed)
        values = {entry.name: getattr(plain, entry.name) for entry in fields(plain)}
        return WithLength(**values, sizes=lengths - 2)

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        assert isinstance(network, Local) and isinstance(example, WithLength)
        logits = network.length_head(hidden[:, 0].float())
        classes = example.sizes.clamp_max(logits.shape[1] - 1)
        lengths = F.cross_entropy(logits, classes)
        words = super().loss(network, hidden, example)
        return words + self.weight * len(example.targets) * lengths
