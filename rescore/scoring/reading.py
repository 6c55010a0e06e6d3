"""How a network reads sentences: in one pass, one mask at a time, forwards, backwards.

A reading turns sentences into rows, the sequences that a network is run on; a network (scoring/neural.py,
scoring/huggingface.py) turns rows into log-probabilities.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.scoring.base import TokenScores

log = logging.getLogger(__name__)

Values = npt.NDArray[np.float64]


class Encoded(NamedTuple):
    """A sentence's token ids, without any frame, and the number of the word that each belongs to."""

    ids: list[int]
    words: list[int]


class Network(Protocol):
    """What a reading needs of a network and its tokenizer. Arithmetic is float32."""

    before: list[int]
    """Tokens in front of every sequence, such as [BOS]."""
    after: list[int]
    """Tokens behind a sequence that is read both ways, such as [EOS]."""
    end: list[int]
    """The token (or none) that a causal network predicts where the sentence ends."""
    mask: int
    pad: int
    positions: int
    """The longest sequence."""
    batch_tokens: int
    """Padded tokens in a batch: bounds memory."""

    def encode(self, sentences: Sequence[str]) -> list[Encoded]: ...

    def strings(self, ids: Sequence[int]) -> list[str]: ...

    def log_probs(self, tokens: Tensor, lengths: Tensor, predicted: Tensor, targets: Tensor) -> Tensor:
        """Natural-log probabilities of `targets` (k,) at the k True positions of `predicted` (batch, n).

        Args:
            tokens: (batch, n) padded behind. lengths: (batch,).
        """
        ...

    def digest(self) -> bytes:
        """Content hash of weights and tokenizer."""
        ...


class Row(NamedTuple):
    """One sequence: tokens `start` to `stop` of a sentence, of which `first` to `last` are scored.

    Where tokens are masked, these are `first` to `masked`.
    """

    sentence: int
    start: int
    stop: int
    first: int
    last: int
    masked: int


class Reading:
    """One pass over the sentence with both sides of its frame: a T-TA, or a biLM that sees what it predicts.

    A T-TA's score of a token is log softmax(H E^T) at the token itself (section 4.1); [BOS] and [EOS] are context and
    are not scored. Sentences longer than the network's positions are read in overlapping windows.
    """

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self._network = network
        self._told = False

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.name.encode() + self._network.digest()).hexdigest()

    @property
    def _frame(self) -> int:
        """Positions that are not the sentence's."""
        return len(self._network.before) + len(self._network.after)

    @property
    def _offset(self) -> int:
        """The hidden vector at position i + offset of a row predicts its token i."""
        return len(self._network.before)

    @torch.inference_mode()
    def score(self, sentences: Sequence[str]) -> list[TokenScores]:
        """One result a sentence, in their order."""
        encoded = [self._scored(sentence) for sentence in self._network.encode(sentences)]
        size = self._network.positions - self._frame
        self._tell_once(encoded, size)
        log_probs = [np.zeros(len(sentence.ids)) for sentence in encoded]
        rows = [
            row
            for index, sentence in enumerate(encoded)
            for window in windows(len(sentence.ids), size)
            for row in self._rows(index, sentence, *window)
        ]
        rows.sort(key=lambda row: row.stop - row.start)
        for batch in self._batches(rows):
            done = 0
            values = self._values(batch, encoded)
            for row in batch:
                number = row.last - row.first
                log_probs[row.sentence][row.first : row.last] = values[done : done + number]
                done += number
        return [self._result(sentence.ids, values) for sentence, values in zip(encoded, log_probs, strict=True)]

    def _scored(self, sentence: Encoded) -> Encoded:
        """The tokens that are scored, in the order in which the network reads them."""
        return sentence

    def _result(self, ids: list[int], log_probs: Values) -> TokenScores:
        """From the network's order to that of the sentence."""
        return TokenScores(self._network.strings(ids), log_probs)

    def _rows(self, index: int, sentence: Encoded, start: int, stop: int, first: int, last: int) -> Iterable[Row]:
        """The rows that score tokens `first` to `last` of a window."""
        return [Row(index, start, stop, first, last, first)]

    def _sequence(self, ids: list[int], row: Row) -> list[int]:
        """What the network reads: a window in its frame."""
        network = self._network
        return [*network.before, *ids[row.start : row.stop], *network.after]

    def _batches(self, rows: list[Row]) -> Iterator[list[Row]]:
        """Cut rows, sorted by length, into batches of at most `batch_tokens` padded tokens (or one row)."""
        batch: list[Row] = []
        for row in rows:
            if batch and (len(batch) + 1) * (row.stop - row.start + self._frame) > self._network.batch_tokens:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _values(self, batch: list[Row], encoded: list[Encoded]) -> Values:
        """Log-probabilities of the scored tokens of all rows, one after another."""
        sequences = [self._sequence(encoded[row.sentence].ids, row) for row in batch]
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        tokens = torch.full((len(batch), max(map(len, sequences))), self._network.pad, dtype=torch.long)
        predicted = torch.zeros(tokens.shape, dtype=torch.bool)
        targets: list[int] = []
        for index, (row, sequence) in enumerate(zip(batch, sequences, strict=True)):
            tokens[index, : len(sequence)] = torch.tensor(sequence)
            predicted[index, row.first - row.start + self._offset : row.last - row.start + self._offset] = True
            targets += encoded[row.sentence].ids[row.first : row.last]
        values = self._network.log_probs(tokens, lengths, predicted, torch.tensor(targets))
        return np.asarray(values.double().cpu().numpy(), dtype=np.float64)

    def _tell_once(self, encoded: list[Encoded], size: int) -> None:
        long = [len(sentence.ids) for sentence in encoded if len(sentence.ids) > size]
        if long and not self._told:
            self._told = True
            log.warning(
                "%s: a sentence of %d tokens exceeds the model's %d; such sentences are scored in overlapping windows",
                self.name,
                long[0],
                size,
            )


class MaskedReading(Reading):
    """The pseudo-log-likelihood by mask-and-predict: a row a token, which alone is masked (Salazar et al. 2020).

    With `within_word` the later tokens of its word are masked as well (Kauf and Ivanova 2023, "within-word l2r"), so
    that the rest of a rare word does not give its pieces away.
    """

    def __init__(self, name: str, network: Network, within_word: bool = False) -> None:
        super().__init__(name, network)
        self._within_word = within_word

    def _rows(self, index: int, sentence: Encoded, start: int, stop: int, first: int, last: int) -> Iterable[Row]:
        for position in range(first, last):
            masked = position + 1
            if self._within_word:
                while masked < stop and sentence.words[masked] == sentence.words[position]:
                    masked += 1
            yield Row(index, start, stop, position, position + 1, masked)

    def _sequence(self, ids: list[int], row: Row) -> list[int]:
        sequence = super()._sequence(ids, row)
        begin = row.first - row.start + self._offset
        sequence[begin : begin + row.masked - row.first] = [self._network.mask] * (row.masked - row.first)
        return sequence


class CausalReading(Reading):
    """log p(sentence): each token, and the end where the network has a token for it, given those before.

    Without a token in front of the sentence, its first token is context only and not scored.
    """

    @property
    def _frame(self) -> int:
        return len(self._network.before)

    @property
    def _offset(self) -> int:
        return len(self._network.before) - 1

    @property
    def _unscored(self) -> int:
        return 0 if self._network.before else 1

    def _scored(self, sentence: Encoded) -> Encoded:
        end = self._network.end
        return Encoded([*sentence.ids, *end], [*sentence.words, *[-1] * len(end)])

    def _rows(self, index: int, sentence: Encoded, start: int, stop: int, first: int, last: int) -> Iterable[Row]:
        first = max(first, self._unscored)
        return [Row(index, start, stop, first, last, first)] if first < last else []

    def _sequence(self, ids: list[int], row: Row) -> list[int]:
        return [*self._network.before, *ids[row.start : row.stop - 1]]

    def _result(self, ids: list[int], log_probs: Values) -> TokenScores:
        return super()._result(ids[self._unscored :], log_probs[self._unscored :])


class BackwardReading(CausalReading):
    """The same on the reversed sentence: each token, and where the sentence begins, given those after it."""

    def _scored(self, sentence: Encoded) -> Encoded:
        return super()._scored(Encoded(sentence.ids[::-1], sentence.words[::-1]))

    def _result(self, ids: list[int], log_probs: Values) -> TokenScores:
        return super()._result(ids[::-1], log_probs[::-1])


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
