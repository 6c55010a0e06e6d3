"""The kind of permutation language models; `rescore.research.permutation` has the
network. This module needs no PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rescore.lms.base import Capabilities, Spec
from rescore.lms.kinds import NeuralKind

if TYPE_CHECKING:
    from rescore.lms.scorers import ScoredNetwork
    from rescore.lms.tokenizer import Tokenizer
    from rescore.research.permutation import (
        PermutationLanguageModelling,
        PermutationScorer,
    )


class PermutationKind(NeuralKind):
    """Predicts each token from the tokens before it in a random order of the sentence
    (Yang et al. 2019), with the blocks of a T-TA.
    """

    architecture = "rescore.research.permutation:Permutation"
    scaled_embeddings = False
    capabilities = Capabilities(vectors=True)
    options: ClassVar[tuple[str, ...]] = ("orders=", "seed=")
    trained_with = "rescore.lms.training.options:NeuralOptions"

    def objective(
        self, tokenizer: Tokenizer, options: Any
    ) -> PermutationLanguageModelling:
        from rescore.research.permutation import PermutationLanguageModelling

        return PermutationLanguageModelling(tokenizer)

    def scorer(self, spec: Spec, network: ScoredNetwork) -> PermutationScorer:
        from rescore.research.permutation import PermutationScorer

        orders = spec.number("orders", 1)
        seed = spec.number("seed", 0, least=0)
        return PermutationScorer(spec.kind, network, orders, seed)
