"""Confidences that are probabilities: the scale of posteriors, and a map on top of it, learned on dev lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescore.decision.confidence import ConfusionNetwork, Word, networks
from rescore.errors import UserError
from rescore.metrics.alignment import align
from rescore.metrics.alternatives import nearest
from rescore.metrics.confidence import Quality, quality
from rescore.metrics.normalise import Normaliser
from rescore.nbest import NbestList
from rescore.tuning.folds import Folds, split
from rescore.tuning.scale import SCALES
from rescore.tuning.weights import Weights

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
FOLDS = 5
FEW = 10
"""Lists from which on a map is considered."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Posteriors exp(scale * score), and where `levels` are given, a rising step function of the word's posterior."""

    scale: float = 1.0
    starts: tuple[float, ...] = ()
    """The posterior from which on each level holds."""
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
        """The words of a decided text with their confidences, and at most so many alternatives each."""
        others = network.alternatives(self.scale, alternatives) if alternatives else [()] * len(network.words)
        confidences = self.confidences(network)
        return [
            Word(word, float(confidence), other)
            for word, confidence, other in zip(network.words, confidences, others, strict=True)
        ]

    @property
    def signature(self) -> str:
        return f"scale={self.scale:g}" + (f",isotonic={len(self.levels)}" if self.levels else "")


UNCALIBRATED = Calibration()


def correct(network: ConfusionNetwork, references: Sequence[str], normaliser: Normaliser) -> Flags:
    """(words,) whether each word of a decided text is right, by sclite's alignment with the nearest reference."""
    words = [" ".join(normaliser(word)) for word in network.words]
    kept = np.array([bool(word) for word in words], dtype=bool)
    best = np.zeros(int(kept.sum()), dtype=bool)
    for reference in references:
        heard = [word for word in words if word]
        pairs = align(nearest(normaliser.readings(reference, reference=True), [[heard]])[0], heard)
        flags = np.array([one == other for one, other in pairs if other is not None], dtype=bool)
        best = flags if flags.sum() >= best.sum() else best
    result = ~kept  # what does not count as a word is no error
    result[kept] = best
    return result


def measure(
    calibration: Calibration, lists: Sequence[NbestList], found: Sequence[ConfusionNetwork], normaliser: Normaliser
) -> Quality:
    """How good the confidences of decided texts are, on lists with references."""
    flags = [correct(network, nbest.references, normaliser) for network, nbest in zip(found, lists, strict=True)]
    return quality(
        _joined([calibration.confidences(network) for network in found]), np.concatenate([*flags, []]).astype(bool)
    )


def calibrate(
    lists: Sequence[NbestList], texts: Sequence[str], weights: Weights, normaliser: Normaliser
) -> Calibration:
    """The scale with the best normalised cross entropy; with isotonic regression on top where folds gain by it.

    Args:
        texts: what was decided for each list. Lists need references.

    Raises:
        UserError: a list has no reference, or all words are right, or none.
    """
    for nbest in lists:
        if not nbest.references:
            raise UserError(f"utterance {nbest.id}: no reference; confidences are calibrated on lists with references")
    found = networks(lists, texts, weights.of)
    flags = [correct(network, nbest.references, normaliser) for network, nbest in zip(found, lists, strict=True)]
    every = np.concatenate([*flags, np.empty(0, dtype=bool)])
    if every.all() or not every.any():
        raise UserError("all words of the dev lists are right, or all wrong; confidences cannot be calibrated on them")
    scale = _best_scale(found, every)
    raw = [network.confidences(scale) for network in found]
    plain = Calibration(scale)
    if len(lists) < FEW:
        return plain
    folds = split([nbest.id for nbest in lists], FOLDS)
    gains = quality(_in_folds(folds, raw, flags), every).nce > quality(_joined(raw), every).nce
    return _isotonic(scale, _joined(raw), every) if gains else plain


def _best_scale(found: Sequence[ConfusionNetwork], every: Flags) -> float:
    values = [quality(_joined([network.confidences(scale) for network in found]), every).nce for scale in SCALES]
    return SCALES[int(np.argmax(values))]


def _in_folds(folds: Folds, raw: Sequence[Floats], flags: Sequence[Flags]) -> Floats:
    """Each list's confidences by a map that was learned on the other folds."""
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

    A level of n words of which k are right is (k + 1) / (n + 2): never 0 or 1.
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
