"""The kinds `ctc` and `a3t`; needs no PyTorch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rescore.large.kinds import HubKind
from rescore.lms.base import Capabilities, ComputeOptions, Kind, Report, Spec
from rescore.lms.options import TrainingOptions
from rescore.research.a3t.options import A3tOptions, CtcOptions

if TYPE_CHECKING:
    from rescore.research.a3t.recogniser import CtcScorer
    from rescore.research.a3t.scoring import A3tScorer


class CtcKind(HubKind):
    """log p(text | recording) of a CTC model: of one that `rescore train --lm ctc`
    wrote, or of transformers (wav2vec 2.0, HuBERT).
    """

    capabilities = Capabilities(audio=math.inf)
    holds = "ForCTC"
    Options = CtcOptions

    def load_folder(self, spec: Spec, computing: ComputeOptions) -> CtcScorer:
        """`ctc:DIR`."""
        from rescore.research.a3t.recogniser import CtcScorer, load_recogniser

        return CtcScorer(spec.name, load_recogniser(spec.path))

    def train(
        self, options: TrainingOptions, report: Report = lambda line: None
    ) -> None:
        from rescore.research.a3t.ctc_network import train

        assert isinstance(options, CtcOptions)
        train(options, report)


class A3tKind(Kind):
    """Minus the error of masked parts of a recording that A3T reconstructs under a
    text.
    """

    capabilities = Capabilities(audio=math.inf)
    place = "DIR"
    Options = A3tOptions

    def load(self, spec: Spec, computing: ComputeOptions) -> A3tScorer:
        """`a3t:DIR`."""
        from rescore.research.a3t.scoring import A3tScorer

        return A3tScorer(spec.name, spec.path)

    def train(
        self, options: TrainingOptions, report: Report = lambda line: None
    ) -> None:
        from rescore.research.a3t.training import train

        assert isinstance(options, A3tOptions)
        train(options, report)
