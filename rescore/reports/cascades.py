"""What became of the proposed hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from rescore import decision
from rescore.errors import counted
from rescore.metrics import Metric
from rescore.metrics.base import losses_of
from rescore.nbest import FIRST_PASS, NbestList, Origin


@dataclass(frozen=True, slots=True)
class AgainstFirstPass:
    """Texts under the first metric, each beside the first pass's best of its list; 0 for lists without references."""

    texts: Annotated[int, Meta(description="All of them.")]
    better: Annotated[int, Meta(description="Those that are better.")] = 0
    equal: Annotated[int, Meta(description="Those that are as good.")] = 0
    worse: Annotated[int, Meta(description="Those that are worse.")] = 0

    def __str__(self) -> str:
        effects = (("better", self.better), ("equal", self.equal), ("worse", self.worse))
        named = ", ".join(f"{number:,} {name}" for name, number in effects)
        return f"{self.texts:,}" + (f" ({named})" if any(number for _, number in effects) else "")


@dataclass(frozen=True, slots=True)
class Proposed:
    """The proposals in lists."""

    utterances: Annotated[int, Meta(description="All lists.")]
    lists: Annotated[int, Meta(description="Lists with a proposal: a text that the list did not have.")]
    proposals: Annotated[AgainstFirstPass, Meta(description="All proposals.")]
    chosen: Annotated[AgainstFirstPass, Meta(description="The proposals that were chosen.")]

    def __str__(self) -> str:
        """One line for a person."""
        share = 100 * self.lists / self.utterances
        return (
            f"proposals: in {self.lists:,} of {counted(self.utterances, 'list')} ({share:.0f} %); "
            f"against the first pass: all {self.proposals}, chosen {self.chosen}"
        )


def proposed(metric: Metric | None, lists: Sequence[NbestList], texts: Sequence[str]) -> Proposed | None:
    """
    Args:
        metric: None for lists without references. texts: the choices, one per list.

    Returns:
        None for lists without proposals.
    """
    proposals = [
        (nbest, hypothesis.text, hypothesis.text == text)
        for nbest, text in zip(lists, texts, strict=True)
        for hypothesis in nbest.hypotheses
        if hypothesis.origin is Origin.PROPOSED
    ]
    if not proposals:
        return None
    chosen = [proposal for proposal in proposals if proposal[2]]
    number = len({id(nbest) for nbest, *_ in proposals})
    return Proposed(len(lists), number, _against(metric, proposals), _against(metric, chosen))


def _against(metric: Metric | None, proposals: Sequence[tuple[NbestList, str, bool]]) -> AgainstFirstPass:
    measured = [(nbest, text) for nbest, text, _ in proposals if nbest.references]
    if metric is None or not measured:
        return AgainstFirstPass(len(proposals))
    lists, texts = [nbest for nbest, _ in measured], [text for _, text in measured]
    first = decision.best(lists, {FIRST_PASS: 1.0})
    before = [nbest.hypotheses[place].text for nbest, place in zip(lists, first, strict=True)]
    effects = np.sign(losses_of(metric, lists, texts) - losses_of(metric, lists, before)).tolist()
    return AgainstFirstPass(len(proposals), effects.count(-1), effects.count(0), effects.count(1))
