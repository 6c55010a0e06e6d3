"""How a permutation language model reads a sentence: its tokens in a random order, or in several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
import torch

from rescore.scoring.one_pass import Encoded, Network, NetworkScorer, Request

if TYPE_CHECKING:
    from rescore.scoring.backends import Spec


class PermutationScorer(NetworkScorer):
    """log p(sentence | its length): each token given those before it in an order, in one pass.

    The score of each order is normalised; that of several is the mean of theirs, a lower bound of the log-probability
    under their mixture. Orders are those of `order`: sentences of one length are read in the same ones.
    """

    def __init__(self, name: str, network: Network, orders: int = 1, seed: int = 0) -> None:
        """
        Args:
            name: has `orders` and `seed` where they are not the usual ones: fingerprints are made of it.
        """
        super().__init__(name, network)
        self.passes, self._seed = orders, seed

    @classmethod
    def of(cls, spec: Spec, network: Network) -> Self:
        orders, seed = spec.number("orders", 1), spec.number("seed", 0, least=0)
        usual = {"orders": orders == 1, "seed": seed == 0}
        name = ":".join([spec.kind, *(one for one in spec.options if not usual.get(one.partition("=")[0]))])
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
    """The order number `which` of a sentence of so many tokens: their places (length,), first that which is predicted
    first. It depends on nothing else, so that hypotheses of one length are compared in one order."""
    return np.random.default_rng([seed, which, length]).permutation(length)
