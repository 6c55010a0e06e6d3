"""Options about vectors, which `embed` and `similarity` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from rescore.cli.bundle import bundled

if TYPE_CHECKING:
    from rescore.scoring.vectors import VectorOptions


@dataclass(frozen=True, slots=True)
class VectorsOptions:
    """Which vectors of a network are wanted."""

    kind: str
    layer: int | dict[int, float] | None
    pooling: str
    special_tokens: bool

    def options(self) -> VectorOptions:
        from rescore.scoring.vectors import VectorOptions

        return VectorOptions(self.kind, self.layer, self.pooling, self.special_tokens)


class LayersType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A layer, such as 2, or a mix of layers: 1,2,3 in equal parts, 1:0.2,3:0.8 with their weights."""

    name = "layers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | dict[int, float]:
        parts = [part.partition(":") for part in value.split(",")]
        try:
            mix = {int(layer): float(weight) if colon else 1.0 for layer, colon, weight in parts}
        except ValueError:
            mix = {}
        if len(mix) < len(parts) or min(mix) < 0:
            self.fail(f"{value}: expected a layer, layers such as 1,2,3, or weights such as 1:0.2,3:0.8", param, ctx)
        return next(iter(mix)) if len(mix) == 1 else mix


vector_options = bundled(
    "vectors",
    VectorsOptions,
    "Vectors",
    [
        click.option(
            "--kind",
            type=click.Choice(["context", "hidden", "embed", "token"]),
            default="context",
            show_default=True,
            help="Hidden vectors that predict the tokens (context) or stand at them (hidden), the embeddings of tokens "
            "with their positions (embed) or without (token).",
        ),
        click.option(
            "--layer",
            "--layers",
            type=LayersType(),
            metavar="N[:WEIGHT],...",
            help="Hidden vectors behind N layers, or the mean over several N (ELMo), with weights if given.  "
            "[default: all layers]",
        ),
        click.option(
            "--pooling",
            type=click.Choice(["mean", "max", "sum", "first", "last"]),
            default="mean",
            show_default=True,
            help="From the vectors of tokens to that of a sentence.",
        ),
        click.option("--special-tokens", is_flag=True, help="Pool those of [BOS], [EOS], [CLS], [SEP], too."),
    ],
)
