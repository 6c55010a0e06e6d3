"""Confidence intervals of figures, and tests of the difference between two systems."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, Values
from rescore.metrics.folds import (
    SPEAKERS,
    by_group,
    labels_of_field,
    speakers,
    warn_of_nameless,
)
from rescore.nbest import NbestList
from rescore.parts import TESTS

log = logging.getLogger(__name__)

SEED = 12345
"""The seed of sacreBLEU: for units in the same order, both draw the same samples."""
SAMPLES = 1_000
"""Samples of a bootstrap."""
BY_SPEAKER = "by=speaker"
"""The mark in signatures of tests and intervals that exchange or draw speakers."""
_CELLS = 1 << 20
"""Cells of a matrix of samples: bounds memory."""
ROUNDING = 1e-12
"""Differences of two values count as equal within this."""


# --- order ---------------------------------------------------------------------------


def in_order(lists: Sequence[NbestList]) -> list[NbestList]:
    """Return lists in the order of their content (`Dataset.content_keys`).

    Samples are drawn by place, so the places must not depend on ids or on the order of
    a file.
    """
    return [lists[place] for place in places_in_order(lists)]


def places_in_order(lists: Sequence[NbestList], *rows: Sequence[Counts]) -> list[int]:
    """Return the places of lists in the order of their content.

    Args:
        lists: The lists.
        rows: Statistics (k,) of each list, by which lists of equal content are ordered.
    """
    keys_of_places = []
    for place, key in enumerate(Dataset.of(lists).content_keys):
        counts = [each[place].tolist() for each in rows]
        keys_of_places.append((key, counts))
    return sorted(range(len(lists)), key=keys_of_places.__getitem__)


# --- randomisation and bootstrap -----------------------------------------------------


def paired_randomisation(
    metric: Metric,
    first: Sequence[Counts],
    second: Sequence[Counts],
    trials: int = 10_000,
) -> float:
    """Return the two-sided p-value of paired approximate randomisation.

    Source: Riezler and Maxwell 2005, as in sacreBLEU.

    Args:
        metric: The metric whose difference is tested.
        first: The statistics (k,) of each unit under the first system.
        second: The statistics (k,) of each unit under the second system.
        trials: Number of random exchanges.
    """
    ours = np.asarray(first, dtype=np.int64)
    theirs = np.asarray(second, dtype=np.int64)
    difference = ours - theirs
    our_total = ours.sum(axis=0)
    their_total = theirs.sum(axis=0)

    def distance(left: Counts, right: Counts) -> Values:
        return np.abs(metric.values(left) - metric.values(right))

    observed = distance(our_total[None], their_total[None])[0]
    random = np.random.default_rng(SEED)
    at_least = 0
    for number in _chunks(trials, len(ours)):
        kept = random.integers(2, size=(number, len(ours)), dtype=bool)
        moved = _sums(kept, difference)
        distances = distance(their_total + moved, our_total - moved)
        at_least += int((distances >= observed - ROUNDING).sum())
    return (at_least + 1) / (trials + 1)


def paired_interval(
    metric: Metric, first: Sequence[Counts], second: Sequence[Counts]
) -> tuple[float, float]:
    """Return the bootstrap's 95 % interval of the difference of two systems.

    Args:
        metric: The metric.
        first: The statistics (k,) of each unit under the first system.
        second: The statistics (k,) of each unit under the second system.

    Returns:
        Bounds of the second value less the first, on the same samples. Samples whose
        references have nothing to measure count only if there are no others.
    """
    ours = _samples(first)
    theirs = _samples(second)
    differences = metric.values(theirs) - metric.values(ours)
    is_defined = metric.measures(ours) & metric.measures(theirs)
    if not is_defined.any():
        return _interval(differences)
    return _interval(differences[is_defined])


def confidence_interval(
    metric: Metric, rows: Sequence[Counts]
) -> tuple[float, float] | None:
    """Return the bootstrap's 95 % interval of the metric's value.

    Samples without a value, such as the error rate of empty references, do not count.

    Args:
        metric: The metric.
        rows: The statistics (k,) of each unit.

    Returns:
        Bounds of the value; None for a single unit, which cannot be resampled, and for
        references that have nothing to measure.
    """
    if len(rows) <= 1:
        return None
    sums = _samples(rows)
    is_defined = metric.measures(sums)
    if not is_defined.any():
        return None
    return _interval(metric.values(sums[is_defined]))


def _samples(rows: Sequence[Counts]) -> Counts:
    """Return the statistics of each bootstrap sample (Koehn 2004), of shape (samples,
    k).

    Sets of one size have equal samples.
    """
    statistics = np.asarray(rows, dtype=np.int64)
    units = len(statistics)
    random = np.random.default_rng(SEED)
    sums = []
    for number in _chunks(SAMPLES, units):
        drawn = random.choice(units, size=(number, units), replace=True)
        times = np.stack([np.bincount(sample, minlength=units) for sample in drawn])
        sums.append(_sums(times, statistics))
    return np.concatenate(sums)


def _interval(values: Values) -> tuple[float, float]:
    """Return the range of 95 % of the values; an equal number lies at either end."""
    outside = int(len(values) * (1 - 0.95) / 2)
    ordered = np.sort(values)
    return float(ordered[outside]), float(ordered[len(values) - 1 - outside])


def _chunks(trials: int, units: int) -> list[int]:
    """Return numbers of trials that are drawn together.

    They are multiples of 32, so that random bits do not depend on the cut.
    """
    size = max(32, _CELLS // max(units, 1) // 32 * 32)
    return [min(size, trials - start) for start in range(0, trials, size)]


def _sums(samples: npt.NDArray[Any], statistics: Counts) -> Counts:
    """Return the statistics of each sample, of shape (samples, k).

    Floating point multiplies fast, and is exact far below 2**53.
    """
    return np.rint(samples.astype(np.float64) @ statistics).astype(np.int64)


def paired_bootstrap(
    metric: Metric, first: Sequence[Counts], second: Sequence[Counts]
) -> float:
    """Return the p-value of paired bootstrap resampling (Koehn 2004), as in sacreBLEU
    (`--paired-bs`): the share of samples whose difference exceeds the mean difference
    of all samples by more than the observed difference.

    Args:
        metric: The metric whose difference is tested.
        first: The statistics (k,) of each unit under the first system.
        second: The statistics (k,) of each unit under the second system.
    """

    def total(rows: Sequence[Counts]) -> Values:
        return metric.values(np.sum(rows, axis=0, dtype=np.int64, keepdims=True))

    def samples(rows: Sequence[Counts]) -> Values:
        return metric.values(_samples(rows))

    observed = np.abs(np.subtract(total(first), total(second)))[0]
    of_samples = np.abs(np.subtract(samples(first), samples(second)))
    differences: Values = of_samples[np.isfinite(of_samples)]
    if not differences.any():
        return 1.0  # sacreBLEU has 1 / 1001 for equal outputs
    at_chance = differences - differences.mean()
    larger = int((at_chance > observed + ROUNDING).sum())
    return (larger + 1) / (len(differences) + 1)


# --- tests ---------------------------------------------------------------------------


class ScoredText(NamedTuple):
    """The hypothesis chosen from a list, and its statistics (k,)."""

    text: str
    counts: Counts


ScoredTexts = Sequence[ScoredText]
"""The texts chosen from lists, one per list (or unit)."""


class Randomisation:
    """Paired approximate randomisation (Riezler and Maxwell 2005). Other tests have the
    same attributes and method.
    """

    signature = f"trials=10000,seed={SEED}"
    """The settings of the test, for signatures."""
    by_units = True
    """Whether the test can exchange or draw speakers instead of utterances."""
    exchanges = True
    """Whether the test exchanges units, so that few units have no low p-value; other
    tests need no such attribute.
    """

    def p_value(
        self,
        metric: Metric,
        lists: Sequence[NbestList],
        first: ScoredTexts,
        second: ScoredTexts,
    ) -> float:
        """Return the two-sided p-value of the difference between two choices.

        Args:
            metric: The metric whose difference is tested.
            lists: The lists; not used if the choices are sums of units.
            first: The choice of the first system.
            second: The choice of the second system.
        """
        ours = [chosen.counts for chosen in first]
        theirs = [chosen.counts for chosen in second]
        return paired_randomisation(metric, ours, theirs)


class Bootstrap:
    """Paired bootstrap resampling (Koehn 2004), with sacreBLEU's samples."""

    signature = f"samples={SAMPLES},seed={SEED}"
    by_units = True

    def p_value(
        self,
        metric: Metric,
        lists: Sequence[NbestList],
        first: ScoredTexts,
        second: ScoredTexts,
    ) -> float:
        """Return the p-value of the difference between two choices.

        Args:
            metric: The metric whose difference is tested.
            lists: The lists; not used, as the choices are sums of units.
            first: The choice of the first system.
            second: The choice of the second system.
        """
        ours = [chosen.counts for chosen in first]
        theirs = [chosen.counts for chosen in second]
        return paired_bootstrap(metric, ours, theirs)


@dataclass(frozen=True, slots=True)
class PairedTest:
    """One of `TESTS`, by utterance or by speaker.

    Raises:
        UserError: The test is unknown, or cannot be made by speaker.
    """

    name: str = "randomisation"
    by_speaker: bool = False
    pattern: str | None = None
    """Field of the speaker, or expression for the speaker in an id; None for the usual
    speakers (`rescore.metrics.folds.speakers`).
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", TESTS.check(self.name))
        if self.by_speaker and not TESTS[self.name].by_units:
            raise UserError(f"--test {self.name} is by segment; leave out --by-speaker")

    @property
    def signature(self) -> str:
        """The name and the settings of the test, for signatures."""
        parts = [self.name]
        if settings := TESTS[self.name]().signature:
            parts.append(settings)
        if self.by_speaker:
            parts.append(self.units)
        return ",".join(parts)

    def applies(self, metric: Metric) -> bool:
        """Return whether the test applies to a metric; a test without a method
        `applies` does to all.

        Args:
            metric: The metric.
        """
        test = TESTS[self.name]()
        return not hasattr(test, "applies") or bool(test.applies(metric))

    @property
    def units(self) -> str:
        """The mark in signatures of tests and intervals by speaker."""
        if self.pattern is None:
            return BY_SPEAKER
        return f"{BY_SPEAKER},speaker={self.pattern}"

    def p_value(
        self,
        metric: Metric,
        lists: Sequence[NbestList],
        first: ScoredTexts,
        second: ScoredTexts,
    ) -> float:
        """Return the two-sided p-value of the difference between two choices.

        Args:
            metric: The metric whose difference is tested.
            lists: Lists with references.
            first: The text that the first system chooses from each list.
            second: The text that the second system chooses from each list.

        Raises:
            UserError: The test does not apply to the metric, or ids have no speaker.
        """
        test = TESTS[self.name]()
        if test.by_units:
            first, second = self._units(lists, first, second)
        return float(test.p_value(metric, lists, first, second))

    def _units(
        self, lists: Sequence[NbestList], *choices: ScoredTexts
    ) -> list[list[ScoredText]]:
        """Return choices with the statistics of units and without their texts."""
        every = []
        for choice in choices:
            every.append([chosen.counts for chosen in choice])
        order = places_in_order(lists, *every)
        units = []
        for rows in every:
            summed = self._summed(lists, order, rows)
            units.append([ScoredText("", counts) for counts in summed])
        return units

    def by_unit(
        self, lists: Sequence[NbestList], rows: Sequence[Counts]
    ) -> Sequence[Counts]:
        """Return the statistics of each unit that is exchanged or drawn.

        Args:
            lists: The lists.
            rows: The statistics (k,) of each list.

        Returns:
            Statistics (k,) of each utterance or speaker, in the order of their content.

        Raises:
            UserError: Ids have no speaker.
        """
        return self._summed(lists, places_in_order(lists, rows), rows)

    def _summed(
        self, lists: Sequence[NbestList], order: Sequence[int], rows: Sequence[Counts]
    ) -> list[Counts]:
        """Return the statistics of units, in the order in which lists stand there."""
        ordered = [rows[place] for place in order]
        if not self.by_speaker:
            return ordered
        units = speakers([lists[place] for place in order], self.pattern)
        return list(by_group(ordered, units))


def by_speakers(
    lists: Sequence[NbestList], by: str | None = None, name: str = "randomisation"
) -> PairedTest:
    """Return a test by speaker. Its signature names the field of the speakers. A
    warning says so if every speaker has one utterance.

    Args:
        lists: The lists that are tested.
        by: As of `rescore.metrics.folds.speakers`.
        name: The name of the test.

    Raises:
        UserError: An id has no speaker, or the test cannot be made by speaker.
    """
    if by is None and labels_of_field(lists, SPEAKERS):
        by = SPEAKERS
    test = PairedTest(name, by_speaker=True, pattern=by)
    labels = speakers(lists, by)
    warn_of_nameless(lists, by)
    if labels and len(set(labels)) == len(labels):
        log.warning(
            "%severy speaker has one utterance (first: %s), so --by-speaker changes"
            " nothing; --speaker FIELD or REGEX says who the speaker is",
            lists[0].header.prefix,
            labels[0],
        )
    return test
