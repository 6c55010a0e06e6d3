"""Text in the case that a model knows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

from rescore.scoring.base import LanguageModel, TokenScores, Wrapped


def sentence_case(text: str) -> str:
    """Lower case, but for the first letter."""
    lower = text.lower()
    first = next((index for index, letter in enumerate(lower) if letter.isalpha()), 0)
    return lower[:first] + lower[first : first + 1].upper() + lower[first + 1 :]


CASES: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "sentence": sentence_case}


class Recased(Wrapped):
    """A language model that is given its sentences in another case."""

    def __init__(self, lm: LanguageModel, case: str) -> None:
        """`case` is a key of `CASES`."""
        super().__init__(lm)
        self._case = case

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self._case} {self._lm.fingerprint}".encode()).hexdigest()

    def score(self, sentences: Sequence[str]) -> list[TokenScores]:
        return self._lm.score([re.sub(r"[^\x1e\x1f]+", self._recased, sentence) for sentence in sentences])

    def _recased(self, part: re.Match[str]) -> str:
        """Each text of a hypothesis with its source, or its neighbours, by itself."""
        return CASES[self._case](part[0])
