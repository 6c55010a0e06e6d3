"""A function of sentences as a language model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from rescore.errors import UserError
from rescore.scoring.base import Question, TokenScores


class FunctionModel:
    """Scores of whole sentences, natural log, by a function; its words count as the tokens."""

    precision = "float64"

    def __init__(self, function: Callable[[Sequence[str]], Sequence[float]]) -> None:
        self.name = self.model = getattr(function, "__name__", type(function).__name__).strip("<>")
        self._function = function

    @property
    def fingerprint(self) -> str:
        """Of its code, as far as Python shows that."""
        code = getattr(self._function, "__code__", None)
        content = repr((code.co_code, code.co_consts)) if code else repr(type(self._function))
        return hashlib.sha256(content.encode()).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, of its text alone.

        Raises:
            UserError: the function returned another number of scores.
        """
        sentences = [question.text for question in questions]
        values = list(self._function(sentences))
        if len(values) != len(sentences):
            raise UserError(f"{self.name}: returned {len(values)} scores for {len(sentences)} sentences")
        return [
            TokenScores(text.split(), np.zeros(len(text.split())), total=float(value))
            for text, value in zip(sentences, values, strict=True)
        ]
