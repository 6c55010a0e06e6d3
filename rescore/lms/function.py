"""Functions of Python as language models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rescore.errors import UserError, counted
from rescore.lms.base import Question, TokenScores


class FunctionModel:
    """Scores of whole sentences, natural log, by a function; its words count as the
    tokens.
    """

    precision = "float64"

    def __init__(
        self,
        function: Callable[[Sequence[str]], Sequence[float]],
        fingerprint: str = "",
    ) -> None:
        """
        Args:
            fingerprint: of what the function computes, such as a version. Without a
                fingerprint the signature names no model for the column, and the scores
                cannot be kept in a cache.
        """
        self.name = self.model = _name_of(function)
        self.fingerprint = fingerprint
        self._function = function

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, of its text alone."""
        sentences = [question.text for question in questions]
        values = list(self._function(sentences))
        if len(values) != len(sentences):
            raise UserError(
                f"{self.name}: returned {counted(len(values), 'score')} for"
                f" {counted(len(sentences), 'sentence')}"
            )
        try:
            totals = [float(value) for value in values]
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{self.name}: returned scores that are no numbers ({error})"
            ) from None
        return [
            TokenScores(text.split(), np.zeros(len(text.split())), total=value)
            for text, value in zip(sentences, totals, strict=True)
        ]


def _name_of(function: Any) -> str:
    """The function's name; for a partial, that of its function; for a callable object,
    that of its class.
    """
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")
