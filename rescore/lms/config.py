"""Network configurations: the sizes of the paper under a name, and their JSON form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from rescore.errors import UserError, did_you_mean
from rescore.files import parsed, read_json, write_text
from rescore.lms.folders import fitting
from rescore.parts import KINDS

LIMITS = {
    "vocab_size": 10_000_000,
    "layers": 1_000,
    "d_model": 65_536,
    "heads": 1_024,
    "d_ff": 1_000_000,
    "max_positions": 1_000_000,
    "sentences": 1_000,
}
"""Largest numbers of a configuration. A file with a larger number is damaged, or made
to fill the memory.
"""
REMOVED = ("bi_source", "cloze", "phrases")
"""Fields of earlier versions; files still have them, switched off. A kind may have a
field of that name again.
"""
FIRST_QUERIES = ("position", "mask")
"""The values of `first_query`."""


def network_kind(name: str) -> Any:
    """Return the kind of network of a name, a `rescore.lms.kinds.NeuralKind`.

    Args:
        name: A name in `KINDS`.

    Raises:
        UserError: No kind of network has this name.
    """
    if name not in KINDS or not KINDS[name].is_network:
        known = [other for other, kind in KINDS.loaded() if kind.is_network]
        raise UserError(
            f"kind {name!r} is not one of"
            f" {', '.join(known)}{did_you_mean(str(name), known)}"
        )
    return KINDS[name](name)


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Everything that decides the shape of a network.

    `kind` says which objective the network was made for (one of `KINDS`); all kinds of
    one size have the same number of parameters.
    """

    kind: str = "tta"
    vocab_size: int = 30_000
    layers: int = 3
    d_model: int = 512
    heads: int = 8
    d_ff: int = 2048
    max_positions: int = 128
    """Tokens of one sentence, at most, with its frame."""
    sentences: int = 1
    """Consecutive sentences that the network reads, at most. Each sentence has a
    position, too (Segatron, Bai et al. 2021).
    """
    embedding_norm: bool = False
    """Whether a LayerNorm follows the sum of token and position embeddings, as in the
    T-TA authors' code and in BERT.
    """
    output_transform: bool = False
    """Whether a dense layer, gelu and LayerNorm stand before the softmax, as in the
    T-TA authors' code and in BERT.
    """
    output_bias: bool = False
    """Whether the softmax has a bias for each token, as in the T-TA authors' code and
    in BERT.
    """
    first_query: str = "position"
    """The query of a T-TA before the first layer: `position`, P; or `mask`, the
    embedding of [MASK] at that position, through the same LayerNorm, as in the authors'
    code.
    """
    source: bool = False
    """Whether the network reads two sentences and predicts the second, a translation of
    the first.
    """
    scaled_embeddings: bool = False
    """Whether embeddings are multiplied by sqrt(d_model) before the first layer of an
    encoder (Vaswani et al. 2017, section 3.4). The networks of the papers do not do
    this. For an encoder's file without this field it is true.
    """

    def __post_init__(self) -> None:
        """Check that the fields are possible, alone and together."""
        kind = network_kind(self.kind)
        for name in LIMITS:
            if not 1 <= getattr(self, name) <= LIMITS[name]:
                raise UserError(
                    f"{name} is {getattr(self, name)}; it must be from 1 to"
                    f" {LIMITS[name]:,}"
                )
        if self.first_query not in FIRST_QUERIES:
            raise UserError(
                f"first_query is {self.first_query!r}; it must be"
                f" {' or '.join(FIRST_QUERIES)}"
            )
        if self.source and self.sentences != 2:
            raise UserError(
                f"sentences is {self.sentences}; a network that reads a source has 2"
            )
        if self.max_positions < 4:
            raise UserError(
                f"max_positions is {self.max_positions}; [BOS], [EOS] and two tokens"
                " need at least 4"
            )
        kind.check(self)

    @property
    def neighbours(self) -> tuple[int, int]:
        """The number of sentences, before and after a sentence, that the network can
        read with it.
        """
        if self.source:
            return (0, 0)
        most = self.sentences - 1
        if self._reads_after:
            return (most // 2, most // 2)
        return (most, 0)

    def with_neighbours(self, number: int) -> NetworkConfig:
        """Return the configuration of networks that read neighbours.

        Args:
            number: The number of neighbours before a sentence and after it; a causal
                network reads them before it only.
        """
        sides = 2 if self._reads_after else 1
        return replace(self, sentences=sides * number + 1)

    @property
    def _reads_after(self) -> bool:
        """Whether networks of this kind can read neighbours after a sentence."""
        return cast(bool, network_kind(self.kind).capabilities.context[1] > 0)

    def of_kind(self, kind: str, **changes: Any) -> NetworkConfig:
        """Return this configuration for networks of a kind, in the kind's own class.

        The number of sentences is not kept between classes, because each class gives it
        a meaning of its own.

        Args:
            kind: The name of the kind.
            changes: Other values of fields.
        """
        own: type[NetworkConfig] = network_kind(kind).Config
        names = {field.name for field in fields(own)}
        values = {name: value for name, value in asdict(self).items() if name in names}
        if own is not type(self):
            del values["sentences"]
        return own(**{**values, **changes, "kind": kind})

    def save(self, path: Path) -> None:
        """Write a config.json.

        Args:
            path: The file.
        """
        write_text(path, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> NetworkConfig:
        """Read a config.json.

        Args:
            path: The file.

        Returns:
            The configuration, in the class of the kind that the file names.

        Raises:
            UserError: The file is absent or damaged, or is of another version or
                program.
        """
        if not path.exists():
            raise UserError(f"{path}: no such file")
        values = read_json(path)
        if not isinstance(values, dict):
            raise UserError(
                f"{path}: expected a JSON object with the fields of a network"
                " configuration"
            )
        if "model_type" in values or "architectures" in values:
            kind = fitting(path.parent) or "hf-masked or hf-causal"
            raise UserError(
                f"{path}: is a model of Hugging Face's transformers, not of rescore;"
                f" name it {kind}:{path.parent}"
            )
        own: type[NetworkConfig] = cls
        named = str(values.get("kind"))
        if named in KINDS and KINDS[named].is_network:
            values.setdefault("scaled_embeddings", KINDS[named].scaled_embeddings)
            own = KINDS[named].Config
        known = {field.name for field in fields(own)}
        _check_fields(path, values, known)
        return parsed(values, own, str(path))


def _check_fields(path: Path, values: dict[str, Any], known: set[str]) -> None:
    """Refuse unknown fields of a config.json, and take out fields of earlier versions
    that are switched off.
    """
    for name in set(REMOVED) - known:
        if values.pop(name, False):
            raise UserError(
                f"{path}: {name} belongs to an earlier version; train the network again"
            )
    unknown = sorted(set(values) - known)
    if unknown:
        raise UserError(
            f"{path}: unknown field {unknown[0]!r}; remove it or correct its name"
        )


SMALL = "small"
"""The name of the configuration that two CPU cores train in hours."""
NAMED: dict[str, Callable[[], NetworkConfig]] = {
    "base": NetworkConfig,
    SMALL: partial(
        NetworkConfig, vocab_size=8_000, layers=3, d_model=256, heads=4, d_ff=1024
    ),
    "released": partial(
        NetworkConfig,
        embedding_norm=True,
        output_transform=True,
        output_bias=True,
        first_query="mask",
    ),
}
"""Configurations by name. `base` is from section 5.1 of the paper; two CPU cores train
`small` in hours; `released` is the T-TA of the size of `base` in the authors' code.
"""
