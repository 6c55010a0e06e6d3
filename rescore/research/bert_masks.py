"""BERT's masks (Devlin et al. 2019, section 3.1; Shin's dissertation, section 2.3.1):
of the tokens that are predicted, some are not masked.

A biLM that always masks never learns what to do at a token that it sees. BERT shows 80
% of the predicted tokens as [MASK], 10 % as a random token and 10 % unchanged, so the
network also learns to copy. The dissertation's accuracy of "self token prediction"
(0.732, Table 4.1) measures this on sentences without masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import Example, Objective, WrappedObjective


class BertMasks(WrappedObjective):
    """Another objective that masks all predicted tokens; a share of them stays as it
    is, and a share becomes a random token.
    """

    def __init__(
        self, inner: Objective, tokenizer: Tokenizer, keep: float, swap: float
    ) -> None:
        """Make an objective.

        Args:
            inner: The objective that masks tokens.
            tokenizer: The tokenizer; random tokens are not its special tokens.
            keep: Share of the masked tokens that stay as they are.
            swap: Share of the masked tokens that become a random token.
        """
        super().__init__(inner)
        self.perplexity = (
            f"{inner.perplexity.removesuffix(')')}; of these {100 * keep:g} % kept,"
            f" {100 * swap:g} % swapped)"
        )
        self._keep = keep
        self._swap = swap
        self._mask = tokenizer.mask
        frame = {tokenizer.bos, tokenizer.eos, tokenizer.pad}
        special = frame | {tokenizer.mask, tokenizer.unk}
        words = [token for token in range(tokenizer.vocab_size) if token not in special]
        self._words = np.array(words)

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        example = self.inner(tokens, lengths, seed)
        random = np.random.default_rng([*seed, 1])
        share = torch.from_numpy(random.random(len(example.targets)))
        words = torch.from_numpy(random.choice(self._words, len(example.targets)))
        masked = example.tokens[example.predicted]
        # In sequences of several sentences, tokens of sentence s are shifted by s
        # vocabularies.
        shift = masked - self._mask
        kept = share < self._keep
        swapped = ~kept & (share < self._keep + self._swap)
        shown = torch.where(kept, example.targets + shift, masked)
        shown = torch.where(swapped, words + shift, shown)
        return replace(
            example, tokens=example.tokens.masked_scatter(example.predicted, shown)
        )
