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
"""Beyond these a file is damaged, or made to fill the memory."""
REMOVED = ("bi_source", "cloze", "phrases")
"""Fields of earlier versions; files still have them, switched off. A kind may have a
field of that name again.
"""
FIRST_QUERIES = ("position", "mask")


def network_kind(name: str) -> Any:
    """The kind of network of this name, a `rescore.lms.kinds.NeuralKind`."""
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
    """Of the tokens of one sentence, its frame with them."""
    sentences: int = 1
    """How many consecutive sentences it reads at most; each has a position, too
    (Segatron, Bai et al. 2021).
    """
    embedding_norm: bool = False
    """A LayerNorm on the sum of token and position embeddings, as in the T-TA authors'
    code and in BERT.
    """
    output_transform: bool = False
    """A dense layer, gelu and LayerNorm before the softmax, as there."""
    output_bias: bool = False
    """A bias for each word of the vocabulary, as there."""
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
    """Embeddings times sqrt(d_model) before the first layer of an encoder (Vaswani et
    al. 2017, section 3.4). Papers' networks have none of this; an encoder's file
    without this field means it.
    """

    def __post_init__(self) -> None:
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
        """How many sentences before and after one it can read with it."""
        most = 0 if self.source else self.sentences - 1
        return (most // 2, most // 2) if self._reads_after else (most, 0)

    def with_neighbours(self, number: int) -> NetworkConfig:
        """The configuration for networks that read neighbours before and after a
        sentence, or only before it if causal.
        """
        return replace(
            self, sentences=2 * number + 1 if self._reads_after else number + 1
        )

    @property
    def _reads_after(self) -> bool:
        return cast(bool, network_kind(self.kind).capabilities.context[1] > 0)

    def of_kind(self, kind: str, **changes: Any) -> NetworkConfig:
        """Return this configuration for networks of a kind, in the kind's own class.

        A class of its own means something else by `sentences`, so that this number is
        not kept between classes.

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
        write_text(path, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> NetworkConfig:
        """Read a config.json."""
        if not path.exists():
            raise UserError(f"{path}: no such file")
        values = read_json(path)
        if not isinstance(values, dict):
            raise UserError(
                f"{path}: expected a JSON object with the fields of a network"
                " configuration"
            )
        if "model_type" in values or "architectures" in values:
            # here: most files are of our networks
            from rescore.lms.misnamed import fitting

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
        for name in set(REMOVED) - known:
            if values.pop(name, False):
                raise UserError(
                    f"{path}: {name} belongs to an earlier version; train the network"
                    " again"
                )
        unknown = sorted(set(values) - known)
        if unknown:
            raise UserError(
                f"{path}: unknown field {unknown[0]!r}; remove it or correct its name"
            )
        return parsed(values, own, str(path))


# `base` is from section 5.1 of the paper; two CPU cores train `small` in hours.
# `released` is the T-TA of this size in the authors' code.
NAMED: dict[str, Callable[[], NetworkConfig]] = {
    "base": NetworkConfig,
    "small": partial(
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
