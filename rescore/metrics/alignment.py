"""Words of two texts side by side: sclite's alignment, whose errors `counting`
counts.

rapidfuzz gives the cost of the cheapest alignment with weights (`counting` uses it),
but its `editops` take no weights, and it does not choose as sclite does between
alignments that cost the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

SUBSTITUTION = 4
"""Cost of a substitution, as in sclite."""
GAP = 3
"""Cost of an insertion or deletion, as in sclite."""
AlignedPair = tuple[str | None, str | None]
CELLS = 1 << 16
"""Cells of a row of the tables of alignments that are made together: as many as the
cache of a core holds.
"""
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


def substitutions(
    references: Sequence[str], hypotheses: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Return the number of substitutions in the alignment of each pair of texts, as
    `align` has it.

    Many pairs are aligned at once: a list of 1,000 hypotheses has a million pairs.

    Args:
        references: References with a character for each word.
        hypotheses: Hypotheses that were encoded like the references.

    Returns:
        Numbers of shape (pairs,).
    """
    numbers = np.zeros(len(references), dtype=np.int64)
    for places in _of_similar_length(references, hypotheses):
        ours = [references[place] for place in places]
        theirs = [hypotheses[place] for place in places]
        numbers[places] = _substitutions_together(ours, theirs)
    return numbers


def _of_similar_length(
    references: Sequence[str], hypotheses: Sequence[str]
) -> Iterator[list[int]]:
    """Yield the places of pairs that are aligned together: of similar length, and as
    many as `CELLS` allows.
    """

    def lengths(place: int) -> tuple[int, int]:
        return len(hypotheses[place]), len(references[place])

    places: list[int] = []
    for place in sorted(range(len(references)), key=lengths):
        if places and (len(places) + 1) * (len(hypotheses[place]) + 1) > CELLS:
            yield places
            places = []
        places.append(place)
    if places:
        yield places


def _substitutions_together(
    references: Sequence[str], hypotheses: Sequence[str]
) -> npt.NDArray[np.int64]:
    """Return `substitutions` of pairs; all pairs take a row of their tables at once.

    The tables hold costs, as in `_last_steps`, and the substitutions of the cheapest
    alignment of the beginnings.
    """
    wanted = _letters(references, -1)
    heard = _letters(hypotheses, -2)
    our_lengths = np.array([len(text) for text in references])
    their_lengths = np.array([len(text) for text in hypotheses])
    number, width = heard.shape
    pairs = np.arange(number)
    gaps = (GAP * np.arange(width + 1)).astype(np.int32)
    columns = np.arange(width + 1)
    costs = np.tile(gaps, (number, 1))
    counts = np.zeros((number, width + 1), dtype=np.int32)
    result = np.zeros(number, dtype=np.int64)
    for row in range(1, wanted.shape[1] + 1):
        differs = heard != wanted[:, row - 1, None]
        paired = costs[:, :-1] + SUBSTITUTION * differs
        reached = costs + GAP
        np.minimum(reached[:, 1:], paired, out=reached[:, 1:])
        reached = np.minimum.accumulate(reached - gaps, axis=1) + gaps
        is_pair = reached[:, 1:] == paired
        is_inserted = reached[:, 1:] == reached[:, :-1] + GAP
        is_inserted &= ~is_pair
        # A deletion keeps the number of the row above, a pair adds its own; an
        # insertion has the number of the last column that is no insertion.
        added = counts[:, :-1] + differs
        np.copyto(counts[:, 1:], added, where=is_pair)
        last = np.tile(columns, (number, 1))
        last[:, 1:][is_inserted] = 0
        np.maximum.accumulate(last, axis=1, out=last)
        counts = np.take_along_axis(counts, last, axis=1)
        costs = reached
        ended = pairs[our_lengths == row]
        result[ended] = counts[ended, their_lengths[ended]]
    return result


def _letters(texts: Sequence[str], padding: int) -> npt.NDArray[np.int32]:
    """Return the code points of texts, of shape (texts, longest text), padded."""
    lengths = np.array([len(text) for text in texts])
    rows = np.full((len(texts), int(lengths.max())), padding, dtype=np.int32)
    letters = list(map(ord, chain.from_iterable(texts)))
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = letters
    return rows
