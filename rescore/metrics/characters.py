"""The character error rate by jiwer (rapidfuzz), and the mixed error rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from rescore.metrics.base import Counts
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import DELETIONS, INSERTIONS, REFERENCE, SUBSTITUTIONS, ErrorRate
from rescore.options import Declared


class CharacterErrorRate(ErrorRate):
    """(substitutions + deletions + insertions) / characters of the reference, in percent."""

    name, unit = "CER", "character"

    @property
    def settings(self) -> dict[str, str]:
        return self.words.settings | {"tok": "char"}

    @property
    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in ("jiwer", "rapidfuzz")}

    pair_losses = ErrorRate.least_losses
    """Edit distances are jiwer's errors."""

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        return _characters(self._units(references), self._units(hypotheses))

    def _units(self, texts: Sequence[str]) -> list[str]:
        whole = replace(self.words, split_characters=False, split_mixed=False)
        shown = {text: " ".join(whole(text)) for text in dict.fromkeys(texts)}
        return [shown[text] for text in texts]


class MixedErrorRate(ErrorRate):
    """The word error rate where each character of Chinese, Japanese and Thai is a word."""

    name = "MER"

    def __init__(self, normaliser: Normaliser | None = None) -> None:
        super().__init__(normaliser)
        self._given = self.words
        self.words = replace(self.words, split_characters=False, split_mixed=True)

    @property
    def options(self) -> Declared:
        return ErrorRate.Options(normaliser=self._given)  # the characters are MER's own: WER keeps its words


def _characters(references: list[str], hypotheses: list[str]) -> Counts:
    import jiwer

    output = jiwer.process_characters(references, hypotheses)
    counts = np.zeros((len(hypotheses), 4), dtype=np.int64)
    for row, chunks, reference in zip(counts, output.alignments, output.references, strict=True):
        row[REFERENCE] = len(reference)
        for chunk in chunks:
            if chunk.type == "substitute":
                row[SUBSTITUTIONS] += chunk.ref_end_idx - chunk.ref_start_idx
            elif chunk.type == "delete":
                row[DELETIONS] += chunk.ref_end_idx - chunk.ref_start_idx
            elif chunk.type == "insert":
                row[INSERTIONS] += chunk.hyp_end_idx - chunk.hyp_start_idx
    return counts
