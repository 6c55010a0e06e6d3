"""Language models around another language model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rescore.lms.base import (
    LanguageModel,
    Question,
    Streamed,
    TokenScores,
    as_scored,
    capabilities_of,
)


class Wrapped(Streamed):
    """A language model around another model: it is like the other in all that arguments
    or a subclass do not change.

    It also takes plain sentences.
    """

    def __init__(
        self, lm: LanguageModel, model: str | None = None, **changed: Any
    ) -> None:
        """
        Args:
            changed: capabilities, by name.
        """
        self.name, self.model = lm.name, model or lm.model
        self.capabilities = replace(capabilities_of(lm), vectors=False, **changed)
        self._lm = lm

    def __repr__(self) -> str:
        """What signatures show of it."""
        return f"<LanguageModel {self.name}: {self.fingerprint[:12]}, {self.precision}>"

    @property
    def fingerprint(self) -> str:
        return self._lm.fingerprint

    @property
    def precision(self) -> str:
        return self._lm.precision

    def score(self, questions: Sequence[str | Question]) -> list[TokenScores]:
        """One result per sentence or question, in their order."""
        return super().score(
            [Question(text) if isinstance(text, str) else text for text in questions]
        )

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their results, in the order of the other model."""
        return as_scored(self._lm, questions)


def sentence_case(text: str) -> str:
    """Lower case, but for the first letter."""
    lower = text.lower()
    first = next((index for index, letter in enumerate(lower) if letter.isalpha()), 0)
    return lower[:first] + lower[first : first + 1].upper() + lower[first + 1 :]


CASES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "sentence": sentence_case,
}


class Recased(Wrapped):
    """A language model that is given its texts, their sources and neighbours in another
    case.
    """

    def __init__(self, lm: LanguageModel, case: str) -> None:
        """`case` is a key of `CASES`."""
        super().__init__(lm)
        self._case = case

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(
            f"{self._case} {self._lm.fingerprint}".encode()
        ).hexdigest()

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their results, in the order of the model."""
        return super().as_scored([self._recased(question) for question in questions])

    def _recased(self, question: Question) -> Question:
        case = CASES[self._case]
        source = None if question.source is None else case(question.source)
        before, after = (
            tuple(map(case, question.before)),
            tuple(map(case, question.after)),
        )
        return replace(
            question,
            text=case(question.text),
            source=source,
            before=before,
            after=after,
        )
