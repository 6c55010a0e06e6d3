"""Sentence and token vectors of a network (Shin et al. 2020, section 5.4): hidden
vectors, or input embeddings.

The context vector of a token is the hidden vector that predicts it: at its position in
a T-TA, at its masked position in a masked model, at the position before it in a causal
model, h(x_<i). It does not depend on the token itself. The hidden vector of a token is
computed where the network sees the token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.columns import Column
from rescore.errors import UserError
from rescore.lms import LanguageModel, capabilities_of, record_of, without_context
from rescore.lms.scorers import (
    Encoded,
    NetworkScorer,
    ScoredNetwork,
    batches,
    padded,
    windows,
)
from rescore.research.vector_options import VectorOptions

Vectors = npt.NDArray[np.float32]

MASKED_TOGETHER = 200
"""Sentences whose masked copies are made together."""


class VectorNetwork(ScoredNetwork, Protocol):
    """A network whose vectors can be read."""

    layers: int

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        """Return the hidden vectors (batch, n, d) behind a layer, from sequences
        (batch, n) and their lengths (batch,).
        """
        ...

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        """Return the vectors (batch, n, d) before the first layer: embeddings of the
        tokens alone, or with positions the whole input of the first layer.
        """
        ...


class TokenVectors(NamedTuple):
    """The tokens of a sentence and their vectors."""

    tokens: list[str]
    vectors: Vectors
    """(tokens, d)."""


class SentenceWindow(NamedTuple):
    """A window of a sentence, and the tokens whose vectors are taken from it.

    The numbers of tokens count from the beginning of the sentence.
    """

    sentence: int
    start: int
    """The first token that is read."""
    stop: int
    """The token after the last that is read."""
    first: int
    """The first token that is kept."""
    last: int
    """The token after the last that is kept."""

    @property
    def size(self) -> int:
        return self.stop - self.start


class Embedder:
    """Vectors of one or several networks; the vectors of several networks are
    concatenated.
    """

    def __init__(
        self, lms: Sequence[LanguageModel], options: VectorOptions | None = None
    ) -> None:
        """Check the models.

        Args:
            lms: The models.
            options: The kind, layers and pooling of the vectors.

        Raises:
            UserError: A model has no vectors, or none of this kind or layer.
        """
        self.options = options or VectorOptions()
        self.lms = [network_of(lm) for lm in lms]
        for lm in self.lms:
            last = vectors_of(lm).layers
            for layer in self.options.mix(last):
                if layer > last:
                    raise UserError(
                        f"{lm.name}: layer {layer} is not between 0 and {last}"
                    )
            if self.options.special_tokens and (lm.behind or self._masks(lm)):
                raise UserError(
                    f"{lm.name}: has no {self.options.kind} vectors of special tokens;"
                    " leave out --special-tokens"
                )

    @property
    def name(self) -> str:
        """The name of the models in tables."""
        return " + ".join(lm.name for lm in self.lms)

    @property
    def columns(self) -> dict[str, Column]:
        """The origins of the models, for signatures."""
        return {lm.name: record_of(lm, "none") for lm in self.lms}

    @torch.inference_mode()
    def sentences(self, sentences: Sequence[str]) -> Vectors:
        """Return the vectors (sentences, d) of sentences; the vector of a sentence
        without tokens is 0.
        """
        return self.sentence_tensors(sentences).numpy()

    @torch.inference_mode()
    def words(self, sentences: Sequence[str], places: Sequence[int]) -> Vectors:
        """Return the vector of one word of each sentence, the mean of its tokens'
        vectors.

        Args:
            sentences: Words separated by blanks.
            places: The place of the word in each sentence, counted in words from 0.

        Returns:
            Vectors of shape (sentences, d); the vector of a word without tokens is 0.

        Raises:
            UserError: There are several models: their tokens may differ.
        """
        return self.word_tensors(sentences, places).numpy()

    @torch.inference_mode()
    def tokens(self, sentences: Sequence[str]) -> list[TokenVectors]:
        """Return the tokens of each sentence and their vectors.

        In a causal model without [BOS] nothing predicts the first token, so it has no
        context vector and is left out.

        Raises:
            UserError: There are several models: their tokens may differ.
        """
        lm = self._only()
        encoded = lm.network.encode(without_context(sentences))
        special = self.options.special_tokens
        results = []
        for sentence, vectors in zip(
            encoded, self._of_tokens(lm, encoded, special), strict=True
        ):
            ids = list(sentence.ids)
            if special and ids:
                ids = [*lm.network.before, *ids, *lm.network.after]
            first = len(ids) - len(vectors)
            results.append(
                TokenVectors(lm.network.strings(ids[first:]), vectors.numpy())
            )
        return results

    def sentence_tensors(self, sentences: Sequence[str]) -> Tensor:
        """Return what `sentences` returns, as a tensor; with gradients if torch
        records them.
        """
        if not sentences:
            return torch.zeros(0, 0)
        questions = without_context(sentences)
        joined = []
        for lm in self.lms:
            every = self._of_tokens(
                lm, lm.network.encode(questions), self.options.special_tokens
            )
            pooled = [pool(vectors, self.options.pooling) for vectors in every]
            joined.append(torch.stack(pooled))
        return torch.cat(joined, dim=1)

    def word_tensors(self, sentences: Sequence[str], places: Sequence[int]) -> Tensor:
        """Return what `words` returns, as a tensor; with gradients if torch records
        them.
        """
        lm = self._only()
        encoded = lm.network.encode(without_context(sentences))
        spans = word_tokens(lm.network, sentences, places)
        words = []
        for sentence, span, vectors in zip(
            encoded, spans, self._of_tokens(lm, encoded, special=False), strict=True
        ):
            missing = len(sentence.ids) - len(vectors)
            first = max(span.start - missing, 0)
            stop = max(span.stop - missing, 0)
            words.append(pool(vectors[first:stop], "mean"))
        return torch.stack(words)

    def _only(self) -> NetworkScorer:
        """Return the model, if there is only one."""
        if len(self.lms) > 1:
            raise UserError(
                "token vectors of several models cannot be joined; give one --lm"
            )
        return self.lms[0]

    def _masks(self, lm: NetworkScorer) -> bool:
        """Whether each token is masked to compute its vector."""
        return lm.masks and self.options.kind == "context"

    def _of_tokens(
        self, lm: NetworkScorer, encoded: Sequence[Encoded], special: bool
    ) -> list[Tensor]:
        """Return the token vectors (tokens, d) of each sentence; equal sentences are
        computed once.
        """
        numbers: dict[Encoded, int] = {}
        for sentence in encoded:
            numbers.setdefault(sentence, len(numbers))
        distinct = list(numbers)
        if self._masks(lm):
            vectors = dict(self._masked(lm, distinct))
        else:
            vectors = dict(self._in_one_pass(lm, distinct, special))
        if len(vectors) < len(distinct):  # of sentences without tokens
            nothing = padded([[lm.network.pad]], lm.network.pad)
            width = self._of_positions(lm, *nothing).shape[-1]
            for number in range(len(distinct)):
                vectors.setdefault(number, torch.zeros(0, width))
        return [vectors[numbers[sentence]] for sentence in encoded]

    def _of_positions(
        self, lm: NetworkScorer, tokens: Tensor, lengths: Tensor
    ) -> Tensor:
        """Return the vectors (batch, n, d) of all positions of sequences (batch, n)
        with lengths (batch,).
        """
        network = vectors_of(lm)
        kind = self.options.kind
        if kind in ("embed", "token"):
            return network.embeddings(tokens, lengths, positions=kind == "embed")
        mixed = torch.zeros(())
        for layer, weight in self.options.mix(network.layers).items():
            mixed = mixed + weight * network.vectors(tokens, lengths, layer)
        return mixed

    def _in_one_pass(
        self, lm: NetworkScorer, sentences: Sequence[Encoded], special: bool
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of each sentence that has tokens, and its token vectors
        (tokens, d).

        A sentence longer than the network's positions is read in overlapping windows.
        """
        network = lm.network
        before = network.before
        after = [] if lm.behind else network.after
        frame = len(before) + len(after)
        every = _windows(sentences, network.positions - frame)
        pieces: dict[int, dict[int, Tensor]] = {}
        for batch in batches(
            every, lambda window: window.size + frame, network.batch_tokens
        ):
            sequences = []
            for window in batch:
                ids = sentences[window.sentence].ids[window.start : window.stop]
                if lm.backwards:
                    ids = ids[::-1]
                sequences.append([*before, *ids, *after])
            rows = self._of_positions(lm, *padded(sequences, network.pad)).cpu()
            for row, window in zip(rows, batch, strict=True):
                piece = self._kept(lm, row, window)
                if special:
                    length = len(sentences[window.sentence].ids)
                    piece = _with_special(lm, row, window, length, piece)
                # A copy, which does not keep the row of all windows in memory.
                pieces.setdefault(window.sentence, {})[window.start] = piece.clone()
        for number, of_sentence in pieces.items():
            in_order = [of_sentence[start] for start in sorted(of_sentence)]
            yield number, torch.cat(in_order)

    def _kept(self, lm: NetworkScorer, row: Tensor, window: SentenceWindow) -> Tensor:
        """Return the vectors of the tokens that are kept of a window, in the order of
        the sentence, from the vectors (n, d) of its sequence.
        """
        first = len(lm.network.before)
        if self.options.kind == "context":
            first -= lm.behind
        vectors = row[max(first, 0) : first + window.size]
        if lm.backwards:
            vectors = vectors.flip(0)
        # Without [BOS], nothing predicts the first token of a causal model.
        missing = window.size - len(vectors)
        begin = max(window.first - window.start - missing, 0)
        return vectors[begin : window.last - window.start - missing]

    def _masked(
        self, lm: NetworkScorer, sentences: Sequence[Encoded]
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of each sentence that has tokens, and the vectors (tokens,
        d) of its tokens, each at its masked position.
        """
        for begin in range(0, len(sentences), MASKED_TOGETHER):
            group = sentences[begin : begin + MASKED_TOGETHER]
            of_group: list[dict[int, Tensor]] = [{} for _ in group]
            for batch, rows, _, spans in lm.requests(group):
                every = self._of_positions(lm, batch.tokens, batch.lengths)
                flat = every.flatten(0, 1)
                values = flat[batch.at.to(flat.device)].cpu()
                for span in spans:
                    for offset, value in enumerate(values[rows[span.values]]):
                        of_group[span.sentence][span.first + offset] = value
            for number, of_sentence in enumerate(of_group, begin):
                if of_sentence:
                    in_order = [of_sentence[token] for token in sorted(of_sentence)]
                    yield number, torch.stack(in_order)


def _windows(sentences: Sequence[Encoded], room: int) -> list[SentenceWindow]:
    """Return windows of sentences, at most `room` tokens long, the shortest first."""
    every = []
    for number, sentence in enumerate(sentences):
        for places in windows(len(sentence.ids), room):
            every.append(SentenceWindow(number, *places))
    return sorted(every, key=lambda window: window.size)


def _with_special(
    lm: NetworkScorer, row: Tensor, window: SentenceWindow, length: int, kept: Tensor
) -> Tensor:
    """Return the vectors kept of a window, with those of the special tokens around the
    sentence.

    Args:
        lm: The model.
        row: The vectors (n, d) of the window's sequence.
        window: The window.
        length: Tokens of the sentence.
        kept: The vectors kept of the window.
    """
    begin = len(lm.network.before)
    end = begin + window.size
    joined = [kept]
    if window.start == 0:
        joined.insert(0, row[:begin])
    if window.stop == length:
        joined.append(row[end : end + len(lm.network.after)])
    return torch.cat(joined)


def pool(vectors: Tensor, pooling: str) -> Tensor:
    """Return one vector (d,) from the vectors (tokens, d) of tokens; 0 if there are no
    tokens.

    Args:
        vectors: The vectors in the order of the sentence.
        pooling: One of `POOLINGS`.
    """
    if len(vectors) == 0 or pooling == "sum":
        return vectors.sum(dim=0)
    if pooling == "max":
        return vectors.amax(dim=0)
    if pooling == "first":
        return vectors[0]
    if pooling == "last":
        return vectors[-1]
    return vectors.mean(dim=0)


def word_tokens(
    network: ScoredNetwork, sentences: Sequence[str], places: Sequence[int]
) -> list[slice]:
    """Return which tokens of each sentence belong to one of its words.

    A tokenizer cuts words as it likes, so the tokens are counted: those of the text
    before the word, and those of the text that ends with the word.

    Args:
        network: The network that reads the sentences.
        sentences: Words separated by blanks.
        places: The place of the word in each sentence, counted in words from 0.
    """
    before = []
    through = []
    for sentence, place in zip(sentences, places, strict=True):
        words = sentence.split()
        before.append(" ".join(words[:place]))
        through.append(" ".join(words[: place + 1]))
    spans = []
    for start, stop in zip(
        network.encode(without_context(before)),
        network.encode(without_context(through)),
        strict=True,
    ):
        spans.append(slice(len(start.ids), len(stop.ids)))
    return spans


def vectors_of(lm: NetworkScorer) -> VectorNetwork:
    """Return the network of a model that has vectors."""
    return cast(VectorNetwork, lm.network)


def network_of(lm: LanguageModel) -> NetworkScorer:
    """Return the model as a network with vectors.

    Raises:
        UserError: The model has no vectors, or reads more than a sentence.
    """
    capabilities = capabilities_of(lm)
    if any(capabilities.context) or capabilities.source:
        raise UserError(
            f"{lm.name}: vectors are for single sentences; leave out context and"
            " sources"
        )
    if not capabilities.vectors:
        raise UserError(
            f"{lm.name}: has no vectors; give a network, and leave out --cache, a case"
            " and --engine ray"
        )
    return cast(NetworkScorer, lm)
