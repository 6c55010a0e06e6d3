"""Our own networks as back-ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rescore.parts import NETWORKS
from rescore.registry import resolve
from rescore.scoring.base import DEFAULT, ComputeOptions, LanguageModel
from rescore.scoring.own_network import OwnNetwork
from rescore.scoring.windows import ContextScorer

if TYPE_CHECKING:
    from rescore.scoring.backends import Spec


def load(spec: Spec, computing: ComputeOptions = DEFAULT) -> LanguageModel:
    """The scorer that suits a kind of network (`NETWORKS`).

    Raises:
        UserError: the model's files are missing or damaged, or it was not trained for the context it is asked for.
    """
    scorer = NETWORKS[spec.kind].scorer
    assert scorer is not None
    make = partial(resolve(scorer), spec)
    network = OwnNetwork(spec.path, spec.kind, computing)
    return ContextScorer(make, network, spec.context) if spec.context else make(network)
