"""The options of vectors and of fine-tuning, which need no PyTorch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rescore.errors import UserError
from rescore.options import Declared, option

KINDS = ("context", "hidden", "embed", "token")
"""Kinds of token vectors. The T-TA paper uses `context` and `embed`."""
POOLINGS = ("mean", "max", "sum", "first", "last")
"""Ways to make the vector of a sentence from the vectors of its tokens."""
LAYERS_FORM = "expected a layer such as 2, or layers such as 1,2,3 or 1:0.2,3:0.8"


def parse_layers(text: str) -> dict[int, float]:
    """Return the weight of each layer that a text names.

    Args:
        text: A layer, such as `2`; layers with equal weights, such as `1,2,3`; or
            layers with their weights, such as `1:0.2,3:0.8`.

    Raises:
        ValueError: The text has another form, or names a layer twice.
    """
    layers: dict[int, float] = {}
    for part in text.split(","):
        number, colon, weight = part.partition(":")
        if not number.strip().isdecimal():
            raise ValueError(f"{text!r}: {LAYERS_FORM}")
        layer = int(number)
        if layer in layers:
            raise ValueError(f"{text!r}: layer {layer} is named twice")
        try:
            layers[layer] = float(weight) if colon else 1.0
        except ValueError:
            raise ValueError(f"{text!r}: {LAYERS_FORM}") from None
    return layers


@dataclass(frozen=True)
class VectorOptions(Declared):
    """The kind, layers and pooling of vectors.

    Raises:
        UserError: A mix of layers has no weight, or the kind of vectors has no layers.
    """

    title = "Vectors"

    kind: str = option(
        "context",
        "context: hidden vectors that predict the tokens; hidden: hidden vectors at the"
        " tokens; embed: token embeddings with positions; token: token embeddings"
        " without positions.",
        choices=KINDS,
    )
    layers: dict[int, float] | None = option(
        None,
        "Use the hidden vectors of layer N, or the weighted mean of several layers"
        " (ELMo).  [default: the last layer]",
        "--layer",
        "--layers",
        metavar="N[:WEIGHT],...",
        parse=parse_layers,
    )
    pooling: str = option(
        "mean",
        "How the vectors of the tokens become the vector of a sentence.",
        choices=POOLINGS,
    )
    special_tokens: bool = option(
        False, "Also pool the vectors of [BOS] and [EOS], or [CLS] and [SEP]."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers is None:
            return
        if self.kind in ("embed", "token"):
            raise UserError(
                f"layer {self.layers_text} selects hidden vectors; {self.kind} is the"
                " input of the first layer"
            )
        total = sum(self.layers.values())
        if min(self.layers.values(), default=0) < 0 or not 0 < total < math.inf:
            raise UserError(
                f"layers {self.layers_text}: expected weights of 0 or more, with at"
                " least one above 0"
            )

    def mix(self, last: int) -> dict[int, float]:
        """Return the weight of each layer in the mix; the weights add up to 1.

        Source: ELMo, equation 2.6 of the dissertation, without its scale gamma.

        Args:
            last: The number of the last layer, which is the default.
        """
        if self.layers is None:
            return {last: 1.0}
        total = sum(self.layers.values())
        return {layer: weight / total for layer, weight in self.layers.items()}

    @property
    def layers_text(self) -> str:
        """The layers as signatures show them: `last`, `2`, or `1:0.5+2:0.5`."""
        if self.layers is None:
            return "last"
        if len(self.layers) == 1:
            (layer,) = self.layers
            return str(layer)
        return "+".join(f"{layer}:{weight:g}" for layer, weight in self.layers.items())

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the vectors, as signatures show them."""
        settings = {
            "kind": self.kind,
            "layer": self.layers_text,
            "pooling": self.pooling,
        }
        if self.special_tokens:
            settings["special"] = "yes"
        return settings


@dataclass(frozen=True, kw_only=True)
class FineTuning(Declared):
    """How a network is trained together with a classifier.

    The dissertation trains for 3 epochs with a learning rate of 2e-5 (section 5.4.2);
    its networks have ten times as many weights.
    """

    common = True

    epochs: int = option(
        3, "Passes over the training examples.", low=1, needs="fine_tune"
    )
    learning_rate: float = option(
        5e-4,
        "Highest learning rate of AdamW.",
        low=1e-9,
        high=1,
        needs="fine_tune",
    )
    batch_pairs: int = 32
    """Pairs in a batch."""
    dropout: float = 0.1
    weight_decay: float = 0.01
    largest_gradient: float = 1.0
    """The norm to which larger gradients are cut."""
    warmup: float = 0.1
    """Share of the training in which the learning rate rises; later it falls to 0."""
    seed: int = 12345
