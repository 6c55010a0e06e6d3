"""The options of vectors, which need no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from rescore.errors import UserError
from rescore.options import Declared, option

VECTORS = ("context", "hidden", "embed", "token")
"""Kinds of token vectors. The T-TA paper uses the first and the third."""


@dataclass(frozen=True)
class VectorOptions(Declared):
    """The kind and layer of token vectors; the vector of a sentence is the mean of its
    tokens' vectors.
    """

    title = "Vectors"

    kind: str = option(
        "context",
        "context: hidden vectors that predict the tokens; hidden: hidden vectors at the"
        " tokens; embed: token embeddings with positions; token: token embeddings"
        " without positions.",
        choices=VECTORS,
    )
    layer: int | None = option(
        None,
        "Use the hidden vectors of layer N.  [default: the last layer]",
        metavar="N",
        low=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer is not None and self.kind in ("embed", "token"):
            raise UserError(
                f"layer {self.layer} selects hidden vectors; {self.kind} is the input"
                " of the first layer"
            )
