"""Language models that read in one direction: with causal attention, at the T-TA's size, and recurrent (LSTM).

Position i attends to 0 ... i, and its hidden vector predicts token i + 1. The backward model is the same network
on reversed sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rescore.lms.base import BEFORE, Capabilities, Spec
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.neural.kind import NeuralKind
from rescore.lms.neural.options import ContextOptions, NeuralOptions

if TYPE_CHECKING:
    from rescore.lms.lstm import LSTM
    from rescore.lms.neural.encoder import Encoder
    from rescore.lms.neural.passes import Network, NetworkScorer
    from rescore.lms.neural.tokenizer import Tokenizer
    from rescore.lms.neural.training.objectives import CausalLanguageModelling


class ForwardKind(NeuralKind):
    """Learns and scores from left to right."""

    capabilities = Capabilities(vectors=True, predicts_tokens=True)
    Options = NeuralOptions

    def objective(self, tokenizer: Tokenizer, options: Any) -> CausalLanguageModelling:
        from rescore.lms.neural.training.objectives import CausalLanguageModelling

        return CausalLanguageModelling()

    def scorer(self, spec: Spec, network: Network) -> NetworkScorer:
        from rescore.lms.neural.causal import CausalScorer

        return CausalScorer(spec.name, network)


class BackwardKind(NeuralKind):
    """Learns and scores from right to left."""

    capabilities = Capabilities(vectors=True, predicts_tokens=True)
    Options = NeuralOptions

    def objective(self, tokenizer: Tokenizer, options: Any) -> CausalLanguageModelling:
        from rescore.lms.neural.training.objectives import BackwardLanguageModelling

        return BackwardLanguageModelling()

    def scorer(self, spec: Spec, network: Network) -> NetworkScorer:
        from rescore.lms.neural.causal import BackwardScorer

        return BackwardScorer(spec.name, network)


class UnilmKind(ForwardKind):
    capabilities = Capabilities(context=BEFORE, vectors=True, predicts_tokens=True)
    options = ("context=",)
    Options = ContextOptions

    def network(self, config: NetworkConfig) -> Encoder:
        from rescore.lms.neural.encoder import Encoder

        return Encoder(config, causal=True)


class BackwardUnilmKind(BackwardKind):
    """It reads no neighbours."""

    network = UnilmKind.network


class LstmKind(ForwardKind):
    family = "lstm"

    def network(self, config: NetworkConfig) -> LSTM:
        from rescore.lms.lstm import LSTM

        return LSTM(config)


class BackwardLstmKind(BackwardKind):
    family = "lstm"
    network = LstmKind.network
