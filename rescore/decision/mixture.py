"""The first pass of several systems: a mixture of the posteriors of each, weighted by
its votes.

    p(text) = sum over systems j of v_j p_j(text)

Each system has a column of the role `SYSTEM`, which stands at the texts that it wrote:
its score, natural log. The posterior p_j is in proportion to exp(scale_j * score) over
these texts; it is 1 for a system with one text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rescore.columns import FIRST_PASS, unrecognised
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mixture:
    """The votes of systems, whose posteriors make the first pass: from 0 on, not all
    0.
    """

    votes: dict[str, float]
    """Of each system; 0 for a system that does not count."""
    scales: dict[str, float] = field(default_factory=dict)
    """The posterior scale of systems with scores; 1 for the others."""

    def __post_init__(self) -> None:
        numbers = [*self.votes.values(), *self.scales.values()]
        if not all(0 <= number < float("inf") for number in numbers) or not any(
            self.votes.values()
        ):
            raise UserError(
                f"votes are {self.votes}; give numbers from 0 on, one of them above 0"
            )


def applied(mixture: Mixture, nbest: NbestList) -> NbestList:
    """The list with the natural log of the mixture as its first pass; minus infinity
    for texts without votes.

    Where only systems without votes have a text, all systems have equal votes.
    """
    rows = zip(nbest.hypotheses, first_pass(mixture, nbest), strict=True)
    return replace(
        nbest,
        hypotheses=[
            Hypothesis(
                one.text, one.scores | {FIRST_PASS: score}, one.origin, one.times
            )
            for one, score in rows
        ],
    )


def first_pass(mixture: Mixture, nbest: NbestList) -> list[float]:
    """The first pass of `applied`, in the order of the hypotheses."""
    shares = system_posteriors(nbest, list(mixture.votes), mixture.scales)
    return mixed(shares, np.array(list(mixture.votes.values()))).tolist()


def named(mixture: Mixture) -> str:
    """For a person: the systems that have votes, in votes of the system with the
    most.
    """
    rounded = {
        name: f"{vote / max(mixture.votes.values()):.2g}"
        for name, vote in mixture.votes.items()
        if vote
    }
    if len(rounded) == 1:
        return f"{next(iter(rounded))} alone"
    if set(rounded.values()) == {"1"}:
        return f"equal votes of {', '.join(rounded)}"
    return ", ".join(f"{name} {vote}" for name, vote in rounded.items())


def system_texts(lists: Sequence[NbestList], system: str) -> list[str]:
    """The best text of one system in each list; no text where it has none."""
    texts = []
    with_new_words = unrecognised()
    for nbest in lists:
        own = [
            one
            for one in nbest.hypotheses
            if system in one.scores and one.origin not in with_new_words
        ]
        texts.append(max(own, key=lambda one: one.scores[system]).text if own else "")
    return texts


def system_posteriors(
    nbest: NbestList, systems: Sequence[str], scales: Mapping[str, float]
) -> Floats:
    """(hypotheses, systems) the posterior of each text; 0 where the system did not
    write it.

    A hypothesis with new words has the posterior of the hypothesis that it was made of.
    """
    scores = [
        [one.scores.get(name, -math.inf) for name in systems]
        for one in nbest.hypotheses
    ]
    scaled = np.array(scores) * [scales.get(name, 1.0) for name in systems]
    new = unrecognised()
    recognised = np.array([one.origin not in new for one in nbest.hypotheses])
    highest = scaled.max(axis=0)
    shares: Floats = np.exp(scaled - np.where(np.isfinite(highest), highest, 0.0))
    totals = shares[recognised].sum(axis=0)
    return shares / np.where(totals > 0, totals, 1.0)


def mixed(shares: Floats, votes: Floats) -> Floats:
    """(hypotheses,) the natural log of the mixture of posteriors (hypotheses,
    systems).
    """
    total = shares @ votes
    if not total.any():
        total = shares.sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.log(total / max(total.sum(), 1e-300))
