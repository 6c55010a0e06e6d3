"""The decision `cautious`: the first pass, unless another hypothesis is probable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescore.columns import FIRST_PASS
from rescore.decision.rules import DecisionRule
from rescore.nbest import NbestList
from rescore.options import Declared, option


class Cautious(DecisionRule):
    """the first pass, unless another hypothesis is probable"""

    uses_posteriors = True

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        """Options of the decision."""

        at_least: float = option(
            0.5,
            "cautious: posterior from which on the best hypothesis is chosen.",
            low=0.0,
            high=1.0,
        )

    def choose(self, nbest: NbestList, preference: npt.NDArray[np.float64]) -> str:
        """Return the text chosen from a list, given posteriors (hypotheses,)."""
        best = int(np.argmax(preference))
        if preference[best] < self.options.at_least:
            best = int(np.argmax(nbest.column(FIRST_PASS)))
        return nbest.hypotheses[best].text
