"""Our own networks that were trained with `--context` or `--pairs`: a hypothesis is scored among its neighbours
(Segatron), or behind its source."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from functools import cached_property

from rescore.errors import UserError
from rescore.parts import NETWORKS
from rescore.scoring.base import Question, TokenScores, Wrapped
from rescore.scoring.one_pass import CONTEXT_TOKEN, Encoded, NetworkScorer
from rescore.scoring.own_network import OwnNetwork

log = logging.getLogger(__name__)


class WindowNetwork(OwnNetwork):
    """The network with sentences among others: [BOS] one [EOS] [BOS] other [EOS], a token of sentence s numbered
    `id + s * vocabulary`. Only the hypothesis is scored, and its [EOS] if the network is causal."""

    def __init__(self, network: OwnNetwork, context: tuple[int, int]) -> None:
        """
        Args:
            context: how many neighbours it reads before and after the text.
        """
        vars(self).update(vars(network))
        self._context = context
        self._frame = (network.before, network.after)
        self.before, self.after, self.end = [], [], []
        self._scores_end = not NETWORKS[network.network.config.kind].after  # as causal networks do
        self.longest = network.positions - len(network.before) - len(network.after)
        """Tokens of a sentence, at most."""
        self.positions *= self.network.config.sentences

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        most, most_after = self._context
        split = [(one.before[-most:], one.text, one.after[:most_after]) for one in questions]
        texts = list(dict.fromkeys(text for before, own, after in split for text in (*before, own, *after)))
        known = dict(zip(texts, self.encode_texts(texts), strict=True))
        return [
            self._window([known[one] for one in before], known[own], [known[one] for one in after])
            for before, own, after in split
        ]

    def _window(self, before: Sequence[Encoded], own: Encoded, after: Sequence[Encoded]) -> Encoded:
        first, last = self._frame
        ids: list[int] = []
        words: list[int] = []
        for number, sentence in enumerate([*before, own, *after]):
            inner = sentence.ids[: self.longest]
            ids += [token + number * self.vocabulary for token in (*first, *inner, *last)]
            is_own = number == len(before)
            words += [CONTEXT_TOKEN] * len(first)
            words += sentence.words if is_own else [CONTEXT_TOKEN] * len(inner)
            words += [-1 if is_own and self._scores_end else CONTEXT_TOKEN] * len(last)
        return Encoded(tuple(ids), tuple(words))


Make = Callable[[OwnNetwork], NetworkScorer]
"""The scorer of a network."""


class _AmongScorer(Wrapped):
    """A model that reads a text among others; one that has none, or is too long, alone."""

    _others = "their neighbours"

    def __init__(self, make: Make, network: OwnNetwork, context: tuple[int, int]) -> None:
        self._alone = make(network)
        super().__init__(self._alone)
        self.network = WindowNetwork(network, context)
        self._among, self._context = make(self.network), context
        self._reported = False

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        sizes = [len(one.ids) for one in self._alone.network.encode(questions)]
        self._tell_once(max(sizes, default=0))
        among = [
            rank
            for rank, one in enumerate(questions)
            if (one.before or one.after[: self._context[1]]) and sizes[rank] <= self.network.longest
        ]
        found = dict(zip(among, self._among.score([questions[rank] for rank in among]), strict=True))
        alone = [rank for rank in range(len(questions)) if rank not in found]
        found |= dict(zip(alone, self._alone.score([questions[rank] for rank in alone]), strict=True))
        return [found[rank] for rank in range(len(questions))]

    def _tell_once(self, longest: int) -> None:
        if longest > self.network.longest and not self._reported:
            self._reported = True
            log.warning(
                "%s: a text of %d tokens exceeds the model's %d; such texts are scored without %s",
                self.name,
                longest,
                self.network.longest,
                self._others,
            )


class ContextScorer(_AmongScorer):
    """A model that reads a hypothesis among its neighbours."""

    def __init__(self, make: Make, network: OwnNetwork, number: int) -> None:
        """
        Args:
            number: how many neighbours it reads on a side.

        Raises:
            UserError: the network was not trained to.
        """
        before, after = network.network.config.neighbours
        super().__init__(make, network, (number, min(number, after)))
        if number > before:
            learned = f"was trained with --context {before}" if before else "was trained on single sentences"
            raise UserError(f"{self.name}: context={number}, but it {learned}; train one with --context {number}")
        self.context = self._context

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.context} {self._alone.fingerprint}".encode()).hexdigest()


class PairScorer(_AmongScorer):
    """A model that reads a hypothesis behind its source, or with `channel` the source behind the hypothesis
    (dissertation, chapter 6). What comes first is seen by all positions, and not scored."""

    _others = "the other side"

    def __init__(self, make: Make, network: OwnNetwork, channel: bool) -> None:
        super().__init__(make, network, (1, 0))
        self.reads_source, self._channel = True, channel

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"source {self._alone.fingerprint}".encode()).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order.

        Raises:
            UserError: a question has no source.
        """
        pairs = [one.pair(self._channel) for one in questions]
        return super().score([Question(text, before=(given,)) for given, text in pairs])
