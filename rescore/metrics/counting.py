"""Word errors as sclite counts them (NIST SCTK).

A substitution costs 4, a deletion or insertion 3, and the cheapest alignment counts. Between equally cheap alignments,
the substitution (or match) is taken first, from the end of the sentence on. The result differs slightly from the edit
distance: a sentence can have one error more than the fewest possible, and the numbers of deletions and insertions
differ. Published tables count errors in this way.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]

SUBSTITUTION, GAP = 4, 3
BATCH = 1 << 18  # cells of one diagonal of a batch: bounds memory

# The cost of a partial alignment and its substitutions travel in one integer. The rest follows from these: gaps cost
# the same, and deletions less insertions is the difference of the lengths. That holds for 500 million words.
_BITS = 31
_SUBSTITUTED = (SUBSTITUTION << _BITS) + 1
_GAP = GAP << _BITS
_MASK = (1 << _BITS) - 1


def error_counts(references: Sequence[Sequence[Hashable]], hypotheses: Sequence[Sequence[Hashable]]) -> Counts:
    """(n, 3) substitutions, deletions and insertions of n pairs of word sequences."""
    numbers: dict[Hashable, int] = {}
    # A reference is one object for all its hypotheses. It is kept: where it was made for this call alone (a row of an
    # array), the next one would have its identity.
    known: dict[int, tuple[Sequence[Hashable], list[int]]] = {}

    def ids(words: Sequence[Hashable]) -> list[int]:
        if id(words) not in known:
            known[id(words)] = words, [numbers.setdefault(word, len(numbers)) for word in words]
        return known[id(words)][1]

    pairs = []
    for reference, hypothesis in zip(map(ids, references), map(ids, hypotheses), strict=True):
        most, same = min(len(reference), len(hypothesis)), 0
        while same < most and reference[-1 - same] == hypothesis[-1 - same]:  # a match at the end is always taken
            same += 1
        pairs.append((reference[: len(reference) - same], hypothesis[: len(hypothesis) - same]))
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
    of_references, of_hypotheses = _matrix(references, -1), _matrix(hypotheses, -2)
    number, n = of_references.shape
    m = of_hypotheses.shape[1]
    lengths = np.array(
        [[len(reference), len(hypothesis)] for reference, hypothesis in zip(references, hypotheses, strict=True)]
    )
    result = np.zeros(number, dtype=np.int64)
    last = before = np.zeros((number, n + 1), dtype=np.int64)
    ends = lengths.sum(axis=1)
    for k in range(1, n + m + 1):
        now = _next_diagonal(of_references, of_hypotheses, k, last, before)
        done = np.flatnonzero(ends == k)
        result[done] = now[done, lengths[done, 0]]
        before, last = last, now
    substitutions = result & _MASK
    gaps = ((result >> _BITS) - SUBSTITUTION * substitutions) // GAP
    difference = lengths[:, 0] - lengths[:, 1]
    return np.stack([substitutions, (gaps + difference) // 2, (gaps - difference) // 2], axis=1)


def _next_diagonal(references: Counts, hypotheses: Counts, k: int, last: Counts, before: Counts) -> Counts:
    """(pairs, n + 1) the costs of the cells (i, k - i) of some pairs, given the costs of the two diagonals before.

    Args:
        references: (pairs, n). hypotheses: (pairs, m). last: (pairs, n + 1), diagonal k - 1. before: diagonal k - 2.
    """
    n, m = references.shape[1], hypotheses.shape[1]
    now = np.empty_like(last)
    if k <= m:
        now[:, 0] = last[:, 0] + _GAP
    if k <= n:
        now[:, k] = last[:, k - 1] + _GAP
    first, stop = max(1, k - m), min(n + 1, k)
    inner, previous = slice(first, stop), slice(first - 1, stop - 1)
    # Word i of the reference against word k - i of the hypothesis.
    equal = references[:, previous] == hypotheses[:, k - stop : k - first][:, ::-1]
    changed = before[:, previous] + np.where(equal, 0, _SUBSTITUTED)
    now[:, inner] = _cheaper(changed, _cheaper(last[:, inner] + _GAP, last[:, previous] + _GAP))
    return now


def _cheaper(first: Counts, second: Counts) -> Counts:
    """The one of lower cost, of equals the first."""
    return np.where(first >> _BITS <= second >> _BITS, first, second)


def _matrix(rows: Sequence[list[int]], fill: int) -> Counts:
    result = np.full((len(rows), max(map(len, rows))), fill, dtype=np.int64)
    for target, row in zip(result, rows, strict=True):
        target[: len(row)] = row
    return result
