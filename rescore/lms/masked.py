"""Scores of one masked token at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from rescore.lms.base import Spec
from rescore.lms.fast import Batch
from rescore.lms.scorers import (
    Encoded,
    NetworkScorer,
    Request,
    ScoredNetwork,
    TokenSpan,
    batches,
    padded,
)

TOKENS_TOGETHER = 1 << 21
"""Number of tokens of masked copies that are sorted and deduplicated together."""


class Masked(NamedTuple):
    """A copy of a sequence with one masked token."""

    position: int
    tokens: tuple[int, ...]


class Prediction(NamedTuple):
    """A token that is predicted where a copy is masked."""

    sentence: int
    """The number of the sentence among all sentences."""
    place: int
    """The place of the token in the sentence."""
    token: int


Copies = dict[Masked, list[Prediction]]
"""All that is predicted from each copy."""


def masked_scorer(spec: Spec, network: ScoredNetwork) -> NetworkScorer:
    """Return the scorer of a masked model; with `intact`, the scorer without masks.

    Args:
        spec: The value of --lm.
        network: The network of the model.
    """
    if "intact" in spec.options:
        scorer = NetworkScorer(spec.name, network)
        scorer.capabilities = replace(scorer.capabilities, intact=True)
        return scorer
    return MaskedScorer(spec.name, network)


class MaskedScorer(NetworkScorer):
    """The pseudo-log-likelihood: log p of each token, which is masked, given all other
    tokens (Salazar et al. 2020).

    Hypotheses that differ in one token are equal when this token is masked, so this
    copy is computed once.
    """

    masks = True

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        """Yield the requests for all masked copies.

        Args:
            sentences: Different sentences, as `encoded` returns them.
        """
        copies: Copies = {}
        size = 0
        for window in self.windows(sentences):
            for position in range(window.scored.start, window.scored.stop):
                place = window.first + position - window.scored.start
                token = window.tokens[position]
                copy = Masked(position, self._masked(window.tokens, position))
                predictions = copies.setdefault(copy, [])
                predictions.append(Prediction(window.sentence, place, token))
                size += len(window.tokens)
            if size > TOKENS_TOGETHER:
                yield from self._requests(copies)
                copies = {}
                size = 0
        yield from self._requests(copies)

    def _masked(self, tokens: tuple[int, ...], position: int) -> tuple[int, ...]:
        """Return the tokens with [MASK] at a position, in the same sentence."""
        shift = tokens[position] // self.network.vocabulary * self.network.vocabulary
        mask = self.network.mask + shift
        return (*tokens[:position], mask, *tokens[position + 1 :])

    def _requests(self, copies: Copies) -> Iterator[Request]:
        """Yield the requests for some copies, in batches of about one length."""
        # The sort is stable: copies of a sentence stay together and share computations.
        rows = sorted(copies.items(), key=_length)
        for batch in batches(rows, _length, self.network.batch_tokens):
            yield self._copies_request(batch)

    def _copies_request(
        self, batch: Sequence[tuple[Masked, list[Prediction]]]
    ) -> Request:
        """Return the request for a batch of copies."""
        tokens, lengths = padded([copy.tokens for copy, _ in batch], self.network.pad)
        at: list[int] = []
        rows: list[int] = []
        targets: list[int] = []
        spans = []
        for row, (copy, predictions) in enumerate(batch):
            at.append(row * tokens.shape[1] + copy.position)
            for prediction in predictions:
                value = slice(len(targets), len(targets) + 1)
                spans.append(TokenSpan(prediction.sentence, prediction.place, value))
                rows.append(row)
                targets.append(prediction.token)
        return Request(
            Batch(tokens, lengths, torch.tensor(at)),
            torch.tensor(rows),
            torch.tensor(targets),
            spans,
        )


def _length(row: tuple[Masked, list[Prediction]]) -> int:
    """Return the number of tokens of a copy."""
    return len(row[0].tokens)
