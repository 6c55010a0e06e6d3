"""What the tables of cases from the test suites of other tools share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from rescore.errors import UserError

REFUSED = "refused"
"""The answer to a case that the tool, or `rescore`, refuses with an error."""


@dataclass(frozen=True)
class Case:
    """A case of a test suite, and the question that `rescore` answers for it."""

    question: Callable[..., Any]
    given: tuple[Any, ...]
    """The arguments of the question."""
    expected: Any
    """What the tool gives: a number, a list, or `REFUSED`."""

    def answer(self) -> Any:
        """Return what `rescore` gives."""
        try:
            return self.question(*self.given)
        except UserError:
            return REFUSED


@dataclass(frozen=True)
class Suite:
    """The cases of one tool that have a counterpart in `rescore`."""

    tool: str
    """The name and the version of the tool, as the docs write them."""
    cases: Mapping[str, Case]
    different: Mapping[str, Sequence[str]]
    """Why cases differ, and the names of these cases."""
    within: float
    """How far a number may be from the expected number."""

    @property
    def tried(self) -> int:
        """The number of cases."""
        return len(self.cases)

    @property
    def equal(self) -> int:
        """The number of cases for which `rescore` gives what the tool gives."""
        return self.tried - len(self.names_of_different())

    def names_of_different(self) -> list[str]:
        """Return the names of the cases that differ."""
        return [name for names in self.different.values() for name in names]

    def check(self, name: str) -> None:
        """Assert that a case is equal, or that it differs as the table says."""
        case = self.cases[name]
        answer = case.answer()
        if name in self.names_of_different():
            assert not self._are_equal(answer, case.expected), "no longer different"
        else:
            assert self._are_equal(answer, case.expected), (answer, case.expected)

    def _are_equal(self, answer: Any, expected: Any) -> bool:
        if isinstance(answer, str) or isinstance(expected, str):
            return bool(answer == expected)
        if _is_of_numbers(expected):
            return bool(answer == pytest.approx(expected, abs=self.within, rel=0.0))
        return bool(answer == expected)


def _is_of_numbers(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, int | float) for item in value)
    return isinstance(value, int | float)


def numbered(
    test: str, question: Callable[..., Any], rows: Iterable[Sequence[Any]]
) -> dict[str, Case]:
    """Return cases that are named after a test of the suite and numbered from 1.

    Args:
        test: The name of the test.
        question: What is asked of `rescore`.
        rows: The arguments of the question, and the expected answer.
    """
    cases = {}
    for number, (*given, expected) in enumerate(rows, 1):
        cases[f"{test} {number}"] = Case(question, tuple(given), expected)
    return cases
