"""Is the difference between two systems more than chance? And how sure is a figure?

Each test sees a set as the statistics of its units: sentences, or speakers (`by_group`), where sentences of one speaker
are not independent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts, Metric, Values
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.nbest import NbestList

SEED = 12345
"""Also sacreBLEU's: with it both draw the same samples."""
SPEAKER = r"^(.+?)[-_]"
"""The speaker in an utterance id, as sclite and Kaldi have it: what stands before the first hyphen or underscore."""
_CELLS = 1 << 26  # of a matrix of samples: bounds memory


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
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UserError(f"--speaker {pattern}: not a regular expression ({error})") from None
    found = []
    for name in ids:
        match = expression.search(name)
        if not match:
            raise UserError(f"utterance {name}: --speaker {pattern} does not match it; give another expression")
        found.append(match[1] if expression.groups else match[0])
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
    for number in _portions(trials, len(ours)):
        kept = random.integers(2, size=(number, len(ours)), dtype=bool)
        moved = kept.astype(np.float64) @ difference  # whole numbers far below 2**53
        sums = np.rint(moved).astype(np.int64)
        at_least += int((distance(total_theirs + sums, total_ours - sums) >= observed - 1e-12).sum())
    return (at_least + 1) / (trials + 1)


def paired_bootstrap(
    metric: Metric, first: Sequence[Counts], second: Sequence[Counts], trials: int = 1_000, seed: int = SEED
) -> float:
    """Two-sided p-value of the paired bootstrap (Koehn 2004), centred as in sacreBLEU."""
    ours, theirs = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    observed = abs(metric.values(ours.sum(axis=0)[None]) - metric.values(theirs.sum(axis=0)[None]))[0]
    samples = _resamples(len(ours), trials, seed)
    differences = np.abs(metric.values(_sums(samples, ours)) - metric.values(_sums(samples, theirs)))
    return (int((differences - differences.mean() >= observed - 1e-12).sum()) + 1) / (trials + 1)


def confidence_interval(
    metric: Metric, rows: Sequence[Counts], trials: int = 1_000, seed: int = SEED, level: float = 0.95
) -> tuple[float, float]:
    """The bootstrap's percentile interval of the metric's value."""
    statistics = np.asarray(rows, dtype=np.int64)
    values = np.sort(metric.values(_sums(_resamples(len(statistics), trials, seed), statistics)))
    outside = int(trials * (1 - level) / 2)
    return float(values[outside]), float(values[trials - 1 - outside])


def _portions(trials: int, units: int) -> list[int]:
    size = max(1, _CELLS // max(units, 1))
    return [min(size, trials - start) for start in range(0, trials, size)]


def _resamples(units: int, trials: int, seed: int) -> npt.NDArray[np.float64]:
    """(trials, units) how often each unit is drawn."""
    random = np.random.default_rng(seed)
    drawn = random.choice(units, size=(trials, units), replace=True)
    return np.stack([np.bincount(row, minlength=units) for row in drawn]).astype(np.float64)


def _sums(samples: npt.NDArray[np.float64], statistics: Counts) -> Counts:
    return np.rint(samples @ statistics).astype(np.int64)


TESTS = ("randomisation", "bootstrap", "mapsswe")


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A test of two systems on one set: one of `TESTS`; by utterance, or by speaker, which `pattern` finds in ids."""

    name: str = "randomisation"
    by_speaker: bool = False
    pattern: str = SPEAKER

    @property
    def signature(self) -> str:
        samples = {"randomisation": f"|trials:10000|seed:{SEED}", "bootstrap": f"|trials:1000|seed:{SEED}"}
        return f"p:{self.name}{samples.get(self.name, '')}{'|by:speaker' if self.by_speaker else ''}"

    def p_value(
        self, metric: Metric, lists: Sequence[NbestList], first: Sequence[Chosen], second: Sequence[Chosen]
    ) -> float:
        """Two-sided p-value of the difference between two choices, one hypothesis a list.

        Raises:
            UserError: MAPSSWE is asked for another metric than WER, or ids have no speaker.
        """
        if self.name == "mapsswe":
            if not isinstance(metric, ErrorRate) or metric.name != "WER":
                raise UserError(f"--test mapsswe counts word errors; it does not apply to {metric.name}")
            if self.by_speaker:
                raise UserError("--test mapsswe is by segment; leave out --by-speaker")
            references = [nbest.references[0] for nbest in lists]
            ours, theirs = ([chosen.text for chosen in choice] for choice in (first, second))
            return matched_pairs(references, ours, theirs, metric.normaliser).p_value
        one, other = ([chosen.counts for chosen in choice] for choice in (first, second))
        if self.by_speaker:
            groups = speakers([nbest.id for nbest in lists], self.pattern)
            one, other = list(by_group(one, groups)), list(by_group(other, groups))
        test = paired_bootstrap if self.name == "bootstrap" else paired_randomisation
        return test(metric, one, other)


class Chosen(NamedTuple):
    """The hypothesis chosen from a list, and its statistics (k,)."""

    text: str
    counts: Counts


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
    the mean difference is normally distributed.
    """
    normaliser = normaliser or Normaliser()
    differences = np.array(
        [
            ours - theirs
            for reference, one, other in zip(references, first, second, strict=True)
            for ours, theirs in _segments(*(normaliser(text) for text in (reference, one, other)))
        ],
        dtype=np.float64,
    )
    number = len(differences)
    mean = float(differences.mean()) if number else 0.0
    deviation = float(differences.std(ddof=1)) if number > 1 else 0.0
    z = mean / (deviation / math.sqrt(number)) if deviation else 0.0
    return MatchedPairs(number, mean, deviation, z, math.erfc(abs(z) / math.sqrt(2)))


def _segments(reference: list[str], first: list[str], second: list[str]) -> list[tuple[int, int]]:
    """The errors of both systems in each segment of one sentence."""
    found: list[tuple[int, int]] = []
    ours = theirs = correct = 0
    for place, errors in enumerate(zip(_errors(reference, first), _errors(reference, second), strict=True)):
        if any(errors):
            ours, theirs, correct = ours + errors[0], theirs + errors[1], 0
        elif place % 2:
            correct += 1
            if correct == 2 and (ours or theirs):
                found.append((ours, theirs))
                ours = theirs = 0
    return [*found, (ours, theirs)] if ours or theirs else found


def _errors(reference: list[str], hypothesis: list[str]) -> list[int]:
    """Errors by place: insertions before the first word, at that word, insertions before the second, ..."""
    errors = [0] * (2 * len(reference) + 1)
    word = 0
    for ours, theirs in align(reference, hypothesis):
        if ours is None:
            errors[2 * word] += 1
        else:
            errors[2 * word + 1] = int(ours != theirs)
            word += 1
    return errors
