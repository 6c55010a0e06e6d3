"""The matched-pairs sentence-segment word error test (Gillick and Cox 1989), as in
NIST's sc_stats.

Errors within a sentence depend on each other. The test cuts sentences into segments
whose errors can be taken as independent, and compares the errors of two systems by
segment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rescore.errors import UserError
from rescore.metrics.alignment import align
from rescore.metrics.base import SESSION, Metric
from rescore.metrics.normalise import Normaliser
from rescore.metrics.significance import ScoredTexts
from rescore.nbest import NbestList

Segment = tuple[int, int]
"""The errors of the first and of the second system in one segment."""


class Mapsswe:
    """The matched-pairs sentence-segment word error test (Gillick and Cox 1989)."""

    signature = ""
    by_units = False

    def applies(self, metric: Metric) -> bool:
        """Return whether the test counts the errors of a metric.

        Args:
            metric: The metric.
        """
        counts_words = metric.unit == "word" and metric.words is not None
        return counts_words and metric.reads != SESSION

    def p_value(
        self,
        metric: Metric,
        lists: Sequence[NbestList],
        first: ScoredTexts,
        second: ScoredTexts,
    ) -> float:
        """Return the two-sided p-value of the difference between two choices.

        Args:
            metric: A metric of word errors.
            lists: Lists with references.
            first: The text that the first system chooses from each list.
            second: The text that the second system chooses from each list.

        Raises:
            UserError: The metric does not count word errors.
        """
        if not self.applies(metric) or metric.words is None:
            raise UserError(
                f"--test mapsswe counts word errors; it does not apply to {metric.name}"
            )
        result = matched_pairs(
            [nbest.references for nbest in lists],
            [chosen.text for chosen in first],
            [chosen.text for chosen in second],
            metric.words,
        )
        return result.p_value


class MatchedPairs(NamedTuple):
    """The result of MAPSSWE.

    `mean` is the difference of errors, first system less second, per segment. `z` is
    infinite if all segments have the same difference.
    """

    segments: int
    mean: float
    deviation: float
    z: float
    p_value: float


def matched_pairs(
    references: Sequence[Sequence[str]],
    first: Sequence[str],
    second: Sequence[str],
    normaliser: Normaliser | None = None,
) -> MatchedPairs:
    """Return the result of the matched-pairs test between two systems.

    A segment holds errors of either system. It ends before two words in a row that both
    systems have right, without insertions between them. If the two systems are nearest
    to different references, the sentence is one segment.

    The test is two-tailed and assumes that the mean difference is normally distributed.
    If all segments have the same difference, the deviation is 0, and the sign test is
    used instead.

    Source: Gillick and Cox 1989; NIST's sc_stats.

    Args:
        references: One or more references for each sentence.
        first: The texts of the first system.
        second: The texts of the second system.
        normaliser: Cuts texts into words; None for sclite's rules.
    """
    normaliser = normaliser or Normaliser()
    segments: list[Segment] = []
    for sentence in zip(references, first, second, strict=True):
        segments += _segments(normaliser, *sentence)
    if not segments:
        return MatchedPairs(0, 0.0, 0.0, 0.0, 1.0)
    # Sorted, so that sums do not depend on the order of sentences.
    differences = np.sort([float(ours - theirs) for ours, theirs in segments])
    number = len(differences)
    mean = float(differences.mean())
    deviation = float(differences.std(ddof=1)) if number > 1 else 0.0
    if deviation:
        z = mean / (deviation / math.sqrt(number))
        return MatchedPairs(
            number, mean, deviation, z, math.erfc(abs(z) / math.sqrt(2))
        )
    if mean:
        z = math.copysign(math.inf, mean)
        return MatchedPairs(number, mean, deviation, z, min(1.0, 2.0 ** (1 - number)))
    return MatchedPairs(number, mean, deviation, 0.0, 1.0)


def _segments(
    normaliser: Normaliser, references: Sequence[str], first: str, second: str
) -> list[Segment]:
    """Return the segments of one sentence that have errors."""
    first_reference, first_words = normaliser.pair(references, first)
    second_reference, second_words = normaliser.pair(references, second)
    first_errors = _errors(first_reference, first_words)
    second_errors = _errors(second_reference, second_words)
    if first_reference != second_reference:  # their places cannot be compared
        segments = [(sum(first_errors), sum(second_errors))]
    else:
        segments = _cut(first_errors, second_errors)
    return [segment for segment in segments if any(segment)]


def _cut(first: Sequence[int], second: Sequence[int]) -> list[Segment]:
    """Return the segments of a sentence.

    Two correct words in a row end a segment; the segment between other correct words is
    empty.

    Args:
        first: The errors of the first system by place (`_errors`).
        second: The errors of the second system by place.
    """
    segments: list[Segment] = []
    ours = 0
    theirs = 0
    correct = 0
    for place, (our_errors, their_errors) in enumerate(zip(first, second, strict=True)):
        is_word = place % 2 == 1
        if our_errors or their_errors:
            ours += our_errors
            theirs += their_errors
            correct = 0
        elif is_word:
            correct += 1
            if correct == 2:
                segments.append((ours, theirs))
                ours = 0
                theirs = 0
    segments.append((ours, theirs))
    return segments


def _errors(reference: Sequence[str], hypothesis: Sequence[str]) -> list[int]:
    """Return the errors of a hypothesis by place.

    Places are: insertions before the first word of the reference, that word, insertions
    before the second word, and so on, to the insertions behind the last word.
    """
    errors = [0] * (2 * len(reference) + 1)
    word = 0
    for expected, heard in align(reference, hypothesis):
        if expected is None:
            errors[2 * word] += 1
        else:
            errors[2 * word + 1] = int(expected != heard)
            word += 1
    return errors
