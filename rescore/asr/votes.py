"""The votes of systems in ROVER, and what votes for no word count for, on dev lists of `rescore combine`."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.rover import Ballots, networks
from rescore.asr.written import tokens_of
from rescore.decision import Decision
from rescore.decision.rules import DecisionRule, ListWeights, Search
from rescore.metrics.base import Metric
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import EMPTY, FIRST_PASS, NbestList, vote_columns
from rescore.tuning.scale import text_value

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]

STEPS = (1.5, 1.2)
"""Factors by which votes are changed, one system after another."""
LEAST = 1e-3
"""The fewest votes of a system, in votes of an average system."""
POWERS, EMPTIES = (0, 1, 2, 3, 5), (1.0, 1.1, 0.9, 0.8, 0.7, 0.6, 0.5)
"""The search begins with the best of these: votes of a system are its share of right words to a power; and what no word
counts for."""
MARGIN = 1e-3
"""The share of errors that a change must save: smaller gains are those of dev alone."""


class Rover(DecisionRule):
    """The words with the highest posteriors, place by place. The weight of the column `EMPTY` is the natural log of a
    factor for the posterior of no word."""

    needs_scale = True

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Ballots:
        """Words are the same where the metric counts them as the same."""
        normaliser = (metric and metric.words) or EXACT
        return Ballots([[tokens_of(hypothesis.text, normaliser) for hypothesis in nbest.hypotheses] for nbest in lists])

    def choose_all(
        self,
        lists: Sequence[NbestList],
        preferences: Sequence[Floats],
        prepared: Ballots,
        weights: Sequence[ListWeights],
    ) -> list[str]:
        return prepared.vote(preferences, np.exp([each.columns.get(EMPTY, 0.0) for each in weights]))

    def own_search(self, lists: Sequence[NbestList]) -> Search | None:
        return tune_votes if vote_columns(lists) else None


def tune_votes(metric: Metric, lists: Sequence[NbestList], columns: Sequence[str]) -> tuple[dict[str, float], float]:
    """The weights of vote columns for ROVER, and the metric with these weights.

    Votes are searched one after another, in confusion networks that are built once. Equal votes stay where tuned votes
    are no better on these lists.

    Args:
        columns: of language models, which have no vote: their weights are 0.
    """
    votes = vote_columns(lists)
    equal = {FIRST_PASS: 1.0} | dict.fromkeys([*votes, *columns], 0.0)
    if columns:
        log.warning("systems vote, so the weight of %s is 0", ", ".join(columns))
    systems = [name for name in votes if any(_own(nbest, name) is not None for nbest in lists)]
    tuned = equal | Contest(lists, systems, metric.words or EXACT).tuned()
    reached, before = (
        text_value(metric, lists, Decision("rover", 1.0).texts(metric, lists, weights)) for weights in (tuned, equal)
    )
    log.info("equal votes: %s %.2f", metric.name, before)
    better = reached > before if metric.higher_is_better else reached < before
    return (tuned, reached) if better else (equal, before)


def _own(nbest: NbestList, system: str) -> int | None:
    """The place of a system's hypothesis; None if it has none in this list."""
    values = [hypothesis.scores.get(system, 0.0) for hypothesis in nbest.hypotheses]
    return values.index(1.0) if 1.0 in values else None


class Contest:
    """The confusion networks of lists, in which systems vote, and the words that were said."""

    def __init__(self, lists: Sequence[NbestList], systems: Sequence[str], normaliser: Normaliser) -> None:
        self._systems = systems
        owners: list[list[int]] = []
        texts: list[list[list[str]]] = []
        self._references: list[list[int]] = []
        for nbest in lists:
            places = {rank: place for rank, name in enumerate(systems) if (place := _own(nbest, name)) is not None}
            owners.append(list(places))
            texts.append([normaliser(nbest.hypotheses[place].text) for place in places.values()])
            numbers = {word: number for number, word in enumerate(dict.fromkeys(chain(*texts[-1])), 1)}
            words = normaliser(normaliser.closest(nbest.references, nbest.hypotheses[0].text))
            self._references.append([numbers.get(word, -1) for word in words])
        self._networks = [
            (places, words, words[..., None] == words[..., None, :], np.array([owners[place] for place in places]))
            for places, words in networks(texts)
        ]
        """Places of lists; (lists, slots, systems) words; (lists, slots, systems, systems) where systems agree;
        (lists, systems) numbers of the systems."""
        self._known: dict[tuple[int, bytes], int] = {}

    def errors(self, votes: Floats, empty: float) -> int:
        """The word errors of the vote.

        Args:
            votes: (systems,). empty: by which votes for no word are multiplied.
        """
        total = 0
        for places, words, agree, systems in self._networks:
            masses = (agree @ votes[systems][:, None, :, None])[..., 0]
            masses[words == 0] *= empty
            winners = np.take_along_axis(words, masses.argmax(axis=-1)[..., None], axis=-1)[..., 0]
            for place, chosen in zip(places, winners, strict=True):
                key = place, chosen.tobytes()
                if key not in self._known:
                    self._known[key] = Levenshtein.distance(chosen[chosen > 0].tolist(), self._references[place])
                total += self._known[key]
        return total

    def tuned(self) -> dict[str, float]:
        """The natural logs of the votes and of what no word counts for, by coordinate search."""
        words = max(1, sum(map(len, self._references)))
        alone = [self.errors(vote, 1.0) / words for vote in np.eye(len(self._systems))]
        right = np.array([max(LEAST, 1.0 - rate) for rate in alone])
        starts = [np.append(right**power, empty) for power in POWERS for empty in EMPTIES]
        errors_of = [self.errors(start[:-1], start[-1]) for start in starts]
        point, reached = starts[int(np.argmin(errors_of))], min(errors_of)
        for step in STEPS:
            better = True
            while better:
                better = False
                for candidate in _around(point, step):
                    errors = self.errors(candidate[:-1], candidate[-1])
                    if errors < reached * (1 - MARGIN):
                        point, reached, better = candidate, errors, True
        logs = [math.log(number) for number in point.tolist()]
        return dict(zip([*self._systems, EMPTY], logs, strict=True))


def _around(point: Floats, step: float) -> Iterator[Floats]:
    """Each number made smaller or larger; the votes are at least `LEAST`."""
    for index in reversed(range(len(point))):  # what no word counts for comes first: it concerns most slots
        for factor in (1 / step, step):
            changed = point.copy()
            changed[index] = max(LEAST, changed[index] * factor)
            yield changed
