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
from rapidfuzz.distance import Levenshtein

SUBSTITUTION = 4
"""Cost of a substitution, as in sclite."""
GAP = 3
"""Cost of an insertion or deletion, as in sclite."""
AlignedPair = tuple[str | None, str | None]
CELLS = 1 << 16
"""Cells of a row of the tables of alignments that are made together: as many as the
cache of a core holds.
"""
FAR = np.int32(1 << 30)
"""More than an alignment costs."""
_SUBSTITUTED = np.int32(SUBSTITUTION - 2 * GAP)
_EQUAL = np.int32(-2 * GAP)
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
    low, high = _diagonals(reference, hypothesis)
    steps = _last_steps(reference, hypothesis, low, high)
    pairs: list[AlignedPair] = []
    i = len(reference)
    j = len(hypothesis)
    while i or j:
        step = steps[i, j - max(0, i + low)]
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


def table_size(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Return the number of cells of the table that `align` makes, a byte each.

    Args:
        reference: The words of the reference.
        hypothesis: The words of the hypothesis.
    """
    low, high = _diagonals(reference, hypothesis)
    return (len(reference) + 1) * _columns(hypothesis, low, high)


def _columns(hypothesis: Sequence[str], low: int, high: int) -> int:
    """Return the columns of a row of the table between two diagonals."""
    return min(len(hypothesis) + 1, high - low + 1)


def _diagonals(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int]:
    """Return the least and the greatest number of words by which the beginning of the
    hypothesis is longer than the beginning of the reference that it is aligned with, in
    all cheapest alignments (Ukkonen 1985).

    An alignment that is longer by `d` at a place has at least `|d|` gaps before it, and
    behind it at least `|longer - d|`. The alignment with the fewest edits, which is
    found at once, bounds the cost.
    """
    edits = Levenshtein.editops(reference, hypothesis)
    changed = sum(edit.tag == "replace" for edit in edits)
    bound = SUBSTITUTION * changed + GAP * (len(edits) - changed)
    longer = len(hypothesis) - len(reference)
    beyond = (bound // GAP - abs(longer)) // 2
    return min(longer, 0) - beyond, max(longer, 0) + beyond


def _last_steps(
    reference: Sequence[str], hypothesis: Sequence[str], low: int, high: int
) -> npt.NDArray[np.uint8]:
    """Return the last step of the cheapest alignment for each pair of beginnings.

    The steps come from a table of costs, of which a row has only the columns whose
    diagonals are within the limits. Costs are less by the gaps of an alignment without
    pairs: a gap costs nothing then, and a pair saves two gaps.

    Args:
        reference: The words of the reference.
        hypothesis: The words of the hypothesis.
        low: The least diagonal, as of `_diagonals`.
        high: The greatest diagonal.

    Returns:
        PAIR, INSERTED or DELETED, of shape (reference + 1, columns of a row): the first
        column of row i is that of i + low words, or of none. A byte for each step:
        texts of 10,000 words that have nothing in common take 100 MB.
    """
    numbers = {word: number for number, word in enumerate(dict.fromkeys(hypothesis))}
    # A column before the table, which leads nowhere, stands before that of no words.
    heard = np.array([-2, -2, *(numbers[word] for word in hypothesis)], dtype=np.int32)
    costs = np.full(len(heard), FAR, dtype=np.int32)
    costs[1 : high + 2] = 0
    shape = len(reference) + 1, _columns(hypothesis, low, high)
    steps = np.full(shape, DELETED, dtype=np.uint8)
    steps[0] = INSERTED
    for row, word in enumerate(reference, 1):
        first = max(0, row + low) + 1
        own = slice(first, row + high + 2)
        before = slice(first - 1, row + high + 1)
        differs = heard[own] != numbers.get(word, -1)
        paired = np.where(differs, _SUBSTITUTED, _EQUAL)
        paired += costs[before][: len(paired)]
        # Insertions cost nothing: the minimum over any number of them is a running
        # minimum.
        reached = np.minimum.accumulate(np.minimum(costs[own], paired))
        costs[own] = reached
        own_steps = steps[row, : len(reached)]
        own_steps[1:][reached[1:] == reached[:-1]] = INSERTED
        own_steps[reached == paired] = PAIR
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

    The tables hold costs, and the substitutions of the cheapest alignment of the
    beginnings.
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
