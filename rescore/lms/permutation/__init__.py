"""A permutation language model (XLNet) with the blocks of a T-TA: the kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rescore.lms.base import Capabilities, Spec
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.neural.kind import NeuralKind
from rescore.lms.neural.options import HypernymOptions

if TYPE_CHECKING:
    from rescore.lms.neural.passes import Network
    from rescore.lms.neural.tokenizer import Tokenizer
    from rescore.lms.permutation.network import Permutation, PermutationLanguageModelling, PermutationScorer


class PermutationKind(NeuralKind):
    """Each token is predicted from those before it in a random order of the sentence."""

    capabilities = Capabilities(vectors=True, predicts_tokens=True)
    options = ("orders=", "seed=")
    Options = HypernymOptions

    def network(self, config: NetworkConfig) -> Permutation:
        from rescore.lms.permutation.network import Permutation

        return Permutation(config)

    def objective(self, tokenizer: Tokenizer, options: Any) -> PermutationLanguageModelling:
        from rescore.lms.permutation.network import PermutationLanguageModelling

        return PermutationLanguageModelling(tokenizer)

    def scorer(self, spec: Spec, network: Network) -> PermutationScorer:
        from rescore.lms.permutation.network import PermutationScorer

        return PermutationScorer.of(spec, network)
