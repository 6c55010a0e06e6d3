"""The network of a discriminator of replaced tokens, its scores, and its training examples."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor, nn

from rescore import formats
from rescore.errors import UserError
from rescore.lms.base import Capabilities
from rescore.lms.neural import checkpoint
from rescore.lms.neural.blocks import Batch
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.neural.encoder import Encoder
from rescore.lms.neural.passes import Encoded, NetworkScorer, Request
from rescore.lms.neural.tokenizer import Tokenizer
from rescore.lms.neural.training.objectives import Example, Objective, inner_positions, some_of
from rescore.nbest import NbestList


class Label(IntEnum):
    ORIGINAL = 0
    REPLACED = 1


class Electra(Encoder):
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


Tokens = npt.NDArray[np.int64]


class Generator(Protocol):
    name: str
    """The name of the generator, with a digest of its source."""

    def __call__(
        self, tokens: Tensor, lengths: Tensor, at: Tensor, random: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Tokens (k,) for the positions `at` (k,) of sentences (batch, n), and whether a position has a replacement
        (k,)."""


class Sampled:
    """Tokens sampled from the softmax of a T-TA, each given the other tokens of the intact sentence; no special
    tokens."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        """
        Raises:
            UserError: the folder holds no T-TA, or a T-TA with another vocabulary.
        """
        self._network, own = checkpoint.load(folder, "tta")
        if own.fingerprint != tokenizer.fingerprint:
            raise UserError(
                f"--generator {folder}: has another tokenizer; give --tokenizer {folder / 'tokenizer.json'}"
            )
        self._special = [own.pad, own.unk, own.bos, own.eos, own.mask]
        self.name = f"{folder.resolve().name}@{_digest((folder / 'model.safetensors').read_bytes())}"

    @torch.no_grad()
    def __call__(
        self, tokens: Tensor, lengths: Tensor, at: Tensor, random: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        hidden = self._network.predict(Batch(tokens, lengths, at))
        logits = hidden @ self._network.output_weight.T
        if self._network.output_bias is not None:
            logits += self._network.output_bias
        logits[:, self._special] = -torch.inf
        noise = torch.Generator().manual_seed(int(random.integers(2**62)))
        drawn = logits.softmax(-1).multinomial(1, generator=noise)[:, 0]
        return drawn, torch.ones_like(drawn, dtype=torch.bool)


class Confused:
    """Replacements from N-best lists: the tokens that other hypotheses of a list have in the same place, by
    frequency."""

    def __init__(self, lists: Iterable[NbestList], tokenizer: Tokenizer) -> None:
        counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for nbest in lists:
            first, *alternatives = tokenizer.encode([hypothesis.text for hypothesis in nbest.hypotheses]) or [[]]
            for alternative in alternatives:
                for operation in Levenshtein.editops(first, alternative):
                    if operation.tag == "replace":
                        pair = first[operation.src_pos], alternative[operation.dest_pos]
                        counts[pair[0]][pair[1]] += 1
                        counts[pair[1]][pair[0]] += 1
        self.counts = {token: dict(sorted(confusions.items())) for token, confusions in counts.items()}
        self.name = f"confusions@{_digest(json.dumps(self.counts, sort_keys=True).encode())}"

    def __call__(
        self, tokens: Tensor, lengths: Tensor, at: Tensor, random: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        replacements = tokens.flatten()[at].clone()
        there = torch.zeros(len(at), dtype=torch.bool)
        for place, token in enumerate(replacements.tolist()):
            if confusions := self.counts.get(token):
                shares = np.array(list(confusions.values())) / sum(confusions.values())
                replacements[place], there[place] = int(random.choice(list(confusions), p=shares)), True
        return replacements, there


def generators(tokenizer: Tokenizer, folder: Path | None, confusions: str | None) -> list[Generator]:
    """The generators of replacements: the T-TA in a folder, the confusions of N-best lists, or both.

    Raises:
        UserError: no generator is given, or it cannot be read or has another vocabulary.
    """
    replacers: list[Generator] = [] if folder is None else [Sampled(folder, tokenizer)]
    if confusions is not None:
        confused = Confused(formats.read([confusions]), tokenizer)
        if not confused.counts:
            raise UserError(
                f"--confusions {confusions}: no hypothesis has another token in the place of one; "
                "give lists of several hypotheses"
            )
        replacers.append(confused)
    if not replacers:
        raise UserError("nothing makes replacements; give --generator, the folder of a tta, or --confusions LISTS")
    return replacers


class ReplacedTokenDetection(Objective):
    """Classifies every token of a sentence with replacements as original or replaced.

    If several generators have a token for a position, they are chosen with equal probability. A token that is replaced
    by itself counts as original, as in the paper.
    """

    perplexity = "perplexity of original or replaced"

    def __init__(self, generators: Sequence[Generator], rate: float = 0.15, cap: int | None = None) -> None:
        """
        Args:
            rate: share of a sentence's tokens that are replaced, at least one. cap: the most.
        """
        self._generators, self._rate, self._cap = list(generators), rate, cap
        self.replacements = ", ".join(generator.name for generator in generators)

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        random = np.random.default_rng(list(seed))
        inner = inner_positions(tokens, lengths)
        at = torch.from_numpy(some_of(inner.numpy(), self._rate, self._cap, random)).flatten().nonzero()[:, 0]
        shown = tokens.flatten().clone()
        taken = torch.zeros(len(at), dtype=torch.long)
        for generator in self._generators:
            drawn, there = generator(tokens, lengths, at, random)
            taken += there
            ours = there & (torch.from_numpy(random.random(len(at))) * taken < 1)
            shown[at[ours]] = drawn[ours]
        shown = shown.view(tokens.shape)
        labels = torch.where(shown == tokens, int(Label.ORIGINAL), int(Label.REPLACED))
        return Example(shown, lengths, inner, labels[inner])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
