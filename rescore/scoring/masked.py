"""Mask and predict: how a masked language model reads sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from rescore.networks.batch import Batch
from rescore.scoring.one_pass import Encoded, Network, NetworkScorer, Request, Span, batches, padded, windows

if TYPE_CHECKING:
    from rescore.scoring.backends import Spec

TOKENS_TOGETHER = 1 << 21
"""Tokens of masked copies that are sorted, and of which the equal ones are found, together."""


class Context(NamedTuple):
    """A masked copy of a window, and the position in it that is predicted."""

    position: int
    tokens: tuple[int, ...]


class Wanted(NamedTuple):
    """A sentence's token that a context is asked for."""

    sentence: int
    token: int


def masked_scorer(spec: Spec, network: Network) -> NetworkScorer:
    """What the options of a masked model ask for; with `intact` the plain scorer, with nothing masked."""
    if "intact" in spec.options:
        return NetworkScorer(spec.name, network)
    return MaskedScorer(spec.name, network, within_word="within-word-l2r" in spec.options)


class MaskedScorer(NetworkScorer):
    """The pseudo-log-likelihood: of each token, which alone is masked, given all others (Salazar et al. 2020).

    With `within_word` the later tokens of its word are masked as well (Kauf and Ivanova 2023, "within-word l2r"), so
    that the rest of a rare word does not give its pieces away.

    Hypotheses that differ in one token are the same where that is masked: such contexts are computed once.
    """

    def __init__(self, name: str, network: Network, within_word: bool = False) -> None:
        super().__init__(name, network)
        self._within_word = within_word

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        contexts: dict[Context, list[Wanted]] = {}
        size = 0
        for index, sentence in enumerate(sentences):
            for context, wanted in self._contexts(index, sentence):
                contexts.setdefault(context, []).append(wanted)
                size += len(context.tokens)
            if size > TOKENS_TOGETHER:
                yield from self._ask(contexts, sentences)
                contexts, size = {}, 0
        yield from self._ask(contexts, sentences)

    def _contexts(self, index: int, sentence: Encoded) -> Iterator[tuple[Context, Wanted]]:
        network = self.network
        for start, stop, first, last in windows(len(sentence.ids), network.positions - self._frame):
            sequence = (*network.before, *sentence.ids[start:stop], *network.after)
            own = self.scored(sentence)
            for token in range(max(first, own.start), min(last, own.stop)):
                end = token + 1
                while self._within_word and end < stop and sentence.words[end] == sentence.words[token]:
                    end += 1
                at = token - start + len(network.before)
                shift = sentence.ids[token] // network.vocabulary * network.vocabulary
                masks = (network.mask + shift,) * (end - token)
                yield Context(at, (*sequence[:at], *masks, *sequence[at + len(masks) :])), Wanted(index, token)

    def _ask(self, contexts: dict[Context, list[Wanted]], sentences: Sequence[Encoded]) -> Iterator[Request]:
        # The sort is stable: copies of a sentence stay together, and share what the network computes once.
        rows = sorted(contexts.items(), key=lambda row: len(row[0].tokens))
        for some in batches(rows, lambda row: len(row[0].tokens), self.network.batch_tokens):
            tokens, lengths = padded([context.tokens for context, _ in some], self.network.pad)
            at = [row * tokens.shape[1] + context.position for row, (context, _) in enumerate(some)]
            asked = [(row, wanted) for row, (_, every) in enumerate(some) for wanted in every]
            yield Request(
                Batch(tokens, lengths, torch.tensor(at)),
                torch.tensor([row for row, _ in asked]),
                torch.tensor([sentences[wanted.sentence].ids[wanted.token] for _, wanted in asked]),
                [Span(*wanted, slice(number, number + 1)) for number, (_, wanted) in enumerate(asked)],
            )
