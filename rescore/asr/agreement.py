"""Error rates and votes of several systems, estimated without references: from the
distances between the texts of the systems.

Three-cornered hats (Gray and Allan 1974): if the errors of systems i, j and k are
independent, distances are sums of error rates, d_ij = e_i + e_j, and so

    e_i = (d_ij + d_ik - d_jk) / 2

The estimate of a system is the median over all pairs j, k of other systems. Errors that
all systems share are not seen, so estimates are lower than error rates.

Systems that are nearer to each other than their error rates say (models of one family)
are relatives: they share the errors (e_i + e_j - d_ij) / 2, and say nothing about each
other's error rates. The vote of a system is

    1 / (e_i + the errors that it shares with each of its relatives)

so k systems that share all their errors have the vote of one system. The combination
with the least variance (Bates and Granger 1969) has the votes C^-1 1, where C is the
matrix of error rates (diagonal) and shared errors; it is not taken, as C may be nearly
singular: one of two relatives then has almost all votes. Four rules keep the votes from
harm:

- Copies, which are much nearer to each other than relatives, are one group.
- Each estimate is divided by the median, and moved towards 1 by a factor that falls
  with the number of groups; it is 1 if it is nearer to 1 than this. The factor is 2 for
  three groups, whose estimates nothing can check (`TOLERANCE`). `RIDGE` keeps the votes
  nearer to each other. Such estimates only decide ties (`TIES`, `CLEAR`).
- Groups have equal votes if there are fewer than three, or if four groups form two
  pairs that agree: nothing tells which pair shares errors.
- No system has more than half of all votes, unless its estimate is below half of the
  median (`FAR_BETTER`): whatever the estimates are, one system alone does not decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.mixture import best_texts
from rescore.metrics.significance import SEED, in_order
from rescore.nbest import NbestList

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
NEAR = 0.25
"""Systems are a group if their distance is less than this share of the sum of their
estimates.
"""
NEAR_OF_THREE = 0.15
"""Of three systems, two are a group if their distance is less than this share of their
distances to the third.
"""
RELATED = 0.85
"""Systems are relatives if their distance is less than this share of the sum of their
estimates.
"""
ROUNDS = 3
"""How often estimates and relatives are found again, each with the other."""
RIDGE = 0.1
"""What is added to each quotient of estimates before votes are made of it."""
TOLERANCE = math.log(2)
"""Natural log of the factor within which estimates of three groups count as equal, each
made of one pair of others. It is divided by the square root of the number of pairs.
"""
TIES = 0.01
"""Power of the quotients of estimates where they count as equal: of equally many
systems, those with the lower estimates win.
"""
CLEAR = math.log(1.1)
"""Natural log of the factor within which estimates do not decide ties, either: the
system that is given first wins.
"""
AMBIGUOUS = 0.1
"""Four groups are two pairs if the sum of the distances within the pairs is less than
the largest such sum by more than this share.
"""
FAR_BETTER = 0.5
"""A system may have more than half of all votes if its estimate is less than this share
of the median.
"""
LEAST_RATE = 0.003
"""The least error rate that votes are made of, as a share of the words (0.003 is
0.3 %).
"""
SAMPLES = 200
"""Bootstrap samples of the interval of an estimate."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated error rate of a system, in percent of the words."""

    rate: float
    low: float
    """The lower bound of the 95 % confidence interval, by bootstrap over lists."""
    high: float
    """The upper bound."""


class Distances(NamedTuple):
    """How far the texts of systems are from each other, for each list and each pair of
    systems, in the order of `itertools.combinations`.
    """

    edits: Floats
    """(lists, pairs) numbers of word edits; 0 where a system has no text"""
    lengths: Floats
    """(lists, pairs) mean numbers of words of the two texts; 0 where a system has no
    text
    """

    def of_lists(self, places: npt.NDArray[np.intp]) -> Distances:
        """Return the distances of some lists.

        Args:
            places: The places of the lists; a sample has lists several times.
        """
        return Distances(self.edits[places], self.lengths[places])


class Agreement:
    """What systems say about each other."""

    def __init__(self, systems: Sequence[str], distances: Distances) -> None:
        """Find groups and relatives by the distances between the systems.

        Args:
            systems: The names of the systems.
            distances: Their distances; estimates draw samples of the lists in their
                order.
        """
        self._systems = systems
        self._distances = distances
        (self._matrix,) = self._sampled(np.ones((1, len(distances.edits))))
        self._groups = _groups(self._matrix)
        numbers = np.array(self._groups)
        self._copies = numbers[:, None] == numbers[None]
        self._related = self._copies
        if self.is_estimated:
            self._related = _relatives(self._matrix, self._copies)

    @classmethod
    def of(
        cls,
        lists: Sequence[NbestList],
        systems: Sequence[str],
        words: Callable[[str], Sequence[str]],
    ) -> Self:
        """Return what the systems of lists say about each other.

        Args:
            lists: Lists of the systems; references are not read.
            systems: The names of the systems.
            words: Cuts texts into words; equal words have no distance.
        """
        return cls(systems, distances_of(in_order(lists), systems, words))

    def _sampled(self, counts: Floats) -> Floats:
        """Return the distance of each pair of systems in samples of the lists.

        Args:
            counts: How often each list counts in each sample (samples, lists).

        Returns:
            Symmetric matrices of shape (samples, systems, systems).
        """
        return _distance_shares(counts, self._distances, len(self._systems))

    @property
    def is_estimated(self) -> bool:
        """Whether there are enough groups, three, to estimate error rates."""
        return self._group_count >= 3

    @property
    def _group_count(self) -> int:
        """The number of groups; below three, nothing is estimated."""
        return len(set(self._groups))

    @cached_property
    def _error_rates(self) -> Floats:
        """The estimate of each system, as a share of the words."""
        return _hats(self._matrix[None], self._related, self._copies)[0]

    @cached_property
    def votes(self) -> dict[str, float]:
        """The vote of each system; the largest is 1."""
        if not self.is_estimated or _are_pairs(self._matrix, self._groups):
            sizes = [self._groups.count(group) for group in self._groups]
            votes = 1 / np.array(sizes, dtype=np.float64)
        else:
            votes = self._of_own_and_shared_errors()
        shares = (votes / votes.max()).tolist()
        return dict(zip(self._systems, shares, strict=True))

    @property
    def why_equal(self) -> str:
        """Why all systems have equal votes, but for ties; empty if they have different
        votes.
        """
        if not np.allclose(list(self.votes.values()), 1.0, atol=2 * TIES):
            return ""
        if self._group_count == 1:
            return "the systems agree in almost all texts"
        if self._group_count == 2:
            return (
                "nothing tells which of two systems, or of two groups, is better; where"
                " they differ, the first system decides"
            )
        if _are_pairs(self._matrix, self._groups):
            return "two pairs of systems agree, and nothing tells which pair is better"
        factor = math.exp(self._tolerance)
        return (
            f"each estimated error rate of words is within a factor of {factor:.1f} of"
            " their median; in a tie, a clearly lower estimate wins"
        )

    @property
    def _tolerance(self) -> float:
        """The natural log of the factor within which estimates count as equal."""
        pairs_of_others = math.comb(self._group_count - 1, 2)
        return TOLERANCE / math.sqrt(pairs_of_others)

    @property
    def voter_count(self) -> float:
        """The effective number of voters: 1 / the sum of squared shares of votes."""
        votes = np.array(list(self.votes.values()))
        return float(votes.sum() ** 2 / (votes**2).sum())

    def _of_own_and_shared_errors(self) -> Floats:
        """Return the vote of each system: one divided by its own errors and those that
        it shares with each relative.
        """
        rates = np.maximum(self._error_rates, LEAST_RATE)
        shared = (rates[:, None] + rates[None] - self._matrix) / 2 / np.median(rates)
        shared = np.where(self._related, np.maximum(shared, 0.0), 0.0)
        np.fill_diagonal(shared, 0.0)
        quotients = _shrunk(rates, self._tolerance)
        # no system shares more errors than it makes
        own = np.maximum(quotients, shared.max(axis=1))
        np.fill_diagonal(shared, own)
        shared += RIDGE * self._copies
        return without_majority(1 / shared.sum(axis=1), rates)

    def estimates(self) -> dict[str, Estimate]:
        """Return the estimate of each system; none if there are fewer than three
        groups.
        """
        if not self.is_estimated:
            return {}
        generator = np.random.default_rng(SEED)
        list_count = len(self._distances.edits)
        shares = np.full(list_count, 1 / list_count)
        counts = generator.multinomial(list_count, shares, SAMPLES)
        samples = self._sampled(counts.astype(np.float64))
        drawn = _hats(samples, self._related, self._copies)
        lows, highs = np.percentile(drawn, (2.5, 97.5), axis=0)
        estimates = {}
        for index, name in enumerate(self._systems):
            bounds = (self._error_rates[index], lows[index], highs[index])
            estimates[name] = Estimate(*(100 * max(0.0, float(one)) for one in bounds))
        return estimates


def distances_of(
    lists: Sequence[NbestList],
    systems: Sequence[str],
    words: Callable[[str], Sequence[str]],
) -> Distances:
    """Return the edit distances between the texts of systems.

    Args:
        lists: The lists.
        systems: The names of the systems.
        words: Cuts texts into words.
    """
    pairs = list(combinations(range(len(systems)), 2))
    edits = np.zeros((len(lists), len(pairs)))
    lengths = np.zeros_like(edits)
    for row, nbest in enumerate(lists):
        texts = best_texts(nbest, systems)
        spoken = {text: list(words(text)) for text in set(texts) if text is not None}
        for column, (i, j) in enumerate(pairs):
            first = texts[i]
            second = texts[j]
            if first is None or second is None:
                continue
            lengths[row, column] = (len(spoken[first]) + len(spoken[second])) / 2
            if first != second:
                distance = Levenshtein.distance(spoken[first], spoken[second])
                edits[row, column] = distance
    return Distances(edits, lengths)


def _distance_shares(counts: Floats, distances: Distances, system_count: int) -> Floats:
    """Return the distance of each pair of systems, as a share of their words.

    Args:
        counts: How often each list counts in each sample, of shape (samples, lists).
        distances: The distances of the lists.
        system_count: The number of systems.

    Returns:
        Symmetric matrices of shape (samples, systems, systems).
    """
    edits = counts @ distances.edits
    shares = edits / np.maximum(counts @ distances.lengths, 1.0)
    matrices = np.zeros((len(counts), system_count, system_count))
    for column, (i, j) in enumerate(combinations(range(system_count), 2)):
        matrices[:, i, j] = shares[:, column]
        matrices[:, j, i] = shares[:, column]
    return matrices


def _groups(matrix: Floats) -> list[int]:
    """Return the number of the group of each system.

    Args:
        matrix: The distance of each pair of systems (systems, systems).
    """
    system_count = len(matrix)
    groups = list(range(system_count))
    for i, j in combinations(range(system_count), 2):
        if groups[i] != groups[j] and _are_near(matrix, i, j):
            merged = groups[j]
            groups = [groups[i] if group == merged else group for group in groups]
    return groups


def _are_near(matrix: Floats, i: int, j: int) -> bool:
    """Return whether two systems share most of their errors, as far as the others say.

    Args:
        matrix: The distance of each pair of systems (systems, systems).
        i: The index of one system.
        j: The index of the other system.
    """
    others = [index for index in range(len(matrix)) if index not in (i, j)]
    distance = matrix[i, j]
    if not others:
        return False
    if len(others) == 1:
        (third,) = others
        nearest = min(matrix[i, third], matrix[j, third])
        return bool(distance < NEAR_OF_THREE * nearest)
    expected = 0.0
    for index in (i, j):
        hats = [_hat(matrix, index, *pair) for pair in combinations(others, 2)]
        expected += max(float(np.median(hats)), 0.0)
    return bool(distance < NEAR * expected)


def _are_pairs(matrix: Floats, groups: Sequence[int]) -> bool:
    """Return whether four groups are two pairs that agree.

    The first system of each group stands for the group. Of independent systems all
    three sums of two distances, d_12 + d_34 and so on, are equal: the sum of the four
    error rates. A small sum shows two pairs.

    Args:
        matrix: The distance of each pair of systems (systems, systems).
        groups: The group of each system.
    """
    members = [groups.index(group) for group in dict.fromkeys(groups)]
    if len(members) != 4:
        return False
    first, second, third, fourth = members
    sums = (
        matrix[first, second] + matrix[third, fourth],
        matrix[first, third] + matrix[second, fourth],
        matrix[first, fourth] + matrix[second, third],
    )
    return bool(max(sums) - min(sums) > AMBIGUOUS * max(sums))


def _hat(distances: Floats, i: int, j: int, k: int) -> Any:
    """Return the estimate of system i by systems j and k, of shape (...).

    Args:
        distances: The distances of systems, of shape (..., systems, systems).
        i: The index of the system.
        j: The index of one other system.
        k: The index of the other.
    """
    return (distances[..., i, j] + distances[..., i, k] - distances[..., j, k]) / 2


def _relatives(matrix: Floats, copies: Flags) -> Flags:
    """Return which pairs of systems are relatives, (systems, systems).

    Args:
        matrix: The distance of each pair of systems (systems, systems).
        copies: Which systems are of one group; they are relatives, too.
    """
    related = copies
    for _ in range(ROUNDS):
        rates = np.maximum(_hats(matrix[None], related, copies)[0], LEAST_RATE)
        are_near = matrix < RELATED * (rates[:, None] + rates[None])
        related = copies | are_near
    return related


def _hats(matrices: Floats, related: Flags, copies: Flags) -> Floats:
    """Return the estimate of each system in each sample: the median of its hats over
    all pairs of other systems of which no two, with the system, are relatives.

    Args:
        matrices: The distances (samples, systems, systems).
        related: Which pairs of systems are relatives (systems, systems).
        copies: Which systems are of one group; there are three groups or more.

    Returns:
        Estimates of shape (samples, systems). Where each pair of others has relatives,
        all pairs without copies count.
    """
    system_count = len(related)
    estimates = np.zeros((len(matrices), system_count))
    for i in range(system_count):
        pairs = _pairs_apart(related, i) or _pairs_apart(copies, i)
        hats = [_hat(matrices, i, j, k) for j, k in pairs]
        estimates[:, i] = np.median(np.stack(hats), axis=0)
    return estimates


def _pairs_apart(related: Flags, i: int) -> list[tuple[int, int]]:
    """Return the pairs of systems of which no two are related, also to system i.

    Args:
        related: Which pairs of systems are related (systems, systems); each system is
            to itself.
        i: The index of the system.
    """
    others = np.flatnonzero(~related[i]).tolist()
    return [(j, k) for j, k in combinations(others, 2) if not related[j, k]]


def without_majority(votes: Floats, rates: Floats) -> Floats:
    """Return votes of which no system has more than half, unless its estimate is below
    half of the median.

    Args:
        votes: The votes (systems,).
        rates: The estimates (systems,).
    """
    first = int(votes.argmax())
    others = votes.sum() - votes[first]
    if votes[first] <= others or rates[first] < FAR_BETTER * np.median(rates):
        return votes
    limited = votes.copy()
    limited[first] = others
    return limited


def _shrunk(error_rates: Floats, tolerance: float) -> Floats:
    """Return each error rate divided by the median, moved towards 1 by a factor; almost
    1 if it is nearer to 1 than this factor.

    Args:
        error_rates: The estimates (systems,).
        tolerance: Natural log of the factor.
    """
    logs = np.log(np.maximum(error_rates, LEAST_RATE))
    away = logs - np.median(logs)
    kept = _beyond(away, tolerance) + TIES * _beyond(away, CLEAR)
    return np.asarray(np.exp(kept), dtype=np.float64)


def _beyond(away: Floats, limit: float) -> Floats:
    """Return numbers moved towards 0 by a limit; 0 if they are nearer to 0."""
    return np.asarray(np.sign(away) * np.maximum(0.0, np.abs(away) - limit))
