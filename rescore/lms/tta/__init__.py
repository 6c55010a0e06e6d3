"""The Transformer-based Text Autoencoder (Shin et al. 2020), and its phrase keys: the kind and its options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rescore.errors import UserError, counted
from rescore.lms.base import BOTH_SIDES, Capabilities, Spec
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.neural.kind import NeuralKind
from rescore.lms.neural.options import ContextOptions, SourceOptions
from rescore.options import option

if TYPE_CHECKING:
    from rescore.lms.neural.passes import Network, NetworkScorer
    from rescore.lms.neural.tokenizer import Tokenizer
    from rescore.lms.tta.network import TTA, LanguageAutoencoding


class TtaKind(NeuralKind):
    """Predicts every token from all the others, in one pass."""

    scaled_embeddings = False
    capabilities = Capabilities(True, source=True, context=BOTH_SIDES, vectors=True, predicts_tokens=True)
    options = ("context=", "channel")
    shape = ("phrases", "source")

    @dataclass(frozen=True, kw_only=True)
    class Options(SourceOptions, ContextOptions):
        title = "T-TA"

        phrases: int = option(
            0,
            "Keys and values cover three tokens instead of one, through a layer of UNITS hidden units; start "
            "with twice d_model.",
            metavar="UNITS",
            low=0,
            high=1_000_000,
        )

        def shaped(self, config: NetworkConfig) -> NetworkConfig:
            if not self.phrases:
                return super().shaped(config)
            if config.phrases not in (0, self.phrases):
                raise UserError(
                    f"--phrases {self.phrases}: the model has phrase keys of {counted(config.phrases, 'unit')}"
                )
            return super().shaped(replace(config, phrases=self.phrases))

    def network(self, config: NetworkConfig) -> TTA:
        from rescore.lms.tta.network import TTA

        return TTA(config)

    def objective(self, tokenizer: Tokenizer, options: Any) -> LanguageAutoencoding:
        from rescore.lms.tta.network import LanguageAutoencoding

        return LanguageAutoencoding()

    def scorer(self, spec: Spec, network: Network) -> NetworkScorer:
        from rescore.lms.neural.passes import NetworkScorer

        return NetworkScorer(spec.name, network)
