"""How sure a figure is: resampling, and tests of the difference between two systems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, Values
from rescore.nbest import NbestList
from rescore.parts import TESTS

Item = TypeVar("Item")

SEED = 12345
"""sacreBLEU has the same seed, so both draw the same samples."""
SAMPLES = 1_000
"""Samples of a bootstrap."""
BY_SPEAKER = "by=speaker"
"""What signatures say where tests and intervals exchange or draw speakers."""
_CELLS = 1 << 20  # of a matrix of samples: bounds memory


def in_order(lists: Sequence[NbestList], items: Sequence[Item]) -> list[Item]:
    """The items of lists in the order of ids, with numbers as numbers; lists of one id
    in the order of their content.

    Samples are drawn by place, so the places must not depend on the order of a file.
    """
    several = len({nbest.id for nbest in lists}) < len(lists)

    def place(number: int) -> tuple[object, ...]:
        nbest = lists[number]
        content = (
            (nbest.references, sorted(one.text for one in nbest.hypotheses))
            if several
            else ()
        )
        return (
            re.sub(r"\d+", lambda digits: digits.group().zfill(20), nbest.id),
            nbest.id,
            *content,
        )

    return [items[number] for number in sorted(range(len(lists)), key=place)]


def paired_randomisation(
    metric: Metric,
    first: Sequence[Counts],
    second: Sequence[Counts],
    trials: int = 10_000,
) -> float:
    """Two-sided p-value of paired approximate randomisation (Riezler and Maxwell 2005),
    as in sacreBLEU.

    Args:
        first, second: the statistics (k,) of each unit under the two systems.
        trials: how many random exchanges.
    """
    ours, theirs = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    difference = ours - theirs
    total_ours, total_theirs = ours.sum(axis=0), theirs.sum(axis=0)

    def distance(left: Counts, right: Counts) -> Values:
        return np.abs(metric.values(left) - metric.values(right))

    observed = distance(total_ours[None], total_theirs[None])[0]
    random = np.random.default_rng(SEED)
    at_least = 0
    for number in _chunks(trials, len(ours)):
        kept = random.integers(2, size=(number, len(ours)), dtype=bool)
        sums = _sums(kept, difference)
        at_least += int(
            (distance(total_theirs + sums, total_ours - sums) >= observed - 1e-12).sum()
        )
    return (at_least + 1) / (trials + 1)


def paired_interval(
    metric: Metric, first: Sequence[Counts], second: Sequence[Counts]
) -> tuple[float, float]:
    """The bootstrap's 95 % interval of the difference of two systems, second less
    first, on the same samples.
    """
    ours, theirs = _values(metric, first), _values(metric, second)
    defined = np.isfinite(ours) & np.isfinite(theirs)
    return _interval(theirs[defined] - ours[defined])


def confidence_interval(
    metric: Metric, rows: Sequence[Counts]
) -> tuple[float, float] | None:
    """The bootstrap's 95 % interval of the metric's value; None of a single unit, which
    says nothing of others.

    Samples without a value, such as the error rate of empty references, do not count.
    """
    values = _values(metric, rows)
    return _interval(values[np.isfinite(values)]) if len(rows) > 1 else None


def _values(metric: Metric, rows: Sequence[Counts]) -> Values:
    """(samples,) the metric of each bootstrap sample (Koehn 2004); sets of one size
    have equal samples.
    """
    statistics = np.asarray(rows, dtype=np.int64)
    random = np.random.default_rng(SEED)
    sums = []
    for number in _chunks(SAMPLES, len(statistics)):
        drawn = random.choice(
            len(statistics), size=(number, len(statistics)), replace=True
        )
        sums.append(
            _sums(
                np.stack(
                    [np.bincount(row, minlength=len(statistics)) for row in drawn]
                ),
                statistics,
            )
        )
    return metric.values(np.concatenate(sums))


def _interval(values: Values) -> tuple[float, float]:
    """The range of 95 % of the values: an equal number is cut off at either end."""
    outside = int(len(values) * (1 - 0.95) / 2)
    ordered = np.sort(values)
    return float(ordered[outside]), float(ordered[len(values) - 1 - outside])


def _chunks(trials: int, units: int) -> list[int]:
    """Numbers of trials that are drawn together; multiples of 32, so that random bits
    do not depend on the cut.
    """
    size = max(32, _CELLS // max(units, 1) // 32 * 32)
    return [min(size, trials - start) for start in range(0, trials, size)]


def _sums(samples: npt.NDArray[Any], statistics: Counts) -> Counts:
    """(trials, k) the statistics of each sample; floating point multiplies fast, and is
    exact far below 2**53.
    """
    return np.rint(samples.astype(np.float64) @ statistics).astype(np.int64)


class ScoredText(NamedTuple):
    """The hypothesis chosen from a list, and its statistics (k,)."""

    text: str
    counts: Counts


Choice = Sequence[ScoredText]
"""The texts chosen from lists, one per list (or unit)."""


class Randomisation:
    """Paired approximate randomisation (Riezler and Maxwell 2005). Other tests have the
    same attributes and method.
    """

    signature = f"trials=10000,seed={SEED}"
    """The settings of the test, for signatures."""
    by_units = True
    """Whether the test can exchange or draw speakers instead of utterances."""

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Choice, second: Choice
    ) -> float:
        """Two-sided p-value of the difference between two choices."""
        return paired_randomisation(
            metric,
            [chosen.counts for chosen in first],
            [chosen.counts for chosen in second],
        )


@dataclass(frozen=True, slots=True)
class PairedTest:
    """One of `TESTS`, by utterance or by speaker, which `pattern` finds in ids.

    Raises:
        UserError: the test is unknown, or cannot be made by speaker.
    """

    name: str = "randomisation"
    by_speaker: bool = False
    pattern: str | None = None
    """None for the usual pattern (`rescore.metrics.folds.SPEAKER`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", TESTS.check(self.name))
        if self.by_speaker and not TESTS[self.name].by_units:
            raise UserError(f"--test {self.name} is by segment; leave out --by-speaker")

    @property
    def signature(self) -> str:
        parts = [
            self.name,
            TESTS[self.name]().signature,
            BY_SPEAKER if self.by_speaker else "",
        ]
        return ",".join(filter(None, parts))

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Choice, second: Choice
    ) -> float:
        """Two-sided p-value of the difference between two choices, one text per list.

        Raises:
            UserError: the test does not apply to the metric, or ids have no speaker.
        """
        test = TESTS[self.name]()
        if test.by_units:
            rows = (
                self.by_unit(lists, [chosen.counts for chosen in choice])
                for choice in (first, second)
            )
            first, second = (
                [ScoredText("", counts) for counts in of_units] for of_units in rows
            )
        return float(test.p_value(metric, lists, first, second))

    def by_unit(
        self, lists: Sequence[NbestList], rows: Sequence[Counts]
    ) -> Sequence[Counts]:
        """The statistics of each unit that is exchanged or drawn, a speaker or an
        utterance, in the order of ids.
        """
        rows = in_order(lists, rows)
        if not self.by_speaker:
            return rows
        # here: most runs have no speakers
        from rescore.metrics.folds import by_group, speakers

        return list(
            by_group(
                rows,
                speakers([nbest.id for nbest in in_order(lists, lists)], self.pattern),
            )
        )
