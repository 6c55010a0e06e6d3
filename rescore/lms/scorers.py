"""Scores of networks: in one pass, and of one masked token at a time; token accuracy."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.lms import base
from rescore.lms.base import (
    Capabilities,
    LanguageModel,
    Question,
    Spec,
    Streamed,
    TokenScores,
    Values,
    capabilities_of,
)
from rescore.lms.fast import Batch
from rescore.parts import KINDS

log = logging.getLogger(__name__)

Item = TypeVar("Item")


CONTEXT_TOKEN = -2
"""Word number of tokens outside the sentence (its source, a template, its neighbours), which are not scored."""


class Encoded(NamedTuple):
    """A sentence's token ids, without any frame, and the number of the word that each belongs to."""

    ids: tuple[int, ...]
    words: tuple[int, ...]

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
    """Number of tokens; tokens of other segments or sentences have higher numbers, `id + k * vocabulary`."""
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

    @property
    def keeps_past(self) -> bool:
        """Whether trees may stand behind tokens that the network reads once and keeps (`Batch.past`)."""
        ...

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        """The input of each question: the text, and the context that a network of this kind reads."""
        ...

    def strings(self, ids: Sequence[int]) -> list[str]: ...

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        """Natural-log probabilities of targets (k,), each predicted by the hidden vector at `batch.at[rows]`."""
        ...

    def most_probable(self, batch: Batch, rows: Tensor) -> Tensor:
        """The tokens (k,) that are most probable given the hidden vectors at `batch.at[rows]`."""
        ...

    @property
    def layers(self) -> int:
        """Number of layers."""
        ...

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        """Sequences (batch, n) and their lengths -> hidden vectors (batch, n, d) behind a layer."""
        ...

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        """The same before the first layer: of the tokens alone, or with all that the first layer is given (positions,
        a LayerNorm)."""
        ...

    def trainable(self) -> Network | None:
        """A copy whose weights can be trained; None if the network cannot be trained."""
        ...

    def digest(self) -> bytes:
        """Content hash of weights, tokenizer and settings."""
        ...


class Span(NamedTuple):
    """Where values go: to the tokens of a sentence from `first` on."""

    sentence: int
    first: int
    values: Sequence[int] | slice
    """Which of the values of a request."""


class Request(NamedTuple):
    """A batch, the requested predictions (as in `Network.log_probs`), and their destinations."""

    batch: Batch
    rows: Tensor
    targets: Tensor
    spans: list[Span]


class NetworkScorer(Streamed):
    """One pass over the sentence with both sides of its frame: the score of a token is log softmax(H E^T) at the token
    itself (section 4.1 of the T-TA paper); [BOS] and [EOS] are context and are not scored. Sentences
    longer than the network's positions are read in overlapping windows.
    """

    capabilities = Capabilities(pseudo=True, vectors=True, predicts_tokens=True)
    passes = 1
    """Number of predictions of each token; its score is their mean."""
    behind = 0
    """How many positions before a token the hidden vector is that predicts it."""
    backwards = False
    """Whether it reads sentences from their ends."""
    masks = False
    """Whether predicted tokens are masked."""

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
        return hashlib.sha256(self._model.encode() + self.network.digest()).hexdigest()

    @property
    def _frame(self) -> int:
        """Positions that are not the sentence's."""
        return len(self.network.before) + len(self.network.after)

    @torch.inference_mode()
    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """The places of questions and their scores, as the batches end; questions with equal tokens are scored once.

        The batches are those of all questions, so `--cache` stores the same bits that are scored without it.
        """
        places: dict[Encoded, list[int]] = {}
        for place, sentence in enumerate(self.encoded(questions)):
            places.setdefault(sentence, []).append(place)
        distinct = list(places)
        self._tell_once(distinct)
        log_probs = [np.zeros(len(sentence.ids)) for sentence in distinct]
        missing = [self.passes * len(sentence.ids[self.scored(sentence)]) for sentence in distinct]
        ready = [index for index, number in enumerate(missing) if not number]
        whole = left = sum(missing)
        for request in chain([None], self.requests(distinct)):
            if request:
                values = self.network.log_probs(request.batch, request.rows, request.targets).double().cpu().numpy()
                for index, first, which in request.spans:
                    span_values = values[which]
                    log_probs[index][first : first + len(span_values)] += span_values / self.passes
                    left -= len(span_values)
                    missing[index] -= len(span_values)
                    if not missing[index]:
                        ready.append(index)
                base.report(whole - left, whole)
            for index in ready:
                result = self._result(distinct[index], log_probs[index])
                yield from ((place, result) for place in places[distinct[index]])
            ready.clear()

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
        places = () if unknown is None else tuple(place for place, token in enumerate(ids) if token % size == unknown)
        return TokenScores(self.network.strings(ids), log_probs, places)

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        """All requests to the network."""
        network, frame = self.network, self._frame
        rows = [
            (index, start, stop, max(first, own.start), min(last, own.stop))
            for index, sentence in enumerate(sentences)
            for own in [self.scored(sentence)]
            for start, stop, first, last in windows(len(sentence.ids), network.positions - frame)
            if own.start < last and first < own.stop
        ]
        rows.sort(key=lambda row: row[2] - row[1])
        for batch in batches(rows, lambda row: row[2] - row[1] + frame, network.batch_tokens):
            sequences = [
                [*network.before, *sentences[index].ids[start:stop], *network.after] for index, start, stop, *_ in batch
            ]
            columns = max(map(len, sequences))
            at: list[int] = []
            targets: list[int] = []
            spans = []
            for row, (index, start, _, first, last) in enumerate(batch):
                spans.append(Span(index, first, slice(len(at), len(at) + last - first)))
                begin = row * columns + first - start + len(network.before)
                at += range(begin, begin + last - first)
                targets += sentences[index].ids[first:last]
            yield Request(
                Batch(*padded(sequences, network.pad), torch.tensor(at)),
                torch.arange(len(at)),
                torch.tensor(targets),
                spans,
            )

    def _tell_once(self, sentences: Sequence[Encoded]) -> None:
        size = self.network.positions - self._frame
        long = [len(sentence.ids) for sentence in sentences if len(sentence.ids) > size]
        if long and not self._reported:
            self._reported = True
            log.warning(
                "%s: a sentence has %d tokens, but the model only %d positions; long sentences are scored in "
                "overlapping windows",
                self.name,
                long[0],
                size,
            )


def padded(sequences: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Sequences as tokens (batch, n), padded behind, and their lengths (batch,)."""
    lengths = [len(sequence) for sequence in sequences]
    tokens = np.full((len(sequences), max(lengths)), pad, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        tokens[row, : lengths[row]] = sequence
    return torch.from_numpy(tokens), torch.tensor(lengths)


def batches(
    items: Iterable[Item], length: Callable[[Item], int], budget: int, most: int | None = None
) -> Iterator[list[Item]]:
    """Cut items, sorted by length, into batches of at most `budget` padded tokens (or one item) and `most` items."""
    batch: list[Item] = []
    for item in items:
        if batch and (len(batch) == most or (len(batch) + 1) * length(item) > budget):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def windows(length: int, size: int) -> list[tuple[int, int, int, int]]:
    """Windows of at most `size` tokens over a sentence: (start, stop, first kept, after the last kept).

    They overlap by at least half; each token is kept once, from the window where it is furthest from an edge that cuts
    the sentence.
    """
    if length <= size:
        return [(0, length, 0, length)] if length else []
    starts = [*range(0, length - size, size // 2), length - size]
    cuts = [0, *((left + size + right) // 2 for left, right in pairwise(starts)), length]
    return [(start, start + size, *cuts[rank : rank + 2]) for rank, start in enumerate(starts)]


TOKENS_TOGETHER = 1 << 21
"""Number of tokens of masked copies that are sorted and deduplicated together."""


class Context(NamedTuple):
    """A masked copy of a window, and the position in it that is predicted."""

    position: int
    tokens: tuple[int, ...]


class Wanted(NamedTuple):
    """A token of a sentence that is predicted from a context."""

    sentence: int
    token: int


def masked_scorer(spec: Spec, network: Network) -> NetworkScorer:
    """The scorer that the options of a masked model ask for; with `intact`, the plain scorer without masks."""
    if "intact" in spec.options:
        scorer = NetworkScorer(spec.name, network)
        scorer.capabilities = replace(scorer.capabilities, intact=True)
        return scorer
    return MaskedScorer(spec.name, network, within_word="within-word-l2r" in spec.options)


class MaskedScorer(NetworkScorer):
    """The pseudo-log-likelihood: log p of each token, which is masked, given all other tokens (Salazar et al. 2020).

    With `within_word` the later tokens of its word are masked as well (Kauf and Ivanova 2023, "within-word l2r"), so
    that the rest of a rare word does not give its pieces away.

    Hypotheses that differ in one token are equal when this token is masked, so their context is computed once.
    """

    masks = True

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
        # The sort is stable: copies of a sentence stay together and share computations.
        rows = sorted(contexts.items(), key=lambda row: len(row[0].tokens))
        for batch in batches(rows, lambda row: len(row[0].tokens), self.network.batch_tokens):
            tokens, lengths = padded([context.tokens for context, _ in batch], self.network.pad)
            at = [row * tokens.shape[1] + context.position for row, (context, _) in enumerate(batch)]
            predictions = [(row, wanted) for row, (_, every) in enumerate(batch) for wanted in every]
            yield Request(
                Batch(tokens, lengths, torch.tensor(at)),
                torch.tensor([row for row, _ in predictions]),
                torch.tensor([sentences[wanted.sentence].ids[wanted.token] for _, wanted in predictions]),
                [Span(*wanted, slice(number, number + 1)) for number, (_, wanted) in enumerate(predictions)],
            )


@torch.inference_mode()
def right_tokens(lm: LanguageModel, questions: Sequence[Question]) -> list[npt.NDArray[np.bool_]]:
    """For each question (tokens,): whether each scored token is the most probable token in its context.

    Raises:
        UserError: the model is not a network, predicts no tokens or each token several times, or is wrapped in a cache,
            another case or neighbours.
    """
    if not capabilities_of(lm).predicts_tokens:
        able = ", ".join(
            name for name in KINDS.names if KINDS[name].is_network and KINDS[name].capabilities.predicts_tokens
        )
        raise UserError(
            f"--accuracy: not for {lm.name}; give {able} or a folder of hf-masked or hf-causal, without --cache, "
            "case, context=N and --engine"
        )
    scorer = cast(NetworkScorer, lm)
    if scorer.passes > 1:
        raise UserError(f"--accuracy: {lm.name} predicts each token {scorer.passes} times; leave out orders")
    sentences = scorer.encoded(questions)
    marks = [np.zeros(len(sentence.ids), dtype=np.bool_) for sentence in sentences]
    for batch, rows, targets, spans in scorer.requests(sentences):
        right = (scorer.network.most_probable(batch, rows).cpu() == targets % scorer.network.vocabulary).numpy()
        for sentence, first, which in spans:
            values = right[which]
            marks[sentence][first : first + len(values)] = values
    return [right[scorer.scored(sentence)] for right, sentence in zip(marks, sentences, strict=True)]
