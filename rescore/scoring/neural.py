"""Our own networks as back-ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.parts import NETWORKS
from rescore.registry import resolve
from rescore.scoring.base import DEFAULT, ComputeOptions, LanguageModel
from rescore.scoring.own_network import OwnNetwork
from rescore.scoring.windows import ContextScorer, PairScorer

if TYPE_CHECKING:
    from rescore.scoring.backends import Spec


def load(spec: Spec, computing: ComputeOptions = DEFAULT) -> LanguageModel:
    """The scorer that suits a kind of network (`NETWORKS`).

    Raises:
        UserError: the model's files are missing or damaged, or it was not trained for what it is asked for.
    """
    scorer = NETWORKS[spec.kind].scorer
    assert scorer is not None
    make = partial(resolve(scorer), spec)
    network = OwnNetwork(spec.path, spec.kind, computing)
    channel = "channel" in spec.options
    if spec.context:
        if channel:
            raise UserError(f"--lm {spec.name}: channel and context exclude each other; what comes first is one text")
        return ContextScorer(make, network, spec.context)
    if network.network.config.source:
        return PairScorer(make, network, channel)
    if channel:
        raise UserError(f"--lm {spec.name}: {spec.path} reads no source; train one with --pairs")
    return make(network)
