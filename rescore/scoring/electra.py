"""How a discriminator scores sentences: the sum over tokens of log p(original), in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from rescore.networks.electra import Verdict
from rescore.scoring.one_pass import Encoded, NetworkScorer, Request


class ElectraScorer(NetworkScorer):
    """Of each token of the intact sentence, how probable it is that nobody has put it in another one's place."""

    predicts_tokens = False

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        for request in super().requests(sentences):
            yield request._replace(targets=torch.full_like(request.targets, Verdict.ORIGINAL))
