"""Voting word by word over an N-best list: a confusion network, as SRILM's nbest-lattice and NIST's ROVER build it.

Mangu et al. 2000; Fiscus 1997. Hypotheses are aligned one after another, the most probable first, with the network of
those before; in each slot of the network the word (or none) with the highest posterior wins. The result need not be one
of the hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rescore.metrics.base import Metric
from rescore.metrics.normalise import EXACT, Token, rewritten
from rescore.nbest import NbestList

Word = TypeVar("Word", bound=str)
Slot = dict[Word | None, float]
"""Posteriors of the words that compete for one place; None stands for no word. Of equal words the one of the most
probable hypothesis is kept."""


class Rover:
    """The words with the highest posteriors, place by place."""

    needs_scale = True

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[list[list[Token]]]:
        """Words are the same where the metric counts them as the same."""
        normaliser = (metric and metric.words) or EXACT
        return [[normaliser.tokens(hypothesis.text) for hypothesis in nbest.hypotheses] for nbest in lists]

    def choose(self, nbest: NbestList, preference: npt.NDArray[np.float64], prepared: list[list[Token]]) -> str:
        return rewritten(vote(confusion_network(prepared, preference.tolist())))


def confusion_network(hypotheses: Sequence[Sequence[Word]], posteriors: Sequence[float]) -> list[Slot[Word]]:
    """The slots, from the first to the last, each with the posteriors of all hypotheses."""
    network: list[Slot[Word]] = []
    mass = 0.0
    order = sorted(range(len(hypotheses)), key=lambda index: -posteriors[index])
    for index in order:
        posterior = float(posteriors[index])
        merged: list[Slot[Word]] = []
        for slot, word in _align(network, hypotheses[index], mass):
            place: Slot[Word] = {None: mass} if slot is None else slot
            place[word] = place.get(word, 0.0) + posterior
            merged.append(place)
        network, mass = merged, mass + posterior
    return network


def vote(network: Sequence[Slot[Word]]) -> list[Word]:
    """The word with the highest posterior of each slot; of equals the one of the more probable hypothesis."""
    winners = (max(slot, key=lambda word: slot[word]) for slot in network)
    return [word for word in winners if word is not None]


def _align(
    network: Sequence[Slot[Word]], words: Sequence[Word], mass: float
) -> list[tuple[Slot[Word] | None, Word | None]]:
    """Slots paired with words, None where either has no partner, of the least expected number of word errors."""
    n, m = len(network), len(words)
    skip = [mass - slot.get(None, 0.0) for slot in network]
    cost = [[0.0] * (m + 1) for _ in range(n + 1)]
    for j in range(1, m + 1):
        cost[0][j] = j * mass
    for i in range(1, n + 1):
        slot, row, above = network[i - 1], cost[i], cost[i - 1]
        row[0] = above[0] + skip[i - 1]
        for j in range(1, m + 1):
            matched = above[j - 1] + mass - slot.get(words[j - 1], 0.0)
            row[j] = min(matched, above[j] + skip[i - 1], row[j - 1] + mass)
    pairs: list[tuple[Slot[Word] | None, Word | None]] = []
    i, j = n, m
    while i or j:
        if i and j and cost[i][j] == cost[i - 1][j - 1] + mass - network[i - 1].get(words[j - 1], 0.0):
            i, j = i - 1, j - 1
            pairs.append((network[i], words[j]))
        elif i and cost[i][j] == cost[i - 1][j] + skip[i - 1]:
            i -= 1
            pairs.append((network[i], None))
        else:
            j -= 1
            pairs.append((None, words[j]))
    return pairs[::-1]
