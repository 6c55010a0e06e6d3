"""Scores of one masked token at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from rescore.lms.base import Spec
from rescore.lms.fast import Batch
from rescore.lms.scorers import (
    Encoded,
    Network,
    NetworkScorer,
    Request,
    Span,
    batches,
    padded,
)

TOKENS_TOGETHER = 1 << 21
"""Number of tokens of masked copies that are sorted and deduplicated together."""
Contexts = dict[tuple[int, tuple[int, ...]], list[tuple[int, int, int]]]
"""Position and tokens of a masked copy -> sentence, place and token of each
prediction.
"""


def masked_scorer(spec: Spec, network: Network) -> NetworkScorer:
    """The scorer that the options of a masked model ask for; with `intact`, the plain
    scorer without masks.
    """
    if "intact" in spec.options:
        scorer = NetworkScorer(spec.name, network)
        scorer.capabilities = replace(scorer.capabilities, intact=True)
        return scorer
    return MaskedScorer(spec.name, network)


class MaskedScorer(NetworkScorer):
    """The pseudo-log-likelihood: log p of each token, which is masked, given all other
    tokens (Salazar et al. 2020).

    Hypotheses that differ in one token are equal when this token is masked, so their
    context is computed once.
    """

    masks = True

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        contexts: Contexts = {}
        size = 0
        for window in self.windows(sentences):
            for at in range(window.scored.start, window.scored.stop):
                token = window.first + at - window.scored.start
                context = at, self._masked(window.tokens, at)
                contexts.setdefault(context, []).append(
                    (window.sentence, token, window.tokens[at])
                )
                size += len(window.tokens)
            if size > TOKENS_TOGETHER:
                yield from self._ask(contexts)
                contexts, size = {}, 0
        yield from self._ask(contexts)

    def _masked(self, tokens: tuple[int, ...], at: int) -> tuple[int, ...]:
        shift = tokens[at] // self.network.vocabulary * self.network.vocabulary
        return (*tokens[:at], self.network.mask + shift, *tokens[at + 1 :])

    def _ask(self, contexts: Contexts) -> Iterator[Request]:
        # The sort is stable: copies of a sentence stay together and share computations.
        rows = sorted(contexts.items(), key=lambda row: len(row[0][1]))
        for batch in batches(
            rows, lambda row: len(row[0][1]), self.network.batch_tokens
        ):
            tokens, lengths = padded(
                [masked for (_, masked), _ in batch], self.network.pad
            )
            at = [
                row * tokens.shape[1] + position
                for row, ((position, _), _) in enumerate(batch)
            ]
            predictions = [
                (row, *wanted)
                for row, (_, every) in enumerate(batch)
                for wanted in every
            ]
            yield Request(
                Batch(tokens, lengths, torch.tensor(at)),
                torch.tensor([row for row, *_ in predictions]),
                torch.tensor([target for *_, target in predictions]),
                [
                    Span(sentence, token, slice(number, number + 1))
                    for number, (_, sentence, token, _) in enumerate(predictions)
                ],
            )
