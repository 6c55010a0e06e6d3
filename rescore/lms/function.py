"""Functions of Python as language models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from rescore.errors import UserError, counted
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Kind,
    Question,
    Spec,
    TokenScores,
)

SentenceScores = Callable[[Sequence[str]], Sequence[float]]
"""A function that returns the log-probability (natural log) of each sentence."""

UNNAMED = "function"
"""The column of a lambda: tables call weights lambda."""


class FunctionModel:
    """A function as a language model: it returns scores of whole sentences, natural
    log. Words count as the tokens.
    """

    precision = "float64"
    capabilities = Capabilities(by_words=True)

    def __init__(
        self,
        function: SentenceScores,
        fingerprint: str = "",
        name: str = "",
    ) -> None:
        """Make the model of a function.

        Args:
            function: Returns a score for each sentence.
            fingerprint: Names what the function computes, such as a version. Without a
                fingerprint the signature names no model for the column, and the scores
                cannot be kept in a cache.
            name: The name of the column; empty for the name of the function, which is
                `function` for a lambda.
        """
        self.name = name or _name_of(function)
        self.model = self.name
        self.fingerprint = fingerprint
        self._function = function

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """Return the scores of each question's text, in their order.

        Args:
            questions: The questions.

        Raises:
            UserError: The function returned another number of scores, or scores that
                are not numbers.
        """
        sentences = [question.text for question in questions]
        returned: Any = self._function(sentences)
        if not isinstance(returned, Iterable):
            raise UserError(
                f"{self.name}: returned {returned!r:.60}; return a score for each"
                " sentence"
            )
        values = list(returned)
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
        results = []
        for text, total in zip(sentences, totals, strict=True):
            words = text.split()
            results.append(TokenScores(words, np.zeros(len(words)), total=total))
        return results


class FunctionKind(Kind):
    """A kind whose only model is a function; it is named without a path."""

    place = ""
    computes = False
    function: ClassVar[SentenceScores]
    """Returns the log-probability of each sentence."""

    def load(self, spec: Spec, computing: ComputeOptions) -> FunctionModel:
        """Return the function as a model with the name of the kind.

        The attribute `fingerprint` of the function, if it has one, names what the
        function computes.
        """
        function = type(self).function
        fingerprint = str(getattr(function, "fingerprint", ""))
        return FunctionModel(function, fingerprint, self.name)


@cache
def kind_of_function(function: SentenceScores) -> type[FunctionKind]:
    """Return the class of the kind whose model is a function.

    Args:
        function: Returns the log-probability of each sentence.
    """
    attributes = {"function": staticmethod(function), "__doc__": function.__doc__}
    return type("NamedFunctionKind", (FunctionKind,), attributes)


def _name_of(function: Any) -> str:
    """Return the name of a function, of the function in a partial, or of the class of a
    callable object; `function` for a lambda, whose name is no name of its own.
    """
    while isinstance(function, partial):
        function = function.func
    name = str(getattr(function, "__name__", type(function).__name__))
    return UNNAMED if name.startswith("<") else name
