"""A network of ours as the scorers see it: its folder, the windows of its context, its loader."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self, cast

from torch import Tensor

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.base import ComputeOptions, LanguageModel, Question, Spec, Streamed, TokenScores, Wrapped
from rescore.lms.config import NetworkConfig, network_kind
from rescore.lms.devices import choose_device, choose_precision, token_budget
from rescore.lms.fast import Batch, convert, predict, reads_trees
from rescore.lms.scorers import CONTEXT_TOKEN, Encoded, NetworkScorer

log = logging.getLogger(__name__)


class OwnNetwork:
    """A model folder of ours (rescore/lms/checkpoint.py) as a `Network`."""

    keeps_past = False
    windows: Windows | None = None
    """How it reads texts among others; None to read them alone."""

    def __init__(self, folder: Path, kind: str, computing: ComputeOptions) -> None:
        self._folder, self._kind = folder, kind
        network, self._tokenizer = checkpoint.load(folder, kind)
        self._device = choose_device(computing.device)
        self.precision = choose_precision(computing.precision, self._device)
        self.network = network.to(self._device)
        self.reads_trees = reads_trees(self.network)
        self._softmax = convert(self.network, self.precision)
        self.before, self.after = [self._tokenizer.bos], [self._tokenizer.eos]
        self.end = self.after
        self.vocabulary = network.config.vocab_size
        self.mask, self.pad = self._tokenizer.mask, self._tokenizer.pad
        self.unknown: int | None = self._tokenizer.unk
        self.positions = network.config.max_positions
        self.batch_tokens = computing.batch_tokens or token_budget(self._device, _bytes_a_token(network.config))

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        if self.windows is not None:
            return self.windows.encode(questions)
        return self.encode_texts([question.text for question in questions])

    def among(self, context: tuple[int, int]) -> tuple[Self, Windows]:
        """A copy that reads each text in a window, and its windows.

        Args:
            context: how many neighbours it reads before and after the text.
        """
        clone, windows = copy(self), Windows(self, context)
        clone.windows = windows
        clone.before, clone.after, clone.end = [], [], []  # a window has the frames of its sentences
        clone.positions = self.positions * self.network.config.sentences
        return clone, windows

    def encode_texts(self, texts: Sequence[str]) -> list[Encoded]:
        return [Encoded(tuple(ids), tuple(words)) for ids, words in self._tokenizer.encode_words(texts)]

    def strings(self, ids: Sequence[int]) -> list[str]:
        return self._tokenizer.tokens([token % self.vocabulary for token in ids])

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        hidden = predict(self.network, batch.to(self._device))
        return self._softmax.log_probs(hidden, rows.to(self._device), targets.to(self._device) % self.vocabulary)

    def most_probable(self, batch: Batch, rows: Tensor) -> Tensor:
        hidden = predict(self.network, batch.to(self._device))
        return self._softmax.most_probable(hidden)[rows.to(self._device)]

    @property
    def layers(self) -> int:
        return self.network.config.layers

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        return cast(Tensor, self.network(tokens.to(self._device), lengths.to(self._device), layer).float())

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        tokens = tokens.to(self._device)
        if positions:
            return self.network.embed(tokens).float()
        return cast(Tensor, self.network.token_embedding(tokens % self.vocabulary).float())

    def trainable(self) -> Self:
        """A copy with trainable weights: the weights of the folder, in float32, not packed for speed."""
        clone = copy(self)
        network, _ = checkpoint.load(self._folder, self._kind)
        clone.precision, clone.network = "float32", network.to(self._device)
        return clone

    def digest(self) -> bytes:
        files = ("config.json", "tokenizer.json", "model.safetensors")
        contents = b"".join(hashlib.sha256((self._folder / file).read_bytes()).digest() for file in files)
        return contents + (b"" if self.precision == "float32" else self.precision.encode())


def _bytes_a_token(config: NetworkConfig) -> int:
    """Of a layer's input, query, key, value, context and the feed-forward layer, in float32."""
    return 4 * (5 * config.d_model + config.d_ff)


class Windows:
    """Sentences among others: [BOS] first [EOS] [BOS] second [EOS], where a token of sentence s is `id + s *
    vocabulary`. Only the hypothesis is scored, and its [EOS] if the network is causal.

    With a vocabulary of 100, [BOS] 1 and [EOS] 2, the hypothesis 7 8 behind the neighbour 9 of a causal network is

        tokens  1  9  2  101  107  108  102
        words   c  c  c    c    0    1   -1     (c is `CONTEXT_TOKEN`, which is not scored; -1 is no word's token)
    """

    def __init__(self, network: OwnNetwork, context: tuple[int, int]) -> None:
        """
        Args:
            network: reads texts alone. context: how many neighbours are read before and after the text.
        """
        self._network, self._context = network, context
        kind = network_kind(network.network.config.kind)
        self._scores_end = not kind.capabilities.context[1]  # as causal networks do
        self.longest = network.positions - len(network.before) - len(network.after)
        """Tokens of a sentence, at most."""

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        most, most_after = self._context
        split = [(question.before[-most:], question.text, question.after[:most_after]) for question in questions]
        texts = list(dict.fromkeys(text for before, own, after in split for text in (*before, own, *after)))
        known = dict(zip(texts, self._network.encode_texts(texts), strict=True))
        return [
            self._window([known[text] for text in before], known[own], [known[text] for text in after])
            for before, own, after in split
        ]

    def _window(self, before: Sequence[Encoded], own: Encoded, after: Sequence[Encoded]) -> Encoded:
        first, last = self._network.before, self._network.after
        ids: list[int] = []
        words: list[int] = []
        for number, sentence in enumerate([*before, own, *after]):
            inner = sentence.ids[: self.longest]
            ids += [token + number * self._network.vocabulary for token in (*first, *inner, *last)]
            is_own = number == len(before)
            words += [CONTEXT_TOKEN] * len(first)
            words += sentence.words if is_own else [CONTEXT_TOKEN] * len(inner)
            words += [-1 if is_own and self._scores_end else CONTEXT_TOKEN] * len(last)
        return Encoded(tuple(ids), tuple(words))


Make = Callable[[OwnNetwork], NetworkScorer]
"""The scorer of a network."""


class _AmongScorer(Streamed, Wrapped):
    """A model that reads a text among its neighbours; a text without neighbours, or a long text, is read alone."""

    _others = "their neighbours"

    def __init__(self, make: Make, network: OwnNetwork, context: tuple[int, int]) -> None:
        self._alone = make(network)
        super().__init__(self._alone)
        among, self._windows = network.among(context)
        self._among, self._context = make(among), context
        self._reported = False

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """The places of questions and their scores, as they are computed."""
        sizes = [len(sentence.ids) for sentence in self._alone.network.encode(questions)]
        self._tell_once(max(sizes, default=0))
        among = [
            rank
            for rank, question in enumerate(questions)
            if (question.before or question.after[: self._context[1]]) and sizes[rank] <= self._windows.longest
        ]
        known = set(among)
        alone = [rank for rank in range(len(questions)) if rank not in known]
        for scorer, ranks in ((self._among, among), (self._alone, alone)):
            for place, scores in scorer.as_scored([questions[rank] for rank in ranks]):
                yield ranks[place], scores

    def _tell_once(self, longest: int) -> None:
        if longest > self._windows.longest and not self._reported:
            self._reported = True
            log.warning(
                "%s: a text has %d tokens, but the model only %d positions; long texts are scored without %s",
                self.name,
                longest,
                self._windows.longest,
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
        self.capabilities = replace(self.capabilities, context=self._context)

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self._context} {self._alone.fingerprint}".encode()).hexdigest()


class PairScorer(_AmongScorer):
    """A model that reads a hypothesis behind its source, or with `channel` the source behind the hypothesis
    (dissertation, chapter 6). All positions see the first text, which is not scored."""

    _others = "the other side"

    def __init__(self, make: Make, network: OwnNetwork, channel: bool) -> None:
        super().__init__(make, network, (1, 0))
        self.capabilities, self._channel = replace(self.capabilities, source=True), channel

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"source {self._alone.fingerprint}".encode()).hexdigest()

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """The places of questions and their scores, as they are computed.

        Raises:
            UserError: a question has no source.
        """
        pairs = [question.pair(self._channel) for question in questions]
        return super().as_scored([Question(text, before=(shown,)) for shown, text in pairs])


def load(spec: Spec, computing: ComputeOptions, make: Make) -> LanguageModel:
    """A network's scorer, for sentences alone, among neighbours or behind their sources.

    Raises:
        UserError: the model's files are missing or damaged, or it was not trained for this use.
    """
    network = OwnNetwork(spec.path, spec.kind, computing)
    channel = "channel" in spec.options
    if spec.context:
        if channel:
            raise UserError(f"--lm {spec.name}: channel and context exclude each other")
        return ContextScorer(make, network, spec.context)
    if network.network.config.source:
        return PairScorer(make, network, channel)
    if channel:
        raise UserError(f"--lm {spec.name}: {spec.path} reads no source; train one with --pairs")
    return make(network)
