"""Confidences: how good they are (NCE, ECE), and how they are calibrated on dev lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rescore.asr.confidence import ConfusionNetwork, Word, networks
from rescore.asr.written import pieces_of
from rescore.errors import UserError
from rescore.metrics.alignment import align
from rescore.metrics.normalise import Normaliser
from rescore.metrics.significance import Folds, split
from rescore.nbest import NbestList
from rescore.tuning.scale import scale_grid, warn_at_end
from rescore.tuning.weights import Weights

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
BINS = 10
NEAREST = 1e-6
"""To 0 or 1; a confidence of 0 for a right word would cost infinitely much."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Of confidences of words whose correctness is known."""

    words: int
    correct: float
    """The share of right words."""
    nce: float
    """Normalised cross entropy (NIST): 1 for perfect confidences, 0 for confidences equal to the share of right
    words."""
    ece: float
    """Expected calibration error: mean distance of confidence and share of right words, over 10 bins."""
    auroc: float
    """Probability that a right word has a higher confidence than a wrong one."""

    def __str__(self) -> str:
        return f"NCE {self.nce:.3f}  ECE {self.ece:.3f}  AUROC {self.auroc:.3f}"


def quality(confidences: Floats, correct: Flags) -> Quality:
    """confidences, correct: (words,). Measures that are not defined, as where all words are right, are NaN."""
    number, right = len(correct), int(correct.sum())
    share = right / number if number else math.nan
    return Quality(
        number, share, _normalised_cross_entropy(confidences, correct), _calibration(confidences, correct),
        _area(confidences, correct),
    )  # fmt: skip


def _normalised_cross_entropy(confidences: Floats, correct: Flags) -> float:
    """(H_max + sum of log2 c over right words + sum of log2 (1 - c) over wrong ones) / H_max."""
    number, right = len(correct), int(correct.sum())
    if right in (0, number):
        return math.nan
    share = right / number
    most = -right * math.log2(share) - (number - right) * math.log2(1 - share)
    clipped = confidences.clip(NEAREST, 1 - NEAREST)
    return float((most + np.log2(np.where(correct, clipped, 1 - clipped)).sum()) / most)


def _calibration(confidences: Floats, correct: Flags) -> float:
    if not len(correct):
        return math.nan
    bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
    distance = np.bincount(bins, confidences - correct, BINS)
    return float(np.abs(distance).sum() / len(correct))


def _area(confidences: Floats, correct: Flags) -> float:
    """The Mann-Whitney statistic; equal confidences count half."""
    right, wrong = int(correct.sum()), int((~correct).sum())
    if not right or not wrong:
        return math.nan
    _, which, counts = np.unique(confidences, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return float((ranks[correct].sum() - right * (right + 1) / 2) / (right * wrong))


FOLDS = 5
FEW = 10
"""Number of lists from which a map is considered."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Posteriors exp(scale * score), and where `levels` are given, a rising step function of the word's posterior."""

    scale: float = 1.0
    starts: tuple[float, ...] = ()
    """The lowest posterior of each level."""
    levels: tuple[float, ...] = ()
    """The probability that a word is right."""

    def confidences(self, network: ConfusionNetwork) -> Floats:
        """(words,)."""
        return self._mapped(network.confidences(self.scale))

    def _mapped(self, posteriors: Floats) -> Floats:
        if not self.levels:
            return posteriors
        place = np.searchsorted(self.starts, posteriors, side="right") - 1
        return np.asarray(self.levels)[place.clip(min=0)]

    def words(self, network: ConfusionNetwork, alternatives: int = 0) -> list[Word]:
        """The words of a decided text with their confidences, each with at most `alternatives` alternatives."""
        alternatives_of = network.alternatives(self.scale, alternatives) if alternatives else [()] * len(network.words)
        posteriors = network.confidences(self.scale)
        return [
            Word(word, confidence, self._shared(alternatives_of_word, posterior, confidence))
            for word, posterior, confidence, alternatives_of_word in zip(
                network.words, posteriors.tolist(), self._mapped(posteriors).tolist(), alternatives_of, strict=True
            )
        ]

    def _shared(
        self, alternatives: tuple[tuple[str, float], ...], posterior: float, confidence: float
    ) -> tuple[tuple[str, float], ...]:
        """Alternatives share the probability left by the word's confidence, in proportion to their posteriors."""
        if not self.levels or posterior >= 1:
            return alternatives
        factor = (1 - confidence) / (1 - posterior)
        return tuple((word, factor * probability) for word, probability in alternatives)

    @property
    def signature(self) -> str:
        return f"scale={self.scale:g}" + (f",isotonic={len(self.levels)}" if self.levels else "")


UNCALIBRATED = Calibration()


def correct(network: ConfusionNetwork, references: Sequence[str], normaliser: Normaliser) -> Flags:
    """(words,) whether each word of a decided text is right, by sclite's alignment with the nearest reference.

    A word that is compared as several words is right if all of these are right; a word that does not count is no error.
    """
    pieces = pieces_of(network.text, normaliser)
    heard = [word for piece in pieces for word in piece.words]
    best: list[bool] = [False] * len(heard)
    for reference in references:
        pairs = align(normaliser(reference), heard)
        flags = [expected == spoken for expected, spoken in pairs if spoken is not None]
        best = flags if sum(flags) >= sum(best) else best
    ends = np.cumsum([0, *(len(piece.words) for piece in pieces)])
    right = [all(best[begin:end]) for begin, end in pairwise(ends.tolist())]
    return np.repeat(np.array(right, dtype=bool), [len(piece.written) for piece in pieces])


def measure(
    calibration: Calibration, lists: Sequence[NbestList], decided: Sequence[ConfusionNetwork], normaliser: Normaliser
) -> Quality:
    """How good the confidences of decided texts are, on lists with references."""
    flags = [correct(network, nbest.references, normaliser) for network, nbest in zip(decided, lists, strict=True)]
    return quality(
        _joined([calibration.confidences(network) for network in decided]), np.concatenate([*flags, []]).astype(bool)
    )


def calibrate(
    lists: Sequence[NbestList], texts: Sequence[str], weights: Weights, normaliser: Normaliser
) -> Calibration:
    """The scale with the best normalised cross entropy; with isotonic regression on top if folds gain by it.

    Args:
        texts: the decided text of each list. Lists need references.

    Raises:
        UserError: a list has no reference, or the words are all right or all wrong.
    """
    for nbest in lists:
        if not nbest.references:
            raise UserError(f"utterance {nbest.id}: no reference; confidences are calibrated on lists with references")
    decided = networks(lists, texts, weights.of, normaliser)
    flags = [correct(network, nbest.references, normaliser) for network, nbest in zip(decided, lists, strict=True)]
    every = np.concatenate([*flags, np.empty(0, dtype=bool)])
    if every.all() or not every.any():
        raise UserError("all words of the dev lists are right, or all wrong; confidences cannot be calibrated on them")
    scale = _best_scale(decided, every)
    raw = [network.confidences(scale) for network in decided]
    plain = Calibration(scale)
    if len(lists) < FEW:
        return plain
    folds = split([nbest.id for nbest in lists], FOLDS)
    gains = quality(_in_folds(folds, raw, flags), every).nce > quality(_joined(raw), every).nce
    return _isotonic(scale, _joined(raw), every) if gains else plain


def _best_scale(decided: Sequence[ConfusionNetwork], every: Flags) -> float:
    grid = scale_grid([network.scores for network in decided])
    values = [quality(_joined([network.confidences(scale) for network in decided]), every).nce for scale in grid]
    scale = grid[int(np.argmax(values))]
    warn_at_end(scale, grid, "confidences")
    return scale


def _in_folds(folds: Folds, raw: Sequence[Floats], flags: Sequence[Flags]) -> Floats:
    """The confidences of each list by a map learned on the other folds."""
    result: list[Floats] = list(raw)
    for fold in range(folds.number):
        rest = [index for index, place in enumerate(folds.fold) if place != fold]
        learned = _isotonic(
            1.0, _joined([raw[index] for index in rest]), np.concatenate([flags[index] for index in rest])
        )
        for index, place in enumerate(folds.fold):
            if place == fold:
                result[index] = learned._mapped(raw[index])
    return _joined(result)


def _isotonic(scale: float, posteriors: Floats, right: Flags) -> Calibration:
    """The rising step function nearest to the flags (pool adjacent violators; Zadrozny and Elkan 2002).

    A level of n words, k of them right, is (k + 1) / (n + 2): never 0 or 1.
    """
    order = np.argsort(posteriors, kind="stable")
    values, begins = np.unique(posteriors[order], return_index=True)
    sums = np.add.reduceat(right[order].astype(float), begins)
    counts = np.diff([*begins, len(order)]).astype(float)
    blocks: list[tuple[float, float, float]] = []  # start, right words, words
    for start, total, count in zip(values, sums, counts, strict=True):
        block = (float(start), float(total), float(count))
        while blocks and blocks[-1][1] * block[2] >= block[1] * blocks[-1][2]:
            before = blocks.pop()
            block = (before[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    levels = np.maximum.accumulate([(total + 1) / (count + 2) for _, total, count in blocks])
    return Calibration(scale, tuple(start for start, _, _ in blocks), tuple(float(level) for level in levels))


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([*parts, np.empty(0)])
