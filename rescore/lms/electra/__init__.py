"""A discriminator of replaced tokens (ELECTRA): the kind and its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rescore.errors import UserError
from rescore.lms.base import Capabilities, Spec
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.neural.kind import NeuralKind
from rescore.lms.neural.options import MaskingOptions, model_folder
from rescore.lms.options import option

if TYPE_CHECKING:
    from rescore.lms.electra.network import Electra, ElectraScorer, ReplacedTokenDetection
    from rescore.lms.neural.passes import Network
    from rescore.lms.neural.tokenizer import Tokenizer


class ElectraKind(NeuralKind):
    """Says of each token of the intact sentence whether it stands in another one's place."""

    capabilities = Capabilities(True, vectors=True)

    @dataclass(frozen=True, kw_only=True)
    class Options(MaskingOptions):
        """A share of the tokens (`mask_rate`) is replaced."""

        title = "Replaced tokens"

        generator: str | None = option(
            None, "T-TA that samples the replacements; the new model uses its tokenizer.", metavar="NAME|DIR"
        )
        confusions: str | None = option(
            None,
            "N-best lists. Tokens are also replaced by tokens that other hypotheses of a list have in the same place.",
            metavar="LISTS",
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.generator is None and self.confusions is None:
                raise UserError(
                    "electra learns from replaced tokens; give --generator tta, --confusions LISTS, or both"
                )

        @property
        def generator_folder(self) -> Path | None:
            return None if self.generator is None else model_folder("--generator", self.generator)

        @property
        def given_tokenizer(self) -> Path | None:
            if self.tokenizer is None and self.init is None and self.generator_folder is not None:
                return self.generator_folder / "tokenizer.json"
            return self.tokenizer

        @property
        def objective(self) -> dict[str, Any]:
            generator = self.generator_folder and str(self.generator_folder)
            return super().objective | {"generator": generator, "confusions": self.confusions}

        def shaped(self, config: NetworkConfig) -> NetworkConfig:
            config = super().shaped(config)
            if self.generator_folder is not None:
                longest = NetworkConfig.load(self.generator_folder / "config.json").max_positions
                if longest < config.max_positions:
                    raise UserError(
                        f"--generator {self.generator}: reads at most {longest} tokens, the network that is trained "
                        f"{config.max_positions}; give --config FILE with max_positions {longest}"
                    )
            return config

    def network(self, config: NetworkConfig) -> Electra:
        from rescore.lms.electra.network import Electra

        return Electra(config)

    def objective(self, tokenizer: Tokenizer, options: Any) -> ReplacedTokenDetection:
        from rescore.lms.electra.network import ReplacedTokenDetection, generators

        replacers = generators(tokenizer, options.generator_folder, options.confusions)
        return ReplacedTokenDetection(replacers, options.mask_rate, options.mask_cap)

    def scorer(self, spec: Spec, network: Network) -> ElectraScorer:
        from rescore.lms.electra.network import ElectraScorer

        return ElectraScorer(spec.name, network)
