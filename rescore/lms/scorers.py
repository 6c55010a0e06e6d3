"""Scores of networks in one pass: how sentences become batches of token sequences, and
log-probabilities become scores.
"""

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


ANY_DEPTH = 1 << 62
"""The depth of trees for a network whose tokens see all tokens before them."""
CONTEXT_TOKEN = -2
"""Word number of tokens outside the sentence (its source, a template, its neighbours),
which are not scored.
"""


class Encoded(NamedTuple):
    """The tokens of a sentence, usually without a frame."""

    ids: tuple[int, ...]
    """The ids of the tokens."""
    words: tuple[int, ...]
    """The number of the word that each token belongs to."""
    whole: bool = False
    """Whether the frame is among the tokens; such a sequence fits the network and is
    not cut.
    """

    @property
    def scored(self) -> slice:
        """The place of the sentence's own tokens, without context before and after
        them.
        """
        if CONTEXT_TOKEN not in self.words:
            return slice(0, len(self.words))
        own = [place for place, word in enumerate(self.words) if word != CONTEXT_TOKEN]
        if not own:
            return slice(0, 0)
        return slice(own[0], own[-1] + 1)


class ScoredNetwork(Protocol):
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
    """The token [MASK]."""
    pad: int
    """The token that fills sequences up behind their ends."""
    vocabulary: int
    """Number of tokens; tokens of other sentences have higher numbers, `id + k *
    vocabulary`.
    """
    unknown: int | None
    """The token for unknown text, if the tokenizer has one."""
    positions: int
    """Tokens of the longest sequence."""
    batch_tokens: int
    """Padded tokens in a batch, at most: bounds memory."""

    @property
    def deepest_tree(self) -> int:
        """Tokens of the longest sequence that a tree may hold; 0 for a network that
        reads no trees.
        """
        ...

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        """Return the tokens of each question: the text, and the context that a network
        of this kind reads.

        Args:
            questions: The questions.
        """
        ...

    def strings(self, ids: Sequence[int]) -> list[str]:
        """Return tokens as text.

        Args:
            ids: The ids of the tokens.
        """
        ...

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        """Return log-probabilities of tokens, natural log.

        Args:
            batch: The sequences.
            rows: Indices into `batch.at` of shape (k,): the hidden vector at
                `batch.at[rows[i]]` predicts the token `targets[i]`.
            targets: Tokens of shape (k,).

        Returns:
            Log-probabilities of shape (k,).
        """
        ...

    def digest(self) -> bytes:
        """Return the content hash of weights, tokenizer and settings."""
        ...


class Window(NamedTuple):
    """A sentence in its frame, or a part of it."""

    tokens: tuple[int, ...]
    """The tokens that the network reads."""
    scored: slice
    """The place of the tokens that are scored."""
    sentence: int
    """The number of the sentence among all sentences."""
    first: int
    """The place of the first scored token in the sentence."""


class TokenSpan(NamedTuple):
    """The destination of values: the tokens of a sentence from `first` on."""

    sentence: int
    """The number of the sentence among all sentences."""
    first: int
    """The place of the token that gets the first value."""
    values: Sequence[int] | slice
    """The place of the values among the values of a request."""


class Request(NamedTuple):
    """A batch, the requested predictions (as in `ScoredNetwork.log_probs`), and their
    destinations.
    """

    batch: Batch
    rows: Tensor
    targets: Tensor
    spans: list[TokenSpan]


class NetworkScorer(Streamed):
    """Scores a sentence in one pass, with both sides of its frame: the score of a token
    is log softmax(H E^T) at the token itself (section 4.1 of the T-TA paper).

    [BOS] and [EOS] are context and are not scored. Sentences longer than the network's
    positions are read in overlapping windows.
    """

    capabilities = Capabilities(pseudo=True, vectors=True)
    behind = 0
    """The hidden vector that predicts a token is this number of positions before it."""
    backwards = False
    """Whether it reads sentences from their ends."""
    masks = False
    """Whether predicted tokens are masked."""
    reads = ""
    """The name, in the fingerprint, of what it reads beside a text; empty if it reads
    the text alone.
    """
    beside = ""
    """The name, in messages, of what it reads beside a text."""

    def __init__(self, name: str, network: ScoredNetwork) -> None:
        """Make the scorer of a network.

        Args:
            name: The back-end and its options.
            network: The network.
        """
        self.name = name
        self._model = name
        self.network = network
        self._reported_long = False

    @property
    def model(self) -> str:
        """The back-end and its options; unlike `name`, it never gets a number."""
        return self._model

    @property
    def precision(self) -> str:
        """The arithmetic of the network."""
        return self.network.precision

    @cached_property
    def fingerprint(self) -> str:
        """Content hash of the network, the options, and what is read beside a text."""
        content = self._model.encode() + self.network.digest()
        alone = hashlib.sha256(content).hexdigest()
        if not self.reads:
            return alone
        return hashlib.sha256(f"{self.reads} {alone}".encode()).hexdigest()

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
        """Yield places and scores as the batches end.

        Questions with equal tokens are scored once. The batches are those of all
        questions, so `--cache` stores the same bits that are scored without it.

        Args:
            questions: The questions.
        """
        places = places_of(self.encoded(questions))
        distinct = list(places)
        self._report_long(distinct)
        log_probs = [np.zeros(len(sentence.ids)) for sentence in distinct]
        missing = [len(sentence.ids[self.scored(sentence)]) for sentence in distinct]

        def answers(index: int) -> Iterator[tuple[int, TokenScores]]:
            """Yield the places of a sentence, with its scores."""
            result = self._result(distinct[index], log_probs[index])
            for place in places[distinct[index]]:
                yield place, result

        for index, number in enumerate(missing):
            if not number:
                yield from answers(index)
        for batch, rows, targets, spans in self.requests(distinct):
            values = self.network.log_probs(batch, rows, targets).double().cpu().numpy()
            for index, first, which in spans:
                own = values[which]
                log_probs[index][first : first + len(own)] += own
                missing[index] -= len(own)
                if not missing[index]:
                    yield from answers(index)

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        """Return the tokens of each question that are read and scored.

        Args:
            questions: The questions.
        """
        return [self.in_order(sentence) for sentence in self.network.encode(questions)]

    def scored(self, sentence: Encoded) -> slice:
        """Return the place of the tokens that are scored.

        Args:
            sentence: A sentence as `encoded` returns it.
        """
        return sentence.scored

    def in_order(self, sentence: Encoded) -> Encoded:
        """Return the tokens in the order in which the network reads them.

        Args:
            sentence: A sentence in its own order.
        """
        return sentence

    def _result(self, sentence: Encoded, log_probs: Values) -> TokenScores:
        """Return the scores of the scored tokens, in the order of the sentence."""
        own = self.scored(sentence)
        ids = sentence.ids[own]
        unknown: tuple[int, ...] = ()
        if self.network.unknown is not None:
            size = self.network.vocabulary
            unknown = tuple(
                place
                for place, token in enumerate(ids)
                if token % size == self.network.unknown
            )
        return TokenScores(self.network.strings(ids), log_probs[own], unknown)

    def windows(self, sentences: Sequence[Encoded]) -> Iterator[Window]:
        """Yield the sequences that the network reads; a sentence that is too long gives
        several.

        Args:
            sentences: Sentences as `encoded` returns them.
        """
        before, after = self.frame
        for number, sentence in enumerate(sentences):
            own = self.scored(sentence)
            if sentence.whole:
                if own.start < own.stop:
                    yield Window(sentence.ids, own, number, own.start)
                continue
            for start, stop, first, last in windows(len(sentence.ids), self.room):
                first = max(first, own.start)
                last = min(last, own.stop)
                if first < last:
                    tokens = (*before, *sentence.ids[start:stop], *after)
                    shift = len(before) - start
                    scored = slice(first + shift, last + shift)
                    yield Window(tokens, scored, number, first)

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        """Yield all requests to the network.

        Args:
            sentences: Different sentences, as `encoded` returns them.
        """
        rows = sorted(self.windows(sentences), key=_window_length)
        for batch in batches(rows, _window_length, self.network.batch_tokens):
            yield self._request(batch)

    def _request(self, batch: Sequence[Window]) -> Request:
        """Return the request that scores windows at their own tokens."""
        tokens, lengths = padded([window.tokens for window in batch], self.network.pad)
        at: list[int] = []
        targets: list[int] = []
        spans = []
        for row, window in enumerate(batch):
            begin = row * tokens.shape[1]
            at += range(begin + window.scored.start, begin + window.scored.stop)
            values = slice(len(targets), len(at))
            spans.append(TokenSpan(window.sentence, window.first, values))
            targets += window.tokens[window.scored]
        return Request(
            Batch(tokens, lengths, torch.tensor(at)),
            torch.arange(len(at)),
            torch.tensor(targets),
            spans,
        )

    def _report_long(self, sentences: Sequence[Encoded]) -> None:
        """Warn of sentences that are too long for the network, once."""
        if self._reported_long:
            return
        for sentence in sentences:
            if not sentence.whole and len(sentence.ids) > self.room:
                break
        else:
            return
        self._reported_long = True
        if self.beside:
            texts = f"texts are scored without {self.beside},"
        else:
            texts = "sentences are scored"
        log.warning(
            "%s: a sentence has %d tokens, but the model only %d positions; long %s"
            " in overlapping windows",
            self.name,
            len(sentence.ids),
            self.room,
            texts,
        )


def _window_length(window: Window) -> int:
    """Return the number of tokens of a window."""
    return len(window.tokens)


def padded(sequences: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Return sequences as a tensor.

    Args:
        sequences: The sequences of tokens.
        pad: The token that fills them up.

    Returns:
        Tokens of shape (batch, longest), padded behind, and lengths of shape (batch,).
    """
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
    """Yield items in batches.

    Args:
        items: The items, sorted by length.
        length: Returns the number of tokens of an item.
        budget: Padded tokens of a batch, at most; a single item may have more.
        most: Items of a batch, at most; None for no limit.
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
    """Return the windows that cover a sentence.

    They overlap by at least half. Each token is kept once, from the window where it is
    furthest from an edge that cuts the sentence.

    Args:
        length: Tokens of the sentence.
        size: Tokens of a window, at most.

    Returns:
        The start and the stop of each window, and the start and the stop of the tokens
        that are kept from it; all are places in the sentence.
    """
    if length == 0:
        return []
    if length <= size:
        return [(0, length, 0, length)]
    starts = [*range(0, length - size, size // 2), length - size]
    cuts = [0]
    for left, right in pairwise(starts):
        cuts.append((left + size + right) // 2)
    cuts.append(length)
    kept = pairwise(cuts)
    return [
        (start, start + size, *part) for start, part in zip(starts, kept, strict=True)
    ]
