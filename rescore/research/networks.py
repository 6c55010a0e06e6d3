"""Networks of papers, their scores and objectives: ELECTRA, and a permutation language model."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor, nn

from rescore import formats
from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.base import Capabilities, Spec
from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, predict
from rescore.lms.networks import TTA, BiLM
from rescore.lms.scorers import Encoded, Network, NetworkScorer, Request
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import Example, Objective, inner_positions, some_of
from rescore.nbest import NbestList


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
        hidden = predict(self._network, Batch(tokens, lengths, at))
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
        replaced = torch.zeros(len(at), dtype=torch.bool)
        for place, token in enumerate(replacements.tolist()):
            if confusions := self.counts.get(token):
                shares = np.array(list(confusions.values())) / sum(confusions.values())
                replacements[place], replaced[place] = int(random.choice(list(confusions), p=shares)), True
        return replacements, replaced


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
            drawn, available = generator(tokens, lengths, at, random)
            taken += available
            ours = available & (torch.from_numpy(random.random(len(at))) * taken < 1)
            shown[at[ours]] = drawn[ours]
        shown = shown.view(tokens.shape)
        labels = torch.where(shown == tokens, int(Label.ORIGINAL), int(Label.REPLACED))
        return Example(shown, lengths, inner, labels[inner])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


class Permutation(TTA):
    """A position sees the other positions whose rank is not above its own.

    XLNet needs two streams, because its hidden vectors, which later positions attend to, know their own tokens. Keys
    and values of a T-TA are embeddings in every layer (input isolation), so one stream is enough: the hidden vector at
    i knows only the tokens before i in the order, and one pass gives each factor of the chain rule. With equal ranks,
    this is a T-TA.
    """

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        return super().embed_tokens(tokens % self.config.vocab_size)

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        rank = tokens // self.config.vocab_size
        return super().visible(tokens, lengths) & (rank[:, None, :] <= rank[:, :, None])


class PermutationScorer(NetworkScorer):
    """log p(sentence | its length): each token given the tokens before it in an order, in one pass.

    The score of each order is normalised. The score of several orders is their mean, a lower bound of the
    log-probability under their mixture. `order` gives the orders: sentences of equal length are read in the same
    orders.
    """

    capabilities = Capabilities(vectors=True, predicts_tokens=True)

    def __init__(self, name: str, network: Network, orders: int = 1, seed: int = 0) -> None:
        """
        Args:
            name: contains `orders` and `seed` unless they have their defaults, because fingerprints are made from the
                name.
        """
        super().__init__(name, network)
        self.passes, self._seed = orders, seed

    @classmethod
    def of(cls, spec: Spec, network: Network) -> Self:
        orders, seed = spec.number("orders", 1), spec.number("seed", 0, least=0)
        usual = {"orders": orders == 1, "seed": seed == 0}
        name = ":".join([spec.kind, *(option for option in spec.options if not usual.get(option.partition("=")[0]))])
        return cls(name, network, orders, seed)

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        first, behind = len(self.network.before), len(self.network.after)
        for request in super().requests(sentences):
            tokens, lengths = request.batch.tokens, request.batch.lengths
            for which in range(self.passes):
                ranks = np.zeros(tokens.shape, dtype=np.int64)
                for row, length in zip(ranks, lengths.tolist(), strict=True):
                    places = first + order(length - first - behind, which, self._seed)
                    row[places] = 1 + np.arange(len(places))
                numbered = tokens + torch.from_numpy(ranks) * self.network.vocabulary
                yield request._replace(batch=request.batch._replace(tokens=numbered))


def order(length: int, which: int, seed: int) -> npt.NDArray[np.int64]:
    """The order number `which` of a sentence with `length` tokens: their places (length,) in the order of prediction.
    It depends on nothing else, so hypotheses of equal length are compared in one order."""
    return np.random.default_rng([seed, which, length]).permutation(length)


class PermutationLanguageModelling(Objective):
    """PLM (Yang et al. 2019): every token is predicted from the tokens before it in a random order of the sentence.

    [BOS] and [EOS] are context for all tokens, so the network learns log p(sentence | its length). XLNet predicts only
    the last tokens of an order; here all tokens are predicted, because the first tokens are factors of the score, too.
    """

    perplexity = "perplexity (in a random order, given the length)"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._size = tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        predicted = inner_positions(tokens, lengths)
        keys = np.random.default_rng(list(seed)).random(tokens.shape)
        keys[~predicted.numpy()] = np.inf
        ranks = torch.from_numpy(keys.argsort(axis=1).argsort(axis=1) + 1) * predicted
        return Example(tokens + ranks * self._size, lengths, predicted, tokens[predicted])
