"""The recurrent language model, in both directions: it learns and scores as a uniLM does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescore.lms.neural.config import NetworkConfig
from rescore.lms.unilm import BackwardKind, ForwardKind

if TYPE_CHECKING:
    from rescore.lms.lstm.network import LSTM


class LstmKind(ForwardKind):
    family = "lstm"

    def network(self, config: NetworkConfig) -> LSTM:
        from rescore.lms.lstm.network import LSTM

        return LSTM(config)


class BackwardLstmKind(BackwardKind):
    family = "lstm"
    network = LstmKind.network
