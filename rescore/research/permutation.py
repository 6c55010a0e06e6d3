"""A permutation language model (Yang et al. 2019, XLNet) with the layers of a T-TA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.lms.base import Capabilities
from rescore.lms.networks import TTA
from rescore.lms.scorers import Encoded, NetworkScorer, Request
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import Example, Objective, inner_positions


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
    """log p(sentence | its length): each token given the tokens before it in an order, in one pass."""

    capabilities = Capabilities(vectors=True, predicts_tokens=True)

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        first, behind = len(self.network.before), len(self.network.after)
        for request in super().requests(sentences):
            tokens, lengths = request.batch.tokens, request.batch.lengths
            ranks = np.zeros(tokens.shape, dtype=np.int64)
            for row, length in zip(ranks, lengths.tolist(), strict=True):
                places = first + order(length - first - behind)
                row[places] = 1 + np.arange(len(places))
            numbered = tokens + torch.from_numpy(ranks) * self.network.vocabulary
            yield request._replace(batch=request.batch._replace(tokens=numbered))


def order(length: int) -> npt.NDArray[np.int64]:
    """The places (length,) of the tokens of a sentence in the order of prediction. It depends on nothing else, so
    hypotheses of equal length are compared in one order."""
    return np.random.default_rng([0, 0, length]).permutation(length)


class PermutationLanguageModelling(Objective):
    """PLM: every token is predicted from the tokens before it in a random order of the sentence.

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
