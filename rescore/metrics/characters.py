"""The character error rate by jiwer (rapidfuzz), and the mixed error rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from rescore.metrics.base import Counts
from rescore.metrics.wer import ErrorRate


class CharacterErrorRate(ErrorRate):
    """(substitutions + deletions + insertions) / characters of the reference, in
    percent.
    """

    name, unit = "CER", "character"

    @property
    def settings(self) -> dict[str, str]:
        return self.words.settings | {"tok": "char"} | self._further_settings

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
    """The word error rate where each character of Chinese, Japanese and Thai is a
    word.
    """

    name = "MER"

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        # These characters are MER's own: its options stay, and WER keeps its words.
        self.words = replace(self.words, split_characters=False, split_mixed=True)


def _characters(references: list[str], hypotheses: list[str]) -> Counts:
    """(n, 4) the columns of `ErrorRate.statistics`, by the alignment of jiwer."""
    from rapidfuzz.distance import Levenshtein

    pairs = zip(references, hypotheses, strict=True)
    edits = (Counter(edit.tag for edit in Levenshtein.editops(*pair)) for pair in pairs)
    counts = [
        [tags[name] for name in ("replace", "delete", "insert")] for tags in edits
    ]
    return np.column_stack(
        [np.array(counts, dtype=np.int64).reshape(-1, 3), list(map(len, references))]
    )
