"""Word alignments as sclite makes them (NIST SCTK).

The cheapest alignment where a substitution costs 4, a deletion or insertion 3; of equally cheap ones the substitution
(or match) is taken first, from the end of the sentence on. That is not quite the edit distance: with these costs a
sentence can have an error more than the fewest possible, and deletions and insertions come in other numbers. Of the
many ways to count, this is the one that tables of the field show.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Pair = tuple[str | None, str | None]

SUBSTITUTION, GAP = 4, 3
BATCH = 1 << 18  # cells of one diagonal of a batch: bounds memory

# The cost of a partial alignment and its counts travel in one integer: cost, substitutions, deletions, insertions.
_BITS = 16
_COST = 3 * _BITS
_SUBSTITUTED = (SUBSTITUTION << _COST) + (1 << 2 * _BITS)
_DELETED = (GAP << _COST) + (1 << _BITS)
_INSERTED = (GAP << _COST) + 1
_MASK = (1 << _BITS) - 1


def error_counts(references: Sequence[Sequence[Hashable]], hypotheses: Sequence[Sequence[Hashable]]) -> Counts:
    """(n, 3) substitutions, deletions and insertions of n pairs of word sequences."""
    numbers: dict[Hashable, int] = {}
    known: dict[int, list[int]] = {}  # a reference is one object for all its hypotheses

    def ids(words: Sequence[Hashable]) -> list[int]:
        if id(words) not in known:
            known[id(words)] = [numbers.setdefault(word, len(numbers)) for word in words]
        return known[id(words)]

    pairs = []
    for ours, theirs in zip(map(ids, references), map(ids, hypotheses), strict=True):
        most, same = min(len(ours), len(theirs)), 0
        while same < most and ours[-1 - same] == theirs[-1 - same]:  # a match at the end is always taken
            same += 1
        pairs.append((ours[: len(ours) - same], theirs[: len(theirs) - same]))
    result = np.zeros((len(pairs), 3), dtype=np.int64)
    order = sorted(range(len(pairs)), key=lambda index: (len(pairs[index][0]), len(pairs[index][1])))
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop - start) * (len(pairs[order[stop]][0]) + 1) < BATCH // 4:
            stop += 1
        rows = order[start:stop]
        result[rows] = _batch([pairs[row][0] for row in rows], [pairs[row][1] for row in rows])
        start = stop
    return result


def _batch(references: Sequence[list[int]], hypotheses: Sequence[list[int]]) -> Counts:
    """The dynamic programme of all pairs at once, a diagonal at a time.

    Cell (i, j) stands for the first i words of a reference and the first j of its hypothesis; diagonal k has i + j = k,
    and is indexed by i.
    """
    ours, theirs = _matrix(references, -1), _matrix(hypotheses, -2)
    number, n = ours.shape
    m = theirs.shape[1]
    lengths = np.array(
        [[len(reference), len(hypothesis)] for reference, hypothesis in zip(references, hypotheses, strict=True)]
    )
    result = np.zeros(number, dtype=np.int64)
    last = np.zeros((number, n + 1), dtype=np.int64)  # diagonal k - 1
    before = last  # diagonal k - 2
    ends = lengths.sum(axis=1)
    for k in range(1, n + m + 1):
        low, high = max(0, k - m), min(n, k)  # the i that exist on this diagonal
        now = np.empty((number, n + 1), dtype=np.int64)
        if low == 0:
            now[:, 0] = last[:, 0] + _INSERTED
        if high == k:
            now[:, k] = last[:, k - 1] + _DELETED
        first, stop = max(low, 1), min(high, k - 1) + 1
        if first < stop:
            i = slice(first, stop)
            previous = slice(first - 1, stop - 1)
            # Word i of the reference against word k - i of the hypothesis.
            other = theirs[:, k - stop : k - first][:, ::-1]
            diagonal = before[:, previous] + np.where(ours[:, previous] == other, 0, _SUBSTITUTED)
            gap = _cheaper(last[:, i] + _INSERTED, last[:, previous] + _DELETED)
            now[:, i] = _cheaper(diagonal, gap)
        done = np.flatnonzero(ends == k)
        result[done] = now[done, lengths[done, 0]]
        before, last = last, now
    return np.stack([result >> 2 * _BITS & _MASK, result >> _BITS & _MASK, result & _MASK], axis=1)


def _cheaper(one: Counts, other: Counts) -> Counts:
    """The one of lower cost, of equals the first."""
    return np.where(one >> _COST <= other >> _COST, one, other)


def _matrix(rows: Sequence[list[int]], fill: int) -> Counts:
    result = np.full((len(rows), max(map(len, rows))), fill, dtype=np.int64)
    for target, row in zip(result, rows, strict=True):
        target[: len(row)] = row
    return result


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """The alignment itself: pairs of words, None where a word has no partner."""
    n, m = len(reference), len(hypothesis)
    cost = [[GAP * (i + j) for j in range(m + 1)] for i in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            change = SUBSTITUTION * (reference[i - 1] != hypothesis[j - 1])
            cost[i][j] = min(cost[i - 1][j - 1] + change, cost[i][j - 1] + GAP, cost[i - 1][j] + GAP)
    pairs: list[Pair] = []
    i, j = n, m
    while i or j:
        change = SUBSTITUTION * (i > 0 and j > 0 and reference[i - 1] != hypothesis[j - 1])
        if i and j and cost[i][j] == cost[i - 1][j - 1] + change:
            i, j = i - 1, j - 1
            pairs.append((reference[i], hypothesis[j]))
        elif j and cost[i][j] == cost[i][j - 1] + GAP:
            j -= 1
            pairs.append((None, hypothesis[j]))
        else:
            i -= 1
            pairs.append((reference[i], None))
    return pairs[::-1]
