"""Confidences of words: the posterior of each word of a decided text, over the hypotheses of its list.

The decided text is the pivot of a confusion network (Mangu et al. 2000): each hypothesis is aligned with it, and what a
hypothesis has in the place of a word is an alternative to that word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.decision.rules import WeightsOf, combine, posteriors
from rescore.nbest import NbestList

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a decided text."""

    text: str
    confidence: float
    """The probability that it is right."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """What other hypotheses have in its place, with posteriors, the most probable first; "" is no word."""


class ConfusionNetwork:
    """What the hypotheses of one list have in the places of the decided words; posteriors come later."""

    def __init__(self, text: str, hypotheses: Sequence[str], scores: Floats) -> None:
        """scores: (hypotheses,) combined, natural log."""
        self.words = text.split()
        self.scores = scores
        self._places = np.array([_opposite(self.words, other.split()) for other in hypotheses], dtype=object)
        own = np.array(self.words, dtype=object)
        self._same = (self._places == own).astype(np.float64).reshape(len(hypotheses), len(self.words))

    def confidences(self, scale: float) -> Floats:
        """(words,) the sum of the posteriors exp(scale * score) of the hypotheses that have the word in its place."""
        return np.asarray(np.minimum(posteriors(self.scores, scale) @ self._same, 1.0))

    def alternatives(self, scale: float, number: int) -> list[tuple[tuple[str, float], ...]]:
        """For each word, at most `number` others in its place."""
        probabilities = posteriors(self.scores, scale)
        found = []
        for place, word in enumerate(self.words):
            mass: dict[str, float] = {}
            for other, probability in zip(self._places[:, place], probabilities, strict=True):
                if other != word:
                    mass[other] = mass.get(other, 0.0) + float(probability)
            found.append(tuple(sorted(mass.items(), key=lambda item: -item[1])[:number]))
        return found


def networks(lists: Sequence[NbestList], texts: Sequence[str], weights: WeightsOf) -> list[ConfusionNetwork]:
    """One per list, for the text that was decided on."""
    return [
        ConfusionNetwork(text, [hypothesis.text for hypothesis in nbest.hypotheses], combine(nbest, weights))
        for nbest, text in zip(lists, texts, strict=True)
    ]


def _opposite(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """What `others` has in the place of each word, "" for no word; words in between count for no place."""
    found = [""] * len(words)
    for step in Levenshtein.opcodes(words, others):
        if step.tag in ("equal", "replace"):
            found[step.src_start : step.src_end] = others[step.dest_start : step.dest_end]
    return found
