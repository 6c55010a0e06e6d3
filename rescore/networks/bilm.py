"""The masked bidirectional language model (dissertation, chapters 3 and 4): BERT's encoder at the T-TA's size."""

from __future__ import annotations

from rescore.networks.encoder import Encoder


class BiLM(Encoder):
    """Every position attends to every other and to itself; what is to be predicted has to be masked in the input."""

    causal = False
