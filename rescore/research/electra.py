"""ELECTRA (Clark et al. 2020): a network that tells replaced tokens from original tokens. A T-TA replaces them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.base import Capabilities
from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, predict
from rescore.lms.networks import BiLM
from rescore.lms.scorers import Encoded, NetworkScorer, Request
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import Example, Objective, inner_positions, some_of


class Label(IntEnum):
    ORIGINAL = 0
    REPLACED = 1


class Electra(BiLM):
    """A biLM whose softmax is over two labels, not over the vocabulary. Nothing is masked, and one pass is enough."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.verdict_embedding = nn.Embedding(len(Label), config.d_model)
        self.output_bias = nn.Parameter(torch.zeros(len(Label)))
        nn.init.normal_(self.verdict_embedding.weight, std=config.d_model**-0.5)

    @property
    def output_weight(self) -> Tensor:
        return self.verdict_embedding.weight


class ElectraScorer(NetworkScorer):
    """log p(token is original) of each token of the intact sentence."""

    capabilities = Capabilities(pseudo=True, vectors=True)

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        for request in super().requests(sentences):
            yield request._replace(targets=torch.full_like(request.targets, Label.ORIGINAL))


class Generator:
    """Tokens sampled from the softmax of a T-TA, each given the other tokens of the intact sentence; no special
    tokens."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self._network, own = checkpoint.load(folder, "tta")
        if own.fingerprint != tokenizer.fingerprint:
            raise UserError(
                f"--generator {folder}: has another tokenizer; give --tokenizer {folder / 'tokenizer.json'}"
            )
        self._special = [own.pad, own.unk, own.bos, own.eos, own.mask]

    @torch.no_grad()
    def __call__(self, tokens: Tensor, lengths: Tensor, at: Tensor, random: np.random.Generator) -> Tensor:
        """Tokens (k,) for the positions `at` (k,) of sentences (batch, n)."""
        hidden = predict(self._network, Batch(tokens, lengths, at))
        logits = hidden @ self._network.output_weight.T
        if self._network.output_bias is not None:
            logits += self._network.output_bias
        logits[:, self._special] = -torch.inf
        noise = torch.Generator().manual_seed(int(random.integers(2**62)))
        return logits.softmax(-1).multinomial(1, generator=noise)[:, 0]


class ReplacedTokenDetection(Objective):
    """Classifies every token of a sentence with replacements as original or replaced. A token that is replaced by
    itself counts as original, as in the paper."""

    perplexity = "perplexity of original or replaced"

    def __init__(self, generator: Generator, rate: float = 0.15, cap: int | None = None) -> None:
        """
        Args:
            rate: share of a sentence's tokens that are replaced, at least one. cap: the most.
        """
        self._generator, self._rate, self._cap = generator, rate, cap

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        random = np.random.default_rng(list(seed))
        inner = inner_positions(tokens, lengths)
        at = torch.from_numpy(some_of(inner.numpy(), self._rate, self._cap, random)).flatten().nonzero()[:, 0]
        shown = tokens.flatten().clone()
        shown[at] = self._generator(tokens, lengths, at, random)
        shown = shown.view(tokens.shape)
        labels = torch.where(shown == tokens, int(Label.ORIGINAL), int(Label.REPLACED))
        return Example(shown, lengths, inner, labels[inner])
