"""Back-ends that run one of our own networks."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.networks import checkpoint
from rescore.networks.device import choose_device
from rescore.scoring.base import TokenScores

log = logging.getLogger(__name__)

Piece = tuple[int, int, int, int, int]  # sentence, and a window of it: start, stop, first kept, after the last kept


class AutoencoderLM:
    """A T-TA: the pseudo-log-likelihood of a sentence in one pass.

    Each token's score is log softmax(H E^T) at the token itself (section 4.1); [BOS] and [EOS] are context and are not
    scored. Arithmetic is float32.
    """

    def __init__(self, folder: Path, name: str = "tta", device: str | None = None, batch_tokens: int = 2048) -> None:
        """Load a model folder. `batch_tokens` bounds memory: about 5 kB a token at the `base` size, and the weights."""
        self.name = name
        self._folder = folder
        self._network, self._tokenizer = checkpoint.load(folder)
        self._device = choose_device(device)
        self._network.to(self._device)
        self._batch_tokens = batch_tokens
        self._told = False

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(b"tta")
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            digest.update(hashlib.sha256((self._folder / file).read_bytes()).digest())
        return digest.hexdigest()

    @torch.inference_mode()
    def score(self, sentences: Sequence[str]) -> list[TokenScores]:
        """One result a sentence; sentences longer than the network's positions are scored in overlapping windows."""
        ids = self._tokenizer.encode(sentences)
        size = self._network.config.max_positions - 2
        self._tell_once(ids, size)
        log_probs = [np.zeros(len(sentence)) for sentence in ids]
        pieces = [(row, *window) for row, sentence in enumerate(ids) for window in windows(len(sentence), size)]
        pieces.sort(key=lambda piece: piece[2] - piece[1])
        for batch in self._batches(pieces):
            found = self._forward([ids[row][start:stop] for row, start, stop, _, _ in batch])
            for (row, start, _, keep, end), values in zip(batch, found, strict=True):
                log_probs[row][keep:end] = values[keep - start : end - start]
        return [
            TokenScores(self._tokenizer.tokens(sentence), values)
            for sentence, values in zip(ids, log_probs, strict=True)
        ]

    def _batches(self, pieces: list[Piece]) -> Iterator[list[Piece]]:
        """Cut pieces, sorted by length, into batches of at most `batch_tokens` padded tokens (or one piece)."""
        batch: list[Piece] = []
        for piece in pieces:
            if batch and (len(batch) + 1) * (piece[2] - piece[1] + 2) > self._batch_tokens:
                yield batch
                batch = []
            batch.append(piece)
        if batch:
            yield batch

    def _forward(self, pieces: Sequence[Sequence[int]]) -> list[npt.NDArray[np.float64]]:
        """Log-probability of each token of each piece."""
        vocabulary = self._tokenizer
        lengths = torch.tensor([len(piece) + 2 for piece in pieces])
        tokens = torch.full((len(pieces), max(map(len, pieces)) + 2), vocabulary.pad, dtype=torch.long)
        for row, piece in zip(tokens, pieces, strict=True):
            row[: len(piece) + 2] = torch.tensor([vocabulary.bos, *piece, vocabulary.eos])
        tokens, lengths = tokens.to(self._device), lengths.to(self._device)
        hidden = self._network(tokens, lengths)
        positions = torch.arange(tokens.shape[1], device=self._device)
        inner = (positions > 0) & (positions < lengths[:, None] - 1)
        values = token_log_probs(hidden[inner], self._network.tokens.weight, tokens[inner])
        return [part.numpy() for part in values.double().cpu().split([len(piece) for piece in pieces])]

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
