"""The definitions of a vote and of least risk, list by list and cell by cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescore.asr.slots import NEARLY, OTHER_WORD
from rescore.decision.risk import compared
from rescore.decision.rules import Floats
from rescore.metrics.base import Metric
from rescore.nbest import NbestList

Slot = dict[str | None, float]
"""Posteriors of the words that compete for one place; None stands for no word."""


def paired(slot: Slot, word: str, mass: float) -> float:
    """The expected cost of a word in a slot: 1 where there is no word, `OTHER_WORD`
    where there is another.
    """
    none, same = slot.get(None, 0.0), slot.get(word, 0.0)
    return none + OTHER_WORD * (mass - none - same)


def aligned(
    network: Sequence[Slot], words: Sequence[str], mass: float
) -> list[tuple[int | None, str | None]]:
    """Slots paired with words, None where either has no partner, of the least expected
    cost.
    """
    costs = [[mass * at for at in range(len(words) + 1)]]
    ways = []
    for slot in network:
        above, row, kinds = costs[-1], list[float](), list[str]()
        for at in range(len(words) + 1):
            alone = above[at] + (mass - slot.get(None, 0.0))
            match = beside = float("inf")
            if at:
                match = above[at - 1] + paired(slot, words[at - 1], mass)
                beside = row[at - 1] + mass
            row.append(min(alone, match, beside))
            limit = row[at] + NEARLY
            kinds.append(
                "match" if match <= limit else "alone" if alone <= limit else "beside"
            )
        costs.append(row)
        ways.append(kinds)
    pairs: list[tuple[int | None, str | None]] = []
    place, at = len(network), len(words)
    while place or at:
        kind = ways[place - 1][at] if place else "beside"
        place -= kind != "beside"
        at -= kind != "alone"
        pairs.append(
            (
                None if kind == "beside" else place,
                None if kind == "alone" else words[at],
            )
        )
    return pairs[::-1]


def counted(
    rows: Sequence[dict[int, str | None]], posteriors: Sequence[float]
) -> list[Slot]:
    """The posteriors of the words of each slot."""
    network = []
    for row in rows:
        slot: Slot = {}
        for index, word in row.items():
            slot[word] = slot.get(word, 0.0) + posteriors[index]
        network.append(slot)
    return network


def confusion_network(
    hypotheses: Sequence[Sequence[str]], posteriors: Sequence[float]
) -> list[Slot]:
    """The slots, from the first to the last, each with the posteriors of all
    hypotheses: the most probable are aligned first, and each once more with all others.
    """
    joint: dict[tuple[str, ...], float] = {}
    for words, posterior in zip(hypotheses, posteriors, strict=True):
        joint[tuple(words)] = joint.get(tuple(words), 0.0) + posterior
    texts = sorted(joint, key=lambda words: -round(joint[words], 9))
    shares = [joint[words] for words in texts]
    rows: list[dict[int, str | None]] = []
    again = [*range(len(texts))] if len(texts) > 2 else []
    for step, index in enumerate([*range(len(texts)), *again]):
        others: list[dict[int, str | None]] = []
        for row in rows:
            rest = {other: word for other, word in row.items() if other != index}
            if any(word is not None for word in rest.values()):
                others.append(rest)
        present = [other for other in range(min(step, len(texts))) if other != index]
        mass = sum(shares[other] for other in present)
        rows = []
        for place, word in aligned(counted(others, shares), texts[index], mass):
            row = dict.fromkeys(present) if place is None else others[place]
            rows.append({**row, index: word})
    return counted([dict(sorted(row.items())) for row in rows], shares)


def vote(network: Sequence[Slot], empty: float = 1.0) -> list[str]:
    """The word with the highest posterior of each slot; of equals no word, then the
    word of the more probable hypothesis.

    Args:
        empty: by which the posterior of no word is multiplied.
    """
    winners = []
    for slot in network:
        totals: Slot = {None: slot.get(None, 0.0) * empty}
        for word, posterior in slot.items():
            totals.setdefault(word, posterior)
        most = max(totals.values())
        winners += [w for w, total in totals.items() if total >= most - NEARLY][:1]
    return [word for word in winners if word is not None]


def losses(metric: Metric, lists: Sequence[NbestList]) -> list[Floats]:
    """Of each list all losses, choices in rows."""
    return [each.matrix() for each in compared(metric, lists)]


def least_risk(losses: Floats, posteriors: Floats) -> int:
    """The choice by its definition: of equal risks the more probable, then the
    first.
    """
    risks = losses @ posteriors
    least = np.flatnonzero(risks <= risks.min() + 1e-12)
    return int(least[np.argmax(posteriors[least])])
