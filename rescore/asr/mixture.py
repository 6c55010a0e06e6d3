"""The first pass of several systems: a mixture of the posteriors of each, weighted by
its votes.

    p(text) = sum over systems j of v_j p_j(text)

Each system has a column of the role `SYSTEM`, with a score (natural log) for each text
that the system wrote. The posterior p_j is proportional to exp(scale_j * score) over
these texts; it is 1 for a system with one text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rescore.columns import FIRST_PASS, new_word_origins
from rescore.decision.first_pass import FirstPass
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList

Floats = npt.NDArray[np.float64]
AGREEMENT = "agreement"
"""Where votes come from that follow from the agreement of the systems: the name in
signatures, and as a value of --votes.
"""


@dataclass(frozen=True, slots=True)
class Mixture(FirstPass):
    """The votes of systems, whose posteriors make the first pass.

    Raises:
        UserError: A number is negative or not finite, or all votes are 0.
    """

    title: ClassVar = "mixture"
    subject: ClassVar = "the votes of the systems"
    enough: ClassVar = 200
    """From this number on, tuned votes are about as good as votes by agreement, or
    better, on all sets of docs/results/combine.md.
    """
    fewest: ClassVar = 3
    """Of fewer systems, votes by agreement say nothing."""
    few: ClassVar = (
        "votes that are tuned on %s are often worse than votes by agreement, which need"
        " no references"
    )

    votes: dict[str, float]
    """The vote of each system; 0 for a system that does not count."""
    scales: dict[str, float] = field(default_factory=dict)
    """The posterior scale of systems with scores; other systems have the scale 1."""
    estimated: bool = False
    """Whether the votes follow from the agreement of the systems
    (`rescore.asr.agreement`); else they were tuned.
    """

    def __post_init__(self) -> None:
        numbers = [*self.votes.values(), *self.scales.values()]
        usable = all(0 <= number < math.inf for number in numbers)
        if not usable or not any(self.votes.values()):
            raise UserError(
                f"votes are {self.votes}; give numbers from 0 on, one of them above 0"
            )

    def scores(self, nbest: NbestList) -> list[float]:
        """Return the natural log of the mixture at each hypothesis."""
        shares = system_posteriors(nbest, list(self.votes), self.scales)
        return mixed(shares, np.array(list(self.votes.values()))).tolist()

    def misfit(self, systems: Sequence[str]) -> str | None:
        """Return why the votes do not suit systems; None if they do."""
        if set(systems) == set(self.votes):
            return None
        return (
            f"the weights are votes of {', '.join(self.votes)}, but the"
            f" systems of these lists are {', '.join(systems) or 'unknown'}; combine"
            " the same systems, with the same --name"
        )

    @property
    def sole(self) -> str | None:
        """The only system with a vote; None if several systems have votes."""
        voting = [name for name, vote in self.votes.items() if vote]
        return voting[0] if len(voting) == 1 else None

    @property
    def origin(self) -> str | None:
        """Where the votes come from, for signatures; None for tuned votes."""
        return AGREEMENT if self.estimated else None

    @property
    def shares(self) -> dict[str, float]:
        """The votes of systems by the name `vote.SYSTEM`, for signatures."""
        return {f"vote.{name}": vote for name, vote in self.votes.items()}

    @property
    def has_equal_votes(self) -> bool:
        """Whether all systems have the same vote."""
        return len(set(self.votes.values())) == 1

    def __str__(self) -> str:
        """Return the line of reports about the votes."""
        how = ", by agreement of the systems" if self.estimated else ""
        return f"votes: {named(self)}{how}"


def applied(mixture: Mixture, nbest: NbestList) -> NbestList:
    """Return the list with the natural log of the mixture as its first pass.

    It is minus infinity for texts of systems without votes. If only these systems have
    texts, all systems have equal votes.
    """
    hypotheses = []
    scores = mixture.scores(nbest)
    for hypothesis, score in zip(nbest.hypotheses, scores, strict=True):
        changed = Hypothesis(
            hypothesis.text,
            hypothesis.scores | {FIRST_PASS: score},
            hypothesis.origin,
            hypothesis.times,
        )
        hypotheses.append(changed)
    return replace(nbest, hypotheses=hypotheses)


def named(mixture: Mixture) -> str:
    """Return a phrase with the votes of systems, relative to the largest vote."""
    votes = mixture.votes.values()
    largest = max(votes)
    rounded = {}
    for name, vote in mixture.votes.items():
        if vote:
            rounded[name] = f"{vote / largest:.2g}"
    if len(rounded) == 1:
        (name,) = rounded
        return f"{name} alone"
    if set(rounded.values()) == {"1"}:
        # The smallest difference decides ties.
        degree = "equal" if min(filter(None, votes)) == largest else "almost equal"
        return f"{degree} votes of {', '.join(rounded)}"
    return ", ".join(f"{name} {vote}" for name, vote in rounded.items())


def system_texts(lists: Sequence[NbestList], system: str) -> list[str]:
    """Return the best text of one system in each list; an empty text for a list to
    which it gave none.
    """
    return [best_texts(nbest, [system])[0] or "" for nbest in lists]


def best_texts(nbest: NbestList, systems: Sequence[str]) -> list[str | None]:
    """Return the best text of each system; None for a system that gave none.

    Args:
        nbest: A list with the columns of the systems.
        systems: The names of the systems.
    """
    new = new_word_origins()
    best: dict[str, Hypothesis] = {}
    for hypothesis in nbest.hypotheses:
        if hypothesis.origin in new:
            continue
        for name in systems:
            if name not in hypothesis.scores:
                continue
            if name not in best or hypothesis.scores[name] > best[name].scores[name]:
                best[name] = hypothesis
    return [best[name].text if name in best else None for name in systems]


def system_posteriors(
    nbest: NbestList, systems: Sequence[str], scales: Mapping[str, float]
) -> Floats:
    """Return the posterior of each text under each system.

    A hypothesis with new words has the posterior of the hypothesis that it was made of.

    Args:
        nbest: A list with the columns of the systems.
        systems: The names of the systems.
        scales: The posterior scale of systems; 1 for a system that is absent here.

    Returns:
        Posteriors of shape (hypotheses, systems); 0 where the system did not write the
        text.
    """
    new = new_word_origins()
    scores = []
    recognised = []
    for hypothesis in nbest.hypotheses:
        own = hypothesis.scores
        scores.append([own.get(name, -math.inf) for name in systems])
        recognised.append(hypothesis.origin not in new)
    factors = np.array([scales.get(name, 1.0) for name in systems])
    absent = np.isneginf(scores)
    # under a scale of 0 a text that a system did not write is still impossible
    scaled = np.where(absent, -np.inf, np.where(absent, 0.0, scores) * factors)
    highest = scaled.max(axis=0)
    with np.errstate(over="ignore"):  # of scores that are far apart
        away = scaled - np.where(np.isfinite(highest), highest, 0.0)
    shares: Floats = np.exp(away)
    totals = shares[np.array(recognised)].sum(axis=0)
    return shares / np.where(totals > 0, totals, 1.0)


def mixed(shares: Floats, votes: Floats) -> Floats:
    """Return the natural log of the mixture of posteriors, of shape (hypotheses,).

    Args:
        shares: Posteriors of shape (hypotheses, systems).
        votes: The vote of each system, of shape (systems,).
    """
    total = shares @ votes
    if not total.any():
        total = shares.sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.log(total / max(total.sum(), 1e-300))
