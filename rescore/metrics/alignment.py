"""Words of two texts side by side: sclite's alignment, whose errors `counting`
counts.

rapidfuzz gives the cost of the cheapest alignment with weights (`counting` uses it),
but its `editops` take no weights, and it does not choose as sclite does between
alignments that cost the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SUBSTITUTION = 4
"""Cost of a substitution, as in sclite."""
GAP = 3
"""Cost of an insertion or deletion, as in sclite."""
AlignedPair = tuple[str | None, str | None]
PAIR, INSERTED, DELETED = range(3)
"""The last step of the cheapest alignment of the first words: a pair of words, or a
word without a partner.
"""


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedPair]:
    """Return the alignment of two texts as pairs of words.

    Args:
        reference: The words of the reference.
        hypothesis: The words of the hypothesis.

    Returns:
        Pairs of a word of the reference and a word of the hypothesis, in their order;
        None stands for a missing partner.
    """
    steps = _last_steps(reference, hypothesis)
    pairs: list[AlignedPair] = []
    i = len(reference)
    j = len(hypothesis)
    while i or j:
        step = steps[i, j]
        expected = None
        heard = None
        if step != INSERTED:
            i -= 1
            expected = reference[i]
        if step != DELETED:
            j -= 1
            heard = hypothesis[j]
        pairs.append((expected, heard))
    return pairs[::-1]


def _last_steps(
    reference: Sequence[str], hypothesis: Sequence[str]
) -> npt.NDArray[np.uint8]:
    """Return the last step of the cheapest alignment for each pair of beginnings.

    Returns:
        PAIR, INSERTED or DELETED, of shape (reference + 1, hypothesis + 1). A byte for
        each step: texts of 10,000 words take 100 MB.
    """
    numbers = {word: number for number, word in enumerate(dict.fromkeys(hypothesis))}
    heard = np.array([numbers[word] for word in hypothesis], dtype=np.int64)
    gaps = GAP * np.arange(len(heard) + 1)
    steps = np.full((len(reference) + 1, len(heard) + 1), DELETED, dtype=np.uint8)
    steps[0] = INSERTED
    costs = gaps
    for row, word in enumerate(reference, 1):
        differs = heard != numbers.get(word, -1)
        paired = costs[:-1] + SUBSTITUTION * differs
        costs = costs + GAP
        np.minimum(costs[1:], paired, out=costs[1:])
        # Insertions cost the same each: the minimum over any number of them is a
        # running minimum of the costs without them.
        costs = np.minimum.accumulate(costs - gaps) + gaps
        steps[row, 1:][costs[1:] == costs[:-1] + GAP] = INSERTED
        steps[row, 1:][costs[1:] == paired] = PAIR
    return steps
