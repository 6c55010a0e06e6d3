"""The unidirectional language model of the papers: causal attention, the T-TA's size."""

from __future__ import annotations

from rescore.networks.encoder import Encoder


class UniLM(Encoder):
    """Position i attends to 0 ... i, and its hidden vector predicts the token at i + 1.

    The backward model is the same network on reversed sentences.
    """

    causal = True
