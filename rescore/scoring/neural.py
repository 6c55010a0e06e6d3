"""Back-ends that run one of our own networks."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.networks import checkpoint
from rescore.networks.device import choose_device
from rescore.scoring.base import TokenScores

log = logging.getLogger(__name__)

Values = npt.NDArray[np.float64]


class Row(NamedTuple):
    """One sequence for the network: tokens `start` to `stop` of a sentence, of which `first` to `last` are scored."""

    sentence: int
    start: int
    stop: int
    first: int
    last: int


class NeuralLM:
    """What all networks here share: windows over long sentences, batches of rows of about one length, the softmax.

    What differs is the subclass's: the network's kind, the sequence that it reads, and which rows a window needs.
    Arithmetic is float32.
    """

    kind: str
    option = ""
    """What distinguishes this reading of the network from another; part of the name and of the fingerprint."""
    frame = 2
    """Positions of a row that [BOS] and [EOS] take."""
    offset = 1
    """The hidden vector at position i + offset of a row predicts its token i."""

    def __init__(self, folder: Path, device: str | None = None, batch_tokens: int = 2048) -> None:
        """Load a model folder. `batch_tokens` bounds memory: about 5 kB a token at the `base` size, and the weights."""
        self.name = f"{self.kind}:{self.option}" if self.option else self.kind
        self._folder = folder
        self._network, self._tokenizer = checkpoint.load(folder, self.kind)
        self._device = choose_device(device)
        self._network.to(self._device)
        self._batch_tokens = batch_tokens
        self._told = False

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.name.encode())
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            digest.update(hashlib.sha256((self._folder / file).read_bytes()).digest())
        return digest.hexdigest()

    @torch.inference_mode()
    def score(self, sentences: Sequence[str]) -> list[TokenScores]:
        """One result a sentence; sentences longer than the network's positions are scored in overlapping windows."""
        ids = [self._scored(sentence) for sentence in self._tokenizer.encode(sentences)]
        size = self._network.config.max_positions - self.frame
        self._tell_once(ids, size)
        log_probs = [np.zeros(len(sentence)) for sentence in ids]
        rows = [
            Row(index, *window)
            for index, sentence in enumerate(ids)
            for whole in windows(len(sentence), size)
            for window in self._rows(*whole)
        ]
        rows.sort(key=lambda row: row.stop - row.start)
        for batch in self._batches(rows):
            done = 0
            values = self._forward(batch, ids)
            for row in batch:
                number = row.last - row.first
                log_probs[row.sentence][row.first : row.last] = values[done : done + number]
                done += number
        return [self._result(tokens, values) for tokens, values in zip(ids, log_probs, strict=True)]

    def _scored(self, ids: list[int]) -> list[int]:
        """The tokens that are scored, in the order in which the network reads them."""
        return ids

    def _result(self, ids: list[int], log_probs: Values) -> TokenScores:
        """From the network's order to that of the sentence."""
        return TokenScores(self._tokenizer.tokens(ids), log_probs)

    def _rows(self, start: int, stop: int, first: int, last: int) -> Iterable[tuple[int, int, int, int]]:
        """The rows that score tokens `first` to `last` of a window."""
        return [(start, stop, first, last)]

    def _sequence(self, ids: list[int], row: Row) -> list[int]:
        """What the network reads: a window in its frame."""
        return [self._tokenizer.bos, *ids[row.start : row.stop], self._tokenizer.eos]

    def _batches(self, rows: list[Row]) -> Iterator[list[Row]]:
        """Cut rows, sorted by length, into batches of at most `batch_tokens` padded tokens (or one row)."""
        batch: list[Row] = []
        for row in rows:
            if batch and (len(batch) + 1) * (row.stop - row.start + self.frame) > self._batch_tokens:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _forward(self, batch: list[Row], ids: list[list[int]]) -> Values:
        """Log-probabilities of the scored tokens of all rows, one after another."""
        sequences = [self._sequence(ids[row.sentence], row) for row in batch]
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        tokens = torch.full((len(batch), max(map(len, sequences))), self._tokenizer.pad, dtype=torch.long)
        predicted = torch.zeros(tokens.shape, dtype=torch.bool)
        targets: list[int] = []
        for index, (row, sequence) in enumerate(zip(batch, sequences, strict=True)):
            tokens[index, : len(sequence)] = torch.tensor(sequence)
            predicted[index, row.first - row.start + self.offset : row.last - row.start + self.offset] = True
            targets += ids[row.sentence][row.first : row.last]
        device = self._device
        hidden = self._network(tokens.to(device), lengths.to(device))[predicted.to(device)]
        values = token_log_probs(hidden, self._network.tokens.weight, torch.tensor(targets, device=device))
        return np.asarray(values.double().cpu().numpy(), dtype=np.float64)

    def _tell_once(self, ids: list[list[int]], size: int) -> None:
        long = [sentence for sentence in ids if len(sentence) > size]
        if long and not self._told:
            self._told = True
            log.warning(
                "%s: a sentence of %d tokens exceeds the model's %d; such sentences are scored in overlapping windows",
                self.name,
                len(long[0]),
                size,
            )


class AutoencoderLM(NeuralLM):
    """A T-TA: the pseudo-log-likelihood of a sentence in one pass.

    Each token's score is log softmax(H E^T) at the token itself (section 4.1); [BOS] and [EOS] are context and are not
    scored.
    """

    kind = "tta"


class MaskedLM(NeuralLM):
    """A biLM: the pseudo-log-likelihood by mask-and-predict, one token masked at a time: a row a token."""

    kind = "bilm"

    def _rows(self, start: int, stop: int, first: int, last: int) -> Iterable[tuple[int, int, int, int]]:
        return [(start, stop, position, position + 1) for position in range(first, last)]

    def _sequence(self, ids: list[int], row: Row) -> list[int]:
        sequence = super()._sequence(ids, row)
        sequence[row.first - row.start + self.offset] = self._tokenizer.mask
        return sequence


class IntactLM(NeuralLM):
    """A biLM that reads the sentence unmasked, in one pass: the papers' row "\\M", for comparison only."""

    kind = "bilm"
    option = "intact"


class CausalLM(NeuralLM):
    """A uniLM: log p(sentence), each token and [EOS] given those before it."""

    kind = "unilm"
    frame = 1
    offset = 0

    def _scored(self, ids: list[int]) -> list[int]:
        return [*ids, self._tokenizer.eos]

    def _sequence(self, ids: list[int], row: Row) -> list[int]:
        return [self._tokenizer.bos, *ids[row.start : row.stop - 1]]


class BackwardLM(CausalLM):
    """A uniLM on the reversed sentence: each token, and where the sentence begins, given those after it."""

    kind = "unilm-bw"

    def _scored(self, ids: list[int]) -> list[int]:
        return [*reversed(ids), self._tokenizer.eos]

    def _result(self, ids: list[int], log_probs: Values) -> TokenScores:
        return super()._result(ids[::-1], log_probs[::-1])


NEURAL: dict[str, type[NeuralLM]] = {
    "tta": AutoencoderLM,
    "bilm": MaskedLM,
    "bilm:intact": IntactLM,
    "unilm": CausalLM,
    "unilm-bw": BackwardLM,
}
"""The back-ends of this module by what --lm calls them."""


def token_log_probs(hidden: Tensor, embeddings: Tensor, targets: Tensor, rows: int = 256) -> Tensor:
    """log softmax(hidden @ embeddings.T) at the targets, natural log.

    A few rows at a time, so that the logits stay in the cache: on a whole batch memory traffic costs more than the
    matrix product.

    Args:
        hidden: (positions, d). embeddings: (vocabulary, d). targets: (positions,).
    """
    result = hidden.new_empty(len(hidden))
    for start in range(0, len(hidden), rows):
        logits = hidden[start : start + rows] @ embeddings.T
        chosen = logits.gather(-1, targets[start : start + rows, None]).squeeze(-1)
        result[start : start + rows] = chosen - logits.logsumexp(-1)
    return result


def windows(length: int, size: int) -> list[tuple[int, int, int, int]]:
    """Windows of at most `size` tokens over a sentence: (start, stop, first kept, after the last kept).

    They overlap by at least half; each token is kept once, from the window in which it stands furthest from an edge
    that cuts the sentence.
    """
    if length <= size:
        return [(0, length, 0, length)] if length else []
    starts = [*range(0, length - size, size // 2), length - size]
    cuts = [0, *((left + size + right) // 2 for left, right in pairwise(starts)), length]
    return [(start, start + size, *cuts[rank : rank + 2]) for rank, start in enumerate(starts)]
