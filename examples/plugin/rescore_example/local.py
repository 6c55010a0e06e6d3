"""The kind of language model `local`: a T-TA that sees few tokens on each side.

This module needs no PyTorch: the command line imports it to list the kinds of models.
The network and its objective are in `rescore_example.network`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rescore.errors import UserError
from rescore.lms.base import Capabilities, Spec
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import NeuralKind
from rescore.lms.training.options import NeuralOptions
from rescore.options import option

if TYPE_CHECKING:
    from rescore.lms.scorers import NetworkScorer, ScoredNetwork
    from rescore.lms.tokenizer import Tokenizer
    from rescore.lms.training.objectives import Objective


@dataclass(frozen=True, slots=True)
class LocalConfig(NetworkConfig):
    """The shape of a network: config.json has these fields."""

    reach: int = 4
    """Tokens that a position sees on each side."""
    longest: int = 40
    """Lengths of sentences that the auxiliary head tells apart."""


class LocalKind(NeuralKind):
    """T-TA that sees few tokens on each side"""

    Config = LocalConfig
    architecture = "rescore_example.network:Local"
    capabilities = Capabilities(pseudo=True, vectors=True)

    @dataclass(frozen=True, kw_only=True)
    class Options(NeuralOptions):
        """The options of `rescore train --lm local`: those of all networks, and two."""

        title = "Local attention"

        reach: int = option(4, "Tokens that a position sees on each side.", low=1)
        length_loss: float = option(
            0.1, "Weight of the auxiliary loss, the length of the sentence.", low=0
        )

        def shaped(self, config: NetworkConfig) -> NetworkConfig:
            """Return the configuration of the network that is trained."""
            return super().shaped(config).of_kind("local", reach=self.reach)

        @property
        def objective(self) -> dict[str, Any]:
            """The options that a training must be resumed with."""
            return super().objective | {"length_loss": self.length_loss}

    def check(self, config: NetworkConfig) -> None:
        """Refuse a configuration of which no network can be made."""
        super().check(config)
        if isinstance(config, LocalConfig) and config.reach < 1:
            raise UserError(f"reach is {config.reach}; it must be 1 or more")

    def objective(self, tokenizer: Tokenizer, options: Any) -> Objective:
        """Return the training objective."""
        from rescore_example.network import WithLengths

        return WithLengths(options.length_loss)

    def scorer(self, spec: Spec, network: ScoredNetwork) -> NetworkScorer:
        """Return the scorer of sentences: one pass, as for a T-TA."""
        from rescore.lms.scorers import NetworkScorer

        return NetworkScorer(spec.name, network)
