"""How one text is chosen from a list: the rules, and a decision, which is a rule with its scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rescore.decision.combine import WeightsOf, combine, posteriors
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.nbest import NbestList
from rescore.parts import DECISIONS

Floats = npt.NDArray[np.float64]
PAIRS = 1 << 22
"""Of hypotheses of one list that are compared before a text is chosen."""


Losses = Callable[[Metric, Sequence[NbestList]], list[Floats]]
"""Of each list the (hypotheses, hypotheses) loss of choosing one where the other is right."""


class DecisionRule(Protocol):
    """Chooses a text for each list.

    A rule that chooses the least expected loss has `losses`, a function as `Losses`, too: weights and scale are then
    tuned together.
    """

    needs_scale: bool
    """Whether `choose` takes posteriors exp(scale * score); else it takes the scores themselves."""

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[Any]:
        """What `choose` needs to know of each list, whatever the scale: computed once for all scales."""
        ...

    def choose(self, nbest: NbestList, preference: Floats, prepared: Any) -> str:
        """The text chosen from a list, given the posterior or score (hypotheses,) of each hypothesis."""
        ...


class Best:
    """The hypothesis with the best score, the first of equals."""

    needs_scale = False

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Sequence[Any]:
        return [None] * len(lists)

    def choose(self, nbest: NbestList, preference: Floats, prepared: Any) -> str:
        return nbest.hypotheses[int(np.argmax(preference))].text


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule of `DECISIONS`, and the scale of the posteriors exp(scale * score), where the rule needs one.

    Raises:
        UserError: there is no such rule, or the scale is not above 0.
    """

    name: str = "best"
    scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", DECISIONS.check(self.name))
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise UserError(f"the scale of a decision is {self.scale:g}; it must be a number above 0")

    @property
    def needs_scale(self) -> bool:
        """Whether the rule needs a scale that is not there yet."""
        return self.scale is None and bool(DECISIONS[self.name].needs_scale)

    @property
    def losses(self) -> Losses | None:
        """Those of a rule that chooses the least expected one."""
        found: Losses | None = getattr(DECISIONS[self.name], "losses", None)
        return found

    def texts(self, metric: Metric | None, lists: Sequence[NbestList], weights: WeightsOf) -> list[str]:
        """The text that is chosen for each list.

        Raises:
            UserError: the rule needs a scale, or a metric, that is not given.
        """
        texts: list[str] = []
        for some in _portions(lists):
            texts += Chooser(self.name, metric, some, weights).texts(self.scale)
        return texts


def _portions(lists: Sequence[NbestList]) -> Iterator[list[NbestList]]:
    """Lists that a rule is given together: what it needs to know of them may grow with the square of their lengths."""
    some: list[NbestList] = []
    pairs = 0
    for nbest in lists:
        pairs += len(nbest.hypotheses) ** 2
        if some and pairs > PAIRS:
            yield some
            some, pairs = [], len(nbest.hypotheses) ** 2
        some.append(nbest)
    if some:
        yield some


class Chooser:
    """One rule on given lists, for one scale after another."""

    def __init__(self, name: str, metric: Metric | None, lists: Sequence[NbestList], weights: WeightsOf) -> None:
        self._name, self._lists = name, lists
        self._rule: DecisionRule = DECISIONS[name]()
        self._scores = [combine(nbest, weights) for nbest in lists]
        self._prepared = self._rule.prepare(lists, metric)

    def texts(self, scale: float | None) -> list[str]:
        """The text that is chosen for each list.

        Raises:
            UserError: the rule needs a scale, and it is None.
        """
        preferences = self._scores
        if self._rule.needs_scale:
            if scale is None:
                raise UserError(
                    f"{self._name} needs the scale of posteriors; give --scale, or --dev lists to tune it on"
                )
            preferences = [posteriors(scores, scale) for scores in self._scores]
        return [
            self._rule.choose(nbest, preference, prepared)
            for nbest, preference, prepared in zip(self._lists, preferences, self._prepared, strict=True)
        ]
