"""A3T, alignment-aware acoustic and text pretraining (Bai et al., ICML 2022): the kind and its training options.

A network reads a mel-spectrogram with masked spans and the text, and reconstructs the masked spans. As a scorer of
hypotheses, it gives minus the mean absolute error of spans that are masked and reconstructed under each hypothesis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescore.lms.base import Capabilities, ComputeOptions, Kind, Report, Spec
from rescore.lms.options import TrainingOptions
from rescore.research.a3t.options import A3tOptions

if TYPE_CHECKING:
    from rescore.research.a3t.model import A3tModel


class A3tKind(Kind):
    """Minus the mean L1 error of masked spans of the recording, reconstructed under the hypothesis."""

    capabilities = Capabilities(audio=True)
    uses_torch = True

    Options = A3tOptions

    def load(self, spec: Spec, computing: ComputeOptions) -> A3tModel:
        """`a3t:DIR`."""
        from rescore.research.a3t.model import A3tModel

        return A3tModel(spec.name, spec.path, computing)

    def train(self, options: TrainingOptions, report: Report = lambda line: None) -> None:
        from rescore.research.a3t.training import train

        assert isinstance(options, A3tOptions)
        train(options, report)
