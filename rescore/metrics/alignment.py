"""Words of two texts side by side: sclite's alignment, whose errors `counting`
counts.

rapidfuzz gives the cost of the cheapest alignment with weights (`counting` uses it),
but its `editops` take no weights, and it does not choose as sclite does between
alignments that cost the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SUBSTITUTION, GAP = 4, 3
"""Costs, as in sclite."""
AlignedPair = tuple[str | None, str | None]
PAIR, INSERTED, DELETED = range(3)
"""The last step of the cheapest alignment of the first words: a pair of words, or a
word without a partner.
"""


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedPair]:
    """The alignment as pairs of words; None stands for a missing partner."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(hypothesis))}
    heard = np.array([numbers[word] for word in hypothesis], dtype=np.int64)
    gaps = GAP * np.arange(len(heard) + 1)
    # A byte for each step: texts of 10,000 words take 100 MB.
    steps = np.full((len(reference) + 1, len(heard) + 1), DELETED, dtype=np.uint8)
    steps[0] = INSERTED
    costs = gaps
    for place, word in enumerate(reference, 1):
        paired = costs[:-1] + SUBSTITUTION * (heard != numbers.get(word, -1))
        costs = costs + GAP
        np.minimum(costs[1:], paired, out=costs[1:])
        # after any number of insertions
        costs = np.minimum.accumulate(costs - gaps) + gaps
        steps[place, 1:][costs[1:] == costs[:-1] + GAP] = INSERTED
        steps[place, 1:][costs[1:] == paired] = PAIR
    pairs: list[AlignedPair] = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        step = steps[i, j]
        i, j = i - (step != INSERTED), j - (step != DELETED)
        pairs.append(
            (
                None if step == INSERTED else reference[i],
                None if step == DELETED else hypothesis[j],
            )
        )
    return pairs[::-1]
