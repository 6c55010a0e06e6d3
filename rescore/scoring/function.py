"""A function of sentences as a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rescore.errors import UserError
from rescore.scoring.base import Question, TokenScores
from rescore.scoring.content import content_of


class FunctionModel:
    """Scores of whole sentences, natural log, by a function; its words count as the tokens."""

    precision = "float64"

    def __init__(self, function: Callable[[Sequence[str]], Sequence[float]]) -> None:
        self.name = self.model = _name_of(function)
        self._function = function

    @property
    def fingerprint(self) -> str:
        """Of the function's content (`rescore.scoring.content`)."""
        return content_of(self._function)

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


def _name_of(function: Any) -> str:
    """Its own; that of what a partial calls; the class's of a callable object."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")
