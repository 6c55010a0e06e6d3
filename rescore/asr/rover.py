"""Voting word by word over an N-best list: a confusion network, as SRILM's nbest-lattice and NIST's ROVER build it.

Mangu et al. 2000; Fiscus 1997. Hypotheses are aligned one after another, the most probable first, with the network of
those before; in each slot of the network the word (or none) with the highest posterior wins. The result need not be one
of the hypotheses.

The votes of systems, and what votes for no word count for, are tuned on dev lists of `rescore combine`.

Lists with equally many hypotheses are aligned together. A network is an array of word numbers, (lists, slots,
hypotheses), 0 where a hypothesis has no word in the slot.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.written import Token, rewritten, tokens_of
from rescore.decision import Decision
from rescore.decision.rules import DecisionRule, ListWeights, Search
from rescore.metrics.base import Metric, text_value
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import EMPTY, FIRST_PASS, NbestList, vote_columns

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.integer]
CELLS = 1 << 21
"""Slots times words of the lists that are aligned together: bounds memory."""
TOGETHER = 512
"""Most lists that are aligned together: their rows stay in the processor's cache."""
MAJORITY = 0.5 + 1e-9
"""A hypothesis with a larger posterior wins in every slot, so that nothing needs to be aligned."""
NEARLY = 1e-9
"""Costs that differ by less are equal: of equal alignments a word stands in a slot rather than beside it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Lists with equally many hypotheses."""

    places: list[int]
    """(lists,) the place of each list among all"""
    words: Numbers
    """(lists, hypotheses, words) numbers from 1; -1 after the end"""
    lengths: npt.NDArray[np.intp]
    """(lists, hypotheses) numbers of words"""


class Ballots:
    """The words of all hypotheses of all lists, prepared once for all scales."""

    def __init__(self, tokens: Sequence[list[list[Token]]]) -> None:
        """`tokens`: for each list, the words of each hypothesis."""
        self.tokens = tokens
        self._batches = list(_batches(tokens))
        self._texts: dict[tuple[int, bytes], str] = {}  # of each list and outcome of a vote that was seen before

    def vote(self, posteriors: Sequence[Floats], empty: Floats) -> list[str]:
        """The text that wins in each list, by posteriors (hypotheses,) of each list; that of no word is multiplied by
        `empty` (lists,)."""
        winners = [""] * len(self.tokens)
        for batch in self._batches:
            shares = np.array([posteriors[place] for place in batch.places])  # (lists, hypotheses)
            factors = empty[batch.places]
            decided = (shares.max(axis=1) > MAJORITY) & (factors == 1.0)
            for row in np.flatnonzero(decided).tolist():
                hypothesis = int(shares[row].argmax())
                size = batch.lengths[row, hypothesis]
                winners[batch.places[row]] = self._text(batch.places[row], np.full(size, hypothesis), np.arange(size))
            left = np.flatnonzero(~decided)
            if not len(left):
                continue
            order = np.argsort(-shares[left], axis=1, kind="stable")
            rows = left[:, None]
            ranks, words = elected(
                shares[rows, order], batch.words[rows, order], batch.lengths[rows, order], factors[left]
            )
            for row, place in enumerate(batch.places[number] for number in left.tolist()):
                kept = ranks[row] >= 0
                winners[place] = self._text(place, order[row][ranks[row, kept]], words[row, kept])
        return winners

    def _text(self, place: int, hypotheses: Places, words: Places) -> str:
        """The text of a list's words, each given by its hypothesis and its place there."""
        key = place, np.stack([hypotheses, words]).tobytes()
        if key not in self._texts:
            own, pairs = self.tokens[place], zip(hypotheses.tolist(), words.tolist(), strict=True)
            self._texts[key] = rewritten([own[hypothesis][word] for hypothesis, word in pairs])
        return self._texts[key]


def _batches(lists: Sequence[Sequence[Sequence[str]]]) -> Iterator[Batch]:
    """Lists with equally many hypotheses of about the same length, together."""
    sizes = [(len(hypotheses), max(map(len, hypotheses))) for hypotheses in lists]
    batch: list[int] = []
    for place in sorted(range(len(lists)), key=sizes.__getitem__):
        number, longest = sizes[place]
        full = len(batch) == TOGETHER or len(batch) * (longest + 1) ** 2 >= CELLS
        if batch and (full or sizes[batch[0]][0] != number):
            yield _batch(batch, lists)
            batch = []
        batch.append(place)
    if batch:
        yield _batch(batch, lists)


def _batch(places: list[int], lists: Sequence[Sequence[Sequence[str]]]) -> Batch:
    lengths = np.array([list(map(len, lists[place])) for place in places], dtype=np.intp)
    words = np.full((*lengths.shape, max(1, lengths.max())), -1, dtype=np.int32)  # all texts may be empty
    for row, place in enumerate(places):
        numbers: dict[str, int] = {}
        for rank, hypothesis in enumerate(lists[place]):
            own = [numbers.setdefault(word, len(numbers) + 1) for word in hypothesis]
            words[row, rank, : len(hypothesis)] = own
    return Batch(places, words, lengths)


def _networks(posteriors: Floats, words: Numbers, lengths: npt.NDArray[np.intp]) -> tuple[Numbers, Numbers, Floats]:
    """The confusion networks of lists, whose hypotheses are aligned in the order given; arguments as of `elected`.

    Returns:
        (lists, slots, hypotheses) places of words, -1 for none; the same as word numbers, 0 for none; the posterior of
        each such word, or of none, in its slot.
    """
    number, depth, _ = words.shape
    spoken, numbers = np.full((number, 0, 0), -1, dtype=np.int32), np.zeros((number, 0, 0), dtype=np.int32)
    shares, mass, lists = np.zeros((number, 0, 0)), np.zeros(number), np.arange(number)[:, None]
    slots = np.zeros(number, dtype=np.intp)
    for rank in range(depth):
        length = lengths[:, rank]
        own = words[:, rank, : max(1, length.max(initial=0))]  # the texts of this rank may all be empty
        old, new, slots = _aligned(*_tables(numbers, shares, own, mass), slots, length)
        heard = np.where(new >= 0, np.take_along_axis(own, np.maximum(new, 0), axis=1), 0)
        beside, share = (old < 0)[..., None], posteriors[:, rank, None, None]
        if rank and spoken.size:
            spoken, numbers = np.where(beside, -1, spoken[lists, old]), np.where(beside, 0, numbers[lists, old])
            shares = np.where(beside, mass[:, None, None], shares[lists, old])
        else:
            spoken, numbers = (np.full((*old.shape, rank), fill, dtype=np.int32) for fill in (-1, 0))
            shares = np.broadcast_to(mass[:, None, None], numbers.shape)
        same = numbers == heard[..., None]
        shares = np.where(same, shares + share, shares)
        whole = np.maximum(np.where(same, shares, 0.0).max(axis=2, initial=0.0), share[..., 0])
        spoken, numbers, shares = (
            np.concatenate([before, last[..., None].astype(before.dtype)], axis=2)
            for before, last in ((spoken, new), (numbers, heard), (shares, whole))
        )
        mass = mass + posteriors[:, rank]
    return spoken, numbers, shares


def networks(lists: Sequence[Sequence[Sequence[str]]]) -> Iterator[tuple[list[int], Numbers]]:
    """The confusion networks of lists of equally probable hypotheses, which are aligned in the order given.

    Returns:
        Places of lists with equally many hypotheses, and (lists, slots, hypotheses) the words in their networks: 0 for
        none, else the rank of the word among the words of its list, which are counted as they come.
    """
    for batch in _batches(lists):
        yield batch.places, _networks(np.ones(batch.lengths.shape), batch.words, batch.lengths)[1]


def elected(
    posteriors: Floats, words: Numbers, lengths: npt.NDArray[np.intp], empty: Floats
) -> tuple[npt.NDArray[np.intp], Numbers]:
    """The winner of each slot: (lists, slots) the hypothesis that gives the word, -1 for no word, and the word's place
    in it.

    Args:
        posteriors: (lists, hypotheses), the most probable first. words: (lists, hypotheses, words). lengths: (lists,
            hypotheses). empty: (lists,) by which the posterior of no word is multiplied.
    """
    spoken, numbers, shares = _networks(posteriors, words, lengths)
    none = np.where(numbers == 0, shares, 0.0).max(axis=2, keepdims=True) * empty[:, None, None]
    totals = np.concatenate([none, np.where(numbers > 0, shares, -1.0)], axis=2)
    winner = totals.argmax(axis=-1) - 1  # the first of equals: no word, then the more probable hypothesis
    return winner, np.take_along_axis(spoken, np.maximum(winner, 0)[..., None], axis=-1)[..., 0]


def _aligned(
    placed: Flags, matched: Flags, slots: npt.NDArray[np.intp], lengths: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], Numbers, npt.NDArray[np.intp]]:
    """Slots paired with words, of the least expected number of word errors, by `_tables` of (lists,) slots and words.

    Returns:
        (lists, pairs) the slot, -1 for none; (lists, pairs) the place of the word, -1 for none; (lists,) how many.
    """
    lists = np.arange(len(slots))
    slot, at = slots - 1, lengths.astype(np.intp)
    most = int((slots + lengths).max(initial=0))
    old = np.full((len(slots), most), -1, dtype=np.intp)
    new = np.full((len(slots), most), -1, dtype=np.int32)
    counts = np.zeros(len(slots), dtype=np.intp)
    for step in range(most):
        active = (slot >= 0) | (at > 0)
        if not active.any():
            break
        within = np.maximum(slot, 0)
        in_slot = (slot >= 0) & (placed[within, at, lists] if len(placed) else False)
        takes = (at > 0) & active & ~in_slot  # a word beside the slots
        if len(matched):
            takes |= in_slot & (at > 0) & matched[within, np.maximum(at - 1, 0), lists]
        at = at - takes
        old[:, step] = np.where(in_slot, slot, -1)
        new[:, step] = np.where(takes, at, -1)
        slot = slot - in_slot
        counts += active
    backwards = np.maximum(counts[:, None] - 1 - np.arange(counts.max(initial=0)), 0)  # from the end to the start
    beyond = np.arange(backwards.shape[1]) >= counts[:, None]
    rows = lists[:, None]
    return np.where(beyond, -1, old[rows, backwards]), np.where(beyond, -1, new[rows, backwards]), counts


def _tables(numbers: Numbers, shares: Floats, words: Numbers, mass: Floats) -> tuple[Flags, Flags]:
    """The dynamic programme, a row for each slot; lists come last, where they lie side by side.

    Args:
        numbers: (lists, slots, hypotheses) of the network. shares: their posteriors. words: (lists, words). mass:
            (lists,) the sum of all posteriors.

    Returns:
        placed (slots, words + 1, lists), whether the slot comes last in the cheapest alignment of the slots up to it
        with the words so far; matched (slots, words, lists), whether the word may stand in the slot.
    """
    count = numbers.shape[1]
    number, length = words.shape
    placed = np.zeros((count, length + 1, number), dtype=bool)
    matched = np.zeros((count, length, number), dtype=bool)
    most = int(max(numbers.max(initial=0), words.max(initial=0))) + 2  # 0 is no word, the last is the end of a list
    every = np.zeros(number * most)  # (lists, words): the posterior of each word in a slot
    starts = np.arange(number) * most
    wanted = (starts[:, None] + np.where(words < 0, most - 1, words)).T.copy()
    beside = mass * np.arange(length + 1.0)[:, None]
    above = beside
    for slot in range(count):
        heard = starts[:, None] + numbers[:, slot]
        every[heard] = shares[:, slot]
        match = above[:-1] + mass
        match -= every[wanted]
        best = above + (mass - every[starts])
        np.minimum(best[1:], match, out=best[1:])
        above = np.minimum.accumulate(best - beside, axis=0)
        above += beside
        limit = above + NEARLY
        np.less_equal(best, limit, out=placed[slot])
        np.less_equal(match, limit[1:], out=matched[slot])
        every[heard] = 0.0
    return placed, matched


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
        """The word errors of votes (systems,); votes for no word are multiplied by `empty`."""
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
