"""The kinds `lstm` and `lstm-bw`, which need no PyTorch; the network is in
`rescore.research.lstm`.
"""

from __future__ import annotations

from rescore.errors import UserError
from rescore.lms.base import Capabilities
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import UnilmKind


class LstmKind(UnilmKind):
    """A recurrent language model: it learns and scores from left to right, as a uniLM
    does.
    """

    architecture = "rescore.research.lstm:LSTM"
    capabilities = Capabilities(vectors=True)
    options = ()
    trained_with = "rescore.lms.training.options:NeuralOptions"

    def check(self, config: NetworkConfig) -> None:
        """See that it reads one sentence at a time. Cells have no heads, so any
        `d_model` suits.
        """
        if config.sentences > 1:
            raise UserError(
                f"sentences is {config.sentences}; an {self.name} reads one sentence at"
                " a time"
            )


class BackwardLstmKind(LstmKind):
    """The same network on reversed sentences."""

    backwards = True
