"""The network of a permutation language model, its scores, and its objective."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.lms.base import Capabilities, Spec
from rescore.lms.neural.blocks import padding_mask
from rescore.lms.neural.passes import Encoded, Network, NetworkScorer, Request
from rescore.lms.neural.tokenizer import Tokenizer
from rescore.lms.neural.training.objectives import Example, Objective, inner_positions
from rescore.lms.tta.network import TTA


class Permutation(TTA):
    """A position sees the other positions whose rank is not above its own.

    XLNet needs two streams, because its hidden vectors, which later positions attend to, know their own tokens. Keys
    and values of a T-TA are embeddings in every layer (input isolation), so one stream is enough: the hidden vector at
    i knows only the tokens before i in the order, and one pass gives each factor of the chain rule. With equal ranks,
    this is a T-TA.
    """

    def key_tokens(self, tokens: Tensor) -> Tensor:
        return tokens % self.config.vocab_size

    def visible(self, tokens: Tensor, lengths: Tensor, columns: Tensor) -> Tensor:
        rank = tokens // self.config.vocab_size
        own = rank.gather(1, columns.expand(len(tokens), -1))
        before = (rank[:, None, :] <= own[:, :, None]) & padding_mask(lengths, tokens.shape[1])[:, None, :]
        return before & (torch.arange(tokens.shape[1], device=tokens.device) != columns[..., None])


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
