"""Text in the case that a model knows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from rescore.scoring.base import LanguageModel, Question, TokenScores, Wrapped, as_scored


def sentence_case(text: str) -> str:
    """Lower case, but for the first letter."""
    lower = text.lower()
    first = next((index for index, letter in enumerate(lower) if letter.isalpha()), 0)
    return lower[:first] + lower[first : first + 1].upper() + lower[first + 1 :]


CASES: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "sentence": sentence_case}


class Recased(Wrapped):
    """A language model that is given its texts, their sources and neighbours in another case."""

    def __init__(self, lm: LanguageModel, case: str) -> None:
        """`case` is a key of `CASES`."""
        super().__init__(lm)
        self._case = case

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self._case} {self._lm.fingerprint}".encode()).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        return self._lm.score([self._recased(one) for one in questions])

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """The same, as the model gives them."""
        return as_scored(self._lm, [self._recased(one) for one in questions])

    def _recased(self, question: Question) -> Question:
        case = CASES[self._case]
        source = None if question.source is None else case(question.source)
        return Question(
            case(question.text), source, tuple(map(case, question.before)), tuple(map(case, question.after))
        )
