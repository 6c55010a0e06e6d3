"""Words of two texts side by side: sclite's alignment, whose errors `counting` counts, and edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from rescore.metrics.counting import GAP, SUBSTITUTION, Counts

AlignedPair = tuple[str | None, str | None]
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
