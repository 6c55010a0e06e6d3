"""Scores of networks in one pass."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from rescore.lms.base import (
    Capabilities,
    Question,
    Streamed,
    TokenScores,
    Values,
    places_of,
)
from rescore.lms.fast import Batch

log = logging.getLogger(__name__)

Item = TypeVar("Item")


CONTEXT_TOKEN = -2
"""Word number of tokens outside the sentence (its source, a template, its neighbours),
which are not scored.
"""


class Encoded(NamedTuple):
    """A sentence's token ids, usually without a frame, and the number of the word that
    each belongs to.
    """

    ids: tuple[int, ...]
    words: tuple[int, ...]
    whole: bool = False
    """Whether the frame is among the tokens; such a sequence fits the network and is
    not cut.
    """

    @property
    def scored(self) -> slice:
        """The sentence's own tokens, without context before and after them."""
        if CONTEXT_TOKEN not in self.words:
            return slice(0, len(self.words))
        own = [place for place, word in enumerate(self.words) if word != CONTEXT_TOKEN]
        return slice(own[0], own[-1] + 1) if own else slice(0, 0)


class Network(Protocol):
    """The interface of a network and its tokenizer for scorers."""

    precision: str
    """The arithmetic: float32, bf16, fp16 or int8."""

    before: list[int]
    """Tokens in front of every sequence, such as [BOS]."""
    after: list[int]
    """Tokens behind a bidirectional sequence, such as [EOS]."""
    end: list[int]
    """The token (or none) that a causal network predicts at the end of a sentence."""
    mask: int
    pad: int
    vocabulary: int
    """Number of tokens; tokens of other sentences have higher numbers, `id + k *
    vocabulary`.
    """
    unknown: int | None
    """The token for unknown text, if the tokenizer has one."""
    positions: int
    """The longest sequence."""
    batch_tokens: int
    """Padded tokens in a batch: bounds memory."""

    @property
    def reads_trees(self) -> bool:
        """Whether batches may be trees."""
        ...

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        """The input of each question: the text, and the context that a network of this
        kind reads.
        """
        ...

    def strings(self, ids: Sequence[int]) -> list[str]: ...

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        """Natural-log probabilities of targets (k,), each predicted by the hidden
        vector at `batch.at[rows]`.
        """
        ...

    def digest(self) -> bytes:
        """Content hash of weights, tokenizer and settings."""
        ...


class Window(NamedTuple):
    """A sentence in its frame, or a part of it."""

    tokens: tuple[int, ...]
    scored: slice
    """Which of the tokens are scored."""
    sentence: int
    first: int
    """The first scored token, counted in the sentence."""


class Span(NamedTuple):
    """Where values go: to the tokens of a sentence from `first` on."""

    sentence: int
    first: int
    values: Sequence[int] | slice
    """Which of the values of a request."""


class Request(NamedTuple):
    """A batch, the requested predictions (as in `Network.log_probs`), and their
    destinations.
    """

    batch: Batch
    rows: Tensor
    targets: Tensor
    spans: list[Span]


class NetworkScorer(Streamed):
    """One pass over the sentence with both sides of its frame: the score of a token is
    log softmax(H E^T) at the token itself (section 4.1 of the T-TA paper); [BOS] and
    [EOS] are context and are not scored. Sentences longer than the network's positions
    are read in overlapping windows.
    """

    capabilities = Capabilities(pseudo=True, vectors=True)
    behind = 0
    """How many positions before a token the hidden vector is that predicts it."""
    backwards = False
    """Whether it reads sentences from their ends."""
    masks = False
    """Whether predicted tokens are masked."""
    reads = ""
    """What it reads beside a text, as its fingerprint has it."""
    beside = ""
    """The same in messages."""

    def __init__(self, name: str, network: Network) -> None:
        self.name = self._model = name
        self.network = network
        self._reported = False

    @property
    def model(self) -> str:
        return self._model  # a name can get a number behind it, this cannot

    @property
    def precision(self) -> str:
        return self.network.precision

    @cached_property
    def fingerprint(self) -> str:
        alone = hashlib.sha256(self._model.encode() + self.network.digest()).hexdigest()
        return (
            hashlib.sha256(f"{self.reads} {alone}".encode()).hexdigest()
            if self.reads
            else alone
        )

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """The tokens before and after each sequence."""
        return self.network.before, self.network.after

    @property
    def room(self) -> int:
        """Tokens of a sentence in a sequence, at most."""
        before, after = self.frame
        return self.network.positions - len(before) - len(after)

    @torch.inference_mode()
    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """The places of questions and their scores, as the batches end; questions with
        equal tokens are scored once.

        The batches are those of all questions, so `--cache` stores the same bits that
        are scored without it.
        """
        places = places_of(self.encoded(questions))
        distinct = list(places)
        self._tell_once(distinct)
        log_probs = [np.zeros(len(sentence.ids)) for sentence in distinct]
        missing = [len(sentence.ids[self.scored(sentence)]) for sentence in distinct]

        def answers(index: int) -> Iterator[tuple[int, TokenScores]]:
            result = self._result(distinct[index], log_probs[index])
            return ((place, result) for place in places[distinct[index]])

        for index, number in enumerate(missing):
            if not number:
                yield from answers(index)
        for batch, rows, targets, spans in self.requests(distinct):
            values = self.network.log_probs(batch, rows, targets).double().cpu().numpy()
            for index, first, which in spans:
                found = values[which]
                log_probs[index][first : first + len(found)] += found
                missing[index] -= len(found)
                if not missing[index]:
                    yield from answers(index)

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        """The tokens of each question that are read and scored."""
        return [self.in_order(sentence) for sentence in self.network.encode(questions)]

    def scored(self, sentence: Encoded) -> slice:
        """Which of the tokens are scored."""
        return sentence.scored

    def in_order(self, sentence: Encoded) -> Encoded:
        """The scored tokens, in the order in which the network reads them."""
        return sentence

    def _result(self, sentence: Encoded, log_probs: Values) -> TokenScores:
        """The result, in the order of the sentence."""
        own = self.scored(sentence)
        ids, log_probs = sentence.ids[own], log_probs[own]
        unknown, size = self.network.unknown, self.network.vocabulary
        places = (
            ()
            if unknown is None
            else tuple(
                place for place, token in enumerate(ids) if token % size == unknown
            )
        )
        return TokenScores(self.network.strings(ids), log_probs, places)

    def windows(self, sentences: Sequence[Encoded]) -> Iterator[Window]:
        """The sequences that are read, which are windows of sentences that are too
        long.
        """
        before, after = self.frame
        for number, sentence in enumerate(sentences):
            own = self.scored(sentence)
            size = len(sentence.ids)
            for start, stop, first, last in windows(
                size, size if sentence.whole else self.room
            ):
                first, last = max(first, own.start), min(last, own.stop)
                if first < last:
                    ids = sentence.ids[start:stop]
                    tokens = ids if sentence.whole else (*before, *ids, *after)
                    shift = 0 if sentence.whole else len(before) - start
                    yield Window(
                        tokens, slice(first + shift, last + shift), number, first
                    )

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        """All requests to the network."""
        rows = sorted(self.windows(sentences), key=lambda window: len(window.tokens))
        for batch in batches(
            rows, lambda window: len(window.tokens), self.network.batch_tokens
        ):
            tokens, lengths = padded(
                [window.tokens for window in batch], self.network.pad
            )
            at: list[int] = []
            targets: list[int] = []
            spans = []
            for row, window in enumerate(batch):
                begin = row * tokens.shape[1]
                at += range(begin + window.scored.start, begin + window.scored.stop)
                spans.append(
                    Span(window.sentence, window.first, slice(len(targets), len(at)))
                )
                targets += window.tokens[window.scored]
            yield Request(
                Batch(tokens, lengths, torch.tensor(at)),
                torch.arange(len(at)),
                torch.tensor(targets),
                spans,
            )

    def _tell_once(self, sentences: Sequence[Encoded]) -> None:
        long = [
            len(sentence.ids)
            for sentence in sentences
            if not sentence.whole and len(sentence.ids) > self.room
        ]
        if long and not self._reported:
            self._reported = True
            texts = (
                f"texts are scored without {self.beside},"
                if self.beside
                else "sentences are scored"
            )
            log.warning(
                "%s: a sentence has %d tokens, but the model only %d positions; long %s"
                " in overlapping windows",
                self.name,
                long[0],
                self.room,
                texts,
            )


def padded(sequences: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Sequences as tokens (batch, n), padded behind, and their lengths (batch,)."""
    lengths = [len(sequence) for sequence in sequences]
    tokens = np.full((len(sequences), max(lengths)), pad, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        tokens[row, : lengths[row]] = sequence
    return torch.from_numpy(tokens), torch.tensor(lengths)


def batches(
    items: Iterable[Item],
    length: Callable[[Item], int],
    budget: int,
    most: int | None = None,
) -> Iterator[list[Item]]:
    """Cut items, sorted by length, into batches of at most `budget` padded tokens (or
    one item) and `most` items.
    """
    batch: list[Item] = []
    for item in items:
        if batch and (len(batch) == most or (len(batch) + 1) * length(item) > budget):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def windows(length: int, size: int) -> list[tuple[int, int, int, int]]:
    """Windows of at most `size` tokens over a sentence: (start, stop, first kept, after
    the last kept).

    They overlap by at least half; each token is kept once, from the window where it is
    furthest from an edge that cuts the sentence.
    """
    if length <= size:
        return [(0, length, 0, length)] if length else []
    starts = [*range(0, length - size, size // 2), length - size]
    cuts = [
        0,
        *((left + size + right) // 2 for left, right in pairwise(starts)),
        length,
    ]
    return [
        (start, start + size, *cuts[rank : rank + 2])
        for rank, start in enumerate(starts)
    ]
