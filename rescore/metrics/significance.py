"""Is the difference between two systems more than chance? `TESTS` is the table of the tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from rescore.errors import UserError
from rescore.metrics import Metric
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts
from rescore.metrics.normalise import Normaliser
from rescore.metrics.resampling import SEED, SPEAKER, by_group, paired_bootstrap, paired_randomisation, speakers
from rescore.nbest import NbestList
from rescore.parts import TESTS


class Chosen(NamedTuple):
    """The hypothesis chosen from a list, and its statistics (k,)."""

    text: str
    counts: Counts


class SignificanceTest(Protocol):
    """A test of two systems on one set."""

    signature: str
    """Its settings, for signatures."""
    by_units: bool
    """Whether it can exchange or draw speakers instead of utterances."""

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Sequence[Chosen], second: Sequence[Chosen]
    ) -> float:
        """Two-sided p-value of the difference between two choices, one text per list (or unit)."""
        ...


class Randomisation:
    """Paired approximate randomisation (Riezler and Maxwell 2005)."""

    signature = f"trials=10000,seed={SEED}"
    by_units = True

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Sequence[Chosen], second: Sequence[Chosen]
    ) -> float:
        return paired_randomisation(metric, [one.counts for one in first], [one.counts for one in second])


class Bootstrap:
    """The paired bootstrap (Koehn 2004)."""

    signature = f"trials=1000,seed={SEED}"
    by_units = True

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Sequence[Chosen], second: Sequence[Chosen]
    ) -> float:
        return paired_bootstrap(metric, [one.counts for one in first], [one.counts for one in second])


class Mapsswe:
    """The matched-pairs sentence-segment word error test (Gillick and Cox 1989)."""

    signature = ""
    by_units = False

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Sequence[Chosen], second: Sequence[Chosen]
    ) -> float:
        if metric.unit != "word" or metric.words is None:
            raise UserError(f"--test mapsswe counts word errors; it does not apply to {metric.name}")
        references = [nbest.references[0] for nbest in lists]
        one, other = ([chosen.text for chosen in choice] for choice in (first, second))
        return matched_pairs(references, one, other, metric.words).p_value


@dataclass(frozen=True, slots=True)
class PairedTest:
    """One of `TESTS`, by utterance or by speaker, which `pattern` finds in ids.

    Raises:
        UserError: there is no such test, or it cannot be made by speaker.
    """

    name: str = "randomisation"
    by_speaker: bool = False
    pattern: str = SPEAKER

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", TESTS.check(self.name))
        if self.by_speaker and not TESTS[self.name].by_units:
            raise UserError(f"--test {self.name} is by segment; leave out --by-speaker")

    @property
    def signature(self) -> str:
        parts = [self.name, TESTS[self.name]().signature, "by=speaker" if self.by_speaker else ""]
        return ",".join(filter(None, parts))

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Sequence[Chosen], second: Sequence[Chosen]
    ) -> float:
        """Two-sided p-value of the difference between two choices, one text per list.

        Raises:
            UserError: the test does not apply to the metric, or ids have no speaker.
        """
        if self.by_speaker:
            groups = speakers([nbest.id for nbest in lists], self.pattern)
            first, second = (
                [Chosen("", counts) for counts in by_group([one.counts for one in choice], groups)]
                for choice in (first, second)
            )
        return TESTS[self.name]().p_value(metric, lists, first, second)


class MatchedPairs(NamedTuple):
    """What MAPSSWE found: `mean` is errors of the first system less those of the second, a segment."""

    segments: int
    mean: float
    deviation: float
    z: float
    p_value: float


def matched_pairs(
    references: Sequence[str], first: Sequence[str], second: Sequence[str], normaliser: Normaliser | None = None
) -> MatchedPairs:
    """The matched-pairs sentence-segment word error test (Gillick and Cox 1989), as in NIST's sc_stats.

    A segment holds errors of either system, and ends before two words in a row that both have right, without
    insertions between: errors of different segments are taken as independent. The test is two-tailed and assumes that
    the mean difference is normally distributed. Where the two systems are nearest to different readings of the
    reference, the sentence is one segment.
    """
    normaliser = normaliser or Normaliser()
    differences = np.array(
        [
            of_first - of_second
            for reference, one, other in zip(references, first, second, strict=True)
            for of_first, of_second in _segments(normaliser, reference, one, other)
        ],
        dtype=np.float64,
    )
    number = len(differences)
    mean = float(differences.mean()) if number else 0.0
    deviation = float(differences.std(ddof=1)) if number > 1 else 0.0
    z = mean / (deviation / math.sqrt(number)) if deviation else 0.0
    return MatchedPairs(number, mean, deviation, z, math.erfc(abs(z) / math.sqrt(2)))


def _segments(normaliser: Normaliser, reference: str, first: str, second: str) -> list[tuple[int, int]]:
    """The errors of both systems in each segment of one sentence."""
    pairs = [normaliser.nearest(reference, text) for text in (first, second)]
    both = [_errors(*pair) for pair in pairs]
    if pairs[0][0] != pairs[1][0]:  # two readings of the reference: the places of one are not those of the other
        whole = (sum(both[0]), sum(both[1]))
        return [whole] if any(whole) else []
    found: list[tuple[int, int]] = []
    of_first = of_second = correct = 0
    for place, errors in enumerate(zip(*both, strict=True)):
        if any(errors):
            of_first, of_second, correct = of_first + errors[0], of_second + errors[1], 0
        elif place % 2:
            correct += 1
            if correct == 2 and (of_first or of_second):
                found.append((of_first, of_second))
                of_first = of_second = 0
    return [*found, (of_first, of_second)] if of_first or of_second else found


def _errors(reference: list[str], hypothesis: list[str]) -> list[int]:
    """Errors by place: insertions before the first word, at that word, insertions before the second, ..."""
    errors = [0] * (2 * len(reference) + 1)
    word = 0
    for expected, found in align(reference, hypothesis):
        if expected is None:
            errors[2 * word] += 1
        else:
            errors[2 * word + 1] = int(expected != found)
            word += 1
    return errors
