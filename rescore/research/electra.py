"""ELECTRA with a T-TA as its generator (Clark et al. 2020; Shin's dissertation, section
6.2, Figure 6.2).

A generator replaces some tokens of a sentence, and the network, a discriminator, tells
which tokens were replaced. In the paper the generator is a masked language model, which
is trained together with the discriminator. Here it is a T-TA that was trained before:
it reads the intact sentence, and one pass samples at any share of the tokens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor, nn

from rescore import formats
from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.base import Capabilities
from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, predict
from rescore.lms.networks import BiLM
from rescore.lms.scorers import Encoded, NetworkScorer, Request
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import (
    Example,
    MaskedLanguageModelling,
    Objective,
    inner_positions,
)
from rescore.nbest import NbestList

ORIGINAL, REPLACED = 0, 1
"""The labels of tokens."""


class Electra(BiLM):
    """A biLM whose softmax is over two labels, not over the vocabulary."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.label_embedding = nn.Embedding(2, config.d_model)
        nn.init.normal_(self.label_embedding.weight, std=config.d_model**-0.5)
        self.output_bias = nn.Parameter(torch.zeros(2))

    @property
    def output_weight(self) -> Tensor:
        return self.label_embedding.weight


class ElectraScorer(NetworkScorer):
    """The sum over tokens of log p(the token is original), of the intact sentence in
    one pass. It is no probability of the sentence.
    """

    capabilities = Capabilities(pseudo=True, predicts=False, vectors=True)

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        for request in super().requests(sentences):
            labels = torch.full_like(request.targets, ORIGINAL)
            yield request._replace(targets=labels)


class SampledTokens:
    """Tokens from the softmax of a T-TA, each given the other tokens of the intact
    sentence, without special tokens.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Load a generator.

        Args:
            folder: Folder of a T-TA.
            tokenizer: Tokenizer of the discriminator.

        Raises:
            UserError: The folder holds no T-TA, or a T-TA with another tokenizer.
        """
        try:
            self._network, own = checkpoint.load(folder, "tta")
        except UserError as error:
            raise UserError(f"--generator: {error}") from None
        if own.fingerprint != tokenizer.fingerprint:
            raise UserError(
                f"--generator {folder}: has another tokenizer; give --tokenizer"
                f" {folder / 'tokenizer.json'}"
            )
        self._special = [own.pad, own.unk, own.bos, own.eos, own.mask]

    @torch.no_grad()
    def draw(
        self,
        tokens: Tensor,
        lengths: Tensor,
        chosen: Tensor,
        random: np.random.Generator,
    ) -> Tensor:
        """Return a token for each chosen position.

        Args:
            tokens: (batch, n) sentences with [BOS] and [EOS], padded behind.
            lengths: (batch,) lengths with [BOS] and [EOS].
            chosen: (batch, n), True at the chosen positions.
            random: Source of randomness.

        Returns:
            Tokens of shape (chosen positions,), in row-major order.
        """
        at = chosen.flatten().nonzero().flatten()
        hidden = predict(self._network, Batch(tokens, lengths, at))
        logits = hidden @ self._network.output_weight.T
        if self._network.output_bias is not None:
            logits += self._network.output_bias
        logits[:, self._special] = -torch.inf
        generator = torch.Generator().manual_seed(int(random.integers(2**62)))
        drawn = logits.softmax(-1).multinomial(1, generator=generator)
        return drawn.flatten()


class Confusions:
    """Tokens that hypotheses of a list have in the place of each other, by their
    frequency.
    """

    def __init__(self, lists: Iterable[NbestList], tokenizer: Tokenizer) -> None:
        """Count the confusions of lists: the first hypothesis of a list is aligned with
        each of the others.
        """
        self.counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for nbest in lists:
            texts = [hypothesis.text for hypothesis in nbest.hypotheses]
            encoded = tokenizer.encode(texts)
            for other in encoded[1:]:
                self._count(encoded[0], other)

    @classmethod
    def read(cls, path: str, tokenizer: Tokenizer) -> Confusions:
        """Return the confusions of the lists in a file or folder.

        Raises:
            UserError: The lists cannot be read or have no confusions.
        """
        confusions = cls(formats.iterate([path]), tokenizer)
        if not confusions.counts:
            raise UserError(
                f"--confusions {path}: no hypothesis has another token in the place of"
                " a token; give lists of several hypotheses"
            )
        return confusions

    def _count(self, first: Sequence[int], other: Sequence[int]) -> None:
        for operation in Levenshtein.editops(first, other):
            if operation.tag == "replace":
                token = first[operation.src_pos]
                confused = other[operation.dest_pos]
                self.counts[token][confused] += 1
                self.counts[confused][token] += 1

    def draw(
        self, tokens: Tensor, random: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return replacements of tokens.

        Args:
            tokens: (k,) tokens.
            random: Source of randomness.

        Returns:
            Tokens of shape (k,), and whether each is a replacement, of shape (k,); a
            token without confusions stays.
        """
        drawn = tokens.clone()
        replaced = torch.zeros(len(tokens), dtype=torch.bool)
        for place, token in enumerate(tokens.tolist()):
            if token not in self.counts:
                continue
            confusions = self.counts[token]
            shares = np.array(list(confusions.values())) / confusions.total()
            drawn[place] = int(random.choice(list(confusions), p=shares))
            replaced[place] = True
        return drawn, replaced


class ReplacedTokenDetection(Objective):
    """Labels every token of a sentence in which some tokens are replaced.

    The positions are those that a masked language model would mask. Where both a
    generator and confusions have a replacement, either is taken with probability 1/2. A
    token that is replaced by itself is original, as in the paper (section 2 there).
    """

    perplexity = "perplexity of original or replaced"

    def __init__(
        self,
        positions: MaskedLanguageModelling,
        generator: SampledTokens | None,
        confusions: Confusions | None,
    ) -> None:
        """Make an objective.

        Args:
            positions: Chooses the positions.
            generator: Generator of replacements, if there is one.
            confusions: Confusions of hypotheses, if there are any.
        """
        self._positions = positions
        self._generator = generator
        self._confusions = confusions

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        random = np.random.default_rng([*seed, 1])
        chosen = self._positions(tokens, lengths, seed).predicted
        drawn = tokens[chosen]
        replaced = torch.zeros(len(drawn), dtype=torch.bool)
        if self._confusions is not None:
            drawn, replaced = self._confusions.draw(drawn, random)
        if self._generator is not None:
            sampled = self._generator.draw(tokens, lengths, chosen, random)
            heads = torch.from_numpy(random.random(len(drawn)) < 0.5)
            drawn = torch.where(~replaced | heads, sampled, drawn)
        shown = tokens.masked_scatter(chosen, drawn)
        labels = torch.where(shown == tokens, ORIGINAL, REPLACED)
        judged = inner_positions(tokens, lengths)
        return Example(shown, lengths, judged, labels[judged])
