"""Voting word by word over an N-best list: a confusion network, as SRILM's nbest-lattice and NIST's ROVER build it.

Mangu et al. 2000; Fiscus 1997. Hypotheses are aligned one after another, the most probable first, with the network of
those before; in each slot of the network the word (or none) with the highest posterior wins. The result need not be one
of the hypotheses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.decision.ballots import NEARLY, Ballots
from rescore.decision.rules import DecisionRule, ListWeights
from rescore.metrics.base import Metric
from rescore.metrics.normalise import EXACT, Token, rewritten
from rescore.nbest import EMPTY, NbestList

Floats = npt.NDArray[np.float64]
Word = TypeVar("Word", bound=str)
Slot = dict[Word | None, float]
"""Posteriors of the words that compete for one place; None stands for no word. Of equal words the spelling of the most
probable hypothesis is kept."""


class Rover(DecisionRule):
    """The words with the highest posteriors, place by place. The weight of the column `EMPTY` is the natural log of a
    factor for the posterior of no word."""

    needs_scale = True

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Ballots:
        """Words are the same where the metric counts them as the same."""
        normaliser = (metric and metric.words) or EXACT
        return Ballots([[normaliser.tokens(hypothesis.text) for hypothesis in nbest.hypotheses] for nbest in lists])

    def choose_all(
        self,
        lists: Sequence[NbestList],
        preferences: Sequence[Floats],
        prepared: Ballots,
        weights: Sequence[ListWeights],
    ) -> list[str]:
        """The texts of all lists, as `choose` gives them."""
        return prepared.vote(preferences, np.exp([each.columns.get(EMPTY, 0.0) for each in weights]))

    def choose(self, nbest: NbestList, preference: Floats, prepared: list[list[Token]]) -> str:
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


def network_rows(hypotheses: Sequence[Sequence[Word]]) -> list[list[Word | None]]:
    """The slots of equally probable hypotheses in their order, each with the word of every hypothesis."""
    network: list[Slot[Word]] = []
    rows: list[list[Word | None]] = []
    for number, words in enumerate(hypotheses):
        row_of = {id(slot): row for slot, row in zip(network, rows, strict=True)}
        merged: list[tuple[Slot[Word], list[Word | None]]] = []
        for slot, word in _align(network, words, float(number)):
            place: Slot[Word] = {None: float(number)} if slot is None else slot
            place[word] = place.get(word, 0.0) + 1.0
            merged.append((place, [*(row_of[id(slot)] if slot is not None else [None] * number), word]))
        network, rows = [place for place, _ in merged], [row for _, row in merged]
    return rows


def vote(network: Sequence[Slot[Word]], empty: float = 1.0) -> list[Word]:
    """The word with the highest posterior of each slot; of equals the one of the more probable hypothesis.

    Args:
        empty: by which the posterior of no word is multiplied.
    """
    winners = (max(slot, key=lambda word: slot[word] * (empty if word is None else 1.0)) for slot in network)
    return [word for word in winners if word is not None]


BLOCK = 256
"""Slots whose alignments are in memory together; of the slots before, only the costs at the end of each block."""


def _align(
    network: Sequence[Slot[Word]], words: Sequence[Word], mass: float
) -> list[tuple[Slot[Word] | None, Word | None]]:
    """Slots paired with words, None where either has no partner, of the least expected number of word errors."""
    places: dict[Word | None, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    blocks = [network[start : start + BLOCK] for start in range(0, len(network), BLOCK)]
    costs = [mass * np.arange(len(words) + 1.0)]
    for block in blocks[:-1]:
        costs.append(deque(_rows(block, costs[-1], places, mass), maxlen=1)[0].costs)
    pairs: list[tuple[Slot[Word] | None, Word | None]] = []
    at = len(words)
    for number in reversed(range(len(blocks))):
        rows = list(_rows(blocks[number], costs[number], places, mass))
        for slot, row in zip(reversed(blocks[number]), reversed(rows), strict=True):
            while not row.placed[at]:
                at -= 1
                pairs.append((None, words[at]))
            if at and row.matched[at - 1]:
                at -= 1
                pairs.append((slot, words[at]))
            else:
                pairs.append((slot, None))
    pairs += [(None, word) for word in reversed(words[:at])]
    return pairs[::-1]


class _Row(NamedTuple):
    """The alignments of all slots up to one with the words so far."""

    costs: Floats
    """(words + 1,)"""
    placed: npt.NDArray[np.bool_]
    """(words + 1,) whether the slot comes last, and no word beside it."""
    matched: npt.NDArray[np.bool_]
    """(words,) whether the word may stand in the slot."""


def _rows(
    slots: Sequence[Slot[Word]], above: Floats, places: Mapping[Word | None, Sequence[int]], mass: float
) -> Iterator[_Row]:
    """
    Args:
        above: the costs before the first of the slots. places: of each word.
    """
    beside = mass * np.arange(len(above))
    for slot in slots:
        matched = above[:-1] + mass
        best = above + (mass - slot.get(None, 0.0))
        for word, posterior in slot.items():
            if word in places:
                for place in places[word]:
                    matched[place] -= posterior
        np.minimum(best[1:], matched, out=best[1:])
        above = np.minimum.accumulate(best - beside) + beside
        limit = above + NEARLY
        yield _Row(above, best <= limit, matched <= limit[1:])
