"""Word alignments as sclite makes them (NIST SCTK).

A substitution costs 4, a deletion or insertion 3, and the cheapest alignment counts. Between equally cheap alignments,
the substitution (or match) is taken first, from the end of the sentence on. The result differs slightly from the edit
distance: a sentence can have one error more than the fewest possible, and the numbers of deletions and insertions
differ. Published tables count errors in this way.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

Counts = npt.NDArray[np.int64]
AlignedPair = tuple[str | None, str | None]

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


ROWS = 256
"""Words of the reference whose costs are kept at once: bounds the memory of long texts."""


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedPair]:
    """The alignment as pairs of words; None stands for a missing partner."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(hypothesis))}
    heard = np.array([numbers[word] for word in hypothesis], dtype=np.int64)
    gaps = GAP * np.arange(len(heard) + 1)

    def costs(row: Counts, start: int) -> list[Counts]:
        """The costs of the first words of the reference, from `start` on: a row for each number of words."""
        rows = [row]
        for word in reference[start : start + ROWS]:
            row = rows[-1] + GAP
            changed = rows[-1][:-1] + SUBSTITUTION * (heard != numbers.get(word, -1))
            np.minimum(row[1:], changed, out=row[1:])
            rows.append(np.minimum.accumulate(row - gaps) + gaps)  # after any number of insertions
        return rows

    starts = range(0, max(len(reference), 1), ROWS)
    first_rows, rows = [gaps], [gaps]
    for start in starts:
        rows = costs(first_rows[-1], start)
        first_rows.append(rows[-1])
    pairs: list[AlignedPair] = []
    i, j = len(reference), len(hypothesis)
    for start in reversed(starts):
        if start != starts[-1]:
            rows = costs(first_rows[start // ROWS], start)
        while i > start or (j and not start):
            here, above = rows[i - start], rows[i - start - 1]
            if i and j and here[j] == above[j - 1] + SUBSTITUTION * (reference[i - 1] != hypothesis[j - 1]):
                i, j = i - 1, j - 1
                pairs.append((reference[i], hypothesis[j]))
            elif j and here[j] == here[j - 1] + GAP:
                j -= 1
                pairs.append((None, hypothesis[j]))
            else:
                i -= 1
                pairs.append((reference[i], None))
    return pairs[::-1]


class Edit(NamedTuple):
    """Words of a text, from `start` to before `end`, and their replacement."""

    start: int
    end: int
    words: tuple[str, ...]


def edits_between(text: Sequence[str], other: Sequence[str]) -> tuple[Edit, ...]:
    """The spans in which `other` differs from `text`, from left to right, in an alignment with the fewest errors."""
    spans: list[tuple[int, int, int, int]] = []
    for code in Levenshtein.opcodes(text, other):
        start, end, from_, to = code.src_start, code.src_end, code.dest_start, code.dest_end
        if code.tag == "equal":
            continue
        if spans and spans[-1][1] == start and spans[-1][3] == from_:  # neighbours are one
            spans[-1] = (spans[-1][0], end, spans[-1][2], to)
        else:
            spans.append((start, end, from_, to))
    return tuple(Edit(start, end, tuple(other[from_:to])) for start, end, from_, to in spans)
