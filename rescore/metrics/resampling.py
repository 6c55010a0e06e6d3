"""Sets drawn again and again: confidence intervals, and p-values of paired differences.

A set is seen as the statistics of its units: sentences, or speakers (`by_group`), as sentences of one speaker are not
independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, Values
from rescore.patterns import finder

SEED = 12345
"""Also sacreBLEU's: with it both draw the same samples."""
SPEAKER = r"^(.+?)[-_]"
"""The speaker in an utterance id, as sclite and Kaldi have it: what stands before the first hyphen or underscore."""
_CELLS = 1 << 20  # of a matrix of samples: bounds memory


def by_group(rows: Sequence[Counts], groups: Sequence[str]) -> Counts:
    """(groups, k) statistics summed over the rows of each group."""
    names = {name: index for index, name in enumerate(dict.fromkeys(groups))}
    result = np.zeros((len(names), len(rows[0])), dtype=np.int64)
    np.add.at(result, [names[name] for name in groups], np.asarray(rows, dtype=np.int64))
    return result


def speakers(ids: Sequence[str], pattern: str = SPEAKER) -> list[str]:
    """The speaker (or document) of each utterance id: the first group of a regular expression.

    Raises:
        UserError: the expression is none, or does not match an id.
    """
    find = finder(pattern, "--speaker")
    found = []
    for name in ids:
        speaker = find(name)
        if speaker is None:
            raise UserError(f"utterance {name}: --speaker {pattern} does not match it; give another expression")
        found.append(speaker)
    return found


def paired_randomisation(
    metric: Metric, first: Sequence[Counts], second: Sequence[Counts], trials: int = 10_000, seed: int = SEED
) -> float:
    """Two-sided p-value of paired approximate randomisation (Riezler and Maxwell 2005), as in sacreBLEU.

    Args:
        first, second: the statistics (k,) of each unit under the two systems.
        trials: how many random exchanges. seed: of the exchanges.
    """
    ours, theirs = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    difference = ours - theirs
    total_ours, total_theirs = ours.sum(axis=0), theirs.sum(axis=0)

    def distance(left: Counts, right: Counts) -> Values:
        return np.abs(metric.values(left) - metric.values(right))

    observed = distance(total_ours[None], total_theirs[None])[0]
    random = np.random.default_rng(seed)
    at_least = 0
    for number in _chunks(trials, len(ours)):
        kept = random.integers(2, size=(number, len(ours)), dtype=bool)
        sums = _sums(kept, difference)
        at_least += int((distance(total_theirs + sums, total_ours - sums) >= observed - 1e-12).sum())
    return (at_least + 1) / (trials + 1)


def paired_bootstrap(
    metric: Metric, first: Sequence[Counts], second: Sequence[Counts], trials: int = 1_000, seed: int = SEED
) -> float:
    """Two-sided p-value of the paired bootstrap (Koehn 2004), centred as in sacreBLEU."""
    ours, theirs = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    observed = abs(metric.values(ours.sum(axis=0)[None]) - metric.values(theirs.sum(axis=0)[None]))[0]
    differences = np.abs(_differences(metric, ours, theirs, trials, seed))
    return (int((differences - differences.mean() >= observed - 1e-12).sum()) + 1) / (len(differences) + 1)


def paired_interval(
    metric: Metric,
    first: Sequence[Counts],
    second: Sequence[Counts],
    trials: int = 1_000,
    seed: int = SEED,
    level: float = 0.95,
) -> tuple[float, float]:
    """The bootstrap's percentile interval of the difference of two systems, second less first, on the same samples."""
    ours, theirs = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    return _interval(_differences(metric, ours, theirs, trials, seed), level)


def _differences(metric: Metric, ours: Counts, theirs: Counts, trials: int, seed: int) -> Values:
    """Of the values of two systems in samples, second less first, where both have one."""
    sums = [[_sums(samples, rows) for rows in (ours, theirs)] for samples in _resamples(len(ours), trials, seed)]
    first, second = (metric.values(np.concatenate(side)) for side in zip(*sums, strict=True))
    defined = np.isfinite(first) & np.isfinite(second)
    return np.asarray(second[defined] - first[defined], dtype=np.float64)


def confidence_interval(
    metric: Metric, rows: Sequence[Counts], trials: int = 1_000, seed: int = SEED, level: float = 0.95
) -> tuple[float, float]:
    """The bootstrap's percentile interval of the metric's value.

    Samples without one, such as the error rate of empty references, do not count.
    """
    statistics = np.asarray(rows, dtype=np.int64)
    sums = np.concatenate([_sums(samples, statistics) for samples in _resamples(len(statistics), trials, seed)])
    values = metric.values(sums)
    return _interval(values[np.isfinite(values)], level)


def _interval(values: Values, level: float) -> tuple[float, float]:
    """What is left of values where as many are cut off at either end."""
    outside = int(len(values) * (1 - level) / 2)
    ordered = np.sort(values)
    return float(ordered[outside]), float(ordered[len(values) - 1 - outside])


def _chunks(trials: int, units: int) -> list[int]:
    """Numbers of trials that are drawn together; a multiple of 32, with which random bits do not depend on the cut."""
    size = max(32, _CELLS // max(units, 1) // 32 * 32)
    return [min(size, trials - start) for start in range(0, trials, size)]


def _resamples(units: int, trials: int, seed: int) -> Iterator[Counts]:
    """(some trials, units) how often each unit is drawn, until all trials are made."""
    random = np.random.default_rng(seed)
    for number in _chunks(trials, units):
        drawn = random.choice(units, size=(number, units), replace=True)
        yield np.stack([np.bincount(row, minlength=units) for row in drawn])


def _sums(samples: npt.NDArray[Any], statistics: Counts) -> Counts:
    """(trials, k) the statistics of each sample; floating point multiplies fast, and is exact far below 2**53."""
    return np.rint(samples.astype(np.float64) @ statistics).astype(np.int64)
