"""The definitions of a vote and of least risk, list by list and cell by cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescore.asr.rover import NEARLY
from rescore.decision.risk import compared
from rescore.decision.rules import Floats
from rescore.metrics.base import Metric
from rescore.nbest import NbestList

Slot = dict[str | None, float]
"""Posteriors of the words that compete for one place; None stands for no word."""


def aligned(
    network: Sequence[Slot], words: Sequence[str], mass: float
) -> list[tuple[Slot | None, str | None]]:
    """Slots paired with words, None where either has no partner, of the least expected
    number of word errors.
    """
    costs = [[mass * at for at in range(len(words) + 1)]]
    ways = []
    for slot in network:
        above, row, kinds = costs[-1], list[float](), list[str]()
        for at in range(len(words) + 1):
            alone = above[at] + (mass - slot.get(None, 0.0))
            match = (
                above[at - 1] + mass - slot.get(words[at - 1], 0.0)
                if at
                else float("inf")
            )
            beside = row[at - 1] + mass if at else float("inf")
            row.append(min(alone, match, beside))
            limit = row[at] + NEARLY
            kinds.append(
                "match" if match <= limit else "alone" if alone <= limit else "beside"
            )
        costs.append(row)
        ways.append(kinds)
    pairs: list[tuple[Slot | None, str | None]] = []
    place, at = len(network), len(words)
    while place or at:
        kind = ways[place - 1][at] if place else "beside"
        place -= kind != "beside"
        at -= kind != "alone"
        pairs.append(
            (
                None if kind == "beside" else network[place],
                None if kind == "alone" else words[at],
            )
        )
    return pairs[::-1]


def confusion_network(
    hypotheses: Sequence[Sequence[str]], posteriors: Sequence[float]
) -> list[Slot]:
    """The slots, from the first to the last, each with the posteriors of all
    hypotheses.
    """
    network: list[Slot] = []
    mass = 0.0
    for index in sorted(range(len(hypotheses)), key=lambda index: -posteriors[index]):
        merged: list[Slot] = []
        for slot, word in aligned(network, hypotheses[index], mass):
            place: Slot = {None: mass} if slot is None else slot
            place[word] = place.get(word, 0.0) + posteriors[index]
            merged.append(place)
        network, mass = merged, mass + posteriors[index]
    return network


def vote(network: Sequence[Slot], empty: float = 1.0) -> list[str]:
    """The word with the highest posterior of each slot; of equals the word of the more
    probable hypothesis.

    Args:
        empty: by which the posterior of no word is multiplied.
    """
    winners = (
        max(slot, key=lambda word: slot[word] * (empty if word is None else 1.0))
        for slot in network
    )
    return [word for word in winners if word is not None]


def losses(metric: Metric, lists: Sequence[NbestList]) -> list[Floats]:
    """Of each list all losses, choices in rows."""
    return [each.matrix() for each in compared(metric, lists)]


def least_risk(losses: Floats, posteriors: Floats) -> int:
    """The choice by its definition: of equal risks the more probable, then the
    first.
    """
    risks = losses @ posteriors
    least = np.flatnonzero(risks <= risks.min() + 1e-12)
    return int(least[np.argmax(posteriors[least])])
