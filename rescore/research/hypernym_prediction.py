"""Hypernym class prediction (Bai's thesis, sections 3.3.2 and 3.3.3): steps that
predict the classes of rare nouns, and the curriculum from classes to tokens.

A step of class prediction replaces all tokens that have a class, in the input and among
the targets. Its softmax runs over the classes and the tokens without class (equation
3.2). The other steps, validation and scoring predict tokens (equation 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from rescore.lms.config import NetworkConfig, network_kind
from rescore.lms.networks import Network
from rescore.lms.training.objectives import (
    Example,
    Objective,
    WrappedObjective,
    tied_cross_entropy,
)

Classes = npt.NDArray[np.int64]
"""(vocabulary,), the number of each token's class; -1 for a token without class."""
ROWS = 256
"""Positions whose logits are computed together."""


def predicts_tokens(objective: Objective) -> bool:
    """Return whether an objective predicts tokens by the network's softmax, from what
    the network computes of the tokens.
    """
    usual: type[Objective] = Objective
    if isinstance(objective, WrappedObjective):
        if not predicts_tokens(objective.inner):
            return False
        usual = WrappedObjective
    own = type(objective)
    return own.hidden is usual.hidden and own.loss is usual.loss


def has_outputs_for_tokens(config: NetworkConfig) -> bool:
    """Return whether the softmax of a network is over the vocabulary.

    Args:
        config: The configuration of the network.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network: Network = network_kind(config.kind).network(config)
    return len(network.output_weight) == config.vocab_size


class ClassEmbeddings(nn.Module):
    """The embeddings of classes, which stand beside those of the tokens without class:
    V_h and V_not-x of the thesis.
    """

    rows: Tensor
    """(vocabulary,), the row by which each token is read, in a matrix of all tokens and
    then all classes.
    """
    outputs: Tensor
    """The rows that can be predicted: of tokens without class, and of classes."""
    targets: Tensor
    """(vocabulary,), the place of each token's row among the outputs."""

    def __init__(self, of: Classes, width: int, bias: bool, seed: int) -> None:
        """Make random embeddings, of the size of a network's token embeddings.

        A generator of its own draws them, so that all other random choices of a
        training are the same as without classes.

        Args:
            of: The class of each token.
            width: Width of an embedding.
            bias: Whether the softmax has a bias for each class.
            seed: Decides the embeddings.
        """
        super().__init__()
        number = int(of.max(initial=-1)) + 1
        random = torch.Generator().manual_seed(seed)
        drawn = torch.randn(number, width, generator=random) * width**-0.5
        self.weight = nn.Parameter(drawn)
        self.bias = nn.Parameter(torch.zeros(number)) if bias else None
        classes = torch.from_numpy(of)
        tokens = torch.arange(len(of))
        rows = torch.where(classes < 0, tokens, len(of) + classes)
        outputs = torch.cat([tokens[classes < 0], len(of) + torch.arange(number)])
        places = torch.zeros(len(of) + number, dtype=torch.long)
        places[outputs] = torch.arange(len(outputs))
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("outputs", outputs, persistent=False)
        self.register_buffer("targets", places[rows], persistent=False)


class EmbeddedClasses:
    """Classes with embeddings of their own, as the thesis has them."""

    def __init__(self, of: Classes, config: NetworkConfig, seed: int) -> None:
        """Make the embeddings.

        Args:
            of: The class of each token.
            config: The configuration of the network.
            seed: Decides the embeddings.
        """
        self.head = ClassEmbeddings(of, config.d_model, config.output_bias, seed)

    def hidden(self, network: Network, example: Example) -> Tensor:
        """Return the hidden vectors (batch, n, d) of an example whose tokens are
        replaced by their classes.
        """
        own = network.token_embedding.weight
        embeddings = torch.cat([own, self.head.weight])[self.head.rows]
        return functional_call(
            network,
            {"token_embedding.weight": embeddings},
            (example.tokens, example.lengths),
        )

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        """Return the cross entropy of classes and tokens without class (equation 3.2):
        the sum over targets, natural log.
        """
        head = self.head
        weights = torch.cat([network.output_weight, head.weight])[head.outputs]
        bias: Tensor | None = None
        if network.output_bias is not None and head.bias is not None:
            bias = torch.cat([network.output_bias, head.bias])[head.outputs]
        return tied_cross_entropy(
            hidden[example.predicted],
            weights,
            head.targets[example.targets],
            bias=bias,
        )


class SummedClasses:
    """Classes without parameters: the probability of a class is the sum over its
    tokens. The network reads the tokens as they are.
    """

    head = None

    def __init__(self, of: Classes) -> None:
        """Make the sums.

        Args:
            of: The class of each token.
        """
        classes = torch.from_numpy(of)
        tokens = torch.arange(len(of))
        self._of = torch.where(classes < 0, tokens, len(of) + classes)

    def hidden(self, network: Network, example: Example) -> Tensor:
        """Return the hidden vectors (batch, n, d) of an example."""
        hidden: Tensor = network(example.tokens, example.lengths)
        return hidden

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        """Return the cross entropy of classes: the sum over targets, natural log."""
        of = self._of.to(hidden.device)
        total = hidden.new_zeros((), dtype=torch.float32)
        predicted = hidden[example.predicted]
        slices = zip(predicted.split(ROWS), example.targets.split(ROWS), strict=True)
        for part, targets in slices:
            # The logits of all positions are too large to keep for the gradient.
            total = total + checkpoint(
                _summed_cross_entropy,
                part,
                network.output_weight,
                network.output_bias,
                of,
                targets,
                use_reentrant=False,
            )
        return total


def _summed_cross_entropy(
    hidden: Tensor, weights: Tensor, bias: Tensor | None, of: Tensor, targets: Tensor
) -> Tensor:
    """Return the sum of -log p of the classes of tokens, natural log.

    Args:
        hidden: (positions, d).
        weights: (vocabulary, d).
        bias: (vocabulary,).
        of: (vocabulary,), the class of each token.
        targets: (positions,), the tokens.
    """
    logits = F.linear(hidden, weights.to(hidden.dtype)).float()
    if bias is not None:
        logits = logits + bias
    others = of != of[targets][:, None]
    inside = logits.masked_fill(others, -torch.inf)
    return (logits.logsumexp(-1) - inside.logsumexp(-1)).sum()


class ClassPrediction(WrappedObjective):
    """One step of class prediction with the examples of another objective."""

    def __init__(
        self, inner: Objective, prediction: EmbeddedClasses | SummedClasses
    ) -> None:
        """Make an objective.

        Args:
            inner: The objective that predicts tokens.
            prediction: How classes are predicted; objectives may share it.
        """
        super().__init__(inner)
        self.prediction = prediction
        self.head = prediction.head

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        return self.inner(tokens, lengths, seed)

    def hidden(self, network: Network, example: Example) -> Tensor:
        return self.prediction.hidden(network, example)

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        return self.prediction.loss(network, hidden, example)


class HypernymCurriculum(WrappedObjective):
    """Predicts tokens, or classes in a share of the steps that falls during the
    training. Validation, at the end, predicts tokens.
    """

    def __init__(
        self,
        inner: Objective,
        prediction: EmbeddedClasses | SummedClasses,
        pacing: Callable[[float], float],
        seed: int,
    ) -> None:
        """Make an objective.

        Args:
            inner: The objective that predicts tokens.
            prediction: How classes are predicted; objectives may share it.
            pacing: The probability that a step predicts classes, at a share of the
                training.
            seed: Decides, with the point of the training, which steps predict classes.
        """
        super().__init__(inner)
        self.head = prediction.head
        self._prediction = prediction
        self._pacing = pacing
        self._seed = seed

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        return self.inner(tokens, lengths, seed)

    def at(self, done: float) -> Objective:
        inner = self.inner.at(done)
        place = int(done * 2**53)  # another whole number for each point
        drawn = np.random.default_rng([self._seed, place]).random()
        if drawn < self._pacing(done):
            return ClassPrediction(inner, self._prediction)
        return inner
