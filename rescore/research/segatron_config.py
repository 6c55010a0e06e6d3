"""The shape of a Segatron, and how a text marks its paragraphs."""

from __future__ import annotations

from dataclasses import dataclass

from rescore.errors import UserError
from rescore.lms.config import NetworkConfig

MARK = "\u00b6"
"""The character at the end of a paragraph's last line. It is a token of the text, as
the line breaks of WikiText-103 are: every network sees and predicts it.
"""
POSITIONS = ("both", "sentence", "paragraph", "none")
"""Which positions tokens have beside their own, as in Table 2.2."""


@dataclass(frozen=True, slots=True)
class SegatronConfig(NetworkConfig):
    """The shape of a Segatron. A window of `sentences` sentences has at most
    `max_positions` tokens.
    """

    positions: str = "both"

    def __post_init__(self) -> None:
        NetworkConfig.__post_init__(self)
        if self.positions not in POSITIONS:
            raise UserError(
                f"positions is {self.positions!r}; it must be one of"
                f" {', '.join(POSITIONS)}"
            )
