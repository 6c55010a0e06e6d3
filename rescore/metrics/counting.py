"""Word errors as sclite counts them (NIST SCTK).

A substitution costs 4, a deletion or insertion 3, and the cheapest alignment counts.
Between equally cheap alignments, the substitution (or match) is taken first, from the
end of the sentence on. The result differs slightly from the edit distance: a sentence
can have one error more than the fewest possible, and the numbers of deletions and
insertions differ. Published tables count errors in this way.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from rescore.metrics.alignment import GAP, SUBSTITUTION, align

CLOSEST = np.array([(1 << 20) + 1, 1 << 20, 1 << 20])
"""Weights of substitutions, deletions and insertions that order references: by errors,
equal ones by sclite's costs.
"""

Counts = npt.NDArray[np.int64]

BATCH = 1 << 14  # pairs whose words are numbered together: a number is a character


def error_counts(
    references: Sequence[Sequence[Hashable]], hypotheses: Sequence[Sequence[Hashable]]
) -> Counts:
    """(n, 3) substitutions, deletions and insertions of n pairs of word sequences."""
    starts = range(0, len(references), BATCH)
    parts = []
    for part in (slice(start, start + BATCH) for start in starts):
        texts = encoded([*references[part], *hypotheses[part]])
        parts.append(encoded_counts(texts[: len(texts) // 2], texts[len(texts) // 2 :]))
    return np.concatenate([np.zeros((0, 3), dtype=np.int64), *parts])


def encoded(texts: Sequence[Sequence[Hashable]]) -> list[str]:
    """Texts with a character for each word: equal words, and no others, have equal
    characters.
    """
    numbers: dict[Hashable, int] = {}
    # a reference is one object for all its hypotheses
    by_object = {id(words): words for words in texts}
    for key, words in by_object.items():
        by_object[key] = "".join(
            [chr(numbers.setdefault(word, len(numbers))) for word in words]
        )
    return [str(by_object[id(words)]) for words in texts]


def encoded_counts(ours: Sequence[str], theirs: Sequence[str]) -> Counts:
    """`error_counts` of references and hypotheses that were `encoded` together.

    The cost of the cheapest alignment says all but the number of its substitutions:
    gaps cost the same, and deletions less insertions is the difference of the lengths.
    Small surcharges give the fewest and the most substitutions of the cheapest
    alignments; only where these differ, the words are aligned.
    """
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cpdist

    lengths = np.array([list(map(len, ours)), list(map(len, theirs))], dtype=np.int64)
    unit = 2 + int(lengths.max())

    def costs(surcharge: int) -> Counts:
        weights = GAP * unit, GAP * unit, SUBSTITUTION * unit + surcharge
        return cpdist(
            ours,
            theirs,
            scorer=Levenshtein.distance,
            scorer_kwargs={"weights": weights},
            dtype=np.int64,
        )

    cost, substitutions = np.divmod(costs(1), unit)
    for place in np.flatnonzero(substitutions != -costs(-1) % unit).tolist():
        pairs = align(ours[place], theirs[place])
        substitutions[place] = sum(
            one != other
            for one, other in pairs
            if one is not None and other is not None
        )
    gaps, difference = (
        (cost - SUBSTITUTION * substitutions) // GAP,
        lengths[0] - lengths[1],
    )
    return np.stack(
        [substitutions, (gaps + difference) // 2, (gaps - difference) // 2], axis=1
    )
