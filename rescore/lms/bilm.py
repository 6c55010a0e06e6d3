"""The masked bidirectional language model (dissertation, chapters 3 and 4): BERT's encoder at the T-TA's size.

Every position attends to all positions, including itself, so predicted tokens have to be masked in the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rescore.lms.base import BOTH_SIDES, Capabilities, Spec
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.neural.kind import NeuralKind
from rescore.lms.neural.options import ContextOptions, MaskingOptions, SourceOptions

if TYPE_CHECKING:
    from rescore.lms.neural.encoder import Encoder
    from rescore.lms.neural.passes import Network, NetworkScorer
    from rescore.lms.neural.tokenizer import Tokenizer
    from rescore.lms.neural.training.objectives import MaskedLanguageModelling

MASKED = ("intact", "within-word-l2r")
"""How a masked model can score otherwise; see `rescore.lms.neural.passes.masked_scorer`."""


class BilmKind(NeuralKind):
    capabilities = Capabilities(True, source=True, context=BOTH_SIDES, vectors=True, predicts_tokens=True)
    options = (*MASKED, "context=", "channel")
    shape = ("source",)

    @dataclass(frozen=True, kw_only=True)
    class Options(MaskingOptions, SourceOptions, ContextOptions):
        pass

    def network(self, config: NetworkConfig) -> Encoder:
        from rescore.lms.neural.encoder import Encoder

        return Encoder(config)

    def objective(self, tokenizer: Tokenizer, options: Any) -> MaskedLanguageModelling:
        from rescore.lms.neural.training.objectives import MaskedLanguageModelling

        return MaskedLanguageModelling(tokenizer, options.mask_rate, options.mask_cap)

    def scorer(self, spec: Spec, network: Network) -> NetworkScorer:
        from rescore.lms.neural.passes import masked_scorer

        return masked_scorer(spec, network)
