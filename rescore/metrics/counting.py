"""Word errors as sclite counts them (NIST SCTK).

A substitution costs 4, a deletion or insertion 3, and the cheapest alignment counts.
Between equally cheap alignments, the substitution (or match) is taken first, from the
end of the sentence on. The result differs slightly from the edit distance: a sentence
can have one error more than the fewest possible, and the numbers of deletions and
insertions differ. Published tables count errors in this way.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

from rescore.metrics.alignment import GAP, SUBSTITUTION, align, table_size
from rescore.metrics.alignment import substitutions as aligned_substitutions

CLOSEST = np.array([(1 << 20) + 1, 1 << 20, 1 << 20])
"""Weights of substitutions, deletions and insertions that order references: by errors,
equal ones by sclite's costs.
"""

Counts = npt.NDArray[np.int64]

EXCHANGED = math.lcm(GAP, SUBSTITUTION) // GAP
"""The fewest gaps that cost as much as substitutions."""
BATCH = 1 << 14
"""Pairs whose words are numbered together, at most: a number is a character."""
LONG = 1 << 22
"""Pairs of words above which two texts are aligned at once, as of 2,000 words each:
only a part of their table is made.
"""
MOST = 1 << 27
"""Cells of such a table, at most: 128 MiB. Longer texts are counted as short texts are,
whose memory grows with the texts, not with their table.
"""
LETTERS = 0x110000
"""Words that are numbered together, at most: Unicode has no more characters."""


def error_counts(
    references: Sequence[Sequence[Hashable]], hypotheses: Sequence[Sequence[Hashable]]
) -> Counts:
    """Return the errors of pairs of word sequences in sclite's alignment.

    Args:
        references: The words of each reference.
        hypotheses: The words of each hypothesis.

    Returns:
        Counts of shape (pairs, 3): substitutions, deletions and insertions.
    """
    parts = [np.zeros((0, 3), dtype=np.int64)]
    for pairs in batches(references, hypotheses):
        ours = references[pairs]
        texts = encoded([*ours, *hypotheses[pairs]])
        parts.append(encoded_counts(texts[: len(ours)], texts[len(ours) :]))
    return np.concatenate(parts)


def batches(
    references: Sequence[Sequence[Hashable]], hypotheses: Sequence[Sequence[Hashable]]
) -> Iterator[slice]:
    """Yield the places of pairs that are `encoded` together, in their order.

    Args:
        references: The words of each reference.
        hypotheses: The words of each hypothesis.
    """
    start = 0
    words = 0
    pairs = zip(references, hypotheses, strict=True)
    for place, (reference, hypothesis) in enumerate(pairs):
        length = len(reference) + len(hypothesis)
        is_full = place - start == BATCH or words + length > LETTERS
        if is_full and place > start:
            yield slice(start, place)
            start = place
            words = 0
        words += length
    if start < len(references):
        yield slice(start, len(references))


def encoded(texts: Sequence[Sequence[Hashable]]) -> list[str]:
    """Return texts with a character for each word.

    Equal words, and no others, have equal characters in all the texts.

    Args:
        texts: The words of each text. A reference is often one object for all its
            hypotheses, and is encoded once.
    """
    numbers: dict[Hashable, int] = {}
    by_object: dict[int, str] = {}
    for words in texts:
        if id(words) in by_object:
            continue
        # A comprehension: this loop sees each word of all hypotheses.
        letters = [chr(numbers.setdefault(word, len(numbers))) for word in words]
        by_object[id(words)] = "".join(letters)
    return [by_object[id(words)] for words in texts]


def encoded_counts(ours: Sequence[str], theirs: Sequence[str]) -> Counts:
    """Return `error_counts` of texts that were `encoded` together.

    Args:
        ours: The encoded references.
        theirs: The encoded hypotheses.

    Returns:
        Counts of shape (pairs, 3): substitutions, deletions and insertions.
    """
    our_lengths = np.array(list(map(len, ours)), dtype=np.int64)
    their_lengths = np.array(list(map(len, theirs)), dtype=np.int64)
    is_long = our_lengths * their_lengths > LONG
    for place in np.flatnonzero(is_long).tolist():
        is_long[place] = table_size(ours[place], theirs[place]) <= MOST
    counts = np.zeros((len(ours), 3), dtype=np.int64)
    for chosen, counted in ((is_long, _counts_of_long), (~is_long, _counts_of_short)):
        if chosen.any():
            some = list(compress(ours, chosen)), list(compress(theirs, chosen))
            counts[chosen] = counted(*some)
    return counts


def _counts_of_long(ours: Sequence[str], theirs: Sequence[str]) -> Counts:
    """Return `encoded_counts` of long texts, by their alignment; their tables have up
    to `MOST` cells.
    """
    counts = []
    for pair in zip(ours, theirs, strict=True):
        edits = [(first, second) for first, second in align(*pair) if first != second]
        deletions = sum(second is None for _, second in edits)
        insertions = sum(first is None for first, _ in edits)
        counts.append((len(edits) - deletions - insertions, deletions, insertions))
    return np.array(counts)


def _counts_of_short(ours: Sequence[str], theirs: Sequence[str]) -> Counts:
    """Return `encoded_counts` of short texts.

    The cost of the cheapest alignment determines all but the number of substitutions:
    gaps cost the same, and deletions less insertions is the difference of the lengths.
    Small surcharges give the fewest and the most substitutions of the cheapest
    alignments. The words are aligned only where these two numbers differ.

    The most are computed only where they can be more than the fewest: an equally cheap
    alignment with more substitutions has `EXCHANGED` fewer gaps, and an alignment has
    at least as many gaps as the lengths differ by.
    """
    our_lengths = np.array(list(map(len, ours)), dtype=np.int64)
    their_lengths = np.array(list(map(len, theirs)), dtype=np.int64)
    longer = our_lengths - their_lengths
    unit = 2 + int(max(our_lengths.max(), their_lengths.max()))
    cost, substitutions = np.divmod(_costs(ours, theirs, unit, 1), unit)
    gaps = (cost - SUBSTITUTION * substitutions) // GAP
    places = np.flatnonzero(gaps - EXCHANGED >= np.abs(longer))
    if len(places):
        ours = [ours[place] for place in places.tolist()]
        theirs = [theirs[place] for place in places.tolist()]
        most = -_costs(ours, theirs, unit, -1) % unit
        is_open = substitutions[places] != most
        substitutions[places[is_open]] = aligned_substitutions(
            list(compress(ours, is_open)), list(compress(theirs, is_open))
        )
        gaps = (cost - SUBSTITUTION * substitutions) // GAP
    deletions = (gaps + longer) // 2
    insertions = (gaps - longer) // 2
    return np.stack([substitutions, deletions, insertions], axis=1)


def _costs(
    ours: Sequence[str], theirs: Sequence[str], unit: int, surcharge: int
) -> Counts:
    """Return the costs (pairs,) of the cheapest alignments of encoded texts.

    Args:
        ours: The references.
        theirs: The hypotheses.
        unit: A gap costs `GAP` units, a substitution `SUBSTITUTION` units.
        surcharge: What a substitution costs beside its units.
    """
    weights = (GAP * unit, GAP * unit, SUBSTITUTION * unit + surcharge)
    costs: Counts = cpdist(
        ours,
        theirs,
        scorer=Levenshtein.distance,
        scorer_kwargs={"weights": weights},
        dtype=np.int64,
    )
    return costs
