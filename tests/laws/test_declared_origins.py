"""An expansion gives its hypotheses an origin that a feature declares: each declared
origin is taken, and another is refused before it stands in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from rescore.columns import all_origins
from rescore.errors import UserError
from rescore.expansion import Expansion, expanded
from rescore.nbest import Hypothesis, NbestList


class Adding(Expansion):
    """Adds a hypothesis of an origin."""

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        for nbest in lists:
            new = Hypothesis("b", {"s2s": -1.0}, self._origin)
            yield replace(nbest, hypotheses=[*nbest.hypotheses, new])


def texts(*names: str) -> list[str]:
    lists = [NbestList("u", [Hypothesis("a", {"s2s": 0.0})])]
    (nbest,) = expanded(list(map(Adding, names)), lists)
    return [hypothesis.text for hypothesis in nbest.hypotheses]


@pytest.mark.parametrize("origin", all_origins())
def test_a_declared_origin_is_taken(origin: str) -> None:
    assert texts(origin) == ["a", "b"]
    assert texts(origin, "first_pass") == ["a", "b", "b"]


def test_another_origin_is_refused_wherever_it_comes_from() -> None:
    for names in (("invented",), ("invented", "merged"), ("merged", "invented")):
        with pytest.raises(UserError, match="'invented', which no feature declares"):
            texts(*names)
