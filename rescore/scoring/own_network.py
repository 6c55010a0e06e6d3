"""A network of ours as the scorers see it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Self, cast

from torch import Tensor

from rescore.networks import checkpoint
from rescore.networks.batch import Batch
from rescore.networks.config import NetworkConfig
from rescore.networks.device import choose_device, token_budget
from rescore.networks.precision import choose_precision, convert
from rescore.scoring.base import ComputeOptions, Question
from rescore.scoring.one_pass import Encoded


class OwnNetwork:
    """A model folder of ours (rescore/networks/checkpoint.py) as a `Network`."""

    reads_trees = True
    cloze: int | None = None

    def __init__(self, folder: Path, kind: str, computing: ComputeOptions) -> None:
        self._folder, self._kind = folder, kind
        network, self._tokenizer = checkpoint.load(folder, kind)
        self._device = choose_device(computing.device)
        self.precision = choose_precision(computing.precision, self._device)
        self.network = network.to(self._device)
        self._softmax = convert(self.network, self.precision)
        self.before, self.after = [self._tokenizer.bos], [self._tokenizer.eos]
        self.end = self.after
        self.vocabulary = network.config.vocab_size
        self.mask, self.pad = self._tokenizer.mask, self._tokenizer.pad
        self.unknown: int | None = self._tokenizer.unk
        self.positions = network.config.max_positions
        self.batch_tokens = computing.batch_tokens or token_budget(self._device, _bytes_a_token(network.config))

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        return self.encode_texts([question.text for question in questions])

    def encode_texts(self, texts: Sequence[str]) -> list[Encoded]:
        return [Encoded(tuple(ids), tuple(words)) for ids, words in self._tokenizer.encode_words(texts)]

    def strings(self, ids: Sequence[int]) -> list[str]:
        return self._tokenizer.tokens([token % self.vocabulary for token in ids])

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        hidden = self.network.predict(batch.to(self._device))
        return self._softmax.log_probs(hidden, rows.to(self._device), targets.to(self._device) % self.vocabulary)

    def most_probable(self, batch: Batch, rows: Tensor) -> Tensor:
        hidden = self.network.predict(batch.to(self._device))
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
        """The same with weights that can be trained: those of the folder, in float32, none packed for speed."""
        other = copy(self)
        network, _ = checkpoint.load(self._folder, self._kind)
        other.precision, other.network = "float32", network.to(self._device)
        return other

    def digest(self) -> bytes:
        files = ("config.json", "tokenizer.json", "model.safetensors")
        contents = b"".join(hashlib.sha256((self._folder / file).read_bytes()).digest() for file in files)
        return contents + (b"" if self.precision == "float32" else self.precision.encode())


def _bytes_a_token(config: NetworkConfig) -> int:
    """Of a layer's input, query, key, value, context and the feed-forward layer, in float32."""
    return 4 * (5 * config.d_model + config.d_ff)
