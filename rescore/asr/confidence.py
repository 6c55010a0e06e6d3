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

from rescore.asr.written import Token, pieces_of, tokens_of
from rescore.decision.rules import WeightsOf, combine, posteriors
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import NbestList, without_copies

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

    def __init__(self, text: str, hypotheses: Sequence[str], scores: Floats, normaliser: Normaliser = EXACT) -> None:
        """
        Args:
            scores: (hypotheses,) combined, natural log. normaliser: says which words are the same.
        """
        self.text = text
        pieces = pieces_of(text, normaliser)
        self.words = [word for piece in pieces for word in piece.written]
        self.scores = scores
        own = [token for piece in pieces for token in piece.tokens]
        rows = [_opposite(own, tokens_of(other, normaliser)) for other in hypotheses]
        ends = np.cumsum([0, *(len(piece.words) for piece in pieces)])
        # Each written word stands for all that its piece is compared as; a piece that does not count is in all texts.
        spans = [slice(*ends[place : place + 2]) for place, piece in enumerate(pieces) for _ in piece.written]
        self._places = [[row[span] for span in spans] for row in rows]
        same = [[row[span] == own[span] for span in spans] for row in rows]
        self._same = np.array(same, dtype=np.float64).reshape(len(hypotheses), len(self.words))

    def confidences(self, scale: float) -> Floats:
        """(words,) the sum of the posteriors exp(scale * score) of the hypotheses that have the word in its place."""
        return np.asarray(np.minimum(posteriors(self.scores, scale) @ self._same, 1.0))

    def alternatives(self, scale: float, number: int) -> list[tuple[tuple[str, float], ...]]:
        """For each word, at most `number` others in its place."""
        probabilities = posteriors(self.scores, scale)
        order = np.argsort(-probabilities, kind="stable").tolist()
        shown = []
        for place in range(len(self.words)):
            mass: dict[tuple[str, ...], float] = {}  # the words as the most probable hypothesis has them come first
            for index in order:
                if not self._same[index, place]:
                    other = tuple(self._places[index][place])
                    mass[other] = mass.get(other, 0.0) + float(probabilities[index])
            others = sorted(mass.items(), key=lambda item: -item[1])[:number]
            shown.append(tuple((_shown(words), probability) for words, probability in others))
        return shown


def networks(
    lists: Sequence[NbestList], texts: Sequence[str], weights: WeightsOf, normaliser: Normaliser = EXACT
) -> list[ConfusionNetwork]:
    """One per list, for the text that was decided on; `normaliser` says which words are the same."""
    return [
        ConfusionNetwork(
            text, [hypothesis.text for hypothesis in nbest.hypotheses], combine(nbest, weights), normaliser
        )
        for nbest, text in zip(map(without_copies, lists), texts, strict=True)
    ]


def _shown(words: Sequence[str]) -> str:
    """Words as they were written; "" for none."""
    return " ".join(word.written for word in words if isinstance(word, Token))


def _opposite(words: Sequence[Token], others: Sequence[Token]) -> list[str]:
    """What `others` has in the place of each word, "" for no word; words in between count for no place."""
    opposite: list[str] = [""] * len(words)
    for step in Levenshtein.opcodes(words, others):
        if step.tag in ("equal", "replace"):
            opposite[step.src_start : step.src_end] = others[step.dest_start : step.dest_end]
    return opposite
