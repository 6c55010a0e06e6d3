"""The votes of systems in ROVER, and what votes for no word count for, on dev lists of `rescore combine`."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.rover import Ballots, network_rows
from rescore.asr.written import tokens_of
from rescore.decision import Decision
from rescore.decision.rules import DecisionRule, ListWeights, Search
from rescore.metrics.base import Metric
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import EMPTY, FIRST_PASS, NbestList, component_columns, vote_columns
from rescore.tuning.scale import text_value

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]

STEPS = (1.5, 1.2)
"""Factors by which votes are changed, one system after another."""
LEAST = 1e-3
"""The fewest votes of a system, in votes of an average system."""
GRID = (0.02, 0.1, 0.5)
"""Weights that are tried for each further column (confidence, language model), in units of 1 / standard deviation."""
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
    """The weights of vote columns for ROVER, then of other columns where they lower the error; and the metric with
    these weights.

    Votes are searched one after another, from equal votes on, in confusion networks that are built once. Equal votes
    stay where tuned votes are no better on these lists.

    Args:
        columns: others, such as of language models.
    """
    votes = vote_columns(lists)
    equal = {FIRST_PASS: 1.0} | dict.fromkeys(votes, 0.0)
    systems = [name for name in votes if name != EMPTY and any(_own(nbest, name) is not None for nbest in lists)]
    tuned = equal | Slots.of(lists, systems, metric.words or EXACT).tuned(systems)
    sign = -1.0 if metric.higher_is_better else 1.0

    def error(weights: Mapping[str, float]) -> float:
        return sign * text_value(metric, lists, Decision("rover", 1.0).texts(metric, lists, weights))

    reached, before = error(tuned), error(equal)
    log.info("equal votes: %s %.2f", metric.name, sign * before)
    if reached >= before:
        tuned, reached = equal, before
    for name in dict.fromkeys([*columns, *component_columns(lists[0])]):
        spread = float(np.mean([np.std(nbest.column(name)) for nbest in lists]))
        if name in votes or not spread:
            continue
        trials = [tuned | {name: weight / spread} for weight in GRID]
        errors = [error(trial) for trial in trials]
        best = int(np.argmin(errors))
        helps = errors[best] < reached
        log.info("%s in the vote: %.2f without, %.2f at best with it", name, sign * reached, sign * errors[best])
        tuned, reached = (trials[best], errors[best]) if helps else (tuned | {name: 0.0}, reached)
    return tuned, sign * reached


def _own(nbest: NbestList, system: str) -> int | None:
    """The place of a system's hypothesis; None if it has none in this list."""
    values = [hypothesis.scores.get(system, 0.0) for hypothesis in nbest.hypotheses]
    return values.index(1.0) if 1.0 in values else None


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of all lists in which systems disagree, and what each list needs besides."""

    votes: Floats
    """(slots, candidates, systems) 1 where a system votes for a candidate."""
    empty: Floats
    """(slots, candidates) 1 where the candidate is no word."""
    words: list[list[int]]
    """The candidates of each slot; -1 for no word."""
    lists: list[list[int]]
    """For each list its slots: an agreed word as its number, a contested slot as -2 minus its number."""
    references: list[list[int]]

    @classmethod
    def of(cls, lists: Sequence[NbestList], systems: Sequence[str], normaliser: Normaliser) -> Slots:
        numbers: dict[str, int] = {}
        rows: list[tuple[list[int], list[tuple[int, int]]]] = []
        places: list[list[int]] = []
        references: list[list[int]] = []
        for nbest in lists:
            own = [(rank, place) for rank, name in enumerate(systems) if (place := _own(nbest, name)) is not None]
            texts = [normaliser(nbest.hypotheses[place].text) for _, place in own]
            places.append([])
            for slot in network_rows(texts):
                candidates = list(dict.fromkeys(-1 if word is None else _number(numbers, word) for word in slot))
                if len(candidates) == 1:
                    places[-1].append(candidates[0])
                    continue
                keys = [-1 if word is None else numbers[word] for word in slot]
                voted = [(candidates.index(key), rank) for key, (rank, _) in zip(keys, own, strict=True)]
                places[-1].append(-2 - len(rows))
                rows.append((candidates, voted))
            words = normaliser(normaliser.closest(nbest.references, nbest.hypotheses[0].text))
            references.append([_number(numbers, word) for word in words])
        widest = max((len(candidates) for candidates, _ in rows), default=1)
        votes = np.zeros((len(rows), widest, len(systems)))
        empty = np.zeros((len(rows), widest))
        for slot_number, (candidates, voted) in enumerate(rows):
            for candidate, rank in voted:
                votes[slot_number, candidate, rank] = 1.0
            empty[slot_number, : len(candidates)] = [float(candidate == -1) for candidate in candidates]
        return cls(votes, empty, [candidates for candidates, _ in rows], places, references)

    def errors(self, weights: Floats, empty: float, known: dict[tuple[int, ...], int]) -> int:
        """The word errors of the vote.

        Args:
            weights: (systems,) votes. empty: by which votes for no word are multiplied. known: errors of lists by what
                was chosen in them, which is filled.
        """
        masses = (self.votes @ weights) * np.where(self.empty > 0, empty, 1.0)
        winners = masses.argmax(axis=1).tolist()
        total = 0
        for number, (places, reference) in enumerate(zip(self.lists, self.references, strict=True)):
            chosen = [winners[-2 - place] for place in places if place < -1]
            key = (number, *chosen)
            if key not in known:
                text = [self.words[-2 - place][winners[-2 - place]] if place < -1 else place for place in places]
                known[key] = Levenshtein.distance([word for word in text if word >= 0], reference)
            total += known[key]
        return total

    def tuned(self, systems: Sequence[str]) -> dict[str, float]:
        """The natural logs of the votes and of what no word counts for, by coordinate search."""
        known: dict[tuple[int, ...], int] = {}
        words = max(1, sum(map(len, self.references)))
        alone = [self.errors(vote, 1.0, known) / words for vote in np.eye(len(systems))]
        right = np.array([max(LEAST, 1.0 - rate) for rate in alone])
        starts = [np.append(right**power, empty) for power in POWERS for empty in EMPTIES]
        errors_of = [self.errors(start[:-1], start[-1], known) for start in starts]
        point, reached = starts[int(np.argmin(errors_of))], min(errors_of)
        for step in STEPS:
            better = True
            while better:
                better = False
                for candidate in _around(point, step):
                    errors = self.errors(candidate[:-1], candidate[-1], known)
                    if errors < reached * (1 - MARGIN):
                        point, reached, better = candidate, errors, True
        logs = [math.log(number) for number in point.tolist()]
        return dict(zip([*systems, EMPTY], logs, strict=True))


def _around(point: Floats, step: float) -> Iterator[Floats]:
    """Each number made smaller or larger; the votes are at least `LEAST`."""
    for index in reversed(range(len(point))):  # what no word counts for comes first: it concerns most slots
        for factor in (1 / step, step):
            changed = point.copy()
            changed[index] = max(LEAST, changed[index] * factor)
            yield changed


def _number(numbers: dict[str, int], word: str) -> int:
    return numbers.setdefault(word, len(numbers))
