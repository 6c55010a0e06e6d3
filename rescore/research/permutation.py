"""A permutation language model: XLNet's objective (Yang et al. 2019, equation 3; Shin's
dissertation, equation 2.8) with the blocks of a T-TA.

A token with rank r in the order of prediction has the number `id + r *
vocab_size`. The frame, [BOS] and [EOS], has rank 0, the first predicted token rank 1.
With a vocabulary of 100, the sentence 7 8 9 whose last token is predicted first and
whose first token is predicted last reads

    tokens  1  307  208  109  2
    rank    0    3    2    1  0
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.lms.base import Capabilities, Question, TokenScores, Values
from rescore.lms.networks import TTA
from rescore.lms.scorers import Encoded, NetworkScorer, ScoredNetwork
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import Example, Objective, inner_positions


class Permutation(TTA):
    """Each position sees the other positions whose rank is not above its own.

    XLNet needs two streams of attention, because hidden vectors that later positions
    attend to contain their own tokens. Keys and values of a T-TA are embeddings in
    every layer (input isolation), so a single stream is enough: the hidden vector at a
    position depends on the tokens before it in the order, and one pass gives all
    factors of the chain rule. If all ranks are equal, the network is a T-TA.
    """

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        return super().embed_tokens(tokens % self.config.vocab_size)

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        rank = tokens // self.config.vocab_size
        not_after = rank[:, None, :] <= rank[:, :, None]
        return super().visible(tokens, lengths) & not_after


class PermutationLanguageModelling(Objective):
    """Every token is predicted from the tokens before it in a random order.

    [BOS] and [EOS] are context of all tokens, so the network learns log p(sentence
    given its length). XLNet predicts only the last tokens of an order (section 2.3
    there); here all tokens are predicted, because the score needs every factor.
    """

    perplexity = "perplexity (in a random order, given the length)"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._vocabulary = tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        predicted = inner_positions(tokens, lengths)
        keys = np.random.default_rng(list(seed)).random(tokens.shape)
        keys[~predicted.numpy()] = np.inf
        ranks = torch.from_numpy(1 + keys.argsort(axis=1).argsort(axis=1)) * predicted
        numbered = tokens + ranks * self._vocabulary
        return Example(numbered, lengths, predicted, tokens[predicted])


class PermutationScorer(NetworkScorer):
    """log p(sentence given its length): each token given the tokens before it in an
    order, in one pass.

    With several orders, the score of a token is its mean over the orders. The score of
    a sentence is then the mean of normalised log-probabilities, a lower bound of the
    log-probability under the mixture of the orders.
    """

    capabilities = Capabilities(vectors=True)

    def __init__(
        self, kind: str, network: ScoredNetwork, orders: int = 1, seed: int = 0
    ) -> None:
        """Make a scorer.

        Args:
            kind: Name of the kind; the name of the scorer adds the options that differ
                from their defaults, because fingerprints are made from the name.
            network: The network.
            orders: Number of orders.
            seed: Seed of the orders.
        """
        name = kind
        if orders != 1:
            name += f":orders={orders}"
        if seed != 0:
            name += f":seed={seed}"
        super().__init__(name, network)
        self.orders = orders
        self.seed = seed

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        """Return the tokens of all questions in the first order, then of all questions
        in the second order, and so on.
        """
        plain = super().encoded(questions)
        return [
            self._ranked(sentence, order(len(sentence.ids), number, self.seed))
            for number in range(self.orders)
            for sentence in plain
        ]

    def _ranked(self, sentence: Encoded, places: npt.NDArray[np.int64]) -> Encoded:
        ids = np.array(sentence.ids, dtype=np.int64)
        ids[places] += (1 + np.arange(len(places))) * self.network.vocabulary
        return sentence._replace(ids=tuple(ids.tolist()))

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        read: defaultdict[int, list[Values]] = defaultdict(list)
        for place, scores in super().as_scored(questions):
            question = place % len(questions)
            read[question].append(scores.log_probs)
            if len(read[question]) == self.orders:
                means = np.mean(read.pop(question), axis=0)
                yield question, TokenScores(scores.tokens, means, scores.unknown)


def order(length: int, number: int, seed: int) -> npt.NDArray[np.int64]:
    """Return an order of prediction.

    It depends on the length alone, so hypotheses of equal length are compared in the
    same order.

    Args:
        length: Tokens of a sentence.
        number: Which of the orders of a sentence.
        seed: Seed of the orders.

    Returns:
        Places of tokens, of shape (length,); the first is predicted first.
    """
    return np.random.default_rng([seed, number, length]).permutation(length)
