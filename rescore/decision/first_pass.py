"""A first pass that several columns make together, where several systems wrote the
lists. A list of one system has its own first pass, the column `FIRST_PASS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from rescore.nbest import NbestList
from rescore.parts import FIRST_PASS_OF_SYSTEMS, resolve


class FirstPass(ABC):
    """What makes the first pass of lists of several systems: a record that weights
    decide with, and that files hold beside them.

    The class of all records is `rescore.parts.FIRST_PASS_OF_SYSTEMS`, a dataclass.
    """

    __slots__ = ()

    title: ClassVar[str]
    """The name of this first pass in tables, without an article."""
    subject: ClassVar[str]
    """What decides by this first pass, in a sentence."""
    enough: ClassVar[int]
    """Number of lists with references from which on it is worth tuning."""
    fewest: ClassVar[int]
    """Number of systems below which `few` is not true."""
    few: ClassVar[str]
    """What is wrong with a record that is tuned on fewer lists; `%s` is their
    number.
    """

    @abstractmethod
    def scores(self, nbest: NbestList) -> list[float]:
        """Return the first-pass score of each hypothesis, natural log, in the order of
        the hypotheses.
        """

    @abstractmethod
    def misfit(self, systems: Sequence[str]) -> str | None:
        """Return why the record does not suit lists of these systems; None if it
        does.
        """

    @property
    @abstractmethod
    def sole(self) -> str | None:
        """The only system that counts; None if several systems count."""

    @property
    @abstractmethod
    def origin(self) -> str | None:
        """Where the record comes from, for signatures; None if it was tuned."""

    @property
    @abstractmethod
    def shares(self) -> Mapping[str, float]:
        """How much each system counts, by the name that signatures have."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the line of reports about the record."""

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Return the record that a file holds.

        Args:
            value: The JSON value.

        Raises:
            msgspec.ValidationError: The value is no such record.
            UserError: A number is not usable.
        """
        made_of: Any = class_of_records()
        record: Self = msgspec.convert(value, made_of, strict=True)
        return record


def class_of_records() -> type[FirstPass]:
    """Return the class of the first pass of several systems."""
    record: type[FirstPass] = resolve(FIRST_PASS_OF_SYSTEMS)
    return record
