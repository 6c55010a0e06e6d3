"""Options about vectors, which `embed` and `similarity` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescore.cli.bundle import bundled

if TYPE_CHECKING:
    from rescore.scoring.vectors import VectorOptions


@dataclass(frozen=True, slots=True)
class VectorsOptions:
    """Which vectors of a network are wanted."""

    kind: str
    layer: int | None
    pooling: str
    special_tokens: bool

    def options(self) -> VectorOptions:
        from rescore.scoring.vectors import VectorOptions

        return VectorOptions(self.kind, self.layer, self.pooling, self.special_tokens)


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
            "--layer", type=click.IntRange(0), metavar="N", help="Hidden vectors behind N layers.  [default: all]"
        ),
        click.option(
            "--pooling",
            type=click.Choice(["mean", "max", "sum"]),
            default="mean",
            show_default=True,
            help="From the vectors of tokens to that of a sentence.",
        ),
        click.option("--special-tokens", is_flag=True, help="Pool those of [BOS], [EOS], [CLS], [SEP], too."),
    ],
)
