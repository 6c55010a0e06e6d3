"""The matched-pairs sentence-segment word error test (Gillick and Cox 1989), as in
NIST's sc_stats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rescore.errors import UserError
from rescore.metrics.alignment import align
from rescore.metrics.base import Metric
from rescore.metrics.normalise import Normaliser
from rescore.metrics.significance import Choice
from rescore.nbest import NbestList


class Mapsswe:
    """The matched-pairs sentence-segment word error test (Gillick and Cox 1989)."""

    signature = ""
    by_units = False

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Choice, second: Choice
    ) -> float:
        if metric.unit != "word" or metric.words is None:
            raise UserError(
                f"--test mapsswe counts word errors; it does not apply to {metric.name}"
            )
        references = [nbest.references for nbest in lists]
        texts, others = (
            [chosen.text for chosen in choice] for choice in (first, second)
        )
        return matched_pairs(references, texts, others, metric.words).p_value


class MatchedPairs(NamedTuple):
    """The result of MAPSSWE. `mean` is the difference of errors, first system less
    second, per segment; z is infinite if all segments have the same difference.
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
    """The matched-pairs sentence-segment word error test (Gillick and Cox 1989), as in
    NIST's sc_stats.

    A segment holds errors of either system, and ends before two words in a row that
    both have right, without insertions between: errors of different segments are taken
    as independent. The test is two-tailed and assumes that the mean difference is
    normally distributed; if all segments have the same difference, the deviation is 0
    and the sign test is used instead. If the two systems are nearest to different
    references, the sentence is one segment.

    Args:
        references: one or more for each sentence.
    """
    normaliser = normaliser or Normaliser()
    sentences = zip(references, first, second, strict=True)
    segments = [
        segment
        for sentence in sentences
        for segment in _segments(normaliser, *sentence)
    ]
    differences = np.sort(
        [float(of_first - of_second) for of_first, of_second in segments]
    )
    number = len(differences)
    mean = float(differences.mean()) if number else 0.0
    deviation = float(differences.std(ddof=1)) if number > 1 else 0.0
    if not deviation:
        z = math.copysign(math.inf, mean) if mean else 0.0
        return MatchedPairs(
            number, mean, deviation, z, min(1.0, 2.0 ** (1 - number)) if mean else 1.0
        )
    z = mean / (deviation / math.sqrt(number))
    return MatchedPairs(number, mean, deviation, z, math.erfc(abs(z) / math.sqrt(2)))


def _segments(
    normaliser: Normaliser, references: Sequence[str], first: str, second: str
) -> list[tuple[int, int]]:
    """The errors of both systems in each segment of one sentence."""
    pairs = [normaliser.pair(references, text) for text in (first, second)]
    both = [_errors(*pair) for pair in pairs]
    if pairs[0][0] != pairs[1][0]:  # two references have different places
        whole = (sum(both[0]), sum(both[1]))
        return [whole] if any(whole) else []
    segments: list[tuple[int, int]] = []
    of_first = of_second = correct = 0
    for place, errors in enumerate(zip(*both, strict=True)):
        if any(errors):
            of_first, of_second, correct = (
                of_first + errors[0],
                of_second + errors[1],
                0,
            )
        elif place % 2:
            correct += 1
            if correct == 2 and (of_first or of_second):
                segments.append((of_first, of_second))
                of_first = of_second = 0
    return [*segments, (of_first, of_second)] if of_first or of_second else segments


def _errors(reference: list[str], hypothesis: list[str]) -> list[int]:
    """Errors by place: insertions before the first word, at that word, insertions
    before the second, ...
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
