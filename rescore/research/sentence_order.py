"""The order of two sentences as a task of training (Shin's dissertation, section
5.4.1).

Two consecutive sentences are read as [BOS] first [EOS] second [EOS], and half of the
pairs are swapped. SOP (Lan et al. 2020) tells from the vector of [BOS] which pairs are
swapped. SRP, the dissertation's task, tells it from the mean vector of the sentences'
tokens, because this mean is the sentence vector of a T-TA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import Example, Objective, Task, inner_positions
from rescore.lms.training.options import TrainingData

IN_ORDER, SWAPPED = 0, 1
"""The labels of pairs."""


def order_task(name: str, data: TrainingData) -> Task:
    """Return the task of a text.

    Args:
        name: `sop` or `srp`.
        data: The training, whose text has windows of two sentences.

    Raises:
        UserError: The text has too few pairs that fit the network.
    """
    longest = data.config.max_positions
    pairs = data.text.windows([data.tokenizer.eos], least=2, longest=longest)
    return Task(name, pairs, SentenceOrder(name, data.tokenizer, data.config.d_model))


class SentenceOrder(Objective):
    """Tells whether the two sentences of a pair are swapped, by a linear classifier of
    one vector.

    The targets of an example are the labels of its pairs. Its predicted positions are
    those whose vectors are averaged: [BOS] for `sop`, the sentences' own tokens for
    `srp`.
    """

    perplexity = "perplexity of the order (chance: 2)"
    head: nn.Linear

    def __init__(self, name: str, tokenizer: Tokenizer, width: int) -> None:
        """Make an objective.

        Args:
            name: `sop` or `srp`.
            tokenizer: The tokenizer.
            width: Size of hidden vectors.
        """
        self._reads_bos = name == "sop"
        self._eos = tokenizer.eos
        self.head = nn.Linear(width, 2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        random = np.random.default_rng([*seed, 2])
        # If the number of pairs is odd, chance decides which label the last one gets.
        numbers = random.permutation(len(tokens)) + random.integers(2)
        labels = torch.from_numpy(numbers % 2)
        shown = tokens.clone()
        for row in (labels == SWAPPED).nonzero().flatten().tolist():
            inner = slice(1, int(lengths[row]) - 1)
            shown[row, inner] = swapped(tokens[row, inner], self._eos)
        read = torch.zeros_like(tokens, dtype=torch.bool)
        if self._reads_bos:
            read[:, 0] = True
        else:
            read = inner_positions(shown, lengths) & (shown != self._eos)
        return Example(shown, lengths, read, labels)

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        return F.cross_entropy(
            self.logits(hidden, example), example.targets, reduction="sum"
        )

    def right(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        guesses = self.logits(hidden, example).argmax(dim=1)
        return (guesses == example.targets).sum()

    def logits(self, hidden: Tensor, example: Example) -> Tensor:
        """Return the logits of the labels.

        Args:
            hidden: Hidden vectors of shape (pairs, n, d).
            example: The pairs.

        Returns:
            Logits of shape (pairs, 2).
        """
        read = example.predicted[..., None]
        mean = (hidden.float() * read).sum(dim=1) / read.sum(dim=1)
        return cast(Tensor, self.head(mean))


def swapped(pair: Tensor, eos: int) -> Tensor:
    """Return `second [EOS] first` for `first [EOS] second`, of shape (tokens,)."""
    end = int((pair == eos).nonzero()[0])
    return torch.cat([pair[end + 1 :], pair[end : end + 1], pair[:end]])
