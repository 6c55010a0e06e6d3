"""The feature `numbers`: a bonus for each number that is written in digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rescore.columns import Reserved, Role
from rescore.config import Bonus, bonus_option
from rescore.features import TextCount
from rescore.metrics.normalise import Normaliser
from rescore.options import Declared


class Numbers(TextCount):
    """a bonus for each number in digits"""

    reserved_columns: ClassVar = {"numbers": Reserved(Role.COUNT, "number")}

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        """The option of the feature."""

        number_bonus: Bonus = bonus_option(
            "Score added for each number in digits.  [default: off]"
        )

    def count(self, text: str, words: Normaliser) -> float:
        """Return the number of words with a digit."""
        return sum(any(map(str.isdigit, word)) for word in words(text))
