"""Our own networks as back-ends."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from rescore.networks import ceiling, checkpoint
from rescore.networks.batch import Batch
from rescore.networks.config import NetworkConfig
from rescore.networks.device import choose_device, token_budget
from rescore.networks.precision import DTYPES, choose_precision, convert
from rescore.scoring.base import AS_SUITS, Computing
from rescore.scoring.causal import BackwardReading, CausalReading
from rescore.scoring.masked import MaskedReading
from rescore.scoring.reading import Encoded, Reading

READINGS: dict[str, type[Reading]] = {
    "tta": Reading,
    "bilm": MaskedReading,
    "unilm": CausalReading,
    "unilm-bw": BackwardReading,
}


def load(name: str, kind: str, folder: Path, options: Sequence[str] = (), computing: Computing = AS_SUITS) -> Reading:
    """The reading that suits a kind of network; with the option `intact` the plain one, with nothing masked.

    Raises:
        UserError: the model's files are missing or damaged.
    """
    network = OwnNetwork(folder, kind, computing)
    if "intact" in options:
        return Reading(name, network)
    if kind == "bilm":
        return MaskedReading(name, network, within_word="within-word-l2r" in options)
    return READINGS[kind](name, network)


class OwnNetwork:
    """A model folder of ours (rescore/networks/checkpoint.py) as a `Network`."""

    reads_trees = True

    def __init__(self, folder: Path, kind: str, computing: Computing) -> None:
        self._folder = folder
        network, self._tokenizer = checkpoint.load(folder, kind)
        self._device = choose_device(computing.device)
        self._precision = choose_precision(computing.precision, self._device)
        self._network = network.to(self._device)
        self._vocabulary = convert(self._network, self._precision)
        self.before, self.after = [self._tokenizer.bos], [self._tokenizer.eos]
        self.end = self.after
        self.mask, self.pad = self._tokenizer.mask, self._tokenizer.pad
        self.positions = network.config.max_positions
        self.batch_tokens = computing.batch_tokens or token_budget(self._device, _bytes_a_token(network.config))

    def encode(self, sentences: Sequence[str]) -> list[Encoded]:
        return [Encoded(tuple(ids), tuple(words)) for ids, words in self._tokenizer.encode_words(sentences)]

    def strings(self, ids: Sequence[int]) -> list[str]:
        return self._tokenizer.tokens(ids)

    def log_probs(self, batch: Batch, of: Tensor, targets: Tensor) -> Tensor:
        hidden = self._network.predict(batch.to(self._device))
        return self._vocabulary.log_probs(hidden, of.to(self._device), targets.to(self._device))

    def bare_seconds(self, positions: int, predictions: int) -> float:
        return ceiling.bare_seconds(self._network.config, positions, predictions, self._device, DTYPES[self._precision])

    def digest(self) -> bytes:
        files = ("config.json", "tokenizer.json", "model.safetensors")
        contents = b"".join(hashlib.sha256((self._folder / file).read_bytes()).digest() for file in files)
        return contents + (b"" if self._precision == "float32" else self._precision.encode())


def _bytes_a_token(config: NetworkConfig) -> int:
    """Of a layer's input, query, key, value, context and the widened vector, in float32."""
    return 4 * (5 * config.d_model + config.d_ff)
