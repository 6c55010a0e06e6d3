"""Our own networks as back-ends."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from rescore.networks import checkpoint
from rescore.networks.device import choose_device
from rescore.scoring.reading import BackwardReading, CausalReading, Encoded, MaskedReading, Reading

READINGS: dict[str, type[Reading]] = {
    "tta": Reading,
    "bilm": MaskedReading,
    "unilm": CausalReading,
    "unilm-bw": BackwardReading,
}


def load(
    name: str, kind: str, folder: Path, options: Sequence[str] = (), device: str | None = None, batch_tokens: int = 2048
) -> Reading:
    """The reading that suits a kind of network; with the option `intact` the plain one, with nothing masked.

    Args:
        batch_tokens: bounds memory: about 5 kB a token at the `base` size, and the weights.

    Raises:
        UserError: the model's files are missing or damaged.
    """
    network = OwnNetwork(folder, kind, device, batch_tokens)
    if "intact" in options:
        return Reading(name, network)
    if kind == "bilm":
        return MaskedReading(name, network, within_word="within-word-l2r" in options)
    return READINGS[kind](name, network)


class OwnNetwork:
    """A model folder of ours (rescore/networks/checkpoint.py) as a `Network`."""

    def __init__(self, folder: Path, kind: str, device: str | None = None, batch_tokens: int = 2048) -> None:
        self._folder = folder
        self._network, self._tokenizer = checkpoint.load(folder, kind)
        self._device = choose_device(device)
        self._network.to(self._device)
        self.before, self.after = [self._tokenizer.bos], [self._tokenizer.eos]
        self.end = self.after
        self.mask, self.pad = self._tokenizer.mask, self._tokenizer.pad
        self.positions = self._network.config.max_positions
        self.batch_tokens = batch_tokens

    def encode(self, sentences: Sequence[str]) -> list[Encoded]:
        return [Encoded(ids, words) for ids, words in self._tokenizer.encode_words(sentences)]

    def strings(self, ids: Sequence[int]) -> list[str]:
        return self._tokenizer.tokens(ids)

    def log_probs(self, tokens: Tensor, lengths: Tensor, predicted: Tensor, targets: Tensor) -> Tensor:
        device = self._device
        hidden = self._network(tokens.to(device), lengths.to(device))[predicted.to(device)]
        return token_log_probs(hidden, self._network.tokens.weight, targets.to(device))

    def digest(self) -> bytes:
        files = ("config.json", "tokenizer.json", "model.safetensors")
        return b"".join(hashlib.sha256((self._folder / file).read_bytes()).digest() for file in files)


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
