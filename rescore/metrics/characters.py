"""The character error rate by jiwer, and the mixed error rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rescore.metrics.base import Counts
from rescore.metrics.wer import ErrorRate, WordErrorRate


class CharacterErrorRate(ErrorRate):
    """(substitutions + deletions + insertions) / characters of the reference, in
    percent.
    """

    name, unit = "CER", "character"
    alignment = "jiwer"

    @property
    def settings(self) -> dict[str, str]:
        return self.words.settings | {"tok": "char"} | self._further_settings

    pair_losses = ErrorRate.least_losses
    """Edit distances are jiwer's errors."""

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        return self._edits(self._units(references), self._units(hypotheses))

    def _units(self, texts: Sequence[str]) -> list[str]:
        whole = replace(self.words, split_characters=False, split_mixed=False)
        shown = {text: " ".join(whole(text)) for text in dict.fromkeys(texts)}
        return [shown[text] for text in texts]


class MixedErrorRate(WordErrorRate):
    """The word error rate where each character of Chinese, Japanese and Thai is a
    word.
    """

    name = "MER"

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        # These characters are MER's own: its options stay, and WER keeps its words.
        self.words = replace(self.words, split_characters=False, split_mixed=True)
