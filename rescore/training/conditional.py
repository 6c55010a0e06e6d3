"""A T-TA or a masked model that reads a source: what it learns from pairs (dissertation, chapter 6)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rescore.networks.tokenizer import Tokenizer
from rescore.training.objectives import Example, Objective


class SourceObjective:
    """Another objective, for the second of two sentences; the first is seen by all positions and not predicted.

    A pair comes as [BOS] source [EOS] [BOS] target [EOS].
    """

    def __init__(self, objective: Objective, tokenizer: Tokenizer) -> None:
        self.perplexity, self.predicts_end = objective.perplexity, objective.predicts_end
        self._objective, self._bos, self._size = objective, tokenizer.bos, tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        number = (tokens == self._bos).cumsum(dim=1) - 1
        begins = (number == 0).sum(dim=1)
        columns = torch.arange(tokens.shape[1])
        ahead = (columns + begins[:, None]).clamp_max(tokens.shape[1] - 1)
        target = self._objective(tokens.gather(1, ahead), lengths - begins, seed)
        behind = (columns - begins[:, None]).clamp_min(0)
        shown = torch.where(number > 0, target.tokens.gather(1, behind), tokens)
        predicted = (number > 0) & target.predicted.gather(1, behind)
        return Example(shown + number * self._size, lengths, predicted, target.targets)
